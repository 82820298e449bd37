//! What a node tells the person, or the program, that started it.

use std::{
    io::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use indicatif::{ProgressBar, ProgressStyle};
use sardonyx_core::{PeerId, replica::job::Assignment};
use sardonyx_ids::{Source as _, System};
use sardonyx_mesh::describe;
use sardonyx_peer::Event;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::Failure;

/// How many events may wait to be printed. The node does not wait for a slow reader; what is left
/// out is counted and said.
const EVENTS_MAX: usize = 4_096;

pub(super) struct Printer {
    json: bool,
    /// Nobody reads any more.
    is_mute: bool,
    n_wanted: usize,
    n_in: usize,
    was_complete: bool,
    bar: ProgressBar,
    sender: mpsc::Sender<(u64, Event)>,
    events: mpsc::Receiver<(u64, Event)>,
    n_left_out: Arc<AtomicU64>,
}

impl Printer {
    pub(super) fn new(json: bool, n_wanted: usize) -> Printer {
        let (sender, events) = mpsc::channel(EVENTS_MAX);
        // Shown on a terminal only.
        let bar = if json { ProgressBar::hidden() } else { ProgressBar::new(n_wanted as u64) };
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos} of {len} peers in {msg}") {
            bar.set_style(style);
        }
        let n_left_out = Arc::default();
        let (n_in, was_complete) = (0, false);
        let is_mute = false;
        Printer { json, is_mute, n_wanted, n_in, was_complete, bar, sender, events, n_left_out }
    }

    pub(super) fn greet(&self, url: &str, served: Option<&str>) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        let n = self.n_wanted;
        if self.json {
            let at = System.boot();
            return Ok(writeln!(
                out,
                "{}",
                json!({"at": at, "event": "start", "store": shown(url), "serves": served, "peers": n})
            )?);
        }
        writeln!(out, "joining {} with {n} peers", shown(url))?;
        if let Some(served) = served {
            writeln!(out, "serving it to others at {served}")?;
        }
        Ok(out.flush()?)
    }

    /// Says where people and programs can look.
    pub(super) fn serves(&self, url: &str) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        match self.json {
            true => {
                let at = System.boot();
                writeln!(out, "{}", json!({"at": at, "event": "http", "url": url}))?;
            }
            false => writeln!(out, "dashboard and API at {url}")?,
        }
        Ok(out.flush()?)
    }

    /// What the node calls when something happens.
    pub(super) fn watcher(&self) -> Arc<dyn Fn(&Event) + Send + Sync> {
        let (sender, n_left_out) = (self.sender.clone(), Arc::clone(&self.n_left_out));
        Arc::new(move |event| {
            if sender.try_send((System.boot(), event.clone())).is_err() {
                n_left_out.fetch_add(1, Ordering::Relaxed);
            }
        })
    }

    /// Prints what happens before the node runs.
    pub(super) fn note(&mut self, event: Event) -> Result<(), Failure> {
        self.say(System.boot(), event)
    }

    /// Waits for an event and prints it.
    pub(super) async fn print(&mut self) -> Result<(), Failure> {
        match self.events.recv().await {
            Some((at, event)) => self.say(at, event),
            // Cannot be: we hold a sender ourselves.
            None => std::future::pending().await,
        }
    }

    /// Prints what is left at the end.
    pub(super) fn drain(&mut self) -> Result<(), Failure> {
        while let Ok((at, event)) = self.events.try_recv() {
            self.say(at, event)?;
        }
        self.bar.finish_and_clear();
        Ok(())
    }

    /// Prints an event. A node goes on when whoever read this has gone: it has a ring to leave.
    fn say(&mut self, at: u64, event: Event) -> Result<(), Failure> {
        super::start_log::note(&event);
        if self.is_mute {
            return Ok(());
        }
        match self.line(at, event) {
            Err(Failure::ReaderGone) => self.is_mute = true,
            printed => printed?,
        }
        Ok(())
    }

    fn line(&mut self, at: u64, event: Event) -> Result<(), Failure> {
        let n_left_out = self.n_left_out.swap(0, Ordering::Relaxed);
        if n_left_out > 0 {
            eprintln!("sardonyx: {n_left_out} events were left out: nobody read them in time");
        }
        if self.json {
            let mut line = as_json(event);
            line["at"] = at.into();
            let mut out = io::stdout().lock();
            writeln!(out, "{line}")?;
            return Ok(out.flush()?);
        }
        if let Some(line) = self.as_text(event) {
            self.bar.suspend(|| -> io::Result<()> {
                let mut out = io::stdout().lock();
                writeln!(out, "{line}")?;
                out.flush()
            })?;
        }
        Ok(())
    }

    /// A line for a person; nothing for what only moves the progress bar.
    fn as_text(&mut self, event: Event) -> Option<String> {
        Some(match event {
            Event::Waiting(why) => format!("waiting: {why}"),
            Event::Began(life, timeout) => {
                (self.n_in, self.was_complete) = (0, false);
                format!("as {life}, which is gone {timeout:?} after its last sign of life")
            }
            Event::Played(position, end) => {
                let of = |at: Option<sardonyx_core::Position>| at.map_or(0, |at| at.0);
                self.bar.set_message(format!("(log {} of {})", of(position), of(end)));
                return None;
            }
            Event::CaughtUp(Some(at), n) => format!("the log is played up to {at}: {n} peers"),
            Event::CaughtUp(None, _) => "the log is empty: a new cluster".into(),
            Event::Joined(_, n) => {
                self.n_in += 1;
                self.bar.set_position(self.n_in as u64);
                self.bar.set_message(format!("(the ring has {n})"));
                if self.n_in < self.n_wanted || self.was_complete {
                    return None;
                }
                self.was_complete = true;
                format!("all {} peers are in; the ring has {n}", self.n_wanted)
            }
            Event::Left(peer) => {
                self.n_in = self.n_in.saturating_sub(1);
                self.was_complete = false;
                format!("{peer} was said to have left")
            }
            Event::TaskStarted(peer, it) => format!("{peer} runs {} of {}", it.task, it.job),
            Event::TaskStopped(peer, it) => {
                format!("{peer} has stopped {} of {}", it.task, it.job)
            }
            Event::Collecting(why, version) => {
                format!("{why}: as leader {version} of the mesh, this node collects what is over")
            }
            Event::Mesh(change) => format!("mesh: {}", describe(&change)),
            Event::Trimmed(at) => format!("the log now begins at {at}"),
            Event::NotTrimmed(why) => format!("the log was not trimmed: {why}"),
            Event::Unreadable(at, why) => format!("entry {at} cannot be read: {why}"),
            Event::Again(why, pause) => format!("{why}; once more in {pause:?}"),
            Event::Leaving(n) => format!("leaving the ring with {n} peers"),
        })
    }
}

