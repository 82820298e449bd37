//! Nodes on a store in memory: everything real but the disk and the network.

// A test that cannot go on says so by panicking.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, unreachable_pub)]

mod cards;
mod chores;
mod disturbed;
mod fuzz;
mod jobs;
mod lives;
mod rings;
mod trimming;
mod world;
