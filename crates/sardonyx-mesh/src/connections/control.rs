//! The protocol's messages: one connection for each pair, both ways.

use std::{sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf},
    sync::mpsc,
    time::{Instant, timeout},
};

use super::{Connections, Counts, Dialling, greeting::Greeted};
use crate::{
    address::{Address, NodeId},
    greet::{
        links::{Dialler, Link, LinkId},
        message::Lane,
    },
    message::Message,
    net::Stream,
    wire::{
        codec,
        frame::{self, Decoder, HEAD},
        limits::{CONTROL_BYTES_MAX, GREET_PATIENCE},
    },
};

/// How many messages may wait for a connection that is being dialled.
const WAITING_MAX: usize = 64;

/// How much is written at once.
const BATCH_BYTES: usize = 64 << 10;

impl Connections {
    /// Sends a message of the protocol, dialling if need be. It may be lost: the protocol expects
    /// that.
    pub(crate) fn send(self: &Arc<Self>, to: &Address, message: &Message) {
        let bytes = match codec::encode(message) {
            Ok(bytes) if bytes.len() <= CONTROL_BYTES_MAX => Bytes::from(bytes),
            Ok(bytes) => {
                let (n, name) = (bytes.len(), message.name());
                tracing::error!(%to, name, n, "a message is larger than {CONTROL_BYTES_MAX} bytes");
                return Counts::add(&self.counts.control_dropped, 1);
            }
            Err(why) => {
                tracing::error!(%to, %why, "a message cannot be written");
                return Counts::add(&self.counts.control_dropped, 1);
            }
        };
        let mut state = self.state();
        let way = state.links.get(to).and_then(|link| state.ways.get(&link.id));
        if let Some(way) = way {
            if way.queue.try_send(bytes).is_err() {
                Counts::add(&self.counts.control_dropped, 1);
            }
            return;
        }
        let now = Instant::now();
        let dialling = state.dialling.entry(to.clone()).or_insert_with(|| Dialling {
            is_running: false,
            n_failures: 0,
            not_before: now,
            waiting: Vec::new(),
        });
        if dialling.is_running {
            match dialling.waiting.len() < WAITING_MAX {
                true => dialling.waiting.push(bytes),
                false => Counts::add(&self.counts.control_dropped, 1),
            }
            return;
        }
        if now < dialling.not_before {
            return Counts::add(&self.counts.control_dropped, 1);
        }
        dialling.is_running = true;
        dialling.waiting.push(bytes);
        drop(state);
        self.tasks.spawn(Arc::clone(self).dial(to.clone()));
    }

    async fn dial(self: Arc<Self>, to: Address) {
        let dial = self.number();
        let patience = self.connect_patience() + GREET_PATIENCE;
        let greeted = timeout(patience, self.greet(&to, Lane::Control, dial)).await;
        let why = match greeted {
            Err(_) => "it did not greet in time".to_owned(),
            Ok(Err(why)) => why,
            Ok(Ok(greeted)) => {
                let link = Link {
                    id: LinkId(self.number()),
                    dialler: Dialler::Me,
                    incarnation: greeted.peer.identity.node.incarnation.0,
                    dial,
                };
                match self.register(&to, link) {
                    Ok(messages) => return self.take_in(link, greeted, messages),
                    Err(verdict) => format!("{verdict:?}"),
                }
            }
        };
        self.dialled_in_vain(&to, &why);
    }

    fn dialled_in_vain(&self, to: &Address, why: &str) {
        let heartbeat = self.me.config.timers.heartbeat_interval;
        let mut state = self.state();
        let way = state.links.get(to).and_then(|link| state.ways.get(&link.id));
        let way = way.map(|way| way.queue.clone());
        let Some(dialling) = state.dialling.get_mut(to) else { return };
        let waiting = std::mem::take(&mut dialling.waiting);
        // The other side's connection may have come in the meantime.
        if let Some(queue) = way {
            state.dialling.remove(to);
            waiting.into_iter().for_each(|it| drop(queue.try_send(it)));
            return;
        }
        Counts::add(&self.counts.control_dropped, waiting.len());
        dialling.is_running = false;
        dialling.n_failures = dialling.n_failures.saturating_add(1);
        let pause = heartbeat / 8 * (1 << dialling.n_failures.min(2));
        dialling.not_before = Instant::now() + pause.max(Duration::from_millis(5));
        drop(state);
        // Being refused is for a person to mend; being unreachable is for the protocol.
        match why.starts_with("refused there") || why.contains("calls itself") {
            true if self.may_say(&format!("{to} {why}")) => {
                tracing::warn!(%to, why, "a connection was refused");
            }
            true => {}
            false => tracing::debug!(%to, why, "not reached"),
        }
    }

