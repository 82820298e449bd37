//! The log as a server remembers it: entries as bytes, and a replica every so often.
//!
//! Any past cluster is then a kept replica and the few entries behind it. Entries are counted from
//! the first that was ever read here (`seq`), since positions may have gaps. Nothing is copied for a
//! reader: pieces of the log are shared, replicas share their trees, so a [`Window`] is taken under a
//! lock in no time and played without one.
//!
//! Three limits bound the memory. Reaching the first two makes jumps longer (every second replica
//! goes), reaching the third makes the past shorter (the oldest entries go, and asking for them says
//! so). A log that is trimmed keeps its past here until then.

mod piece;
mod window;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use sardonyx_core::{Command, Entry, JobId, Outcome, Position, Replica, wire};

use self::piece::Piece;
pub(crate) use self::window::{Played, Window};

/// How many replicas are kept.
pub const KEPT_MAX: usize = 512;

/// How many MiB the past may take if nobody says otherwise: 160 of replicas and 192 of entries.
pub const PAST_MIB: u32 = 352;

/// After how many entries the first replicas are kept; doubled whenever there are too many.
const SPACING: u64 = 256;

/// The longest reason for which a job was killed that is remembered here; the log has all of it.
const REASON_BYTES_MAX: usize = 4 << 10;

/// What a timeline may hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Limits {
    /// Replicas.
    pub(crate) kept: usize,
    /// Bytes of them, each counted as if it shared nothing; two are kept in any case.
    pub(crate) kept_bytes: usize,
    /// Bytes of entries.
    pub(crate) entries_bytes: usize,
}

impl Limits {
    /// Five of eleven parts are for replicas, the others for entries.
    pub(crate) fn of_mib(mib: u32) -> Limits {
        let part = (mib as usize).saturating_mul(1 << 20) / 11;
        Limits { kept: KEPT_MAX, kept_bytes: 5 * part, entries_bytes: 6 * part }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits::of_mib(PAST_MIB)
    }
}

/// The cluster after so many entries.
#[derive(Clone, Debug)]
struct Kept {
    seq: u64,
    position: Option<Position>,
    replica: Replica,
    bytes: usize,
}

/// What is remembered of a job beside its replica.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct JobNote {
    /// Where it was submitted, if that was read here.
    pub(crate) submitted: Option<Position>,
    /// Why it was killed, if that was read here.
    pub(crate) reason: Option<String>,
}

/// Why a past cluster cannot be shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Gone {
    /// The first position that can.
    pub(crate) first: Position,
}

/// The log so far.
#[derive(Debug)]
pub(crate) struct Timeline {
    limits: Limits,
    /// How many entries were played, those included that are no longer kept.
    seq: u64,
    position: Option<Position>,
    head: Replica,
    /// By age; the first is where the remembered past begins.
    kept: VecDeque<Kept>,
    kept_bytes: usize,
    spacing: u64,
    pieces: VecDeque<Arc<Piece>>,
    entries_bytes: usize,
    notes: BTreeMap<JobId, JobNote>,
}

impl Timeline {
    pub(crate) fn new(limits: Limits) -> Timeline {
        let mut timeline = Timeline {
            limits,
            seq: 0,
            position: None,
            head: Replica::new(),
            kept: VecDeque::new(),
            kept_bytes: 0,
            spacing: SPACING,
            pieces: VecDeque::new(),
            entries_bytes: 0,
            notes: BTreeMap::new(),
        };
        timeline.keep();
        timeline
    }

    /// The cluster now.
    pub(crate) fn head(&self) -> (Option<Position>, &Replica) {
        (self.position, &self.head)
    }

    /// How many entries were played.
    pub(crate) fn seq(&self) -> u64 {
        self.seq
    }

    /// The number of the oldest entry that is kept, and the position behind which it stands; `None`:
    /// it is the very first.
    pub(crate) fn floor(&self) -> (u64, Option<Position>) {
        self.kept.front().map_or((self.seq, self.position), |it| (it.seq, it.position))
    }

    /// What is known of a job beside its replica.
    pub(crate) fn note(&self, job: &JobId) -> JobNote {
        self.notes.get(job).cloned().unwrap_or_default()
    }

    /// The bytes that are held, replicas counted as if they shared nothing.
    pub(crate) fn bytes(&self) -> usize {
        self.kept_bytes + self.entries_bytes
    }

    /// How many replicas are kept.
    pub(crate) fn n_kept(&self) -> usize {
        self.kept.len()
    }

    /// The log goes on from here; what was before can no longer be told.
    pub(crate) fn restart(&mut self, position: Position, replica: Replica) {
        self.pieces.clear();
        self.kept.clear();
        (self.kept_bytes, self.entries_bytes, self.spacing) = (0, 0, SPACING);
        (self.position, self.head) = (Some(position), replica);
        self.forget_notes();
        self.keep();
    }

    /// Plays the next entry; `None` is one that this build cannot read.
    pub(crate) fn push(&mut self, position: Position, command: Option<Command>) {
        let bytes = command.as_ref().and_then(|command| wire::command_to_bytes(command).ok());
        self.store(position, bytes.as_deref().unwrap_or_default());
        if let Some(command) = command {
            let entry = Entry { position, command };
            let outcome = self.head.play(&entry);
            self.take_note(&entry, &outcome);
        }
        self.position = Some(position);
        self.seq += 1;
        let last_kept = self.kept.back().map_or(0, |kept| kept.seq);
        if self.seq - last_kept >= self.spacing {
            self.keep();
        }
        self.shrink();
    }

