//! Unique, time-ordered 64-bit ids from any number of processes, and never one twice.
//!
//! ```text
//!   pure                                     shells
//!   layout     which bits mean what          shared   one generator for all threads
//!   generator  which ticks are free now      clock    the boot clock, held to the wall clock
//!   lease      the right to a number         keeper   carries out what the lease says
//!   clock      following a clock that steps  service  RESP and raw frames; client prefetches
//! ```
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let store = sardonyx_store::Store::open("memory:", Default::default()).await?;
//! let ids = sardonyx_ids::Ids::join(&store, Default::default()).await?;
//! let id = ids.next()?;
//! println!("{id} {:?}", ids.layout().decode(id));
//! ids.leave().await;
//! # Ok(())
//! # }
//! ```
//!
//! The promise: no id twice in a cluster, over any pauses, crashes, partitions, clock steps and
//! late answers. What it rests on: the store is linearizable and is not rolled back unnoticed (see
//! [`admin::raise_floor`]), and a process is not copied while it runs.
//!
//! Read in this order: `generator`, `lease`, `keeper`.

pub mod admin;
pub mod client;

mod clock;
mod generator;
mod held;
mod ids;
mod keeper;
mod layout;
pub mod lease;
mod mutant;
pub mod service;

mod shared;
mod sync;
#[cfg(test)]
mod tests;
mod text;

pub use clock::{LEAP, LEAP_LASTS, Look, Slewed, Source, Steady, System};
pub use generator::{Generator, Refusal, Run, Slack};
pub use ids::{Config, Ids, NoIds, Status, Worker};
pub use layout::{BadLayout, EPOCH, Id, Layout, Millis, Parts, Tick, YEAR};
pub use shared::{BLOCK_IDS_MAX, Clock, LOCAL_IDS_MAX, Local, RANGE_IDS_MAX, Range, Shared};
pub use text::{Form, NoId};
