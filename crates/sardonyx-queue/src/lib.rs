//! Transactional queues: what a task received, what it sent, what it remembers and how far its
//! input has been read are committed together, or not at all.
//!
//! ```text
//!            ┌──────────── session of one owner ────────────┐
//!  queue ──► receive ─► (the task works) ─► commit(Transaction) ──► acks, sends, puts: all or none
//!    ▲                                          │
//!    └────────── released, or the owner left ◄──┘ refused: Lost
//! ```
//!
//! - A **queue** holds messages for one task, from one of its producers ([`QueueName`]). A message
//!   is *ready* or *in flight*; [`Depth`] counts both, so that an empty queue is known to be empty.
//! - A **session** belongs to an [`Owner`]: a peer on a task since an entry of the log. What it
//!   received is in flight until it commits or releases it, or until it is fenced.
//! - A **roster** says which owners a task has ([`Roster`]). Whoever is not on the newest one is
//!   fenced: what it holds becomes ready again, in its old order, and it can commit nothing more.
//!   The roster also says which partitions of the task's queues are whose.
//! - **Keys** are small durable values of a task: its state, its positions, its write-once cells.
//!
//! Law: what was committed once is never seen again and never lost; what was not committed leaves
//! no trace. Every backend passes [`suite`].
//!
//! Not here: what a message means, when a task ends, who should work.

mod backend;
mod embedded;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod golden;
mod ledger;
mod limits;
mod local;
mod location;
mod memory;
mod message;
#[cfg(any(test, feature = "mutants"))]
pub mod mutant;
#[cfg(not(any(test, feature = "mutants")))]
mod mutant;
mod nats;
mod queues;
pub mod remote;
mod session;
#[cfg(feature = "suite")]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]
pub mod suite;
mod transaction;

pub use limits::{
    DECODED_BYTES_MAX, KEY_BYTES_MAX, MESSAGE_BYTES_MAX, NAME_BYTES_MAX, QUEUE_BYTES_MAX,
    QUEUE_MESSAGES_MAX, RECEIVE_BYTES_MAX, TRANSACTION_BYTES_MAX, TRANSACTION_PARTS_MAX,
    VALUE_BYTES_MAX,
};
pub use location::OpenError;
pub use message::{Body, Compression, Delivery, Depth, MessageId, QueueName, Receipt, Segments};
pub use nats::{NatsLogin, nats_client};
pub use queues::{Queues, Session};
pub use session::{Owner, Place, Roster};
pub use transaction::{Key, ONCE, Outgoing, Refused, Transaction};
