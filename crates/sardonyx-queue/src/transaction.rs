//! What is committed at once, and why it may be refused.

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::message::{Body, QueueName, Receipt};

/// The name of a small durable value of a task. Names of other tasks cannot be written.
pub type Key = String;

/// With what the name of a key begins that is used once: when it has been taken away, nobody looks for it
/// any more, so nothing of it has to be kept. Where names come again, or their absence means something,
/// use others.
pub const ONCE: &str = "once/";

/// What happens at once, or not at all.
#[derive(Clone, Debug, Default)]
pub struct Transaction {
    /// Messages that must still be ours; they stay in flight.
    pub holds: Vec<Receipt>,
    /// Messages that are done with: they leave their queues.
    pub acks: Vec<Receipt>,
    /// Messages for tasks downstream, or back to our own queues.
    pub sends: Vec<Outgoing>,
    /// Keys of our task and their new values; `None` takes one away.
    pub puts: Vec<(Key, Option<Bytes>)>,
    /// Keys that must have this value, or be absent, for any of it to happen.
    pub expects: Vec<(Key, Option<Bytes>)>,
}

/// A message to be sent.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// Where to.
    pub queue: QueueName,
    /// Into which partition, if the receiver groups.
    pub partition: Option<u16>,
    /// What.
    pub body: Body,
}

/// Why nothing was committed or received. After any of these the transaction left no trace, but for
/// [`Refused::Unknown`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Refused {
    /// The session was fenced, or a message in it is no longer ours: forget what was computed, and
    /// open another session if the task is still ours.
    Lost,
    /// An expected key has another value: somebody else was first.
    Changed(Key),
    /// The queues cannot be reached or written now; try again later, with a new session.
    Unavailable(String),
    /// It may have been committed or not: the connection ended before the answer. A new session
    /// shows which.
    Unknown(String),
    /// It can never be committed as it is: something in it is larger than a limit, which this names.
    /// Make it smaller.
    TooLarge(String),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Lost => f.write_str("the session is no longer the task's"),
            Refused::Changed(key) => write!(f, "{key} has another value by now"),
            Refused::Unavailable(why) => write!(f, "the queues cannot be reached: {why}"),
            Refused::Unknown(why) => write!(f, "the queues did not answer: {why}"),
            Refused::TooLarge(why) => write!(f, "too large: {why}"),
        }
    }
}

impl std::error::Error for Refused {}
