//! The writer: one thread that makes what happened durable, a group at a time.

use std::{
    fs::File,
    io::{self, IoSlice, Seek as _, SeekFrom, Write as _},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::sync::watch;

use super::{
    Options,
    format::{self, RECORD_BYTES},
    group::{Group, Groups},
    segment::{Kept, Segment, segment_path},
    snapshot::Snapshot,
};
use crate::{
    ledger::{SessionId, Wakes},
    local::Core,
    location::OpenError,
    mutant::Mutant,
    transaction::Refused,
};

/// The file grows by this much at a time, in zeros: writing over them later needs no change to the
/// file's metadata, which makes the sync of a small record about twice as fast.
const GROWTH_BYTES: u64 = 4 << 20;

/// Records of this size and more are not worth it.
const GROWN_RECORD_BYTES_MAX: u64 = 256 << 10;

/// The longest wait for a full group.
const PATIENCE_MAX: Duration = Duration::from_millis(1);

/// How far the writer is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    /// Groups up to this one are on the disk.
    pub(crate) settled: u64,
    /// Set once the disk failed: the group at which, and what whoever waits for it is told.
    pub(crate) broken: Option<(u64, Refused)>,
}

/// What the writer knows.
pub(crate) struct Journal {
    dir: PathBuf,
    options: Options,
    core: Arc<Core<Arc<Kept>>>,
    groups: Arc<Groups>,
    progress: Arc<watch::Sender<Progress>>,
    segment: Arc<Segment>,
    offset: u64,
    len: u64,
    settled: u64,
    rotate_at: u64,
    cached_bytes: u64,
}

/// Where writing goes on.
pub(crate) struct Resume {
    pub(crate) segment: Arc<Segment>,
    pub(crate) end: u64,
    pub(crate) settled: u64,
    /// The bytes behind `end` that belong to a record that was never finished.
    pub(crate) torn_bytes: u64,
}

impl Options {
    /// Makes what was written to a segment durable.
    fn sync(
        &self,
        segment: &Segment,
        sync: impl FnOnce(&File) -> io::Result<()>,
    ) -> io::Result<()> {
        #[cfg(test)]
        if let Some(power) = self.power {
            return power.sync(&segment.path, || sync(&segment.file));
        }
        sync(&segment.file)
    }
}

impl Journal {
    pub(crate) fn new(
        dir: &Path,
        options: Options,
        core: Arc<Core<Arc<Kept>>>,
        groups: Arc<Groups>,
        progress: Arc<watch::Sender<Progress>>,
        resume: Resume,
    ) -> io::Result<Journal> {
        let Resume { segment, end, settled, torn_bytes } = resume;
        zero(&segment.file, end, torn_bytes)?;
        // What the last process wrote may not have been synced when it was killed, and has been
        // played: from here on it counts as settled.
        options.sync(&segment, File::sync_all)?;
        let len = segment.file.metadata()?.len();
        let rotate_at = options.segment_bytes;
        Ok(Journal {
            dir: dir.to_owned(),
            options,
            core,
            groups,
            progress,
            segment,
            offset: end,
            len,
            settled,
            rotate_at,
            cached_bytes: 0,
        })
    }

    /// Writes until nothing more comes.
    pub(crate) fn run(mut self) {
        let (mut wanted, mut patience) = (1, Duration::ZERO);
        while self.groups.wait(wanted, patience) {
            if self.progress.borrow().broken.is_some() {
                drop(self.groups.swap());
                continue;
            }
            let begun = Instant::now();
            let n_hard = match self.offset >= self.rotate_at {
                true => self.rotate(),
                false => {
                    let group = self.groups.swap();
                    self.write(group)
                }
            };
            wanted = n_hard.max(1);
            patience = (begun.elapsed() / 2).min(PATIENCE_MAX);
            if self.groups.is_empty() {
                self.seal();
            }
        }
    }

