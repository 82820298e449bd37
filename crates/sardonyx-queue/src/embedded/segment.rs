//! Files of the journal, and messages whose bytes stand in them.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;

use super::format::{Blob, Kind};
use crate::location::OpenError;

/// A file of the journal.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) number: u64,
    pub(crate) path: PathBuf,
    pub(crate) file: File,
    pub(crate) salt: u64,
    /// Messages whose bytes stand here and that are not acknowledged yet, and how many bytes those
    /// are. Only the writer counts.
    pub(crate) n_live: AtomicU64,
    pub(crate) live_bytes: AtomicU64,
}

impl Segment {
    pub(crate) fn new(number: u64, path: PathBuf, file: File, salt: u64) -> Segment {
        let (n_live, live_bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        Segment { number, path, file, salt, n_live, live_bytes }
    }

    pub(crate) fn add(&self, bytes: u32) {
        self.n_live.fetch_add(1, Ordering::Relaxed);
        self.live_bytes.fetch_add(u64::from(bytes), Ordering::Relaxed);
    }

    /// Says whether nothing here is needed any more.
    pub(crate) fn subtract(&self, bytes: u32) -> bool {
        self.live_bytes.fetch_sub(u64::from(bytes), Ordering::Relaxed);
        self.n_live.fetch_sub(1, Ordering::Relaxed) == 1
    }
}

/// The name of a segment.
pub(crate) fn segment_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("queue-{number:020}"))
}

/// The segments in `dir`, by number.
pub(crate) fn list(dir: &Path) -> Result<Vec<(u64, PathBuf)>, OpenError> {
    let unreadable = |why: io::Error| OpenError::NotConfigured(format!("{}: {why}", dir.display()));
    let mut segments = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let number = path.file_name().and_then(|name| name.to_str()?.strip_prefix("queue-"));
        if let Some(number) = number.and_then(|number| number.parse().ok()) {
            segments.push((number, path));
        }
    }
    segments.sort();
    Ok(segments)
}

/// The body of a message that is kept: in memory, in the journal, or both.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) kind: Kind,
    pub(crate) blob: Blob,
    home: Mutex<Home>,
}

/// Where a body is. Never nowhere: it leaves memory only once it has a spot.
#[derive(Debug, Default)]
struct Home {
    cached: Option<Bytes>,
    spot: Option<(Arc<Segment>, u64)>,
}

impl Kept {
    pub(crate) fn in_memory(kind: Kind, bytes: Bytes) -> Kept {
        let blob = Blob::of(&bytes);
        Kept { kind, blob, home: Mutex::new(Home { cached: Some(bytes), spot: None }) }
    }

    pub(crate) fn on_disk(kind: Kind, blob: Blob, segment: Arc<Segment>, offset: u64) -> Kept {
        Kept { kind, blob, home: Mutex::new(Home { cached: None, spot: Some((segment, offset)) }) }
    }

    fn home(&self) -> MutexGuard<'_, Home> {
        self.home.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn cached(&self) -> Option<Bytes> {
        self.home().cached.clone()
    }

    /// Takes it out of memory, if it can be read back.
    pub(crate) fn uncache(&self) {
        let mut home = self.home();
        if home.spot.is_some() {
            home.cached = None;
        }
    }

    /// Nobody needs it any more; says whether it was in memory.
    pub(crate) fn forget(&self) -> bool {
        self.home().cached.take().is_some()
    }

    pub(crate) fn spot(&self) -> Option<(Arc<Segment>, u64)> {
        self.home().spot.clone()
    }

    /// Where its bytes stand now; returns where they stood.
    pub(crate) fn settle(&self, segment: &Arc<Segment>, offset: u64) -> Option<Arc<Segment>> {
        let old = self.home().spot.replace((Arc::clone(segment), offset));
        old.map(|(segment, _)| segment)
    }

    /// Its bytes, read back and checked if they are not in memory. An error names file and place.
    pub(crate) fn read(&self) -> Result<Bytes, String> {
        let (cached, spot) = {
            let home = self.home();
            (home.cached.clone(), home.spot.clone())
        };
        if let Some(bytes) = cached {
            return Ok(bytes);
        }
        let (segment, offset) = spot.ok_or("a message is neither in memory nor on disk")?;
        let mut bytes = vec![0; self.blob.len as usize];
        let path = segment.path.display();
        let read = segment.file.read_exact_at(&mut bytes, offset);
        read.map_err(|why| format!("{path}: the message at byte {offset}: {why}"))?;
        if crc32c::crc32c(&bytes) != self.blob.crc {
            return Err(format!(
                "{path}: the message at byte {offset} is damaged; restore the file from a copy"
            ));
        }
        Ok(Bytes::from(bytes))
    }
}
