//! What a server knows of its cluster: it plays the log by a subscription of its own.
//!
//! One task reads, everybody else looks: at the head through a watch, at the past through the
//! [`Timeline`] behind a lock that is held for moments only. Asking for the past is work for a
//! thread that may be blocked; [`View::past`] sees to that.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use sardonyx_core::{Command, Entry, JobId, Outcome, Position, Replica, command::JobText};
use sardonyx_store::{Delivery, Error, Start, Store};
use tokio::{sync::watch, task::AbortHandle, time::timeout};

use super::timeline::{Gone, JobNote, Limits, Timeline, Window};

/// How many entries are played before those who look at the past get a turn.
const TURN_ENTRIES: usize = 1_024;

/// After so much silence the log is read, wherever the store says that it ends: its last entries may
/// be copies, which nobody is handed.
const SILENCE: Duration = Duration::from_secs(3);

/// How long a command that was appended may take to come back.
const SAY_MAX: Duration = Duration::from_secs(15);

/// The cluster as a server sees it. Clones are the same view; the last one dropped stops reading.
#[derive(Clone)]
pub(crate) struct View(Arc<Shared>);

struct Shared {
    store: Store,
    timeline: Arc<Mutex<Timeline>>,
    head: watch::Receiver<Head>,
    reading: AbortHandle,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

/// The newest of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Head {
    /// The last position that was read.
    pub(crate) position: Option<Position>,
    /// The cluster there.
    pub(crate) replica: Replica,
    /// How many entries were read.
    pub(crate) seq: u64,
    /// The oldest position that can be asked for; `None`: from before the first entry.
    pub(crate) first: Option<Position>,
    /// Whether everything was read that was there when reading began.
    pub(crate) is_caught_up: bool,
    /// Why nothing more can be read.
    pub(crate) failed: Option<String>,
}

/// What became of something that was said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Said {
    pub(crate) position: Position,
    /// `None`: it is in the log, but was not read here in time.
    pub(crate) outcome: Option<Outcome>,
}

impl View {
    /// Begins to read.
    pub(crate) fn open(store: &Store, past: Limits) -> View {
        let timeline = Arc::new(Mutex::new(Timeline::new(past)));
        let (show, head) = watch::channel(Head::default());
        let reading = tokio::spawn(read(store.clone(), Arc::clone(&timeline), show));
        let reading = reading.abort_handle();
        View(Arc::new(Shared { store: store.clone(), timeline, head, reading }))
    }

    /// The newest of it, now.
    pub(crate) fn head(&self) -> Head {
        self.0.head.borrow().clone()
    }

    /// The newest of it, as it changes.
    pub(crate) fn watch(&self) -> watch::Receiver<Head> {
        self.0.head.clone()
    }

    /// Looks at the timeline for a moment.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Timeline) -> T) -> T {
        look(&self.0.timeline.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The cluster after the last entry at or before `position`.
    pub(crate) async fn past(
        &self,
        position: Position,
    ) -> Result<(Option<Position>, Replica), Gone> {
        let window = self.look(|timeline| timeline.at(position))?;
        Ok(self.play(window, |window| window.replica()).await)
    }

    /// Plays a window where that may take a while.
    pub(crate) async fn play<T: Send + 'static>(
        &self,
        window: Window,
        play: impl FnOnce(Window) -> T + Send + 'static,
    ) -> T {
        let playing = tokio::task::spawn_blocking(move || play(window));
        match playing.await {
            Ok(played) => played,
            Err(why) => std::panic::resume_unwind(why.into_panic()),
        }
    }

