//! What a commit did, and doing it again from a journal.

use bytes::Bytes;

use super::{Lane, Ledger, Message};
use crate::{
    message::{MessageId, QueueName},
    session::Place,
    transaction::Key,
};

/// A message that left its queue.
#[derive(Clone, Debug)]
pub(crate) struct Acked<B> {
    pub(crate) queue: QueueName,
    pub(crate) lane: Lane,
    pub(crate) id: MessageId,
    pub(crate) body: B,
}

/// A message that entered a queue.
#[derive(Clone, Debug)]
pub(crate) struct Sent<B> {
    pub(crate) queue: QueueName,
    pub(crate) lane: Lane,
    pub(crate) id: MessageId,
    pub(crate) bytes: u64,
    pub(crate) body: B,
}

/// What a commit did.
#[derive(Debug)]
pub(crate) struct Committed<B> {
    pub(crate) place: Place,
    pub(crate) acks: Vec<Acked<B>>,
    pub(crate) sends: Vec<Sent<B>>,
    pub(crate) puts: Vec<(Key, Option<Bytes>)>,
}

/// No number grows this far in the life of a queue: what does is damage, and would run over.
const NUMBER_MAX: u64 = u64::MAX / 2;

impl<B: Clone> Ledger<B> {
    /// Takes a message out that is ready. Nothing is in flight while a journal is played.
    pub(crate) fn replay_ack(&mut self, name: &QueueName, lane: Lane, id: MessageId) -> Option<B> {
        let queue = self.queues.get_mut(name)?;
        let message = queue.pull(lane, id)?;
        queue.n_acked += 1;
        queue.bytes -= message.bytes;
        Some(message.body)
    }

    /// Puts a message in, under the number that it got; `false` if the number has been used.
    pub(crate) fn replay_send(&mut self, sent: Sent<B>, attempt: u32) -> bool {
        let queue = self.queues.entry(sent.queue).or_default();
        if sent.id.0 < queue.next || sent.id.0 > NUMBER_MAX {
            return false;
        }
        queue.next = sent.id.0 + 1;
        queue.n_enqueued += 1;
        queue.bytes += sent.bytes;
        let message = Message { attempt, stamp: 0, bytes: sent.bytes, body: sent.body };
        queue.put(sent.lane, sent.id, message);
        true
    }

    /// Counts a delivery.
    pub(crate) fn replay_delivery(&mut self, name: &QueueName, lane: Lane, id: MessageId) {
        let queue = self.queues.get_mut(name);
        let lane = queue.and_then(|queue| queue.ready.get_mut(&lane));
        if let Some(message) = lane.and_then(|lane| lane.get_mut(&id)) {
            message.attempt = message.attempt.saturating_add(1);
        }
    }

    /// What a snapshot says of a queue whose messages have been put in.
    /// `false` if it cannot be so.
    pub(crate) fn replay_counts(&mut self, name: QueueName, n_acked: u64, next: u64) -> bool {
        if n_acked > NUMBER_MAX || next > NUMBER_MAX {
            return false;
        }
        let queue = self.queues.entry(name).or_default();
        queue.n_acked = n_acked;
        queue.n_enqueued = n_acked + queue.n_ready;
        queue.next = queue.next.max(next);
        true
    }

    /// Writes keys.
    pub(crate) fn replay_puts(&mut self, place: &Place, puts: &[(Key, Option<Bytes>)]) {
        self.put_keys(place, puts);
    }
}
