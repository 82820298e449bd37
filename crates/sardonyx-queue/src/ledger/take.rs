//! Receiving: fairly from all that is for a session, in order within each lane.

use super::{Flight, Lane, Ledger, SessionId};
use crate::{
    limits::RECEIVE_BYTES_MAX,
    message::{MessageId, QueueName, Receipt},
    session::Place,
    transaction::Refused,
};

/// A message given to a session.
#[derive(Clone, Debug)]
pub(crate) struct Given<B> {
    pub(crate) receipt: Receipt,
    pub(crate) queue: QueueName,
    pub(crate) lane: Lane,
    pub(crate) id: MessageId,
    pub(crate) attempt: u32,
    pub(crate) body: B,
}

impl<B: Clone> Ledger<B> {
    /// Up to `max` messages, or fewer if they are large; lanes take turns, beginning behind the one
    /// that was last served.
    pub(crate) fn receive(&mut self, id: SessionId, max: usize) -> Result<Vec<Given<B>>, Refused> {
        let mut lanes = self.lanes(id)?;
        let session = self.sessions.get_mut(&id).ok_or(Refused::Lost)?;
        if let Some(cursor) = &session.cursor {
            let behind = lanes.partition_point(|lane| lane <= cursor);
            lanes.rotate_left(behind);
        }
        let (mut given, mut bytes) = (Vec::new(), 0);
        'rounds: while !lanes.is_empty() {
            let mut left = Vec::with_capacity(lanes.len());
            for (name, lane) in lanes {
                if given.len() >= max || bytes >= RECEIVE_BYTES_MAX {
                    break 'rounds;
                }
                let Some(queue) = self.queues.get_mut(&name) else { continue };
                let first = queue.ready.get(&lane).and_then(|ready| ready.first_key_value());
                let visible = first.filter(|(_, message)| message.stamp <= self.visible);
                let Some(number) = visible.map(|(number, _)| *number) else { continue };
                let Some(mut message) = queue.pull(lane, number) else { continue };
                queue.n_in_flight += 1;
                message.attempt += 1;
                bytes += message.bytes;
                self.next_receipt += 1;
                let receipt = Receipt(self.next_receipt);
                given.push(Given {
                    receipt,
                    queue: name.clone(),
                    lane,
                    id: number,
                    attempt: message.attempt,
                    body: message.body.clone(),
                });
                let flight = Flight { queue: name.clone(), lane, id: number, message };
                session.in_flight.insert(receipt, flight);
                session.cursor = Some((name.clone(), lane));
                left.push((name, lane));
            }
            lanes = left;
        }
        Ok(given)
    }

    /// Takes a delivery back that nobody saw: it does not count.
    pub(crate) fn untake(&mut self, id: SessionId, receipts: &[Receipt], wakes: &mut super::Wakes) {
        if let Some(session) = self.sessions.get_mut(&id) {
            for receipt in receipts {
                if let Some(flight) = session.in_flight.get_mut(receipt) {
                    flight.message.attempt -= 1;
                }
            }
        }
        // A session that is over has given everything back already.
        let _ = self.release(id, receipts, wakes);
    }

    /// The lanes with something ready that the roster gives to the session, in order.
    fn lanes(&self, id: SessionId) -> Result<Vec<(QueueName, Lane)>, Refused> {
        let session = self.sessions.get(&id).ok_or(Refused::Lost)?;
        let Place { job, task } = &session.place;
        let roster = self.tasks.get(&session.place).and_then(|task| task.roster.as_ref());
        let is_ours = |lane: &Lane| {
            lane.is_none_or(|partition| {
                roster.and_then(|roster| roster.owner_of(partition)) == Some(&session.owner)
            })
        };
        let first = QueueName { job: job.clone(), task: task.clone(), from: String::new() };
        let queues = self.queues.range(first..);
        let queues = queues.take_while(|(name, _)| name.job == *job && name.task == *task);
        let lanes = queues.flat_map(|(name, queue)| {
            let lanes = queue.ready.keys().filter(|lane| is_ours(lane));
            lanes.map(move |lane| (name.clone(), *lane))
        });
        Ok(lanes.collect())
    }
}
