//! Reading a store's files for damage, without changing them.

use std::path::Path;

use super::{DirLock, play_all};
use crate::error::{Error, Result};

/// What a check found in a directory that is whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// Files of the journal.
    pub n_segments: u64,
    /// Groups that were written at once.
    pub n_frames: u64,
    /// Entries that are kept, trimmed ones in the same files included.
    pub n_entries: u64,
    /// The position that the next entry gets.
    pub next: u64,
    /// Bytes of a group that was never finished, and so never acknowledged. The next start drops
    /// them.
    pub torn_bytes: u64,
}

/// Checks every checksum of the store in `dir`. An error names the file and the first bad record.
/// Fails while a process has the store open.
pub fn check(dir: &Path) -> Result<Report> {
    if !dir.is_dir() {
        return Err(Error::NotConfigured(format!("{} is not a directory", dir.display())));
    }
    let segments = super::list(dir)?;
    if segments.is_empty() {
        return Err(Error::NotConfigured(format!("there is no store in {}", dir.display())));
    }
    let _lock = DirLock::take(dir)?;
    let (state, played) = play_all(dir)?;
    Ok(Report {
        n_segments: played.len() as u64,
        n_frames: played.iter().map(|played| played.n_frames).sum(),
        n_entries: played.iter().map(|played| played.n_entries).sum(),
        next: state.next,
        torn_bytes: played.last().map_or(0, |newest| newest.resume.torn_bytes),
    })
}
