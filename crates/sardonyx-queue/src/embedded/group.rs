//! The next record, filled by those who commit while the writer waits for the disk.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};

use super::{
    format::{Blob, Event, Mark},
    segment::Kept,
};
use crate::{
    ledger::{Acked, Committed, Given, Sent, Wakes},
    local::Happened,
};

/// Smaller bodies are copied together; larger ones are written from where they are.
const COPIED_BYTES_MAX: usize = 16 << 10;

/// Bodies on their way to the disk, in order.
#[derive(Debug, Default)]
pub(crate) struct Bodies {
    chunks: Vec<Bytes>,
    tail: BytesMut,
    pub(crate) len: u64,
}

impl Bodies {
    pub(crate) fn push(&mut self, bytes: &Bytes) {
        self.len += bytes.len() as u64;
        if bytes.len() <= COPIED_BYTES_MAX {
            self.tail.extend_from_slice(bytes);
            return;
        }
        self.cut();
        self.chunks.push(bytes.clone());
    }

    fn cut(&mut self) {
        if !self.tail.is_empty() {
            self.chunks.push(self.tail.split().freeze());
        }
    }

    pub(crate) fn finish(&mut self) -> &[Bytes] {
        self.cut();
        &self.chunks
    }
}

/// What becomes one record.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) sequence: u64,
    pub(crate) meta: Vec<u8>,
    pub(crate) bodies: Bodies,
    /// Messages that it brings, each with its distance from the beginning of the bodies.
    pub(crate) sent: Vec<(Arc<Kept>, u64)>,
    /// Messages whose bytes nobody needs once it is on the disk.
    pub(crate) dropped: Vec<Arc<Kept>>,
    /// Who is to be told then.
    pub(crate) wakes: Wakes,
    /// How many happenings somebody waits for. Without any, it need not be synced.
    pub(crate) n_hard: usize,
    /// Why it cannot be written.
    pub(crate) fault: Option<String>,
}

impl Group {
    fn is_empty(&self) -> bool {
        self.meta.is_empty() && self.fault.is_none()
    }

    fn push(&mut self, event: &Event) {
        let meta = std::mem::take(&mut self.meta);
        match postcard::to_extend(event, meta) {
            Ok(meta) => self.meta = meta,
            Err(why) => self.fault = Some(format!("what happened cannot be written: {why}")),
        }
    }

    fn commit(&mut self, committed: Committed<Arc<Kept>>) {
        let Committed { place, acks, sends, puts } = committed;
        let ack = |Acked { queue, lane, id, body }: Acked<Arc<Kept>>| {
            self.dropped.push(body);
            (queue, lane, id)
        };
        let acks: Vec<Mark> = acks.into_iter().map(ack).collect();
        let mut marked = Vec::with_capacity(sends.len());
        for Sent { queue, lane, id, body, .. } in sends {
            marked.push(((queue, lane, id), body.kind, body.blob));
            // What was sent a moment ago is in memory.
            let bytes = body.cached().unwrap_or_default();
            self.sent.push((body, self.bodies.len));
            self.bodies.push(&bytes);
        }
        let mut blobs = Vec::with_capacity(puts.len());
        for (key, value) in puts {
            if let Some(value) = &value {
                self.bodies.push(value);
            }
            blobs.push((key, value.as_deref().map(Blob::of)));
        }
        self.push(&Event::Commit { place, acks, sends: marked, puts: blobs });
    }

    fn add(&mut self, happened: Happened<'_, Arc<Kept>>) {
        match happened {
            Happened::Committed(committed) => self.commit(committed),
            Happened::Delivered(given) => {
                let mark = |it: &Given<Arc<Kept>>| (it.queue.clone(), it.lane, it.id);
                self.push(&Event::Delivered(given.iter().map(mark).collect()));
                return;
            }
            Happened::Announced(place, roster) => {
                self.push(&Event::Announced(place.clone(), roster.clone()));
            }
            Happened::Forgotten(job, bodies) => {
                self.dropped.extend(bodies);
                self.push(&Event::Forgotten(job.to_owned()));
            }
        }
        self.n_hard += 1;
    }
}

#[derive(Debug, Default)]
struct Next {
    group: Group,
    /// The sequence of the newest group that somebody waits for.
    hard: u64,
    is_closed: bool,
    /// The writer sleeps until this many wait; 0 while it is awake.
    ring_at: usize,
}

/// The next group, and a bell for the writer.
#[derive(Debug)]
pub(crate) struct Groups {
    next: Mutex<Next>,
    bell: Condvar,
}

impl Groups {
    /// The first group will have this sequence.
    pub(crate) fn new(sequence: u64) -> Groups {
        let group = Group { sequence, ..Group::default() };
        Groups { next: Mutex::new(Next { group, ..Next::default() }), bell: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Next> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn sequence(&self) -> u64 {
        self.lock().group.sequence
    }

    /// The newest group with something that is waited for.
    pub(crate) fn hard(&self) -> u64 {
        self.lock().hard
    }

    /// Adds what happened; says with which group it will be settled.
    pub(crate) fn add(&self, happened: Happened<'_, Arc<Kept>>, wakes: Wakes) -> u64 {
        let mut next = self.lock();
        next.group.add(happened);
        next.group.wakes.merge(wakes);
        let sequence = next.group.sequence;
        let n_hard = next.group.n_hard;
        if n_hard > 0 {
            next.hard = sequence;
        }
        if next.ring_at > 0 && (n_hard >= next.ring_at || next.ring_at == 1) {
            next.ring_at = 0;
            // Unlocked first: whoever wakes up wants the lock.
            drop(next);
            self.bell.notify_one();
        }
        sequence
    }

    /// The group as it is now, possibly empty.
    pub(crate) fn swap(&self) -> Group {
        let mut next = self.lock();
        let sequence = next.group.sequence + 1;
        std::mem::replace(&mut next.group, Group { sequence, ..Group::default() })
    }

    /// Waits for something to write; `false` once all is closed and written.
    ///
    /// Those who were answered a moment ago are about to ask again: up to `patience` is spent waiting
    /// for `wanted` of them, which makes one full group out of two half ones.
    pub(crate) fn wait(&self, wanted: usize, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        let mut next = self.lock();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let is_some = !next.group.is_empty();
            if is_some && (next.group.n_hard >= wanted || left.is_zero() || next.is_closed) {
                next.ring_at = 0;
                return true;
            }
            if next.is_closed {
                return false;
            }
            next = if left.is_zero() {
                next.ring_at = 1;
                self.bell.wait(next).unwrap_or_else(PoisonError::into_inner)
            } else {
                next.ring_at = wanted.max(1);
                let waited = self.bell.wait_timeout(next, left);
                waited.unwrap_or_else(PoisonError::into_inner).0
            };
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().group.is_empty()
    }

    /// Nothing more comes; what is there is written.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.bell.notify_one();
    }
}
