//! What `sardonyx top` shows, as values: a cluster becomes an overview, keys change how it is looked
//! at, and both become a picture. No terminal, no clock, no store.

use std::{cmp::Ordering, collections::BTreeMap};

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::{Block, Borders, Cell, Paragraph, Row, Table, TableState},
};
use sardonyx_core::{Position, Replica, replica::job::JobState};
use sardonyx_peer::Summed;
use serde_json::Value;

use sardonyx::shown::{is_one_ring, joining};

/// How many job states there are names for; also the order of their urgency.
const STATES: [(JobState, &str); 4] = [
    (JobState::Pending, "pending"),
    (JobState::Running, "running"),
    (JobState::Completed, "completed"),
    (JobState::Killed, "killed"),
];

/// What is known of a cluster at one position of its log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Overview {
    pub(super) position: Option<u64>,
    pub(super) n_peers: usize,
    pub(super) n_busy: usize,
    pub(super) n_joining: usize,
    pub(super) is_one_ring: bool,
    pub(super) n_collected: usize,
    /// Segments a second into all tasks of all nodes; `None` if nobody could be asked.
    pub(super) in_per_second: Option<u64>,
    /// How many tasks some node left out of it.
    pub(super) n_left_out: u64,
    pub(super) nodes: Vec<NodeRow>,
    pub(super) jobs: Vec<JobRow>,
}

/// A node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct NodeRow {
    pub(super) name: String,
    pub(super) label: String,
    pub(super) n_in: usize,
    pub(super) n_wanted: u64,
    pub(super) n_busy: usize,
    /// Whether its session is alive; a node that is gone may still have peers in the ring.
    pub(super) is_here: bool,
}

/// A job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct JobRow {
    pub(super) id: String,
    /// Where it stands in [`STATES`].
    pub(super) state: usize,
    pub(super) n_done: usize,
    pub(super) n_tasks: usize,
    pub(super) n_peers: usize,
    /// Segments a second into its tasks, on all nodes.
    pub(super) in_per_second: Option<u64>,
    /// Why it waits; or which tasks run, with how many peers.
    pub(super) about: String,
}

impl Overview {
    /// What a replica, and what nodes say of themselves and of their tasks, come to.
    pub(super) fn of(
        replica: &Replica,
        position: Option<Position>,
        about: &BTreeMap<String, Value>,
        figures: Option<&Summed>,
    ) -> Overview {
        let row = |name: &str| {
            let about = about.get(name);
            let text = |key: &str| about.and_then(|it| it[key].as_str()).unwrap_or_default();
            NodeRow {
                name: name.to_owned(),
                label: text("label").to_owned(),
                n_in: 0,
                n_wanted: about.and_then(|it| it["peers"].as_u64()).unwrap_or(0),
                n_busy: 0,
                is_here: about.is_some(),
            }
        };
        let mut nodes: BTreeMap<&str, NodeRow> =
            about.keys().map(|name| (name.as_str(), row(name))).collect();
        let mut n_busy = 0;
        for peer in replica.peers() {
            let name = peer.as_str().rsplit_once('-').map_or(peer.as_str(), |(node, _)| node);
            let is_busy = replica.assignment(peer).is_some();
            let node = nodes.entry(name).or_insert_with(|| row(name));
            node.n_in += 1;
            node.n_busy += usize::from(is_busy);
            n_busy += usize::from(is_busy);
        }
        Overview {
            position: position.map(|at| at.0),
            n_peers: replica.n_peers(),
            n_busy,
            n_joining: joining(replica).len(),
            is_one_ring: is_one_ring(replica),
            n_collected: replica.outcomes().count(),
            in_per_second: figures.map(|it| it.total().in_per_second),
            n_left_out: figures.map_or(0, |it| it.left_out),
            nodes: nodes.into_values().collect(),
            jobs: replica.jobs().map(|job| job_row(replica, job, figures)).collect(),
        }
    }
}

