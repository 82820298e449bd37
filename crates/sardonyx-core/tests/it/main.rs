//! What the core promises, from the outside: examples, properties, goldens, storms.

// A test that cannot go on says so by panicking, and what a long run saw is printed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, unreachable_pub)]

mod examples;
mod fuzz;
mod garbage;
mod golden;
mod peer;
mod properties;
mod rng;
mod schedule;
mod storm;
mod text;
mod tree;
