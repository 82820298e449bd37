//! Fetching: messages come in, sentinels are taken out, and the end of the input is recognised.
//!
//! A sentinel says that its producer will send nothing more; it may sit in the middle of a queue,
//! and after a failure there may be several. The first that anybody meets becomes the queue's leader
//! (a key that is written once); others are dropped. The leader is held until it is all that its
//! queue has, ready or in flight: then the queue is drained, for good, since whoever could send to
//! it is complete. The mark for that is a key as well. Whoever sees the last mark says so.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    time::Duration,
};

use bytes::Bytes;
use sardonyx_queue::{
    Body, Delivery, MessageId, QueueName, Receipt, Refused, Segments, Session, Transaction,
};
use tokio::{
    sync::{Semaphore, mpsc},
    time::Instant,
};

use super::{End, Never, Task, compute::Item, worn::Came};
use crate::{
    mutant::{self, Mutant},
    registry::Kind,
    spy::Phase,
};

/// How many messages are asked for at once.
const RECEIVE_MAX: usize = 16;

/// How many messages are gathered to a batch at most.
const GATHER_MAX: usize = 256;

/// How often a held sentinel is looked at: soon if little is left, and at most this seldom.
const LOOK_MIN: Duration = Duration::from_millis(1);
const LOOK_MAX: Duration = Duration::from_millis(100);

/// What has not moved for some time is looked at again after this part of that time: a stream that
/// stands still costs next to nothing, and the end is late by little of what was waited for anyway.
const LOOK_PART: u32 = 8;

/// A split of an input, received.
pub(super) struct Note {
    pub(super) receipt: Receipt,
    pub(super) id: MessageId,
    pub(super) bytes: Bytes,
    pub(super) attempt: u32,
}

/// What is known about the end of the input.
#[derive(Default)]
struct Ends {
    held: BTreeMap<QueueName, Receipt>,
    /// How much was left at the last look, and since when so much.
    left: Option<(u64, Instant)>,
    look_at: Option<Instant>,
    has_said: bool,
}

impl Ends {
    /// So much is left now: says how long to wait before the next look.
    fn wait(&mut self, left: u64, now: Instant) -> Duration {
        let (_, since) = *self.left.insert(match self.left {
            Some((before, since)) if before == left => (before, since),
            Some(_) | None => (left, now),
        });
        let by_depth = LOOK_MIN * u32::try_from(left).unwrap_or(u32::MAX).min(1000);
        by_depth.max((now - since) / LOOK_PART).min(LOOK_MAX)
    }
}

impl Task {
    pub(super) async fn fetch(
        &self,
        session: &Session,
        items: &mpsc::Sender<Item>,
        notes: &mpsc::Sender<Note>,
        asks: &Semaphore,
    ) -> Result<Never, End> {
        let mut ends = Ends::default();
        self.say_if_drained(session, &mut ends).await?;
        let egress = self.egress();
        loop {
            // One receive goes on over all looks: begun anew each time, it would never come to its end
            // where answers take longer than the time between looks.
            let mut receiving = pin!(self.receive(session, &egress, asks));
            let deliveries = loop {
                let look = ends.look_at.unwrap_or_else(Instant::now);
                tokio::select! {
                    biased;
                    deliveries = &mut receiving => break deliveries?,
                    () = tokio::time::sleep_until(look), if ends.look_at.is_some() => {
                        self.look_at_sentinels(session, &mut ends).await?;
                    }
                    () = self.look_again.notified() => {
                        // Whoever was to seal may be the one that left.
                        ends.has_said = false;
                        self.say_if_drained(session, &mut ends).await?;
                    }
                }
            };
            let deliveries = self.gather(session, deliveries).await?;
            let mut segments = Vec::new();
            for delivery in deliveries {
                let Delivery { receipt, queue, body, partition, attempt, id } = delivery;
                match body {
                    Body::Segments(batch) => {
                        let came = Came { queue: &queue, partition, id, receipt, attempt };
                        self.dare(session, &came).await?;
                        segments.push((receipt, partition, batch));
                    }
                    Body::Note(bytes) => {
                        if let Ok(asked) = asks.try_acquire() {
                            asked.forget();
                        }
                        // Only the end of the session closes it.
                        let _ = notes.send(Note { receipt, id, bytes, attempt }).await;
                    }
                    Body::Sentinel(name) => {
                        self.saw(Phase::StripSentinel);
                        self.take_sentinel(session, &mut ends, queue, receipt, &name).await?;
                    }
                }
            }
            if !segments.is_empty() {
                self.saw(Phase::ReadBatch);
                let _ = items.send(Item::Segments(segments)).await;
            }
        }
    }

    /// The next messages, once there is room for what becomes of them.
    async fn receive(
        &self,
        session: &Session,
        egress: &[QueueName],
        asks: &Semaphore,
    ) -> Result<Vec<Delivery>, Refused> {
        if self.order.blueprint.kind == Kind::Input {
            // Nobody closes it. What is acquired is given back unless a split comes of it.
            let Ok(_asked) = asks.acquire().await else { return std::future::pending().await };
            return session.receive(1).await;
        }
        session.room(egress).await?;
        session.receive(RECEIVE_MAX).await
    }