fn job_row(
    replica: &Replica,
    job: &sardonyx_core::replica::job::Job,
    figures: Option<&Summed>,
) -> JobRow {
    let running = || {
        let tasks = job.allocations().filter_map(|(task, peers)| match peers.count() {
            0 => None,
            n => Some(format!("{task} {n}")),
        });
        tasks.collect::<Vec<_>>().join("  ")
    };
    let about = replica.waiting(job).map(|why| why.to_string());
    JobRow {
        id: job.id().to_string(),
        state: STATES.iter().position(|(state, _)| *state == job.state()).unwrap_or(0),
        n_done: job.completions().count(),
        n_tasks: job.terms().tasks.len(),
        n_peers: job.n_peers(),
        in_per_second: figures.map(|it| it.of_job(job.id().as_str()).in_per_second),
        about: about.unwrap_or_else(running),
    }
}

/// What was pressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Key {
    Quit,
    Sort,
    Reverse,
    /// The other table.
    Other,
    Up(usize),
    Down(usize),
    Redraw,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pane {
    Nodes,
    Jobs,
}

/// How a table is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Look {
    /// Which of its columns it is sorted by.
    column: usize,
    is_reversed: bool,
    chosen: usize,
}

const NODE_COLUMNS: [&str; 4] = ["node", "about", "peers in", "busy"];
const JOB_COLUMNS: [&str; 6] =
    ["job", "state", "tasks done", "peers", "rows/s", "why it waits, what runs"];

/// The last overview, and how it is looked at.
pub(super) struct View {
    url: String,
    overview: Overview,
    complaint: Option<String>,
    pane: Pane,
    nodes: Look,
    /// Sorted by submission until somebody sorts: 0 is not a column then.
    jobs: Look,
    jobs_are_sorted: bool,
}

impl View {
    pub(super) fn new(url: String) -> View {
        View {
            url,
            overview: Overview::default(),
            complaint: None,
            pane: Pane::Jobs,
            nodes: Look::default(),
            jobs: Look::default(),
            jobs_are_sorted: false,
        }
    }

    /// There is a new overview.
    pub(super) fn show(&mut self, overview: Overview) {
        self.overview = overview;
        self.complaint = None;
        self.stay_inside();
    }

    /// The overview could not be renewed.
    pub(super) fn complain(&mut self, why: String) {
        self.complaint = Some(why);
    }

    /// A key was pressed. False: that was all.
    pub(super) fn press(&mut self, key: Key) -> bool {
        let pane = self.pane;
        match key {
            Key::Quit => return false,
            Key::Other => {
                self.pane = if pane == Pane::Jobs { Pane::Nodes } else { Pane::Jobs };
            }
            Key::Sort => self.sort(),
            Key::Reverse => {
                let look = self.look();
                look.is_reversed = !look.is_reversed;
            }
            Key::Up(n) => self.look().chosen = self.look().chosen.saturating_sub(n),
            Key::Down(n) => self.look().chosen += n,
            Key::Redraw => {}
        }
        self.stay_inside();
        true
    }

    fn sort(&mut self) {
        match self.pane {
            Pane::Nodes => self.nodes.column = (self.nodes.column + 1) % NODE_COLUMNS.len(),
            Pane::Jobs if !self.jobs_are_sorted => {
                (self.jobs.column, self.jobs_are_sorted) = (0, true);
            }
            Pane::Jobs => {
                self.jobs.column = (self.jobs.column + 1) % JOB_COLUMNS.len();
                self.jobs_are_sorted = self.jobs.column != 0;
            }
        }
    }

    fn look(&mut self) -> &mut Look {
        match self.pane {
            Pane::Nodes => &mut self.nodes,
            Pane::Jobs => &mut self.jobs,
        }
    }

    fn stay_inside(&mut self) {
        let last = |n: usize| n.saturating_sub(1);
        self.nodes.chosen = self.nodes.chosen.min(last(self.overview.nodes.len()));
        self.jobs.chosen = self.jobs.chosen.min(last(self.overview.jobs.len()));
    }