fn as_json(event: Event) -> Value {
    let task = |name: &str, peer: PeerId, it: Assignment| {
        let Assignment { job, task, since } = it;
        json!({"event": name, "peer": peer, "job": job, "task": task, "epoch": since})
    };
    match event {
        Event::Waiting(why) => json!({"event": "waiting", "why": why}),
        Event::Began(life, timeout) => {
            json!({"event": "began", "node": life, "session-ms": timeout.as_millis() as u64})
        }
        Event::Played(at, end) => json!({"event": "played", "position": at, "end": end}),
        Event::CaughtUp(at, n) => json!({"event": "caught-up", "position": at, "ring": n}),
        Event::Joined(peer, n) => json!({"event": "joined", "peer": peer, "ring": n}),
        Event::Left(peer) => json!({"event": "left", "peer": peer}),
        Event::TaskStarted(peer, it) => task("task-started", peer, it),
        Event::TaskStopped(peer, it) => task("task-stopped", peer, it),
        Event::Collecting(why, version) => {
            json!({"event": "collecting", "why": why, "version": version})
        }
        Event::Mesh(change) => {
            json!({"event": "mesh", "change": change.as_ref(), "text": describe(&change)})
        }
        Event::Trimmed(at) => json!({"event": "trimmed", "position": at}),
        Event::NotTrimmed(why) => json!({"event": "not-trimmed", "why": why}),
        Event::Unreadable(at, why) => json!({"event": "unreadable", "position": at, "why": why}),
        Event::Again(why, pause) => {
            json!({"event": "again", "why": why, "pause-ms": pause.as_millis() as u64})
        }
        Event::Leaving(n) => json!({"event": "leaving", "peers": n}),
    }
}

/// A URL without the password that may be in it.
pub(super) fn shown(url: &str) -> String {
    sardonyx_task::secret::hide_passwords(url)
}
