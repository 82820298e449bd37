//! Whole nodes: sockets, pipes, files and timers, with the waits of the profile `test`.

// A test that cannot go on says so by panicking.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod cluster;
mod events;
mod faults;
mod form;
mod fuzz;
mod strangers;