    /// For a task that wants full batches: waits for more, as long as it says.
    async fn gather(
        &self,
        session: &Session,
        mut deliveries: Vec<Delivery>,
    ) -> Result<Vec<Delivery>, End> {
        let terms = &self.order.blueprint.terms;
        let Some(patience) = terms.duration("batch-timeout").map_err(End::Failed)? else {
            return Ok(deliveries);
        };
        let wanted = terms.number("batch-size").map_err(End::Failed)?.unwrap_or(u64::MAX);
        let until = Instant::now() + patience;
        while self.order.blueprint.kind == Kind::Function
            && deliveries.len() < GATHER_MAX
            && rows(&deliveries) < wanted
        {
            let more = tokio::time::timeout_at(until, session.receive(RECEIVE_MAX)).await;
            let Ok(more) = more else { break };
            deliveries.extend(more?);
        }
        Ok(deliveries)
    }

    async fn take_sentinel(
        &self,
        session: &Session,
        ends: &mut Ends,
        queue: QueueName,
        receipt: Receipt,
        id: &str,
    ) -> Result<(), End> {
        let key = format!("leader/{}", queue.from);
        let leader = match session.get(&key).await? {
            Some(leader) => leader,
            None => {
                let vote = Transaction {
                    holds: vec![receipt],
                    puts: vec![(key.clone(), Some(Bytes::copy_from_slice(id.as_bytes())))],
                    expects: vec![(key.clone(), None)],
                    ..Transaction::default()
                };
                match session.commit(vote).await {
                    Ok(()) | Err(Refused::Changed(_)) => {}
                    Err(refused) => return Err(refused.into()),
                }
                session.get(&key).await?.unwrap_or_default()
            }
        };
        if leader != id.as_bytes() {
            let drop_it = Transaction { acks: vec![receipt], ..Transaction::default() };
            return Ok(session.commit(drop_it).await?);
        }
        self.saw(Phase::RequeueSentinel);
        ends.held.insert(queue, receipt);
        self.look_at_sentinels(session, ends).await
    }

    /// Marks those queues as drained whose sentinel is all that they have.
    async fn look_at_sentinels(&self, session: &Session, ends: &mut Ends) -> Result<(), End> {
        let mut most = 0;
        for (queue, receipt) in ends.held.clone() {
            let depth = self.engine.queues.depth(&queue).await?;
            let is_busy = match mutant::is_on(Mutant::ReadyOnly) {
                true => depth.ready > 0,
                false => depth.total() > 1,
            };
            if is_busy {
                most = most.max(depth.total());
                continue;
            }
            let mark = Transaction {
                acks: vec![receipt],
                puts: vec![(format!("drained/{}", queue.from), Some(Bytes::new()))],
                ..Transaction::default()
            };
            session.commit(mark).await?;
            ends.held.remove(&queue);
        }
        let now = Instant::now();
        ends.look_at = (!ends.held.is_empty()).then(|| now + ends.wait(most, now));
        self.say_if_drained(session, ends).await
    }

    async fn say_if_drained(&self, session: &Session, ends: &mut Ends) -> Result<(), End> {
        if ends.has_said {
            return Ok(());
        }
        let marks: BTreeSet<String> =
            session.scan("drained/").await?.into_iter().map(|(key, _)| key).collect();
        let is_drained = |queue: &QueueName| marks.contains(&format!("drained/{}", queue.from));
        let ingress = self.ingress();
        let is_over = match mutant::is_on(Mutant::FirstDrained) {
            true => ingress.iter().any(is_drained),
            false => ingress.iter().all(is_drained),
        };
        if is_over {
            ends.has_said = true;
            self.listener.drained().await;
        }
        Ok(())
    }
}

/// How many rows there are, as far as can be seen without decoding.
fn rows(deliveries: &[Delivery]) -> u64 {
    let of = |delivery: &Delivery| match &delivery.body {
        Body::Segments(Segments::Batch(batch)) => batch.num_rows() as u64,
        Body::Segments(Segments::Encoded(_)) | Body::Sentinel(_) | Body::Note(_) => 1,
    };
    deliveries.iter().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_still_is_looked_at_less_and_less() {
        let (mut ends, begun) = (Ends::default(), Instant::now());
        let mut now = begun;
        let mut looks = 0;
        while now < begun + Duration::from_secs(10) {
            let wait = ends.wait(2, now);
            assert!(wait >= LOOK_MIN && wait <= LOOK_MAX, "{wait:?}");
            assert!(wait <= (2 * LOOK_MIN).max((now - begun) / LOOK_PART), "later than its part");
            now += wait;
            looks += 1;
        }
        assert!(looks < 150, "{looks} looks in ten seconds");
        assert_eq!(ends.wait(1, now), LOOK_MIN, "something moved");
        assert_eq!(ends.wait(1_000_000, now), LOOK_MAX, "much is left");
    }
}
