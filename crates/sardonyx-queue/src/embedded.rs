//! `embedded:DIR` keeps the queues in files of this machine, with nothing else installed.
//!
//! ```text
//!  commit ─► ledger (in memory) ─► next group ─► one record, one sync ─► visible, answered
//! ```
//!
//! The ledger decides; what it did goes into a journal ([`format`]), a group at a time, written and
//! synced by one thread ([`journal`]). What is not on the disk yet is not shown: messages are
//! received, and questions answered, once all that they rest on is settled. Bodies of messages stay
//! in memory up to a limit and are read back from the journal beyond it. A new segment begins with a
//! snapshot of everything but large messages ([`snapshot`]); a segment without live messages is
//! deleted. What is in flight is not written: after a restart everything unacknowledged is ready.
//!
//! Deliveries are written without waiting for the disk, so a machine that loses power may forget the
//! last of them, and a process that dies in the instant of delivering as well.

pub(crate) mod format;
mod group;
mod journal;
mod lock;
mod play;
#[cfg(test)]
mod power;
mod segment;
mod snapshot;
#[cfg(test)]
mod tests;

use std::{path::Path, sync::Arc};

use bytes::Bytes;
use tokio::sync::watch;

use format::Kind;
use group::Groups;
use journal::{Journal, Progress};
use lock::DirLock;
use play::Played;
pub(crate) use play::play;
use segment::Kept;

use crate::{
    backend::Answer,
    ledger::{Given, Wakes},
    local::{Core, Fetched, Happened, Local, Medium, delivery},
    location::OpenError,
    message::{Body, Compression, Segments},
    mutant::Mutant,
    transaction::Refused,
};

/// A segment is closed once it is this large, and at least twice as large as its snapshot.
const SEGMENT_BYTES: u64 = 64 << 20;

/// How much of the messages stays in memory; what is beyond is read back when it is received.
const CACHED_BYTES_MAX: u64 = 64 << 20;

/// What tests change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    pub(crate) segment_bytes: u64,
    pub(crate) cached_bytes_max: u64,
    /// Who says what a loss of power would leave.
    #[cfg(test)]
    pub(crate) power: Option<&'static power::Power>,
}

impl Options {
    /// Whether a rule of the journal is switched off.
    #[cfg(test)]
    fn is_on(&self, mutant: Mutant) -> bool {
        self.power.is_some_and(|power| power.mutant == Some(mutant))
    }

    #[cfg(not(test))]
    const fn is_on(&self, _: Mutant) -> bool {
        false
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            segment_bytes: SEGMENT_BYTES,
            cached_bytes_max: CACHED_BYTES_MAX,
            #[cfg(test)]
            power: None,
        }
    }
}

/// Opens the queues in `dir`, which is made if it is not there.
pub(crate) async fn open(dir: &Path, options: Options) -> Result<Local<Embedded>, OpenError> {
    let dir = dir.to_owned();
    let opened = tokio::task::spawn_blocking(move || open_now(&dir, options)).await;
    opened.map_err(|why| OpenError::Unavailable(format!("opening was cut short: {why}")))?
}

fn open_now(dir: &Path, options: Options) -> Result<Local<Embedded>, OpenError> {
    let not_made = |why| OpenError::NotConfigured(format!("cannot make {}: {why}", dir.display()));
    std::fs::create_dir_all(dir).map_err(not_made)?;
    let lock = DirLock::take(dir)?;
    let Played { ledger, resume } = play(dir)?;
    let core = Arc::new(Core::new(ledger));
    let groups = Arc::new(Groups::new(resume.settled + 1));
    let settled = Progress { settled: resume.settled, broken: None };
    let progress = Arc::new(watch::Sender::new(settled));
    let for_writer = (Arc::clone(&core), Arc::clone(&groups), Arc::clone(&progress));
    let (for_core, for_groups, for_progress) = for_writer;
    let journal = Journal::new(dir, options, for_core, for_groups, for_progress, resume);
    let journal = journal.map_err(|why| journal::unusable(dir, &why))?;
    let writer = std::thread::Builder::new()
        .name("sardonyx-queue".into())
        .spawn(move || journal.run())
        .map_err(|why| OpenError::NotConfigured(format!("cannot start a thread: {why}")))?;
    let medium = Embedded { groups, progress, writer: Some(writer), _lock: lock };
    Ok(Local::with_core(core, medium))
}

