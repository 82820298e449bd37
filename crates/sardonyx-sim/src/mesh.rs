//! Members of a mesh in one thread, on virtual time.
//!
//! The members are the real machine of `sardonyx-mesh`. The network, the disks, the clocks and all
//! that goes wrong with them are ours. [`World`] is the loop and what a test can do to it; [`laws`]
//! are checked after every step; [`storm`] is a whole run from one seed; [`model`] tries
//! all orders of one small election.

pub mod laws;
pub mod model;
mod network;
mod node;
pub mod storm;
pub mod world;

pub use network::Network;
pub use storm::{Failed, Passed};
pub use world::World;
