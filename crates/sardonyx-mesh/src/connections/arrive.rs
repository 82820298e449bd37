//! Events that come in: from members only, to whoever wants their kind.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tokio::{io::AsyncReadExt as _, time::timeout};

use super::{Connections, Counts, greeting::Greeted};
use crate::{
    address::NodeId,
    events::{
        envelope::{Raw, Reply},
        head::{About, Head},
        receivers::Wanted,
    },
    greet::Peer,
    net::Stream,
    wire::{frame::Decoder, limits::EVENT_BYTES_MAX},
};

/// How much is read at once.
const READ_BYTES: usize = 256 << 10;

impl Connections {
    /// Whether a peer's connection for events may replace the one it has.
    pub(super) fn may_speak(&self, peer: &Peer) -> Result<(), String> {
        let node = &peer.identity.node;
        let new = (node.incarnation.0, peer.dial);
        match self.state().heard.get(&node.address) {
            Some((old, _)) if *old > new => Err("there is a newer connection already".to_owned()),
            Some(_) | None => Ok(()),
        }
    }

    /// Takes events from a peer until it stops.
    pub(super) fn listen_to(self: &Arc<Self>, greeted: Greeted) {
        let Greeted { stream, mut decoder, buffer, peer } = greeted;
        decoder.set_max(EVENT_BYTES_MAX);
        let (node, dial) = (peer.identity.node.clone(), peer.dial);
        let this = Arc::clone(self);
        let task = self.tasks.spawn(async move {
            let why = this.read_events(&peer, stream, decoder, buffer).await;
            tracing::debug!(peer = %peer.identity.node, why, "no more events");
            let (address, id) =
                (&peer.identity.node.address, (peer.identity.node.incarnation.0, peer.dial));
            let mut state = this.state();
            if state.heard.get(address).is_some_and(|(held, _)| *held == id) {
                state.heard.remove(address);
            }
        });
        if let Some(task) = task {
            let id = (node.incarnation.0, dial);
            let old = self.state().heard.insert(node.address, (id, task));
            if let Some((_, old)) = old {
                old.abort();
            }
        }
    }

    async fn read_events(
        self: &Arc<Self>,
        peer: &Peer,
        mut stream: Stream,
        mut decoder: Decoder,
        mut buffer: BytesMut,
    ) -> String {
        let mut arrival = Arrival::new(&peer.identity.node, &peer.identity.name);
        let from = &peer.identity.node;
        loop {
            let mut is_member = None;
            arrival.wanted = self.receivers.now();
            loop {
                let message = match decoder.next(&mut buffer) {
                    Ok(Some(message)) => message,
                    Ok(None) => break,
                    Err(why) => return self.bad_peer(from, &why.to_string()),
                };
                let (head, at) = match Head::decode(&message) {
                    Ok(it) => it,
                    Err(why) => return self.bad_peer(from, &why.to_string()),
                };
                let is_member = match is_member {
                    Some(known) => known,
                    None => *is_member.insert(self.becomes_member(from).await),
                };
                match is_member {
                    true => self.arrived(&mut arrival, head, message.slice(at..)).await,
                    false => Counts::add(&self.counts.events_lost, 1),
                }
            }
            buffer.reserve(READ_BYTES);
            match stream.read_buf(&mut buffer).await {
                Ok(0) => return "the other side closed it".to_owned(),
                Ok(_) => {}
                Err(why) => return why.to_string(),
            }
        }
    }

    /// Whether this very process is in our table. One that has just joined may be known to its
    /// leader a moment before it is known to us, so it is given a heartbeat's time.
    async fn becomes_member(&self, node: &NodeId) -> bool {
        let mut view = self.view.clone();
        let patience = self.me.config.timers.heartbeat_timeout;
        let known = view.wait_for(|view| view.members.iter().any(|row| row.node == *node));
        matches!(timeout(patience, known).await, Ok(Ok(_)))
    }

    /// Hands one event to who wants it, and waits for room there.
    pub(super) async fn arrived(
        self: &Arc<Self>,
        arrival: &mut Arrival,
        head: Head<'_>,
        body: Bytes,
    ) {
        Counts::add(&self.counts.events_received, 1);
        let Head { about, kind, version } = head;
        let kind = arrival.kind(kind);
        let from = Arc::clone(&arrival.from);
        let reply = match about {
            About::Tell => None,
            About::Ask(id) => {
                let (to, way) = (from.address.clone(), Arc::downgrade(self));
                Some(Reply { to, id, kind: Arc::clone(&kind), way, is_used: false })
            }
            About::Answer(id) => return self.asks.answered(id, &from.address, Ok(body)),
            About::NoAnswer(id) => {
                let why = String::from_utf8_lossy(&body).into_owned();
                return self.asks.answered(id, &from.address, Err(why));
            }
        };
        let raw = Raw { from, name: Arc::clone(&arrival.name), version, kind, body, reply };
        if let Err(unwanted) = arrival.wanted.deliver(raw).await {
            Counts::add(&self.counts.events_unwanted, 1);
            if let Some(mut reply) = unwanted.reply {
                reply.is_used = true;
                let why = format!("nobody there receives {:?}", unwanted.kind);
                let about = About::NoAnswer(reply.id);
                self.reply(&reply.to, about, &reply.kind, Bytes::from(why));
            }
        }
    }
}

/// What the events of one connection have in common, made once.
pub(super) struct Arrival {
    from: Arc<NodeId>,
    name: Arc<str>,
    /// The last kind; most often the next is the same.
    kind: Arc<str>,
    /// Who wanted what when these bytes were read.
    pub(super) wanted: Arc<Wanted>,
}

impl Arrival {
    pub(super) fn new(from: &NodeId, name: &str) -> Arrival {
        let (from, name) = (Arc::new(from.clone()), name.into());
        Arrival { from, name, kind: "".into(), wanted: Arc::default() }
    }

    fn kind(&mut self, kind: &str) -> Arc<str> {
        if *self.kind != *kind {
            self.kind = kind.into();
        }
        Arc::clone(&self.kind)
    }
}
