//! `sardonyx top`: a cluster in a terminal, live.

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal, Write},
    time::{Duration, Instant},
};

use clap::Args;
use ratatui::{
    Terminal,
    backend::TestBackend,
    crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers},
};
use sardonyx_core::{Entry, Position, Replica};
use sardonyx_peer::{Others, heard, job};
use sardonyx_store::{Delivery, Start, Store, Subscription};
use tokio::sync::mpsc;

use super::{
    Failure, SILENCE,
    cluster::At,
    stopped,
    top_view::{self, Key, View},
};

/// How long a look at the keyboard lasts.
const POLL: Duration = Duration::from_millis(100);

/// Watch a cluster in the terminal: its nodes, its ring, its jobs and why they wait.
#[derive(Args)]
#[command(after_help = "\
Keys: Tab or ←/→ chooses nodes or jobs, ↑/↓ and PgUp/PgDn scroll, s sorts by the next column, r turns
the order round, q or Esc ends.

What is shown is computed from the log, as every node does it, and rates from what nodes leave in
the store; nothing is asked of the nodes.")]
pub(crate) struct Top {
    #[command(flatten)]
    at: At,

    /// How often the picture is renewed.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = job::duration)]
    every: Duration,

    /// Print one picture as text, and end.
    #[arg(long)]
    once: bool,

    /// How wide and high a picture with --once is.
    #[arg(long, value_name = "COLUMNSxROWS", default_value = "100x24", value_parser = size,
          requires = "once")]
    size: (u16, u16),
}

/// The smallest and the largest picture.
const SIDES: std::ops::RangeInclusive<u16> = 8..=1_000;

fn size(text: &str) -> Result<(u16, u16), String> {
    let wrong = || format!("write COLUMNSxROWS, each {} to {}", SIDES.start(), SIDES.end());
    let (columns, rows) = text.split_once('x').ok_or_else(wrong)?;
    let side = |text: &str| text.parse().ok().filter(|n| SIDES.contains(n)).ok_or_else(wrong);
    Ok((side(columns)?, side(rows)?))
}

impl Top {
    pub(crate) fn run(self) -> Result<(), Failure> {
        if !self.once && !io::stdout().is_terminal() {
            let why = "stdout is no terminal; --once prints one picture";
            return Err(Failure::input(why));
        }
        if self.every.is_zero() {
            return Err(Failure::input("--every 0s: write how long a picture stays, such as 1s"));
        }
        super::block_on(async {
            let store = self.at.open().await?;
            let mut followed = Followed::open(&store).await?;
            let mut view = View::new(self.at.url()?);
            if self.once {
                view.show(followed.overview(&store).await?);
                return print(&view, self.size);
            }
            // Restores the terminal also when something panics.
            let mut terminal = ratatui::try_init()?;
            let ended = self.watch(&store, &mut followed, &mut view, &mut terminal).await;
            ratatui::try_restore()?;
            ended
        })
    }

    async fn watch(
        &self,
        store: &Store,
        followed: &mut Followed,
        view: &mut View,
        terminal: &mut ratatui::DefaultTerminal,
    ) -> Result<(), Failure> {
        let mut keys = keyboard();
        let mut tick = tokio::time::interval(self.every);
        let mut signal = Box::pin(stopped());
        loop {
            tokio::select! {
                asked = &mut signal => return asked,
                key = keys.recv() => match key {
                    Some(key) if view.press(key) => {}
                    Some(_) | None => return Ok(()),
                },
                read = followed.follow() => {
                    read?;
                    continue;
                }
                _ = tick.tick() => {
                    // Nobody answers: the last picture stays, and says how old it is.
                    match followed.overview(store).await {
                        Ok(overview) => view.show(overview),
                        Err(Failure::World(why)) => view.complain(why),
                        Err(other) => return Err(other),
                    }
                }
            }
            terminal.draw(|frame| top_view::frame(view, frame))?;
        }
    }
}