    /// Appends `command` and waits until it was played.
    pub(crate) async fn say(&self, command: &Command) -> Result<Said, Error> {
        let before = self.head().seq;
        let position = self.0.store.append(command).await?;
        let mut head = self.watch();
        let reached =
            head.wait_for(|head| head.position >= Some(position) || head.failed.is_some());
        if !matches!(timeout(SAY_MAX, reached).await, Ok(Ok(_))) {
            return Ok(Said { position, outcome: None });
        }
        // The position that the append returned may be that of a copy, which nobody reads; the first
        // of its kind from where we were is ours, or has done what ours asks.
        let after = self.look(|timeline| timeline.seq_after(position));
        let (window, command) = (self.look(|it| it.window(before, after)), command.clone());
        let find = move |window: Window| {
            let mut found = None;
            window.play(|played| {
                if let Some((Entry { position, command: read }, outcome)) = played.entry
                    && read == command
                {
                    found = Some((position, outcome));
                }
                found.is_none()
            });
            found
        };
        let found = self.play(window, find).await;
        Ok(match found {
            Some((position, outcome)) => Said { position, outcome: Some(outcome) },
            None => Said { position, outcome: None },
        })
    }

    /// What is known of a job beside its replica.
    pub(crate) fn note(&self, job: &JobId) -> JobNote {
        self.look(|timeline| timeline.note(job))
    }

    /// A job as its author wrote it: from the log, or from where it was put aside when the log was
    /// trimmed. `None`: it was over by then.
    pub(crate) async fn job_text(&self, job: &JobId) -> Option<JobText> {
        let submitted = self.note(job).submitted;
        let from_log = submitted.and_then(|position| {
            self.look(|timeline| timeline.entry(timeline.seq_after(position).checked_sub(1)?))
        });
        if let Some(Entry { command: Command::SubmitJob(submit), .. }) = from_log
            && submit.id == *job
        {
            return Some(submit.job);
        }
        sardonyx_peer::job_text(&self.0.store, job).await
    }
}

/// Reads the log until nobody looks any more.
async fn read(store: Store, timeline: Arc<Mutex<Timeline>>, show: watch::Sender<Head>) {
    let mut is_caught_up = false;
    let failed = match read_on(&store, &timeline, &show, &mut is_caught_up).await {
        Ok(()) => return,
        Err(why) => why.to_string(),
    };
    tracing::error!(why = failed, "the log cannot be read any further");
    show.send_modify(|head| head.failed = Some(failed));
}

async fn read_on(
    store: &Store,
    timeline: &Mutex<Timeline>,
    show: &watch::Sender<Head>,
    is_caught_up: &mut bool,
) -> Result<(), Error> {
    let end = store.end().await?;
    let mut subscription = store.subscribe(Start::Origin);
    let mut batch = Vec::new();
    loop {
        *is_caught_up |= end.is_none() || show.borrow().position >= end;
        show.send_if_modified(|head| {
            let is_news = head.is_caught_up != *is_caught_up;
            head.is_caught_up = *is_caught_up;
            is_news
        });
        if *is_caught_up {
            subscription.next_batch(&mut batch).await?;
        } else {
            match timeout(SILENCE, subscription.next_batch(&mut batch)).await {
                Ok(read) => read?,
                Err(_) => *is_caught_up = true,
            }
        }
        while !batch.is_empty() {
            let turn = batch.drain(..batch.len().min(TURN_ENTRIES));
            let (position, replica, seq, first) = play(timeline, turn);
            show.send_modify(|head| {
                (head.position, head.replica) = (position, replica);
                (head.seq, head.first) = (seq, first);
            });
            tokio::task::yield_now().await;
        }
    }
}

/// Plays a few deliveries under one lock.
fn play(
    timeline: &Mutex<Timeline>,
    turn: impl Iterator<Item = Delivery>,
) -> (Option<Position>, Replica, u64, Option<Position>) {
    let mut timeline = timeline.lock().unwrap_or_else(PoisonError::into_inner);
    for delivery in turn {
        match delivery {
            Delivery::Origin(origin) => timeline.restart(origin.position, origin.replica),
            Delivery::Entry { position, command } => timeline.push(position, command.ok()),
        }
    }
    let (position, replica) = timeline.head();
    (position, replica.clone(), timeline.seq(), timeline.floor().1)
}
