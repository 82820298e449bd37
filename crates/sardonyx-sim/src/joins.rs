//! What it costs to join: how many entries a join takes when many start together, and what an
//! entry costs each node.

use std::time::{Duration, Instant};

use sardonyx_core::{JobScheduler, JoinProtocol};

use crate::{
    plan::{Plan, Step, What},
    weather::Fault,
    world::World,
};

/// Nodes that all start at the same moment, in an empty cluster.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// How peers join.
    pub protocol: JoinProtocol,
    /// How many nodes.
    pub nodes: usize,
    /// How many virtual peers each has.
    pub peers: usize,
    /// The longest that a message takes, in milliseconds.
    pub latency: u64,
}

/// What it took until all were one ring.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// How many entries the log has.
    pub entries: usize,
    /// How long it took in the simulated world.
    pub simulated: Duration,
    /// How long it took us.
    pub measured: Duration,
}

impl Start {
    /// How many virtual peers there are in all.
    pub fn n_peers(&self) -> usize {
        self.nodes * self.peers
    }

    /// Runs until all are one ring.
    pub fn run(&self, seed: u64) -> Result<Cost, String> {
        let start = Fault::MassStart { first: 0, processes: self.nodes };
        let plan = Plan {
            seed,
            protocol: self.protocol,
            scheduler: JobScheduler::RoundRobin,
            peers: self.peers,
            gc_every: Some(4),
            trim_after: None,
            latency: self.latency,
            steps: vec![Step { at: 0, what: What::Fault(start) }],
        };
        let started = Instant::now();
        let (entries, millis) = World::rest(&plan)?;
        Ok(Cost { entries, simulated: Duration::from_millis(millis), measured: started.elapsed() })
    }
}

impl Cost {
    /// How many entries one join took, on average.
    pub fn entries_per_join(&self, start: &Start) -> f64 {
        self.entries as f64 / start.n_peers() as f64
    }

    /// What one entry cost one node, the simulated world included.
    pub fn per_entry_and_node(&self, start: &Start) -> Duration {
        self.measured.div_f64((self.entries * start.nodes) as f64)
    }
}
