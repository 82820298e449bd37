//! `embedded:DIR` keeps the store in files of this machine, with nothing else installed.
//!
//! The state is in memory; requests go through a journal first ([`journal`]), a group at a time,
//! each group synced once. Entries stay in the journal's files and are read back from there
//! ([`segments`]). Opening plays the journal again ([`format`] says what its bytes are, and how an
//! unfinished end is told from damage). Why not a database: docs/decisions/0010.

mod check;
mod format;
mod journal;
mod queue;
mod segments;

use std::{
    fs::{File, TryLockError},
    io::{Read as _, Seek as _, Write as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use tokio::sync::mpsc;

pub use check::{Report, check};
#[cfg(test)]
pub(crate) use format::{FRAME_BYTES, FrameWriter, HEADER_BYTES, RECORD_BYTES, header};
#[cfg(feature = "bench")]
pub(crate) use journal::{GROWTH_BYTES, zero};
use journal::{Journal, Segments, create};
use queue::{Queue, hand_out};
use segments::{Played, list, play};

use crate::{
    backend::Raw,
    engine::{Op, Outcome, State},
    error::{Error, Result},
    local::{Local, Medium, Shared},
    token::lock,
};

/// Opens the store in `dir`, which is made if it is not there.
pub(crate) async fn open(dir: &Path) -> Result<Local> {
    let dir = dir.to_owned();
    let opened = tokio::task::spawn_blocking(move || Embedded::open(&dir)).await;
    let (shared, embedded) =
        opened.map_err(|why| Error::Corrupt(format!("opening was cut short: {why}")))??;
    Ok(Local::new(shared, Box::new(embedded)))
}

struct Embedded {
    shared: Arc<Shared>,
    segments: Segments,
    queue: Arc<Queue>,
    writer: Option<std::thread::JoinHandle<()>>,
    /// Held as long as the store is open.
    _lock: DirLock,
}

impl Embedded {
    fn open(dir: &Path) -> Result<(Arc<Shared>, Embedded)> {
        std::fs::create_dir_all(dir)
            .map_err(|why| Error::NotConfigured(format!("cannot make {}: {why}", dir.display())))?;
        let dir_lock = DirLock::take(dir)?;
        if list(dir)?.is_empty() {
            create(dir, 0, 0, State::default())?;
        }
        let (state, played) = play_all(dir)?;
        let resume = played.last().map(|newest| newest.resume);
        let resume = resume.ok_or_else(|| Error::Corrupt("a journal without segments".into()))?;
        let segments = played.into_iter().map(|played| Arc::new(played.segment)).collect();
        let segments: Segments = Arc::new(Mutex::new(segments));
        let shared = Arc::new(Shared::new(state));
        let journal = Journal::new(dir, Arc::clone(&shared), Arc::clone(&segments), resume)?;
        let queue = Arc::new(Queue::default());
        let (answers, answered) = mpsc::unbounded_channel();
        tokio::spawn(hand_out(answered));
        let asked = Arc::clone(&queue);
        let writer = std::thread::Builder::new()
            .name("sardonyx-journal".into())
            .spawn(move || journal.run(&asked, &answers))
            .map_err(|why| Error::NotConfigured(format!("cannot start a thread: {why}")))?;
        let embedded = Embedded {
            shared: Arc::clone(&shared),
            segments,
            queue,
            writer: Some(writer),
            _lock: dir_lock,
        };
        Ok((shared, embedded))
    }
}

/// Plays every segment in order; the last one says where writing goes on.
fn play_all(dir: &Path) -> Result<(State, Vec<Played>)> {
    let mut state = State::default();
    let mut played: Vec<Played> = Vec::new();
    let segments = list(dir)?;
    let newest = segments.last().map(|(number, _)| *number);
    for (number, path) in segments {
        if let Some(before) = played.last().filter(|before| before.segment.number + 1 != number) {
            let (dir, missing) = (dir.display(), before.segment.number + 1);
            let why = format!("{dir}: journal-{missing:020} is missing; restore it from a copy");
            return Err(Error::Corrupt(why));
        }
        played.push(play((number, path), &mut state, Some(number) == newest)?);
    }
    Ok((state, played))
}

impl Drop for Embedded {
    /// Waits for the writer, so that whoever opens the directory next finds it free.
    fn drop(&mut self) {
        self.queue.close();
        if let Some(writer) = self.writer.take() {
            // A writer that panicked has answered nobody, so there is nothing to add.
            let _ = writer.join();
        }
    }
}

#[async_trait]
impl Medium for Embedded {
    async fn submit(&self, op: Op) -> Result<Outcome> {
        self.queue.submit(op).await
    }

    async fn read(&self, from: u64) -> Result<Vec<Raw>> {
        let next = self.shared.bounds().1;
        let segment = {
            let segments = lock(&self.segments);
            let after = segments.partition_point(|segment| segment.first <= from);
            segments.get(after.saturating_sub(1)).cloned()
        };
        let gone = || Error::Unavailable(format!("entry {from} is being trimmed"));
        let segment = segment.ok_or_else(gone)?;
        let read = tokio::task::spawn_blocking(move || segment.read(from, next)).await;
        read.map_err(|why| Error::Unavailable(format!("a read was cut short: {why}")))?
    }
}

/// The right to a directory, for one process at a time. The lock is the operating system's, so it
/// ends with its owner however that ends.
#[derive(Debug)]
struct DirLock {
    file: File,
}

impl Drop for DirLock {
    /// Closing the file would not do: a child that is just being started has a copy of it.
    fn drop(&mut self) {
        // If it fails, closing ends the lock all the same, a little later.
        let _ = self.file.unlock();
    }
}

impl DirLock {
    fn take(dir: &Path) -> Result<DirLock> {
        let path: PathBuf = dir.join("lock");
        let unusable = |why| Error::NotConfigured(format!("cannot use {}: {why}", path.display()));
        let options = File::options().read(true).write(true).create(true).truncate(false).clone();
        let mut file = options.open(&path).map_err(unusable)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut owner = String::new();
                // The number is a courtesy; without it the sentence is true as well.
                let _ = file.read_to_string(&mut owner);
                return Err(Error::NotConfigured(format!(
                    "{} is in use by process {}: stop that one, or let it serve the store \
                     (sardonyx store serve) and connect with sardonyx://HOST:PORT",
                    dir.display(),
                    owner.trim()
                )));
            }
            Err(TryLockError::Error(why)) => return Err(unusable(why)),
        }
        let note = |file: &mut File| {
            file.set_len(0)?;
            file.rewind()?;
            writeln!(file, "{}", std::process::id())
        };
        // A full disk must not keep anybody from reading what is there.
        let _ = note(&mut file);
        Ok(DirLock { file })
    }
}
