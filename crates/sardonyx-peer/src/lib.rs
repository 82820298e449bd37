//! A node: a process with its virtual peers.
//!
//! [`Node`] is the machine: one replica for all of a node's peers, entries and pulses in, effects
//! and commands out. It decides what the core decides, does nothing, and runs the same in a process
//! and in the simulator.

mod node;

pub use node::{BULK_MIN, Effect, Input, Node, Output};