    /// Writes a group as a record; says how many wait for it.
    fn write(&mut self, mut group: Group) -> usize {
        let (sequence, n_hard) = (group.sequence, group.n_hard);
        if let Some(fault) = group.fault.take() {
            self.break_down(sequence, Refused::Unavailable(fault));
            return n_hard;
        }
        let (meta, n_body_bytes) = (std::mem::take(&mut group.meta), group.bodies.len);
        let head =
            format::record_head(self.segment.salt, sequence, self.settled, &meta, n_body_bytes);
        let bodies = self.offset + (RECORD_BYTES + meta.len()) as u64;
        let end = bodies + n_body_bytes;
        if let Err(why) = self.make_room(end - self.offset) {
            self.break_down(sequence, Refused::Unavailable(self.complaint(&why)));
            return n_hard;
        }
        let file = &self.segment.file;
        let mut written = write_all(file, self.offset, &[&head, &meta], group.bodies.finish());
        if n_hard > 0 && !self.options.is_on(Mutant::AnsweredFirst) {
            written = written.and_then(|()| self.sync_data());
        }
        if let Err(why) = written {
            // After a failed sync the kernel may have thrown the pages away: trying again could
            // report success for bytes that are not on the disk.
            self.break_down(sequence, Refused::Unknown(self.complaint(&why)));
            return n_hard;
        }
        (self.offset, self.len) = (end, self.len.max(end));
        for (kept, distance) in &group.sent {
            self.segment.add(kept.blob.len);
            kept.settle(&self.segment, bodies + distance);
        }
        self.finish(group);
        n_hard
    }

    fn sync_data(&self) -> io::Result<()> {
        let sync = || self.options.sync(&self.segment, File::sync_data);
        let synced = sync();
        match synced.is_err() && self.options.is_on(Mutant::SyncedAgain) {
            true => sync(),
            false => synced,
        }
    }

    /// What is left to do once a group is on the disk.
    fn finish(&mut self, group: Group) {
        for (kept, _) in &group.sent {
            let len = u64::from(kept.blob.len);
            if self.cached_bytes + len > self.options.cached_bytes_max {
                kept.uncache();
            } else {
                self.cached_bytes += len;
            }
        }
        for kept in &group.dropped {
            if kept.forget() {
                self.cached_bytes = self.cached_bytes.saturating_sub(u64::from(kept.blob.len));
            }
            if let Some((segment, _)) = kept.spot()
                && segment.subtract(kept.blob.len)
            {
                self.drop_segment(&segment);
            }
        }
        if group.n_hard == 0 {
            return;
        }
        self.settled = group.sequence;
        let mut state = self.core.lock();
        state.ledger.visible = group.sequence;
        state.ring(group.wakes);
        drop(state);
        self.progress.send_modify(|progress| progress.settled = group.sequence);
    }

    /// Deletes a segment that nothing needs, unless it is being written to.
    fn drop_segment(&self, segment: &Arc<Segment>) {
        if segment.number != self.segment.number {
            // If it cannot be deleted it is in the way of nothing; the next start tries again.
            let _ = std::fs::remove_file(&segment.path);
        }
    }

    /// Begins a new segment with a snapshot of everything, the next group included. Messages stay
    /// where they are, but for small ones and the rest of segments that are nearly empty.
    fn rotate(&mut self) -> usize {
        let (snapshot, group) = {
            let state = self.core.lock();
            (Snapshot::of(&state.ledger), self.groups.swap())
        };
        let number = self.segment.number + 1;
        let rest = self.options.segment_bytes / 8;
        let written = snapshot.write(&self.dir, number, group.sequence, self.settled, rest);
        let written = match written {
            Ok(written) => written,
            Err(why) => {
                // No room for a new segment; this one goes on growing until there is.
                tracing::warn!("no new journal segment: {why}");
                self.rotate_at = self.offset + self.options.segment_bytes / 4;
                return self.write(group);
            }
        };
        let old = std::mem::replace(&mut self.segment, Arc::new(written.segment));
        #[cfg(test)]
        if let Some(power) = self.options.power {
            power.synced(&self.segment.path);
        }
        // It was grown ahead. If that stays, it takes room until the segment goes.
        let _ = old.file.set_len(self.offset);
        (self.offset, self.len) = (written.len, written.len);
        self.rotate_at = self.options.segment_bytes.max(2 * written.len);
        for (kept, offset) in written.carried {
            self.segment.add(kept.blob.len);
            let before = kept.settle(&self.segment, offset);
            if let Some(before) = before.filter(|before| before.subtract(kept.blob.len)) {
                self.drop_segment(&before);
            }
        }
        if old.n_live.load(Ordering::Relaxed) == 0 {
            self.drop_segment(&old);
        }
        let n_hard = group.n_hard;
        self.finish(group);
        n_hard
    }

    /// Puts an empty record behind the last one, not synced and written over by the next: it says
    /// that the last one had reached the disk.
    fn seal(&mut self) {
        let sequence = self.groups.sequence();
        let head = format::record_head(self.segment.salt, sequence, self.settled, &[], 0);
        let fits = self.offset + RECORD_BYTES as u64 <= self.len;
        if fits && self.progress.borrow().broken.is_none() {
            // Without it a damaged last record looks unfinished; with it, damaged.
            let _ = self.segment.file.write_all_at(&head, self.offset);
        }
    }

