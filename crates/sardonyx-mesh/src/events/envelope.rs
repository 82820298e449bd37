//! An event as it arrives: what, from whom, and a way to answer.

use std::{
    fmt,
    marker::PhantomData,
    sync::{Arc, Weak},
};

use bytes::Bytes;
use serde::Serialize;

use super::{Event, Question, head::About, queue};
use crate::{
    address::{Address, NodeId},
    claim::Version,
    connections::Connections,
    wire::codec::{self, Unreadable},
};

/// The right to answer one question. If it is dropped unused, who asked is told that nobody
/// answered.
pub(crate) struct Reply {
    pub(crate) to: Address,
    pub(crate) id: u64,
    pub(crate) kind: Arc<str>,
    pub(crate) way: Weak<Connections>,
    pub(crate) is_used: bool,
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reply({} to {})", self.id, self.to)
    }
}

impl Reply {
    fn send(&mut self, about: About, body: Bytes) {
        self.is_used = true;
        // If the queue is full, who asked waits in vain and learns it by its own patience; the
        // count of what was dropped tells us.
        if let Some(way) = self.way.upgrade() {
            way.reply(&self.to, about, &self.kind, body);
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.is_used {
            let why = Bytes::from_static(b"its receiver dropped the question");
            self.send(About::NoAnswer(self.id), why);
        }
    }
}

/// An event with its sender, as bytes.
pub struct Raw {
    /// Who sent it: the connection was greeted by this very process.
    pub from: Arc<NodeId>,
    /// The sender's label.
    pub name: Arc<str>,
    /// The version that the sender saw.
    pub version: Version,
    /// The name of its type.
    pub kind: Arc<str>,
    /// Its form as bytes.
    pub body: Bytes,
    pub(crate) reply: Option<Reply>,
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} bytes from {}", self.kind, self.body.len(), self.from)
    }
}

impl Raw {
    /// Whether the sender waits for an answer.
    pub fn is_question(&self) -> bool {
        self.reply.is_some()
    }

    /// Answers with bytes. Does nothing if no answer is wanted.
    pub fn answer(mut self, body: Bytes) {
        if let Some(reply) = &mut self.reply {
            reply.send(About::Answer(reply.id), body);
        }
    }

    /// For a second receiver: it may read, and only the first may answer.
    pub(crate) fn copy(&self) -> Raw {
        Raw {
            from: Arc::clone(&self.from),
            name: Arc::clone(&self.name),
            version: self.version,
            kind: Arc::clone(&self.kind),
            body: self.body.clone(),
            reply: None,
        }
    }
}

/// An event with its sender.
#[derive(Debug)]
pub struct Envelope<T> {
    /// Who sent it: the connection was greeted by this very process.
    pub from: Arc<NodeId>,
    /// The version that the sender saw.
    pub version: Version,
    /// The event.
    pub event: T,
    reply: Option<Reply>,
}

impl<T: Event> Envelope<T> {
    fn read(raw: Raw) -> Result<Envelope<T>, Unreadable> {
        let event = codec::decode(&raw.body)?;
        Ok(Envelope { from: raw.from, version: raw.version, event, reply: raw.reply })
    }
}

impl<T: Question> Envelope<T> {
    /// Answers the question. Nothing happens if the event was not sent as a question.
    pub fn answer(mut self, answer: &T::Answer) {
        if let (Some(reply), Ok(body)) = (&mut self.reply, encode(answer)) {
            reply.send(About::Answer(reply.id), body);
        }
    }
}

fn encode(answer: &impl Serialize) -> Result<Bytes, Unreadable> {
    codec::encode(answer).map(Bytes::from)
}

/// Events of one type, in the order of arrival.
#[derive(Debug)]
pub struct Events<T> {
    queue: queue::Receiver<Raw>,
    n_unreadable: u64,
    of: PhantomData<fn() -> T>,
}

impl<T: Event> Events<T> {
    pub(crate) fn new(queue: queue::Receiver<Raw>) -> Events<T> {
        Events { queue, n_unreadable: 0, of: PhantomData }
    }

    /// The next one; `None` once the node has stopped.
    pub async fn next(&mut self) -> Option<Envelope<T>> {
        loop {
            let raw = self.queue.recv().await?;
            if let Some(envelope) = self.read(raw) {
                return Some(envelope);
            }
        }
    }

    /// The same, for a thread that may wait.
    pub fn blocking_next(&mut self) -> Option<Envelope<T>> {
        loop {
            let raw = self.queue.blocking_recv()?;
            if let Some(envelope) = self.read(raw) {
                return Some(envelope);
            }
        }
    }

    /// How many were dropped because they are not of this type in spite of their kind.
    pub fn n_unreadable(&self) -> u64 {
        self.n_unreadable
    }

    fn read(&mut self, raw: Raw) -> Option<Envelope<T>> {
        let from = Arc::clone(&raw.from);
        match Envelope::read(raw) {
            Ok(envelope) => Some(envelope),
            Err(why) => {
                self.n_unreadable += 1;
                tracing::warn!(%from, kind = T::KIND, %why, "an event was dropped");
                None
            }
        }
    }
}

/// Events as bytes, in the order of arrival.
#[derive(Debug)]
pub struct RawEvents {
    pub(crate) queue: queue::Receiver<Raw>,
}

impl RawEvents {
    /// The next one; `None` once the node has stopped.
    pub async fn next(&mut self) -> Option<Raw> {
        self.queue.recv().await
    }

    /// One that is there already.
    pub fn try_next(&mut self) -> Option<Raw> {
        self.queue.try_recv()
    }
}
