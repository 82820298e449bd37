//! Whole nodes: sockets, pipes, files and timers, with the waits of the profile `test`.

mod cluster;
mod events;
mod faults;
mod form;
mod fuzz;
mod strangers;
