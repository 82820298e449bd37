//! What a loss of power would leave of the journal: a model of the disk below it, for tests.
//!
//! A file is, after a loss, what it was when it was last synced. A sync that fails loses the pages
//! that were to be written and forgets that they were (as Linux does), so that the next one succeeds
//! without them.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use crate::mutant::Mutant;

const PAGE_BYTES: usize = 4096;

/// A disk that remembers what is safe.
#[derive(Debug)]
pub(crate) struct Power {
    /// A rule of the journal that is switched off.
    pub(crate) mutant: Option<Mutant>,
    /// Which sync fails, counted from when the journal is opened.
    fails_at: Option<u64>,
    files: Mutex<Files>,
}

#[derive(Debug, Default)]
struct Files {
    n_syncs: u64,
    safe: BTreeMap<PathBuf, Vec<u8>>,
    /// Pages that are believed to be on the disk and are not, with what they should hold.
    lost: BTreeMap<(PathBuf, usize), Vec<u8>>,
}

impl Power {
    /// One for a test, which does not outlive its process.
    pub(crate) fn new(mutant: Option<Mutant>, fails_at: Option<u64>) -> &'static Power {
        Box::leak(Box::new(Power { mutant, fails_at, files: Mutex::default() }))
    }

    /// Syncs a file, or fails to.
    pub(crate) fn sync(
        &self,
        path: &Path,
        sync: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let is_failing = {
            let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
            files.n_syncs += 1;
            Some(files.n_syncs) == self.fails_at
        };
        if is_failing {
            self.lose(path);
            return Err(io::Error::other("the disk did not take it"));
        }
        sync()?;
        self.synced(path);
        Ok(())
    }

    /// A file is on the disk, but for what was lost before.
    pub(crate) fn synced(&self, path: &Path) {
        let mut now = std::fs::read(path).unwrap_or_default();
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let safe = files.safe.get(path).cloned().unwrap_or_default();
        files.lost.retain(|(file, page), lost| {
            if file != path {
                return true;
            }
            let (from, to) = (page * PAGE_BYTES, page * PAGE_BYTES + lost.len());
            if now.get(from..to) != Some(lost.as_slice()) {
                // Written again since, and so it went to the disk this time.
                return false;
            }
            for (at, byte) in now.iter_mut().enumerate().take(to).skip(from) {
                *byte = safe.get(at).copied().unwrap_or_default();
            }
            true
        });
        files.safe.insert(path.to_owned(), now);
    }

    fn lose(&self, path: &Path) {
        let now = std::fs::read(path).unwrap_or_default();
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let safe = files.safe.get(path).cloned().unwrap_or_default();
        for (page, bytes) in now.chunks(PAGE_BYTES).enumerate() {
            let from = page * PAGE_BYTES;
            if safe.get(from..from + bytes.len()) != Some(bytes) {
                files.lost.insert((path.to_owned(), page), bytes.to_vec());
            }
        }
    }

    /// Writes what would be left to another directory.
    pub(crate) fn leave(&self, dir: &Path) -> io::Result<()> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        for (path, bytes) in &files.safe {
            if let Some(name) = path.file_name() {
                std::fs::write(dir.join(name), bytes)?;
            }
        }
        Ok(())
    }
}
