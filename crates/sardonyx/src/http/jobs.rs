//! Jobs, looked at: the list, one task by task, and waiting for an end.

mod graph;

use std::time::Duration;

use axum::{Json, extract::State};
use sardonyx_core::{
    JobId, Replica,
    replica::job::{Job, JobOutcome},
};
use sardonyx_peer::{Summed, TaskFigure};
use sardonyx_queue::{Place, QueueName};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;
use utoipa::ToSchema;

use self::graph::Graph;
use super::{
    Site,
    asked::{Asked, InPath, limit},
    figures::Sources,
    refusal::Refusal,
};
use crate::shown::{self, TaskState};

/// How many jobs a page may have.
pub const JOBS_PAGE_MAX: usize = 1_000;

/// How long one request may wait for the end of a job.
pub const WAIT_MAX: Duration = Duration::from_secs(60);

/// How long it waits if nobody says how long.
const WAIT: Duration = Duration::from_secs(30);

/// A page of jobs.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Jobs {
    /// The position at which this is so.
    position: Option<u64>,
    /// In the order of submission, or the newest first if that was asked for.
    jobs: Vec<JobLine>,
    /// Whether there are more behind these: ask again with `after` and the last id.
    more: bool,
}

/// A job on one line.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobLine {
    id: String,
    /// `pending`, `running`, `completed` or `killed`.
    state: &'static str,
    /// How many tasks it has.
    tasks: usize,
    /// How many of them are done.
    done: usize,
    /// How many peers work on it.
    peers: usize,
    /// Why it has none, if it waits.
    waiting: Option<String>,
    /// Why it was killed, if that is known here.
    reason: Option<String>,
    /// Whether it was collected: only how it ended is left.
    collected: bool,
}

/// A job task by task.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct JobShown {
    #[serde(flatten)]
    line: JobLine,
    /// What its author calls it.
    name: Option<String>,
    /// Where it stands in the log, if that is known here.
    submitted: Option<u64>,
    /// `greedy`, `round-robin` or `percentage`.
    task_scheduler: Option<String>,
    /// In topological order.
    task_list: Vec<TaskShown>,
    /// From which task to which segments go; empty when the job's text is no longer kept.
    edges: Vec<[String; 2]>,
    /// Whose figures its tasks have.
    sources: Sources,
}

/// A task.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct TaskShown {
    id: String,
    /// `input`, `function` or `output`.
    kind: Option<String>,
    /// The function or plugin that it runs.
    runs: Option<String>,
    /// `open`, `sealing` or `done`.
    state: &'static str,
    /// Who works on it.
    peers: Vec<String>,
    min_peers: Option<u32>,
    max_peers: Option<u32>,
    /// Where segments go on which its function failed.
    dead_letters: Option<String>,
    /// What went through it on all nodes that live; nothing if it ran on none of them.
    measured: Option<Measured>,
    /// How much waits for it, by producer; an input has one queue of splits, without a producer.
    queues: Vec<QueueShown>,
}

/// What went through a task.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Measured {
    rows_in: u64,
    rows_out: u64,
    /// Segments that its function failed on.
    rows_failed: u64,
    commits: u64,
    in_per_second: u64,
    out_per_second: u64,
    /// Segments a second over the last minute, the newest last.
    history: Vec<u64>,
    /// On how many nodes.
    nodes: usize,
}

impl Measured {
    fn of(task: &TaskFigure) -> Measured {
        let it = &task.figure;
        Measured {
            rows_in: it.rows_in,
            rows_out: it.rows_out,
            rows_failed: it.rows_failed,
            commits: it.commits,
            in_per_second: it.in_per_second,
            out_per_second: it.out_per_second,
            history: it.history.clone(),
            nodes: task.n_nodes,
        }
    }
}

/// A queue of a task.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct QueueShown {
    from: String,
    /// Messages that nobody has.
    ready: u64,
    /// Messages that somebody works on.
    in_flight: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListAsked {
    after: Option<String>,
    limit: Option<u64>,
    #[serde(default)]
    newest: bool,
}

pub(crate) async fn list(
    State(site): State<Site>,
    Asked(asked): Asked<ListAsked>,
) -> Result<Json<Jobs>, Refusal> {
    let limit = limit(asked.limit, JOBS_PAGE_MAX, JOBS_PAGE_MAX)?;
    let head = site.view().head();
    let replica = &head.replica;
    let mut all: Vec<&Job> = replica.jobs().collect();
    if asked.newest {
        all.reverse();
    }
    let first = match &asked.after {
        None => 0,
        Some(id) => {
            let at = all.iter().position(|job| job.id().as_str() == id.as_str());
            1 + at.ok_or_else(|| missing(id))?
        }
    };
    let waiting = replica.all_waiting();
    let behind = &all[first..];
    let line = |job: &Job| line(&site, job, waiting.get(job.id()).cloned());
    let jobs = behind.iter().take(limit).map(|job| line(job)).collect();
    let more = behind.len() > limit;
    Ok(Json(Jobs { position: head.position.map(|it| it.0), jobs, more }))
}

