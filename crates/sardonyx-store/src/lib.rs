//! Coordination: what the cluster agrees through.
//!
//! ```text
//!              append                          trim
//!                │                              │
//!   log   ───────▼──────────────────────────────▼────────────────────────────
//!   gone  gone  gone │ origin │ 7 │ 8 │ 9 │ … │ 41 │ 42 │          position ──►
//!                    └───┬────┴─────────────────┬──────┘
//!                set_origin (later wins)    subscribe: the origin, then every entry once
//!
//!   session ──┬── pulse of a ──────► watch_pulse(a) returns when it ends; alive(a)
//!   (one per  ├── pulse of b
//!    node)    └── leased items ────► commit: all conditions hold and all is written, or nothing
//!
//!   cells: written once, by whoever is first
//! ```
//!
//! Promises, the same for every backend and checked by one suite (`suite`):
//!
//! - The log has one order, the same for all readers. An entry whose append was acknowledged is
//!   durable and is read exactly once, also when its append was sent twice.
//! - A reader never sees a gap: if its next entry was trimmed, it is handed the origin.
//! - What cannot be read as a command is handed over as that, at its position, to everybody.
//! - A pulse ends when its session does: closed, or silent for the session's timeout. It does not
//!   end while its owner gives signs of life.
//! - A transaction that names a version which has passed writes nothing.
//!
//! Start at [`Store`]; [`Backend`] is what a new kind of store has to do; [`Error`] says what a
//! caller does when something fails.
//!
//! Not here: what a command means (`sardonyx-core`), and who watches whom (`sardonyx-peer`).

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod backend;
mod embedded;
mod engine;
mod error;
mod etcd;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod golden;
pub mod lobby;
mod local;
mod location;
mod memory;
mod mutant;
mod pieces;
#[cfg(feature = "bench")]
pub mod raw;
mod remote;
mod session;
mod store;
mod subscription;
#[cfg(feature = "suite")]
#[allow(clippy::expect_used, clippy::unwrap_used)]
pub mod suite;
mod token;
mod zookeeper;

pub use backend::{
    Backend, Committed, Condition, Item, Lease, Raw, Read, Tail, Txn, Version, Write,
};
pub use embedded::{Report, check};
pub use error::{Error, Result};
pub use location::{Location, Secret, Servers};
pub use remote::{CONNECTIONS_MAX, Serving};
pub use session::Session;
pub use store::{
    ENTRY_BYTES_MAX, KEY_BYTES_MAX, ORIGIN_BYTES_MAX, Options, Origin, Store, VALUE_BYTES_MAX,
};
pub use subscription::{Delivery, READ_AHEAD_BATCHES_MAX, Start, Subscription};
pub use token::{APPENDS_IN_FLIGHT_MAX, Seen, Token, WRITERS_MAX};
