//! The writer: one thread that makes requests durable, a group at a time.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use tokio::sync::mpsc;

use super::{
    format::{self, FrameWriter},
    queue::{Asker, GROUP_BYTES_MAX, Group, Queue},
    segments::{Resume, Segment, segment_path},
};
use crate::{
    engine::{Op, Outcome, State},
    error::{Error, Result},
    local::Shared,
    token::lock,
};

/// A segment is closed once it is this large.
const SEGMENT_BYTES: u64 = 64 << 20;

/// After a trim a segment is closed once it is this large, so that it can soon be deleted.
const TRIMMED_SEGMENT_BYTES: u64 = 4 << 20;

/// The file grows by this much at a time, in zeros: writing over them later needs no change to the
/// file's metadata, which makes a sync about twice as fast.
pub(crate) const GROWTH_BYTES: u64 = 4 << 20;

/// The longest wait for a full group.
const PATIENCE_MAX: Duration = Duration::from_millis(1);

/// Answers on their way to whoever hands them out.
pub(crate) type Answers = mpsc::UnboundedSender<Vec<(Asker, Outcome)>>;

/// The segments that there are, oldest first; the last one is written to.
pub(crate) type Segments = Arc<Mutex<Vec<Arc<Segment>>>>;

/// What the writer knows.
#[derive(Debug)]
pub(crate) struct Journal {
    dir: PathBuf,
    shared: Arc<Shared>,
    segments: Segments,
    segment: Arc<Segment>,
    offset: u64,
    len: u64,
    sequence: u64,
    /// Set once the disk failed in a way after which nothing on it can be trusted.
    broken: Option<Error>,
}

impl Journal {
    pub(crate) fn new(
        dir: &Path,
        shared: Arc<Shared>,
        segments: Segments,
        resume: Resume,
    ) -> Result<Journal> {
        let segment = lock(&segments).last().cloned();
        let segment = segment.ok_or_else(|| Error::Corrupt("a journal without segments".into()))?;
        let file = &segment.file;
        let len = file.metadata().map_err(|why| disk(dir, &why))?.len();
        let mut journal = Journal {
            dir: dir.to_owned(),
            shared,
            segments,
            segment: Arc::clone(&segment),
            offset: resume.end,
            len,
            sequence: resume.sequence,
            broken: None,
        };
        journal.write_zeros(resume.end, resume.torn_bytes).map_err(|why| disk(dir, &why))?;
        // What the last process wrote may not have been synced when it was killed, and has been
        // played: from here on it counts as acknowledged.
        segment.file.sync_all().map_err(|why| disk(dir, &why))?;
        Ok(journal)
    }

    /// Serves requests until nobody can make one any more.
    pub(crate) fn run(mut self, queue: &Queue, answers: &Answers) {
        let mut spare = Group::default();
        let (mut last, mut patience) = (1, Duration::ZERO);
        while let Some(mut group) = queue.take(spare, last, patience) {
            last = group.ops.len();
            patience = (self.commit(&mut group, answers) / 2).min(PATIENCE_MAX);
            if queue.is_empty() {
                self.seal();
            }
            group.frame.clear(GROUP_BYTES_MAX);
            spare = group;
        }
    }

    /// Makes a group durable, applies it and answers; says how long the disk took. Leaves nothing
    /// of the group but its frame.
    fn commit(&mut self, group: &mut Group, answers: &Answers) -> Duration {
        let begun = Instant::now();
        let has_entries = group.ops.iter().any(|op| matches!(op, Op::Append(_)));
        let written = match &self.broken {
            Some(why) => Err(why.clone()),
            None => self.write(&mut group.frame, has_entries),
        };
        let took = begun.elapsed();
        if let Err(why) = written {
            group.ops.clear();
            // Whoever no longer waits does not want to know.
            group.askers.drain(..).for_each(|asker| drop(asker.send(Err(why.clone()))));
            return took;
        }
        let is_trim = group.ops.iter().any(|op| matches!(op, Op::Trim(_)));
        let outcomes = self.shared.apply(group.ops.drain(..));
        let answered = group.askers.drain(..).zip(outcomes).collect();
        // It fails when the runtime has ended, and all who waited with it.
        let _ = answers.send(answered);
        if is_trim {
            self.drop_trimmed();
        }
        let full = if is_trim { TRIMMED_SEGMENT_BYTES } else { SEGMENT_BYTES };
        if self.offset >= full && self.roll().is_err() {
            // No room for a new segment; this one goes on growing until there is.
            self.len = self.len.max(self.offset);
        }
        took
    }