    /// Uses a connection until it ends.
    pub(super) fn take_in(
        self: &Arc<Self>,
        link: Link,
        greeted: Greeted,
        messages: mpsc::Receiver<Bytes>,
    ) {
        let Greeted { stream, mut decoder, buffer, peer } = greeted;
        decoder.set_max(CONTROL_BYTES_MAX);
        let (this, node) = (Arc::clone(self), peer.identity.node);
        let task = self.tasks.spawn(async move {
            let (read, write) = tokio::io::split(stream);
            let why = tokio::select! {
                why = this.read_control(&node, read, decoder, buffer) => why,
                why = this.write_control(write, messages) => why,
            };
            tracing::debug!(peer = %node, why, "a connection ended");
            let mut state = this.state();
            state.links.closed(&node.address, link.id);
            state.ways.remove(&link.id);
        });
        match (self.state().ways.get_mut(&link.id), task) {
            (Some(way), task) => way.task = task,
            // It was replaced or has ended already.
            (None, Some(task)) => task.abort(),
            (None, None) => {}
        }
    }

    async fn read_control(
        &self,
        from: &NodeId,
        mut read: ReadHalf<Stream>,
        mut decoder: Decoder,
        mut buffer: BytesMut,
    ) -> String {
        let idle = self.me.config.timers.heartbeat_timeout;
        loop {
            loop {
                let bytes = match decoder.next(&mut buffer) {
                    Ok(Some(bytes)) => bytes,
                    Ok(None) => break,
                    Err(why) => return self.bad_peer(from, &why.to_string()),
                };
                if bytes.is_empty() {
                    continue;
                }
                Counts::add(&self.counts.control_received, 1);
                Counts::add(&self.counts.control_received_bytes, bytes.len());
                let message = match codec::decode::<Message>(&bytes) {
                    Ok(message) => message,
                    Err(why) => return self.bad_peer(from, &why.to_string()),
                };
                if self.inbox.send((from.clone(), message)).await.is_err() {
                    return "this node stops".to_owned();
                }
            }
            buffer.reserve(4 << 10);
            match timeout(idle, read.read_buf(&mut buffer)).await {
                Ok(Ok(0)) => return "the other side closed it".to_owned(),
                Ok(Ok(_)) => {}
                Ok(Err(why)) => return why.to_string(),
                Err(_) => return format!("silent for {idle:?}"),
            }
        }
    }

    async fn write_control(
        &self,
        mut write: WriteHalf<Stream>,
        mut messages: mpsc::Receiver<Bytes>,
    ) -> String {
        let mut out = BytesMut::new();
        loop {
            let Some(first) = messages.recv().await else { return "replaced".to_owned() };
            let mut next = Some(first);
            while let Some(message) = next {
                frame::encode(&message, &[], &mut out);
                Counts::add(&self.counts.control_sent, 1);
                Counts::add(&self.counts.control_sent_bytes, message.len() + HEAD);
                next = if out.len() < BATCH_BYTES { messages.try_recv().ok() } else { None };
            }
            if let Err(why) = write.write_all(&out).await {
                return why.to_string();
            }
            if let Err(why) = write.flush().await {
                return why.to_string();
            }
            out.clear();
        }
    }

    /// Somebody who has greeted and then does not keep to the protocol.
    pub(super) fn bad_peer(&self, from: &NodeId, why: &str) -> String {
        if self.may_say(&format!("{from} {why}")) {
            tracing::warn!(%from, why, "a connection was dropped");
        }
        why.to_owned()
    }
}
