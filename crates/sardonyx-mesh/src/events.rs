//! What users say to each other: to one (`whisper`), to all (`roar`), and as a question (`ask`).
//!
//! An event has a kind, which is a name, and a body, which is bytes. Who wants a kind takes a
//! receiver for it; several may want the same one, and one may want all. Events between two nodes
//! arrive in the order in which they were sent, each at most once, and always with who sent them.
//!
//! Every queue is bounded, in events and in bytes. Who sends fails at once when the queue to a peer
//! is full; who receives slowly slows down those who send to it, and nobody else: the protocol has
//! connections of its own.

pub(crate) mod asks;
pub mod envelope;
#[cfg(test)]
mod fuzz;
pub(crate) mod head;
pub(crate) mod queue;
pub(crate) mod receivers;

use std::fmt;

use serde::{Serialize, de::DeserializeOwned};

use crate::address::Address;

/// A type that can be sent. Its body is its postcard form; changing the type's fields changes what
/// older nodes read, so such a change wants another kind.
pub trait Event: Serialize + DeserializeOwned + Send + 'static {
    /// The name under which it travels, the same on all nodes.
    const KIND: &'static str;
}

/// An event that wants an answer.
pub trait Question: Event {
    /// What the answer is.
    type Answer: Serialize + DeserializeOwned + Send + 'static;
}

/// Why an event was not sent. Nothing was sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SendError {
    /// The address is in nobody's table, as far as this node knows.
    NotMember(Address),
    /// The member is there, but not active: try again when it is.
    NotActive(Address),
    /// More waits for this member than may wait: slow down and try again.
    QueueFull(Address),
    /// The event is larger than any may be.
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The largest.
        max: usize,
    },
    /// The event has no form as bytes, or its kind is too long.
    Unwritable(String),
    /// This node has stopped.
    Stopped,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SendError::NotMember(to) => write!(f, "{to} is no member: see the list of members"),
            SendError::NotActive(to) => write!(f, "{to} is not active: try again when it is"),
            SendError::QueueFull(to) => write!(f, "the queue to {to} is full: slow down"),
            SendError::TooLarge { bytes, max } => {
                write!(f, "the event has {bytes} bytes and {max} are allowed: cut it up")
            }
            SendError::Unwritable(why) => write!(f, "the event cannot be written: {why}"),
            SendError::Stopped => f.write_str("this node has stopped"),
        }
    }
}

impl std::error::Error for SendError {}

/// Why a question has no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AskError {
    /// It was not even sent.
    NotSent(SendError),
    /// No answer in the time given. It may have been received.
    TimedOut,
    /// The other side said that there will be no answer, and why.
    NoAnswer(String),
    /// The answer is of another type than was expected.
    Unreadable(String),
    /// Too many questions wait for answers.
    TooMany,
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AskError::NotSent(why) => write!(f, "{why}"),
            AskError::TimedOut => f.write_str("no answer in time; it may have been received"),
            AskError::NoAnswer(why) => write!(f, "no answer: {why}"),
            AskError::Unreadable(why) => write!(f, "the answer cannot be read: {why}"),
            AskError::TooMany => f.write_str("too many questions wait for their answers"),
        }
    }
}

impl std::error::Error for AskError {}
