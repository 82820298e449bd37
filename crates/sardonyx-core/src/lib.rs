//! The cluster as a value.
//!
//! This crate does nothing: no clock, no IO, no async, no randomness. It says what the cluster is
//! after an entry ([`apply`]), what a peer then says ([`reactions`]) and does ([`effects`]), and
//! leaves the saying and the doing to others.
//!
//! Read in this order: [`replica`], [`command`], [`scheduler`], [`effect`], [`reaction`], [`peer`]; then
//! [`mod@diff`], [`laws`], [`wire`] and `show` as needed.

#![no_std]
// Shares are integers: two machines may round floats differently, and then they disagree for ever.
#![deny(clippy::float_arithmetic)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

extern crate alloc;
#[cfg(any(test, feature = "mutants"))]
extern crate std;

pub mod command;
pub mod diff;
pub mod effect;
pub mod id;
pub mod mutant;
pub mod peer;
pub mod reaction;
pub mod rehearse;
pub mod replica;
pub mod scheduler;
mod show;
pub mod tree;
pub mod wire;

pub use command::{Command, Entry, Outcome, Rejected, apply};
pub use diff::{Diff, diff};
pub use effect::{Effect, effects};
pub use id::{BadId, JobId, PeerId, Position, TaskId};
pub use peer::{Input, Output, Peer};
pub use reaction::{Response, concerned, reactions, respond};
pub use replica::{JobScheduler, JoinProtocol, Phase, Replica, laws};