/// The side of the journal that those who commit see.
pub(crate) struct Embedded {
    groups: Arc<Groups>,
    progress: Arc<watch::Sender<Progress>>,
    writer: Option<std::thread::JoinHandle<()>>,
    /// Held as long as the queues are open.
    _lock: DirLock,
}

impl Drop for Embedded {
    /// Waits for the writer, so that whoever opens the directory next finds all of it.
    fn drop(&mut self) {
        self.groups.close();
        if let Some(writer) = self.writer.take() {
            // A writer that panicked has answered nobody, so there is nothing to add.
            let _ = writer.join();
        }
    }
}

/// What becomes of a group, if it is known.
fn outcome(progress: &Progress, number: u64) -> Option<Result<(), Refused>> {
    if progress.settled >= number {
        return Some(Ok(()));
    }
    let (sequence, refused) = progress.broken.as_ref()?;
    // Whatever came later was not even tried.
    if let (Refused::Unknown(why), true) = (refused, number != *sequence) {
        return Some(Err(Refused::Unavailable(why.clone())));
    }
    Some(Err(refused.clone()))
}

fn unpack(kind: Kind, bytes: Bytes) -> Body {
    match kind {
        Kind::Segments => Body::Segments(Segments::Encoded(bytes)),
        Kind::Note => Body::Note(bytes),
        Kind::Sentinel => Body::Sentinel(String::from_utf8_lossy(&bytes).into_owned()),
    }
}

impl Medium for Embedded {
    type Body = Arc<Kept>;
    const CARRIES_BYTES: bool = true;
    const IS_DURABLE: bool = true;

    fn keep(&self, body: Body) -> Result<(Arc<Kept>, u64), Refused> {
        let (kind, bytes) = match body {
            Body::Segments(segments) => {
                let encoded = segments.encode(Compression::None);
                let wrong = |why| Refused::Unavailable(format!("a batch cannot be encoded: {why}"));
                (Kind::Segments, encoded.map_err(wrong)?)
            }
            Body::Note(bytes) => (Kind::Note, bytes),
            Body::Sentinel(name) => (Kind::Sentinel, Bytes::from(name)),
        };
        let len = bytes.len() as u64;
        Ok((Arc::new(Kept::in_memory(kind, bytes)), len))
    }

    fn stamp(&self) -> u64 {
        self.groups.sequence()
    }

    fn note(&self, happened: Happened<'_, Arc<Kept>>, mut wakes: Wakes) -> (u64, Wakes) {
        // Whoever lost its session hears of it at once.
        let now = Wakes { lost: std::mem::take(&mut wakes.lost), ..Wakes::default() };
        (self.groups.add(happened, wakes), now)
    }

    fn now(&self) -> u64 {
        match self.progress.borrow().broken {
            Some(_) => u64::MAX,
            None => self.groups.hard(),
        }
    }

    fn settled(&self, number: u64) -> Option<Answer<()>> {
        let mut progress = self.progress.subscribe();
        match outcome(&progress.borrow(), number) {
            Some(Ok(())) => return None,
            Some(Err(refused)) => return Some(Box::pin(async { Err(refused) })),
            None => {}
        }
        Some(Box::pin(async move {
            let known = progress.wait_for(|progress| outcome(progress, number).is_some()).await;
            let stopped = || Refused::Unknown("the writer has stopped".into());
            let known = known.map(|progress| outcome(&progress, number));
            known.ok().flatten().unwrap_or_else(|| Err(stopped()))
        }))
    }

    fn fetch(&self, given: Vec<Given<Arc<Kept>>>) -> Fetched {
        let cached: Option<Vec<_>> = given.iter().map(|given| given.body.cached()).collect();
        let deliver = |(given, bytes): (Given<Arc<Kept>>, Bytes)| {
            let body = unpack(given.body.kind, bytes);
            delivery(given, body)
        };
        if let Some(cached) = cached {
            return Fetched::Now(given.into_iter().zip(cached).map(deliver).collect());
        }
        Fetched::Later(Box::pin(async move {
            let read = move || {
                let read = |given: Given<Arc<Kept>>| {
                    let bytes = given.body.read().map_err(Refused::Unavailable)?;
                    Ok(deliver((given, bytes)))
                };
                given.into_iter().map(read).collect()
            };
            let read = tokio::task::spawn_blocking(read).await;
            read.map_err(|why| Refused::Unavailable(format!("reading was cut short: {why}")))?
        }))
    }
}