    fn sorted_nodes(&self) -> Vec<&NodeRow> {
        let mut rows: Vec<_> = self.overview.nodes.iter().collect();
        rows.sort_by(|a, b| {
            let order = match self.nodes.column {
                0 => a.name.cmp(&b.name),
                1 => a.label.cmp(&b.label),
                2 => b.n_in.cmp(&a.n_in),
                _ => b.n_busy.cmp(&a.n_busy),
            };
            turned(order, self.nodes.is_reversed)
        });
        rows
    }

    fn sorted_jobs(&self) -> Vec<&JobRow> {
        let mut rows: Vec<_> = self.overview.jobs.iter().collect();
        if self.jobs_are_sorted {
            rows.sort_by(|a, b| match self.jobs.column {
                0 => a.id.cmp(&b.id),
                1 => a.state.cmp(&b.state),
                2 => b.n_done.cmp(&a.n_done),
                3 => b.n_peers.cmp(&a.n_peers),
                4 => b.in_per_second.cmp(&a.in_per_second),
                _ => b.about.cmp(&a.about),
            });
        }
        if self.jobs.is_reversed {
            rows.reverse();
        }
        rows
    }
}

fn turned(order: Ordering, is_reversed: bool) -> Ordering {
    if is_reversed { order.reverse() } else { order }
}

/// Draws it.
pub(super) fn frame(view: &View, frame: &mut Frame<'_>) {
    let n_nodes = view.overview.nodes.len() as u16;
    let [head, nodes, jobs, foot] = Layout::vertical([
        Constraint::Length(3),
        // Its frame, its header, and at most a third of the screen.
        Constraint::Length(n_nodes.saturating_add(3).min((frame.area().height / 3).max(4))),
        Constraint::Min(4),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(summary(view)), head);
    draw_nodes(view, frame, nodes);
    draw_jobs(view, frame, jobs);
    let keys = "q quit  Tab nodes/jobs  ↑↓ scroll  s sort  r reverse";
    frame.render_widget(Paragraph::new(keys).style(Style::new().add_modifier(Modifier::DIM)), foot);
}

fn summary(view: &View) -> Vec<Line<'_>> {
    let it = &view.overview;
    let at = it.position.map_or("no entries yet".into(), |at| format!("after entry {at}"));
    let mut second = vec![Span::raw(format!(
        "{} peers: {} busy, {} idle, {} joining; ",
        it.n_peers,
        it.n_busy,
        it.n_peers - it.n_busy.min(it.n_peers),
        it.n_joining
    ))];
    second.push(match it.is_one_ring {
        true => Span::styled("one ring", Style::new().fg(Color::Green)),
        false => Span::styled("NOT one ring", Style::new().fg(Color::Red)),
    });
    let n = |state: usize| it.jobs.iter().filter(|job| job.state == state).count();
    let third = format!(
        "{} rows/s{}; {} jobs: {} running, {} waiting, {} over; {} more collected",
        rate(it.in_per_second),
        match it.n_left_out {
            0 => String::new(),
            n => format!(" without {n} tasks of nodes that have too many to tell"),
        },
        it.jobs.len(),
        n(1),
        n(0),
        n(2) + n(3),
        it.n_collected
    );
    let mut first = vec![Span::styled("sardonyx", Style::new().add_modifier(Modifier::BOLD))];
    first.push(Span::raw(format!("  {}  {at}", shown(&view.url))));
    if let Some(why) = &view.complaint {
        first.push(Span::styled(format!("  OLD: {why}"), Style::new().fg(Color::Red)));
    }
    vec![Line::from(first), Line::from(second), Line::from(third)]
}

/// A dash where nobody could be asked.
fn rate(in_per_second: Option<u64>) -> String {
    in_per_second.map_or_else(|| "-".into(), |n| n.to_string())
}

