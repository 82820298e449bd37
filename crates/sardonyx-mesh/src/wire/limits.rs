//! Every limit of the wire, by name. Reaching one is an error that says so and loses nothing but
//! what was over it.

use std::time::Duration;

/// The payload of one frame. Longer messages are cut into several.
pub const FRAME_PAYLOAD_MAX: usize = 65_280;

/// A message of somebody who has not been let in yet.
pub const GREET_BYTES_MAX: usize = 4 << 10;

/// A message of the protocol: the largest is the table of all members.
pub const CONTROL_BYTES_MAX: usize = 256 << 10;

/// An event of a user, with its head.
pub const EVENT_BYTES_MAX: usize = 16 << 20;

/// The name of an event's type.
pub const KIND_BYTES_MAX: usize = 256;

/// How long a connection may take to come about.
pub const CONNECT_PATIENCE: Duration = Duration::from_secs(3);

/// How long somebody may take to greet, from the first byte to the last.
pub const GREET_PATIENCE: Duration = Duration::from_secs(3);

/// How many connections may be greeting at the same time. With one more, the one that has taken
/// longest is closed: a crowd of strangers costs a bounded amount of memory, and does not keep out
/// who greets at once.
pub const STRANGERS_MAX: usize = 1_000;

/// Messages of the protocol that may wait for one peer's socket. The protocol survives loss, so
/// the ones that do not fit are dropped.
pub const CONTROL_QUEUE_MAX: usize = 1_024;

/// Events that may wait for one peer, or for one receiver.
pub const EVENT_QUEUE_MAX: usize = 1_024;

/// Bytes of events that may wait for one peer, or for one receiver. One event that is larger may
/// wait alone.
pub const EVENT_QUEUE_BYTES_MAX: usize = 8 << 20;

/// Questions that may wait for their answers.
pub const ASKS_MAX: usize = 65_536;
