//! Many nodes in one thread, from one seed.
//!
//! The nodes are the real machine of `sardonyx-peer`; the store, the network, time and all that can
//! go wrong are ours. A run is a [`plan`], and a seed settles one: the cluster, the work, the
//! weather and every delay. First comes the storm, then the calm, then the judgement ([`checks`]).
//! The same seed is the same run, so a failure is a number; and a failing plan shrinks.
//!
//! Read in this order: [`plan`], [`weather`] (what goes wrong), [`workload`] (what the cluster is
//! for), [`world`] (the loop), [`checks`] and [`probes`].

pub mod checks;
pub mod data;
pub mod joins;
pub mod mesh;
pub mod model;
pub mod plan;
pub mod probes;
mod process;
mod rng;
pub mod seeds;
pub mod shrink;
mod store;
mod twins;
pub mod weather;
pub mod workload;
pub mod world;

pub use plan::Plan;
pub use probes::Probes;
pub use world::{Failed, Passed, World};