    /// Grows the file before anything is written, so that a full disk is noticed in time.
    fn make_room(&mut self, bytes: u64) -> io::Result<()> {
        let need = self.offset + bytes + RECORD_BYTES as u64;
        if need <= self.len || bytes >= GROWN_RECORD_BYTES_MAX {
            return Ok(());
        }
        let growth = (need - self.len).next_multiple_of(GROWTH_BYTES);
        let file = &self.segment.file;
        let grown = zero(file, self.len, growth)
            .and_then(|()| self.options.sync(&self.segment, File::sync_all));
        if let Err(why) = grown {
            // What is left over is zeros; it will be grown over later.
            let _ = file.set_len(self.len);
            return Err(why);
        }
        self.len += growth;
        Ok(())
    }

    fn complaint(&self, why: &io::Error) -> String {
        let path = self.segment.path.display();
        let is_full =
            matches!(why.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        let help = match is_full {
            true => "free some room and start again; what was acknowledged is safe",
            false => "the disk failed under the journal: stop, check it, start again",
        };
        format!("{path}: {why}; {help}")
    }

    /// The ledger is ahead of the disk now, so nobody may go on with it: all sessions end, and
    /// whatever is asked is refused.
    fn break_down(&mut self, sequence: u64, refused: Refused) {
        tracing::error!("the journal of the queues cannot be written: {refused}");
        self.progress.send_modify(|progress| progress.broken = Some((sequence, refused)));
        let mut state = self.core.lock();
        let sessions: Vec<SessionId> = state.ledger.sessions.keys().copied().collect();
        let mut wakes = Wakes::default();
        sessions.iter().for_each(|id| state.ledger.close(*id, &mut wakes));
        wakes.lost = sessions;
        state.ring(wakes);
    }
}

/// Writes all of it at `offset`, large pieces from where they are.
pub(crate) fn write_all(
    mut file: &File,
    offset: u64,
    heads: &[&[u8]],
    bodies: &[Bytes],
) -> io::Result<()> {
    // Operating systems take about a thousand pieces at once.
    const PIECES_MAX: usize = 512;
    file.seek(SeekFrom::Start(offset))?;
    let pieces = heads.iter().copied().chain(bodies.iter().map(Bytes::as_ref));
    let pieces: Vec<&[u8]> = pieces.filter(|piece| !piece.is_empty()).collect();
    for some in pieces.chunks(PIECES_MAX) {
        let mut slices: Vec<_> = some.iter().map(|piece| IoSlice::new(piece)).collect();
        let mut left = slices.as_mut_slice();
        while !left.is_empty() {
            match file.write_vectored(left) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => IoSlice::advance_slices(&mut left, n),
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(why) => return Err(why),
            }
        }
    }
    Ok(())
}

/// Writes zeros.
pub(crate) fn zero(file: &File, from: u64, bytes: u64) -> io::Result<()> {
    let zeros = vec![0; bytes.min(1 << 20) as usize];
    let mut left = bytes;
    while left > 0 {
        let now = left.min(zeros.len() as u64);
        file.write_all_at(&zeros[..now as usize], from + bytes - left)?;
        left -= now;
    }
    Ok(())
}

/// A new segment of this content, whole: it gets its name only when all of it is on the disk.
pub(crate) fn create(
    dir: &Path,
    number: u64,
    salt: u64,
    heads: &[&[u8]],
    bodies: &[Bytes],
) -> io::Result<Segment> {
    let (path, unfinished) = (segment_path(dir, number), dir.join("queue.unfinished"));
    let make = || {
        let file =
            File::options().read(true).write(true).create(true).truncate(true).open(&unfinished)?;
        write_all(&file, 0, heads, bodies)?;
        file.sync_all()?;
        std::fs::rename(&unfinished, &path)?;
        File::open(dir)?.sync_all()?;
        Ok(file)
    };
    let made: io::Result<File> = make();
    if made.is_err() {
        // Whatever is left of it is in the way of nothing.
        let _ = std::fs::remove_file(&unfinished);
    }
    Ok(Segment::new(number, path, made?, salt))
}

/// What cannot be done in a directory.
pub(crate) fn unusable(dir: &Path, why: &io::Error) -> OpenError {
    OpenError::NotConfigured(format!("{}: {why}", dir.display()))
}