    fn write(&mut self, frame: &mut FrameWriter, has_entries: bool) -> Result<()> {
        let before = self.shared.bounds().1;
        let bytes = frame.finish(self.sequence);
        self.make_room(bytes.len() as u64)?;
        let file = &self.segment.file;
        if let Err(why) = file.write_all_at(bytes, self.offset).and_then(|()| file.sync_data()) {
            // After a failed sync the kernel may have thrown the pages away: trying again could
            // report success for bytes that are not on the disk.
            let error = Error::Corrupt(format!(
                "{}: {why}; the disk failed under the journal: stop, check it, start again",
                self.segment.path.display()
            ));
            self.broken = Some(error.clone());
            return Err(error);
        }
        if has_entries {
            self.segment.note(before, self.offset);
        }
        self.offset += bytes.len() as u64;
        self.sequence += 1;
        Ok(())
    }

    /// Puts an empty frame behind the last one, not synced and written over by the next: it says
    /// that the last one had reached the disk.
    fn seal(&mut self) {
        let mut seal = FrameWriter::default();
        let seal = seal.finish(self.sequence);
        if self.broken.is_none() && self.offset + seal.len() as u64 <= self.len {
            // Without it a damaged last frame looks unfinished; with it, damaged.
            let _ = self.segment.file.write_all_at(seal, self.offset);
        }
    }

    /// Grows the file before anything is written, so that a full disk is noticed in time.
    fn make_room(&mut self, bytes: u64) -> Result<()> {
        let need = self.offset + bytes + format::FRAME_BYTES as u64;
        if need <= self.len {
            return Ok(());
        }
        let growth = (need - self.len).next_multiple_of(GROWTH_BYTES);
        let grown = self.write_zeros(self.len, growth).and_then(|()| self.segment.file.sync_all());
        match grown {
            Ok(()) => {
                self.len += growth;
                Ok(())
            }
            Err(why) => {
                // What is left over is zeros; it will be grown over later.
                let _ = self.segment.file.set_len(self.len);
                Err(disk(&self.dir, &why))
            }
        }
    }

    fn write_zeros(&mut self, from: u64, bytes: u64) -> io::Result<()> {
        zero(&self.segment.file, from, bytes)
    }

    /// Begins a new segment with a snapshot, so that older ones are needed for their entries only.
    fn roll(&mut self) -> Result<()> {
        let state = self.shared.with(State::clone);
        let number = self.segment.number + 1;
        let made = create(&self.dir, number, self.sequence, state)?;
        self.segment = Arc::new(made.segment);
        (self.offset, self.len) = (made.offset, made.len);
        self.sequence += 1;
        lock(&self.segments).push(Arc::clone(&self.segment));
        Ok(())
    }

    /// Deletes the segments whose entries are all trimmed. Readers that still have one open keep
    /// it until they are done.
    fn drop_trimmed(&self) {
        let first = self.shared.bounds().0;
        let mut segments = lock(&self.segments);
        while segments.get(1).is_some_and(|second| second.first <= first) {
            let trimmed = segments.remove(0);
            // If it cannot be deleted it is in the way of nothing.
            let _ = std::fs::remove_file(&trimmed.path);
        }
    }
}

/// A new segment, ready to be written to.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) segment: Segment,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// Creates a segment that begins with a snapshot of `state`. It gets its name only when all of it
/// is on the disk, so a segment that has one is whole.
pub(crate) fn create(dir: &Path, number: u64, sequence: u64, state: State) -> Result<Made> {
    let first = state.next;
    let mut frame = FrameWriter::default();
    let snapshot = Op::Snapshot(Box::new(state));
    frame.push(&snapshot).map_err(|why| Error::Corrupt(format!("unwritable snapshot: {why}")))?;
    let mut bytes = format::header(number).to_vec();
    bytes.extend(frame.finish(sequence));
    let offset = bytes.len() as u64;
    let len = offset.next_multiple_of(GROWTH_BYTES);
    let (path, unfinished) = (segment_path(dir, number), dir.join("unfinished"));
    let make = || {
        let file =
            File::options().read(true).write(true).create(true).truncate(true).open(&unfinished)?;
        file.write_all_at(&bytes, 0)?;
        zero(&file, offset, len - offset)?;
        file.sync_all()?;
        std::fs::rename(&unfinished, &path)?;
        File::open(dir)?.sync_all()?;
        Ok(file)
    };
    let file = make().map_err(|why| {
        // Whatever is left of it is in the way of nothing.
        let _ = std::fs::remove_file(&unfinished);
        disk(dir, &why)
    })?;
    Ok(Made { segment: Segment::new(number, path, file, first), offset, len })
}

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

fn disk(dir: &Path, why: &io::Error) -> Error {
    let dir = dir.display();
    if matches!(why.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
        return Error::Unavailable(format!(
            "no room is left on the disk of {dir}: free some; what was acknowledged is safe"
        ));
    }
    Error::NotConfigured(format!("{dir}: {why}"))
}
