//! The whole system under fire: real processes on real servers, and everything goes wrong.
//!
//! ```text
//!   seed ──► plan ──► doing ──► trace, log, outputs, tokens, ids ──► judge ──► verdict
//!   (pure)  (data)   (thin)              (files)                     (pure)
//! ```
//!
//! A seed settles which faults there are, how often, and when each of them comes ([`plan`]). One loop
//! carries that out on processes that it started itself ([`run`]), in a network and a process
//! namespace of its own ([`sandbox`]), so that nothing is left behind however it ends. What is judged
//! is what was written down ([`judge`]): the judges are functions of values, and each of them is shown
//! a broken record in the tests, because a judge that cannot say no has said nothing.
//!
//! Real machines have their own timing: a seed settles the plan, not the run.

pub mod draw;
pub mod fault;
mod gauge;
pub mod judge;
pub mod load;
pub mod options;
pub mod place;
pub mod plan;
mod process;
pub mod report;
mod rng;
pub mod run;
pub mod sandbox;
mod servers;
mod storm;
mod stream;
pub mod trace;
mod watch;
mod world;
