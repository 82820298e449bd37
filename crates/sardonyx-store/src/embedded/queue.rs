//! Between those who ask and the writer: the next group, filled by the former while the latter
//! waits for the disk.
//!
//! What costs is not the bytes but waking each other up, so that happens once per group: those who
//! ask write their records into the frame themselves and ring only for the request that completes
//! the group; the writer hands all answers to one task, which wakes the askers from inside the
//! runtime.

use std::{
    sync::{Condvar, Mutex},
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::sync::{Notify, mpsc, oneshot};

use super::format::FrameWriter;
use crate::{
    engine::{Op, Outcome},
    error::{Error, Result},
    token::lock,
};

/// Once it has this many bytes a group takes no more requests.
pub(super) const GROUP_BYTES_MAX: usize = 4 << 20;

/// How many requests may go into one group.
const GROUP_OPS_MAX: usize = 1024;

/// Who waits for the outcome of a request.
pub(super) type Asker = oneshot::Sender<Result<Outcome>>;

/// Requests that are made durable together.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) frame: FrameWriter,
    /// In the order of the frame. The bytes of entries are in the frame and no longer here.
    pub(super) ops: Vec<Op>,
    pub(super) askers: Vec<Asker>,
}

impl Group {
    fn is_full(&self) -> bool {
        self.ops.len() >= GROUP_OPS_MAX || self.frame.len() >= GROUP_BYTES_MAX
    }

    fn push(&mut self, op: Op) -> Result<oneshot::Receiver<Result<Outcome>>> {
        self.frame.push(&op).map_err(|why| Error::Corrupt(format!("unwritable request: {why}")))?;
        self.ops.push(if matches!(op, Op::Append(_)) { Op::Append(Bytes::new()) } else { op });
        let (asker, outcome) = oneshot::channel();
        self.askers.push(asker);
        Ok(outcome)
    }
}

#[derive(Debug, Default)]
struct Next {
    group: Group,
    /// The writer sleeps until the group has this many requests; 0 while it is awake.
    ring_at: usize,
    is_closed: bool,
}

/// The next group, and bells for both sides.
#[derive(Debug, Default)]
pub(super) struct Queue {
    next: Mutex<Next>,
    /// For the writer: there is something to do.
    bell: Condvar,
    /// For those who ask: the group that was full has been taken.
    room: Notify,
}

impl Queue {
    /// Puts `op` into the next group and waits for what becomes of it.
    pub(super) async fn submit(&self, op: Op) -> Result<Outcome> {
        let stopped = || Error::Unavailable("the store's writer has stopped".into());
        let outcome = loop {
            let room = self.room.notified();
            {
                let mut next = lock(&self.next);
                if next.is_closed {
                    return Err(stopped());
                }
                if !next.group.is_full() {
                    let outcome = next.group.push(op)?;
                    let is_awaited = next.ring_at > 0
                        && (next.group.ops.len() >= next.ring_at || next.group.is_full());
                    if is_awaited {
                        next.ring_at = 0;
                        // Unlocked first: whoever wakes up wants the lock.
                        drop(next);
                        self.bell.notify_one();
                    }
                    break outcome;
                }
            }
            room.await;
        };
        outcome.await.map_err(|_| stopped())?
    }

    /// The next group, in exchange for `empty`; `None` once the queue is closed and empty.
    ///
    /// Those who were answered a moment ago are about to ask again: up to `patience` is spent
    /// waiting for `wanted` of them, which makes one full group out of two half ones.
    pub(super) fn take(&self, empty: Group, wanted: usize, patience: Duration) -> Option<Group> {
        let until = Instant::now() + patience;
        let mut next = lock(&self.next);
        loop {
            let n = next.group.ops.len();
            let left = until.saturating_duration_since(Instant::now());
            if n > 0 && (n >= wanted || left.is_zero() || next.is_closed || next.group.is_full()) {
                next.ring_at = 0;
                let group = std::mem::replace(&mut next.group, empty);
                drop(next);
                self.room.notify_waiters();
                return Some(group);
            }
            if next.is_closed {
                return None;
            }
            next = if left.is_zero() {
                next.ring_at = 1;
                self.bell.wait(next).unwrap_or_else(std::sync::PoisonError::into_inner)
            } else {
                next.ring_at = wanted.max(1);
                let waited = self.bell.wait_timeout(next, left);
                waited.unwrap_or_else(std::sync::PoisonError::into_inner).0
            };
        }
    }

    /// Whether nobody asks for anything.
    pub(super) fn is_empty(&self) -> bool {
        lock(&self.next).group.ops.is_empty()
    }

    /// No more requests; those that are there are served.
    pub(super) fn close(&self) {
        lock(&self.next).is_closed = true;
        self.bell.notify_one();
        self.room.notify_waiters();
    }
}

/// Hands out answers, a group at a time. To wake a task from a thread of our own costs about a
/// microsecond each, from a task of the runtime much less.
pub(super) async fn hand_out(mut answers: mpsc::UnboundedReceiver<Vec<(Asker, Outcome)>>) {
    while let Some(group) = answers.recv().await {
        for (asker, outcome) in group {
            // Whoever no longer waits does not want to know.
            drop(asker.send(Ok(outcome)));
        }
    }
}
