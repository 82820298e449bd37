//! Many nodes in one thread, from one seed.
//!
//! The nodes are the real machine of `sardonyx-peer`; the store, the network, time and all that can
//! go wrong are ours. A run is a seed: it settles the cluster, the work, the weather and every
//! delay. First comes the storm, then the calm, then the judgement ([`checks`]). The same seed is
//! the same run, so a failure is a number.
//!
//! Read in this order: [`world`] (the loop), [`weather`] (what goes wrong), [`workload`] (what the
//! cluster is for), [`checks`] and [`probes`].

pub mod checks;
pub mod mesh;
pub mod model;
pub mod probes;
mod process;
mod rng;
mod store;
pub mod weather;
pub mod workload;
pub mod world;

pub use probes::Probes;
pub use world::{Failed, Passed, World};