/// A URL without the password that may be in it.
fn shown(url: &str) -> String {
    match (url.find("://"), url.rfind('@')) {
        (Some(start), Some(end)) if start < end => format!("{}://…{}", &url[..start], &url[end..]),
        _ => url.to_owned(),
    }
}

/// The header, with a mark at the column by which the rows are sorted.
fn header(columns: &[&'static str], sorted: Option<usize>, is_reversed: bool) -> Row<'static> {
    let mark = if is_reversed { " ▲" } else { " ▼" };
    let cell = |(at, name): (usize, &&'static str)| match sorted == Some(at) {
        true => Cell::from(format!("{name}{mark}")),
        false => Cell::from(*name),
    };
    let cells: Vec<_> = columns.iter().enumerate().map(cell).collect();
    Row::new(cells).style(Style::new().add_modifier(Modifier::BOLD))
}

fn draw_nodes(view: &View, frame: &mut Frame<'_>, area: Rect) {
    let rows = view.sorted_nodes().into_iter().map(|node| {
        let gone = if node.is_here { "" } else { "gone" };
        let label = if node.is_here { node.label.as_str() } else { gone };
        let style = if node.is_here { Style::new() } else { Style::new().fg(Color::Red) };
        let n_in = format!("{} of {}", node.n_in, node.n_wanted);
        Row::new([node.name.clone(), label.to_owned(), n_in, node.n_busy.to_string()]).style(style)
    });
    let widths =
        [Constraint::Max(16), Constraint::Fill(1), Constraint::Length(12), Constraint::Length(8)];
    let head = header(&NODE_COLUMNS, Some(view.nodes.column), view.nodes.is_reversed);
    let table = Table::new(rows.collect::<Vec<_>>(), widths).header(head);
    let title = format!(" nodes: {} ", view.overview.nodes.len());
    render(table, title, view.pane == Pane::Nodes, view.nodes.chosen, frame, area);
}

fn draw_jobs(view: &View, frame: &mut Frame<'_>, area: Rect) {
    let rows = view.sorted_jobs().into_iter().map(|job| {
        let (state, name) = STATES[job.state];
        let style = match state {
            JobState::Pending => Style::new().fg(Color::Yellow),
            JobState::Running => Style::new().fg(Color::Green),
            JobState::Completed => Style::new(),
            JobState::Killed => Style::new().fg(Color::Red),
        };
        let done = format!("{} of {}", job.n_done, job.n_tasks);
        let (peers, rate) = (job.n_peers.to_string(), rate(job.in_per_second));
        let cells = [job.id.clone(), name.into(), done, peers, rate, job.about.clone()];
        Row::new(cells).style(style)
    });
    let widths = [
        Constraint::Fill(2),
        Constraint::Length(11),
        Constraint::Length(12),
        Constraint::Length(8),
        Constraint::Length(9),
        Constraint::Fill(3),
    ];
    let sorted = view.jobs_are_sorted.then_some(view.jobs.column);
    let head = header(&JOB_COLUMNS, sorted, view.jobs.is_reversed);
    let table = Table::new(rows.collect::<Vec<_>>(), widths).header(head);
    let title = format!(" jobs: {} ", view.overview.jobs.len());
    render(table, title, view.pane == Pane::Jobs, view.jobs.chosen, frame, area);
}

fn render(
    table: Table<'_>,
    title: String,
    is_chosen: bool,
    chosen: usize,
    frame: &mut Frame<'_>,
    area: Rect,
) {
    let border = if is_chosen { Style::new().fg(Color::Cyan) } else { Style::new() };
    let block = Block::new().borders(Borders::ALL).border_style(border).title(title);
    let marked = Style::new().add_modifier(Modifier::REVERSED);
    let table =
        table.block(block).row_highlight_style(if is_chosen { marked } else { Style::new() });
    let mut state = TableState::new().with_selected(chosen);
    frame.render_stateful_widget(table, area, &mut state);
}

#[cfg(test)]
#[path = "top_tests.rs"]
mod tests;