    fn store(&mut self, position: Position, bytes: &[u8]) {
        self.entries_bytes += piece::cost(bytes);
        if let Some(last) = self.pieces.back_mut().filter(|piece| !piece.is_full()) {
            return Arc::make_mut(last).push(position, bytes);
        }
        // A full one is never written again: give back what it did not need.
        if let Some(full) = self.pieces.back_mut() {
            Arc::make_mut(full).seal();
        }
        let mut piece = Piece::new(self.seq);
        piece.push(position, bytes);
        self.pieces.push_back(Arc::new(piece));
    }

    fn take_note(&mut self, entry: &Entry, outcome: &Outcome) {
        if outcome.is_err() {
            return;
        }
        if let Command::SubmitJob(submit) = &entry.command {
            let note = JobNote { submitted: Some(entry.position), reason: None };
            self.notes.insert(submit.id.clone(), note);
        }
        if let Command::KillJob(kill) = &entry.command {
            let note = self.notes.entry(kill.job.clone()).or_default();
            note.reason = Some(cut(&kill.reason, REASON_BYTES_MAX).to_owned());
        }
        if matches!(entry.command, Command::Gc(_)) {
            self.forget_notes();
        }
    }

    fn forget_notes(&mut self) {
        let head = &self.head;
        self.notes.retain(|job, _| head.job(job).is_some() || head.outcome(job).is_some());
    }

    fn keep(&mut self) {
        let bytes = self.head.bytes();
        let (seq, position, replica) = (self.seq, self.position, self.head.clone());
        self.kept_bytes += bytes;
        self.kept.push_back(Kept { seq, position, replica, bytes });
    }

    fn shrink(&mut self) {
        let is_crowded =
            |it: &Timeline| it.kept.len() > it.limits.kept || it.kept_bytes > it.limits.kept_bytes;
        while is_crowded(self) && self.kept.len() > 2 {
            self.thin();
        }
        while self.entries_bytes > self.limits.entries_bytes && self.pieces.len() > 1 {
            self.forget_oldest();
        }
    }

    /// Every second replica goes; the first stays, for the past begins there.
    fn thin(&mut self) {
        let mut number = 0;
        self.kept.retain(|_| {
            number += 1;
            number % 2 == 1
        });
        self.kept_bytes = self.kept.iter().map(|kept| kept.bytes).sum();
        self.spacing = self.spacing.saturating_mul(2);
    }

    /// The past begins at the next kept replica.
    fn forget_oldest(&mut self) {
        if self.kept.len() < 2 {
            self.keep();
        }
        if let Some(oldest) = self.kept.pop_front() {
            self.kept_bytes -= oldest.bytes;
        }
        let (floor, _) = self.floor();
        while let Some(piece) = self.pieces.front().filter(|piece| piece.end() <= floor) {
            self.entries_bytes -= piece.cost();
            self.pieces.pop_front();
        }
    }

    /// How many entries stand at or before `position`.
    pub(crate) fn seq_after(&self, position: Position) -> u64 {
        let at = self.pieces.partition_point(|piece| piece.last() <= Some(position));
        match self.pieces.get(at) {
            Some(piece) => piece.seq_after(position),
            None => self.seq,
        }
    }

    /// The entry whose number is `seq`; `None` if it is not kept, or cannot be read.
    pub(crate) fn entry(&self, seq: u64) -> Option<Entry> {
        let at = self.pieces.partition_point(|piece| piece.end() <= seq);
        self.pieces.get(at)?.entry(seq)?.1
    }

    /// What is needed to tell the cluster after the last entry at or before `position`.
    pub(crate) fn at(&self, position: Position) -> Result<Window, Gone> {
        let (_, floor) = self.floor();
        if let Some(first) = floor.filter(|floor| position < *floor) {
            return Err(Gone { first });
        }
        let seq = self.seq_after(position);
        Ok(self.window(seq, seq))
    }

    /// What is needed to tell what happened from entry `from` up to before entry `to`, and the
    /// cluster at any place between. What is not kept is left out.
    pub(crate) fn window(&self, from: u64, to: u64) -> Window {
        let (floor, _) = self.floor();
        let from = from.clamp(floor, self.seq);
        let to = to.clamp(from, self.seq);
        let kept = self.kept.partition_point(|kept| kept.seq <= from);
        let Some(start) = kept.checked_sub(1).and_then(|at| self.kept.get(at)) else {
            return Window::new(self.head.clone(), self.position, self.seq, Vec::new(), to..to);
        };
        let first = self.pieces.partition_point(|piece| piece.end() <= start.seq);
        let pieces = self.pieces.range(first..);
        let pieces = pieces.take_while(|piece| piece.first() < to).cloned().collect();
        Window::new(start.replica.clone(), start.position, start.seq, pieces, from..to)
    }
}

/// A text that is not longer than so many bytes.
fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

#[cfg(test)]
mod tests;
