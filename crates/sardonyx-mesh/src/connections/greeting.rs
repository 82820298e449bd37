//! Carries the handshake over a connection, from either side.

use std::{io, sync::Arc, time::Duration};

use bytes::BytesMut;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::timeout,
};

use super::{Connections, Counts};
use crate::{
    address::Address,
    greet::{
        Greeting, Peer, Refused, key,
        links::{Dialler, Link, LinkId, Verdict},
        message::Lane,
    },
    net::{Knock, Listener, Met, Stream},
    wire::{
        frame::{self, Decoder},
        limits::{GREET_BYTES_MAX, GREET_PATIENCE},
    },
};

/// A connection whose other side is known, with what came behind its greeting.
pub(super) struct Greeted {
    pub(super) stream: Stream,
    pub(super) decoder: Decoder,
    pub(super) buffer: BytesMut,
    pub(super) peer: Peer,
}

impl Connections {
    /// Lets people in, each on its own time.
    pub(super) async fn keep_door(self: Arc<Self>, mut listener: Listener) {
        loop {
            let (knock, from) = match listener.accept().await {
                Ok(it) => it,
                Err(why) => {
                    // Too many open files, or a peer that was gone before it was accepted.
                    tracing::warn!(%why, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let mut guest = self.strangers.enter();
            let this = Arc::clone(&self);
            self.tasks.spawn(async move {
                let greeted = tokio::select! {
                    greeted = timeout(GREET_PATIENCE, this.receive(knock)) => greeted,
                    () = guest.shown_out() => {
                        Counts::add(&this.counts.refused, 1);
                        if this.may_say("crowd") {
                            tracing::warn!(%from, "refused: too many connections are greeting");
                        }
                        return;
                    }
                };
                drop(guest);
                let late = || Err(format!("it did not greet within {GREET_PATIENCE:?}"));
                if let Err(why) = greeted.unwrap_or_else(|_| late()) {
                    Counts::add(&this.counts.refused, 1);
                    let host = from.rsplit_once(':').map_or(&*from, |(host, _)| host);
                    if this.may_say(&format!("{host} {why}")) {
                        tracing::warn!(%from, %why, "a connection was refused");
                    }
                }
            });
        }
    }

    /// The side of who was dialled, up to a connection that is in use; an error says why not.
    async fn receive(self: &Arc<Self>, knock: Knock) -> Result<(), String> {
        let Met { mut stream, certificate } = knock.open().await.map_err(text)?;
        let nonce = key::nonce().map_err(text)?;
        let mut greeting = Greeting::passive(self.me.clone(), nonce);
        let (mut decoder, mut buffer) = (Decoder::new(GREET_BYTES_MAX), BytesMut::new());
        let peer = loop {
            let heard = read(&mut stream, &mut decoder, &mut buffer).await?;
            let step = greeting.hear(&heard);
            write(&mut stream, &step.say).await.map_err(text)?;
            match step.end {
                None => {}
                Some(Ok(peer)) => break peer,
                Some(Err(why)) => return Err(why.to_string()),
            }
        };
        if let Err(why) = certificate.is_for(&peer.identity.node.address) {
            let refused = Refused::NotAGreeting(why.clone());
            let _ = write(&mut stream, &greeting.decide(Err(refused)).say).await;
            return Err(why);
        }
        let link = Link {
            id: LinkId(self.number()),
            dialler: Dialler::Peer,
            incarnation: peer.identity.node.incarnation.0,
            dial: peer.dial,
        };
        let greeted = |stream| Greeted { stream, decoder, buffer, peer: peer.clone() };
        match peer.lane {
            Lane::Events => {
                if let Err(why) = self.may_speak(&peer) {
                    let refused = Err(Refused::NotAGreeting(why.clone()));
                    let _ = write(&mut stream, &greeting.decide(refused).say).await;
                    return Err(why);
                }
                write(&mut stream, &greeting.decide(Ok(())).say).await.map_err(text)?;
                self.listen_to(greeted(stream));
            }
            Lane::Control => match self.register(&peer.identity.node.address, link) {
                Ok(messages) => {
                    let written = write(&mut stream, &greeting.decide(Ok(())).say).await;
                    self.take_in(link, greeted(stream), messages);
                    written.map_err(text)?;
                }
                Err(_) => {
                    // Normal when both dial at once, and no reason for a line in the log.
                    let _ = write(&mut stream, &greeting.decide(Err(Refused::Duplicate)).say).await;
                }
            },
        }
        Ok(())
    }

    /// The side of who dials, up to knowing the other.
    pub(super) async fn greet(
        &self,
        to: &Address,
        lane: Lane,
        dial: u64,
    ) -> Result<Greeted, String> {
        let me = &self.me.identity.node.address;
        let met = timeout(self.connect_patience(), self.network.dial(me, to)).await;
        let Met { mut stream, .. } = met.map_err(|_| "no connection in time")?.map_err(text)?;
        let nonce = key::nonce().map_err(text)?;
        let (mut greeting, first) =
            Greeting::active(self.me.clone(), to.clone(), lane, dial, nonce);
        write(&mut stream, &[first]).await.map_err(text)?;
        let (mut decoder, mut buffer) = (Decoder::new(GREET_BYTES_MAX), BytesMut::new());
        loop {
            let heard = read(&mut stream, &mut decoder, &mut buffer).await?;
            let step = greeting.hear(&heard);
            write(&mut stream, &step.say).await.map_err(text)?;
            match step.end {
                None => {}
                Some(Ok(peer)) => return Ok(Greeted { stream, decoder, buffer, peer }),
                Some(Err(why)) => return Err(why.to_string()),
            }
        }
    }

    /// Asks the registry about a connection that was just greeted. If it is kept, its queue is
    /// there from now on, and who it replaces is closed.
    pub(super) fn register(
        &self,
        peer: &Address,
        link: Link,
    ) -> Result<tokio::sync::mpsc::Receiver<bytes::Bytes>, Verdict> {
        let mut state = self.state();
        match state.links.greeted(peer, link) {
            Verdict::Kept { closes } => {
                if let Some(old) = closes.and_then(|id| state.ways.remove(&id))
                    && let Some(task) = old.task
                {
                    task.abort();
                }
                let (queue, messages) =
                    tokio::sync::mpsc::channel(crate::wire::limits::CONTROL_QUEUE_MAX);
                if let Some(dialling) = state.dialling.remove(peer) {
                    dialling.waiting.into_iter().for_each(|it| drop(queue.try_send(it)));
                }
                state.ways.insert(link.id, super::Way { queue, task: None });
                Ok(messages)
            }
            Verdict::Lost { to } => {
                // An empty message: if the other side has lost that connection, we learn it now.
                if let Some(way) = state.ways.get(&to) {
                    let _ = way.queue.try_send(bytes::Bytes::new());
                }
                Err(Verdict::Lost { to })
            }
            Verdict::Stale => Err(Verdict::Stale),
        }
    }
}

fn text(why: impl std::fmt::Display) -> String {
    why.to_string()
}

async fn read(
    stream: &mut Stream,
    decoder: &mut Decoder,
    buffer: &mut BytesMut,
) -> Result<bytes::Bytes, String> {
    loop {
        if let Some(message) = decoder.next(buffer).map_err(text)? {
            return Ok(message);
        }
        buffer.reserve(1 << 10);
        if stream.read_buf(buffer).await.map_err(text)? == 0 {
            return Err("it hung up before it had greeted".to_owned());
        }
    }
}

async fn write(stream: &mut Stream, messages: &[Vec<u8>]) -> io::Result<()> {
    let mut out = BytesMut::new();
    for message in messages {
        frame::encode(message, &[], &mut out);
    }
    stream.write_all(&out).await?;
    stream.flush().await
}