fn line(site: &Site, job: &Job, waiting: Option<String>) -> JobLine {
    JobLine {
        id: job.id().to_string(),
        state: shown::job_state(job.state()),
        tasks: job.terms().tasks.len(),
        done: job.completions().count(),
        peers: job.n_peers(),
        waiting,
        reason: site.view().note(job.id()).reason,
        collected: false,
    }
}

fn collected(id: &JobId, outcome: JobOutcome) -> JobLine {
    let state = match outcome {
        JobOutcome::Completed => "completed",
        JobOutcome::Killed => "killed",
    };
    let (waiting, reason) = (None, None);
    let id = id.to_string();
    JobLine { id, state, tasks: 0, done: 0, peers: 0, waiting, reason, collected: true }
}

pub(super) fn missing(id: impl std::fmt::Display) -> Refusal {
    Refusal::missing(format!("there is no job {id}"), "GET /v1/jobs lists them")
}

pub(crate) async fn one(
    State(site): State<Site>,
    InPath(id): InPath,
) -> Result<Json<JobShown>, Refusal> {
    let (figures, sources) = site.figures().now().await;
    let replica = site.view().head().replica;
    let Some(job) = replica.job(&id) else {
        let outcome = replica.outcome(&id).ok_or_else(|| missing(&id))?;
        return Ok(Json(JobShown {
            line: collected(&id, outcome),
            name: None,
            submitted: None,
            task_scheduler: None,
            task_list: Vec::new(),
            edges: Vec::new(),
            sources,
        }));
    };
    let text = site.view().job_text(&id).await;
    let graph = Graph::read(text.as_ref().map_or("", |text| text.as_str()));
    let note = site.view().note(&id);
    let mut task_list = tasks(&figures, job, &graph);
    if job.is_live() {
        measure_queues(&site, &id, &graph, &mut task_list).await;
    }
    Ok(Json(JobShown {
        line: line(&site, job, replica.waiting(job)),
        name: graph.name.clone(),
        submitted: note.submitted.map(|it| it.0),
        task_scheduler: Some(job.terms().task_scheduler.to_string()),
        task_list,
        edges: graph.edges,
        sources,
    }))
}

fn tasks(figures: &Summed, job: &Job, graph: &Graph) -> Vec<TaskShown> {
    let limits = job.terms().tasks.iter().map(|(_, limits)| limits);
    let task =
        |((id, state), limits): ((String, TaskState), &sardonyx_core::replica::job::TaskLimits)| {
            let place = Place { job: job.id().to_string(), task: id.clone() };
            let (state, peers) = match state {
                TaskState::Done => ("done", Vec::new()),
                TaskState::Sealing(peer) => ("sealing", vec![peer]),
                TaskState::Open(peers) => ("open", peers),
            };
            let about = graph.tasks.get(&id).cloned().unwrap_or_default();
            TaskShown {
                id,
                kind: about.kind,
                runs: about.runs,
                state,
                peers,
                min_peers: limits.min_peers,
                max_peers: limits.max_peers,
                dead_letters: about.dead_letters,
                measured: figures.tasks.get(&place).map(Measured::of),
                queues: Vec::new(),
            }
        };
    shown::tasks(job).into_iter().zip(limits).map(task).collect()
}

/// Asks the queues how deep they are. One that does not answer in time is left out.
async fn measure_queues(site: &Site, job: &JobId, graph: &Graph, tasks: &mut [TaskShown]) {
    let Some(queues) = &site.about().queues else { return };
    let measure = async {
        for task in tasks {
            let producers = graph.edges.iter().filter(|[_, to]| *to == task.id);
            let mut producers: Vec<_> = producers.map(|[from, _]| from.clone()).collect();
            if producers.is_empty() {
                producers.push(String::new());
            }
            for from in producers {
                let name = QueueName { job: job.to_string(), task: task.id.clone(), from };
                if let Ok(depth) = queues.depth(&name).await {
                    let (from, ready, in_flight) = (name.from, depth.ready, depth.in_flight);
                    task.queues.push(QueueShown { from, ready, in_flight });
                }
            }
        }
    };
    // What is there by then is shown.
    let _ = timeout(Site::PATIENCE, measure).await;
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WaitAsked {
    seconds: Option<u64>,
}

pub(crate) async fn wait(
    State(site): State<Site>,
    InPath(id): InPath,
    Asked(asked): Asked<WaitAsked>,
) -> Result<Json<JobLine>, Refusal> {
    let patience = match asked.seconds {
        None => WAIT,
        Some(seconds) if seconds <= WAIT_MAX.as_secs() => Duration::from_secs(seconds),
        Some(seconds) => {
            let most = WAIT_MAX.as_secs();
            let advice = format!("wait for at most {most} seconds, and ask again");
            return Err(Refusal::bad(format!("seconds={seconds} is too long"), advice));
        }
    };
    let is_over = |replica: &Replica| replica.job(&id).is_none_or(|job| !job.is_live());
    let mut head = site.view().watch();
    // Either it is over, or it is shown as it is now.
    let _ = timeout(patience, head.wait_for(|head| is_over(&head.replica))).await;
    let replica = site.view().head().replica;
    let found = match replica.job(&id) {
        Some(job) => Some(line(&site, job, replica.waiting(job))),
        None => replica.outcome(&id).map(|outcome| collected(&id, outcome)),
    };
    found.map(Json).ok_or_else(|| missing(&id))
}