/// One picture, as text.
fn print(view: &View, (columns, rows): (u16, u16)) -> Result<(), Failure> {
    let backend = TestBackend::new(columns, rows);
    let mut terminal = Terminal::new(backend).map_err(Failure::world)?;
    terminal.draw(|frame| top_view::frame(view, frame)).map_err(Failure::world)?;
    let buffer = terminal.backend().buffer();
    let mut out = io::stdout().lock();
    for row in buffer.content.chunks(usize::from(columns)) {
        let line: String = row.iter().map(|cell| cell.symbol()).collect();
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// The keys that are pressed, from a thread that only looks at the keyboard.
fn keyboard() -> mpsc::Receiver<Key> {
    let (sender, keys) = mpsc::channel(16);
    std::thread::spawn(move || {
        while !sender.is_closed() {
            let key = match event::poll(POLL) {
                Ok(false) => continue,
                Ok(true) => event::read().ok().and_then(|event| key_of(&event)),
                Err(_) => return,
            };
            if key.is_some_and(|key| sender.blocking_send(key).is_err()) {
                return;
            }
        }
    });
    keys
}

#[expect(clippy::wildcard_enum_match_arm, reason = "a keyboard has many more keys")]
fn key_of(event: &Event) -> Option<Key> {
    match event {
        Event::Resize(..) => Some(Key::Redraw),
        Event::Key(key) if key.kind != KeyEventKind::Release => match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Some(Key::Quit),
            KeyCode::Char('q') | KeyCode::Esc => Some(Key::Quit),
            KeyCode::Char('s') => Some(Key::Sort),
            KeyCode::Char('r') => Some(Key::Reverse),
            KeyCode::Tab | KeyCode::BackTab | KeyCode::Left | KeyCode::Right => Some(Key::Other),
            KeyCode::Up | KeyCode::Char('k') => Some(Key::Up(1)),
            KeyCode::Down | KeyCode::Char('j') => Some(Key::Down(1)),
            KeyCode::PageUp => Some(Key::Up(10)),
            KeyCode::PageDown => Some(Key::Down(10)),
            _ => None,
        },
        _ => None,
    }
}

/// A log that is played as it grows.
struct Followed {
    log: Subscription,
    batch: Vec<Delivery>,
    position: Option<Position>,
    replica: Replica,
    others: Others,
    begun: Instant,
}

impl Followed {
    /// Plays what there is.
    async fn open(store: &Store) -> Result<Followed, Failure> {
        let end = store.end().await?;
        let log = store.subscribe(Start::Origin);
        let mut followed = Followed {
            log,
            batch: Vec::new(),
            position: None,
            replica: Replica::new(),
            others: Others::default(),
            begun: Instant::now(),
        };
        let has_origin = store.origin().await?.is_some();
        while followed.position < end || (followed.position.is_none() && has_origin) {
            // The last entries may be copies, which nobody is handed.
            match tokio::time::timeout(SILENCE, followed.follow()).await {
                Ok(read) => read?,
                Err(_) => break,
            }
        }
        Ok(followed)
    }

    /// Waits for more of the log, and plays it.
    async fn follow(&mut self) -> Result<(), Failure> {
        self.log.next_batch(&mut self.batch).await?;
        for delivery in self.batch.drain(..) {
            match delivery {
                Delivery::Origin(origin) => {
                    (self.position, self.replica) = (Some(origin.position), origin.replica);
                }
                Delivery::Entry { position, command } => {
                    self.position = Some(position);
                    if let Ok(command) = command {
                        // What is rejected changes nothing, and that is all that matters here.
                        let _ = self.replica.play(&Entry { position, command });
                    }
                }
            }
        }
        Ok(())
    }

    async fn overview(&mut self, store: &Store) -> Result<top_view::Overview, Failure> {
        let nodes = sardonyx::shown::nodes(store).await?;
        self.others.note(heard(store).await?, None, self.begun.elapsed());
        let figures = self.others.sum(BTreeMap::new(), self.begun.elapsed());
        Ok(top_view::Overview::of(&self.replica, self.position, &nodes, Some(&figures)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_columns_and_rows() {
        assert_eq!(size("80x24"), Ok((80, 24)));
        for wrong in ["80", "80x", "7x24", "80x1001", "axb"] {
            assert_eq!(size(wrong).unwrap_err(), "write COLUMNSxROWS, each 8 to 1000", "{wrong}");
        }
        assert_eq!(size("8x1000"), Ok((8, 1_000)));
    }
}
