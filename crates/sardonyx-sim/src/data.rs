//! Data under weather: the real pipelines, the real queues in memory, in one thread, from one seed.
//!
//! A cluster is played by a few lines here: which peers are on which task, who may seal. What goes
//! wrong is what would go wrong with peers: they are killed in the middle of anything, they stand still
//! while the cluster goes on without them and then wake up, they come late, and news of all that
//! arrives late. Then it calms, and the judgement is simple: what reached the outputs is what the test
//! kit says, each segment once.

mod job;
mod plugin;
mod world;

pub use world::{Failed, Passed, run};
