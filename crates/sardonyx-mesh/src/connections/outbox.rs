//! What waits for one peer: a bounded queue of events, and the connection on which they leave.

use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf},
    time::timeout,
};

use super::{Connections, Counts, Outbox, arrive::Arrival};
use crate::{
    address::Address,
    events::{head::Head, queue},
    greet::message::Lane,
    net::Stream,
    wire::{
        frame,
        limits::{EVENT_QUEUE_BYTES_MAX, EVENT_QUEUE_MAX, GREET_PATIENCE},
    },
};

/// An event on its way: its head as bytes, and its body.
pub(super) struct Item {
    pub(super) head: Vec<u8>,
    pub(super) body: Bytes,
}

/// How much is written at once: many small events share one call to the kernel.
const BATCH_BYTES: usize = 256 << 10;

/// How long a connection is kept that nobody uses.
const IDLE: Duration = Duration::from_secs(60);

type Halves = (ReadHalf<Stream>, WriteHalf<Stream>);

impl Connections {
    /// The queue to a member; made when it is first needed. `None` once this node has stopped.
    pub(super) fn outbox(self: &Arc<Self>, to: &Address) -> Option<queue::Sender<Item>> {
        let outboxes = self.outboxes.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(outbox) = outboxes.get(to) {
            return Some(outbox.queue.clone());
        }
        drop(outboxes);
        let mut outboxes = self.outboxes.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(outbox) = outboxes.get(to) {
            return Some(outbox.queue.clone());
        }
        let (sender, receiver) = queue::queue(EVENT_QUEUE_MAX, EVENT_QUEUE_BYTES_MAX);
        let (this, peer) = (Arc::clone(self), to.clone());
        let task = match *to == self.me.identity.node.address {
            true => self.tasks.spawn(async move { this.to_myself(receiver).await }),
            false => self.tasks.spawn(async move { this.empty(peer, receiver).await }),
        };
        outboxes.insert(to.clone(), Outbox { queue: sender.clone(), task: task? });
        Some(sender)
    }

    /// Events of a node to itself take the same queue and no connection.
    async fn to_myself(self: Arc<Self>, mut queue: queue::Receiver<Item>) {
        let mut arrival = Arrival::new(&self.me.identity.node, &self.me.identity.name);
        while let Some(Item { head, body }) = queue.recv().await {
            Counts::add(&self.counts.events_sent, 1);
            if let Ok((head, _)) = Head::decode(&head) {
                arrival.wanted = self.receivers.now();
                self.arrived(&mut arrival, head, body).await;
            }
        }
    }

    async fn empty(self: Arc<Self>, to: Address, mut queue: queue::Receiver<Item>) {
        let (mut open, mut out) = (None::<Halves>, BytesMut::new());
        loop {
            let Some(first) = self.next(&mut queue, &mut open).await else { return };
            let (_, write) = match &mut open {
                Some(halves) => halves,
                None => open.insert(self.speak_to(&to).await),
            };
            let (mut next, mut n) = (Some(first), 0);
            while let Some(Item { head, body }) = next {
                frame::encode(&head, &body, &mut out);
                n += 1;
                next = if out.len() < BATCH_BYTES { queue.try_recv() } else { None };
            }
            let written = match write.write_all(&out).await {
                Ok(()) => write.flush().await,
                Err(why) => Err(why),
            };
            match written {
                Ok(()) => Counts::add(&self.counts.events_sent, n),
                Err(why) => {
                    // Which of them arrived is not known, so none is sent again.
                    tracing::debug!(%to, %why, n, "events were lost");
                    Counts::add(&self.counts.events_lost, n);
                    open = None;
                }
            }
            out.clear();
            if out.capacity() > 4 * BATCH_BYTES {
                out = BytesMut::with_capacity(BATCH_BYTES);
            }
        }
    }

    /// The next event. Meanwhile a connection that the other side closes, or that nobody uses, is
    /// closed here as well.
    async fn next(
        &self,
        queue: &mut queue::Receiver<Item>,
        open: &mut Option<Halves>,
    ) -> Option<Item> {
        loop {
            if let Some(item) = queue.try_recv() {
                return Some(item);
            }
            let Some((read, _)) = open.as_mut() else { return queue.recv().await };
            tokio::select! {
                item = queue.recv() => return item,
                // Nothing ever comes this way but the end.
                _ = read.read_u8() => *open = None,
                () = tokio::time::sleep(IDLE) => *open = None,
            }
        }
    }

    /// Dials until it succeeds. Whoever takes the member out of the table ends this task.
    async fn speak_to(&self, to: &Address) -> Halves {
        let heartbeat = self.me.config.timers.heartbeat_interval;
        let mut pause = Duration::from_millis(5);
        loop {
            let patience = self.connect_patience() + GREET_PATIENCE;
            match timeout(patience, self.greet(to, Lane::Events, self.number())).await {
                Ok(Ok(greeted)) => return tokio::io::split(greeted.stream),
                Ok(Err(why)) => tracing::debug!(%to, why, "events wait"),
                Err(_) => tracing::debug!(%to, "events wait"),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(heartbeat.max(Duration::from_millis(5)));
        }
    }
}
