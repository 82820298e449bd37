//! What can go wrong, as data.

use sardonyx_core::JobScheduler;
use serde::{Deserialize, Serialize};

use crate::{
    place::{DRAWERS, NODES},
    rng::Rng,
};

/// How long peers and ids live without a sign of life. Pauses and cuts are shorter or longer than it.
pub const SESSION_MS: u64 = 3_000;

/// Something that goes wrong, and for how long.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case", tag = "fault")]
pub enum Fault {
    /// kill -9; started again after a while.
    Kill {
        /// Which nodes, all at the same moment.
        nodes: Vec<usize>,
        /// Until they are started again.
        down_ms: u64,
    },
    /// SIGSTOP, and SIGCONT after a while.
    Pause {
        /// Which node.
        node: usize,
        /// How long.
        for_ms: u64,
    },
    /// Some nodes are cut off from everybody: the others, the store, the queues.
    Isolate {
        /// Which nodes; they still reach each other.
        nodes: Vec<usize>,
        /// How long.
        for_ms: u64,
    },
    /// Nodes are in two halves that do not hear each other; all reach store and queues.
    Split {
        /// One half.
        nodes: Vec<usize>,
        /// How long.
        for_ms: u64,
    },
    /// Two halves that do not hear each other, but one node hears both.
    Bridge {
        /// Who hears both.
        middle: usize,
        /// How long.
        for_ms: u64,
    },
    /// What one node sends does not arrive at another; the other direction works.
    OneWay {
        /// Who is not heard.
        from: usize,
        /// Who does not hear.
        to: usize,
        /// How long.
        for_ms: u64,
    },
    /// A node does not reach the store, and is not reached by it.
    NoStore {
        /// Which node.
        node: usize,
        /// How long.
        for_ms: u64,
    },
    /// A node sends to the store and hears no answers.
    DeafToStore {
        /// Which node.
        node: usize,
        /// How long.
        for_ms: u64,
    },
    /// A node does not reach the queues.
    NoQueues {
        /// Which node.
        node: usize,
        /// How long.
        for_ms: u64,
    },
    /// The store's leader is killed, and started again after a while.
    StoreKilled {
        /// How long it is away.
        down_ms: u64,
    },
    /// The store's leader stands still.
    StorePaused {
        /// How long.
        for_ms: u64,
    },
    /// The server of the queues is killed, and started again after a while.
    QueuesKilled {
        /// How long it is away.
        down_ms: u64,
    },
    /// A disk is full: that of the serving process, or where a node keeps its promises.
    DiskFull {
        /// Which node, where nobody serves.
        node: usize,
        /// How long.
        for_ms: u64,
    },
    /// The wall clock of a process that draws ids is moved.
    ClockStep {
        /// Which one.
        drawer: usize,
        /// By how many milliseconds, from what it is.
        by_ms: i64,
    },
    /// kill -9 of a process that draws ids.
    DrawerKilled {
        /// Which one.
        drawer: usize,
        /// How long it is away.
        down_ms: u64,
    },
    /// A process that draws ids stands still.
    DrawerPaused {
        /// Which one.
        drawer: usize,
        /// How long.
        for_ms: u64,
    },
    /// A process that draws ids does not reach the store.
    DrawerCut {
        /// Which one.
        drawer: usize,
        /// How long.
        for_ms: u64,
    },
    /// Somebody collects what is over, and trims the log.
    Gc,
    /// Peers are shared out among jobs in another way.
    Reschedule {
        /// In which.
        scheduler: JobScheduler,
    },
    /// The log is trimmed while a node stands still: what it would have read next is gone.
    GcLagging {
        /// Which node.
        node: usize,
        /// How long.
        for_ms: u64,
    },
    /// The log is trimmed while a node boots from it.
    GcBooting {
        /// Which node; it is killed for that.
        node: usize,
    },
    /// kill -9 of whoever trims the log, somewhere between its steps.
    GcKilled {
        /// How long it may live.
        after_ms: u64,
    },
    /// All connections of a node are reset, at both ends, in whatever they were saying.
    Reset {
        /// Which node.
        node: usize,
    },
    /// A node's line carries little: what is sent waits, and what waits too long is lost.
    ThinLine {
        /// Which node.
        node: usize,
        /// How much it carries in either direction, in kilobits a second.
        kbit: u64,
        /// How long.
        for_ms: u64,
    },
    /// A node's line goes dark again and again, for less than anybody's patience.
    Flicker {
        /// Which node.
        node: usize,
        /// How long it is dark each time.
        dark_ms: u64,
        /// How long it is well in between.
        well_ms: u64,
        /// How long all of that.
        for_ms: u64,
    },
    /// Two of the three servers of the store are killed: nobody can say anything.
    StoreLost {
        /// How long they are away.
        down_ms: u64,
    },
}

/// A kind of faults: how often a seed may want it, and what it looks like.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// The shortest and the longest mean time between two of them, in milliseconds.
    pub every_ms: (u64, u64),
    /// Whether every run has it.
    pub is_constant: bool,
    /// Whether it needs a network to cut, or a disk to fill.
    pub needs_sandbox: bool,
    draw: fn(&mut Rng) -> Fault,
}

impl Kind {
    /// One of its kind.
    pub(crate) fn draw(&self, rng: &mut Rng) -> Fault {
        (self.draw)(rng)
    }
}

const fn kind(name: &'static str, every_ms: (u64, u64), draw: fn(&mut Rng) -> Fault) -> Kind {
    Kind { name, every_ms, is_constant: false, needs_sandbox: false, draw }
}

const fn constant(kind: Kind) -> Kind {
    Kind { is_constant: true, ..kind }
}

const fn in_sandbox(kind: Kind) -> Kind {
    Kind { needs_sandbox: true, ..kind }
}

/// Every kind there is. Single kills, pauses and the faults of those who draw ids are in every run; of
/// the others a seed takes about half.
pub const KINDS: &[Kind] = &[
    constant(kind("kill", (3_000, 4_000), kill_one)),
    constant(kind("pause", (15_000, 30_000), pause)),
    constant(kind("drawer-killed", (8_000, 16_000), drawer_killed)),
    constant(kind("drawer-paused", (8_000, 20_000), drawer_paused)),
    constant(kind("clock-step", (4_000, 12_000), clock_step)),
    kind("kill-two", (20_000, 60_000), kill_two),
    kind("mass-restart", (90_000, 240_000), mass_restart),
    in_sandbox(kind("isolate", (30_000, 90_000), isolate)),
    in_sandbox(kind("split", (30_000, 90_000), split)),
    in_sandbox(kind("bridge", (40_000, 120_000), bridge)),
    in_sandbox(kind("one-way", (20_000, 60_000), one_way)),
    in_sandbox(kind("no-store", (20_000, 60_000), no_store)),
    in_sandbox(kind("deaf-to-store", (30_000, 90_000), deaf_to_store)),
    in_sandbox(kind("no-queues", (20_000, 60_000), no_queues)),
    in_sandbox(kind("drawer-cut", (15_000, 40_000), drawer_cut)),
    kind("store-killed", (40_000, 120_000), store_killed),
    kind("store-paused", (60_000, 180_000), store_paused),
    kind("queues-killed", (50_000, 120_000), queues_killed),
    in_sandbox(kind("disk-full", (90_000, 240_000), disk_full)),
    kind("gc", (10_000, 40_000), |_| Fault::Gc),
    kind("reschedule", (20_000, 60_000), reschedule),
    kind("gc-lagging", (30_000, 90_000), gc_lagging),
    kind("gc-booting", (30_000, 90_000), |rng| Fault::GcBooting { node: node(rng) }),
    kind("gc-killed", (15_000, 60_000), gc_killed),
    in_sandbox(kind("reset", (10_000, 40_000), |rng| Fault::Reset { node: node(rng) })),
    in_sandbox(kind("thin-line", (30_000, 90_000), thin_line)),
    in_sandbox(kind("flicker", (30_000, 90_000), flicker)),
    kind("store-lost", (60_000, 180_000), store_lost),
];

fn node(rng: &mut Rng) -> usize {
    rng.below(NODES as u64) as usize
}

fn drawer(rng: &mut Rng) -> usize {
    rng.below(DRAWERS as u64) as usize
}

/// Shorter than a session, or a good deal longer.
fn around_a_session(rng: &mut Rng) -> u64 {
    match rng.chance(50) {
        true => rng.between(200, SESSION_MS * 2 / 3),
        false => rng.between(SESSION_MS * 3 / 2, SESSION_MS * 3),
    }
}

/// Some of the nodes, at least one and not all.
fn some_nodes(rng: &mut Rng) -> Vec<usize> {
    let (first, n) = (node(rng), rng.between(1, NODES as u64 - 1) as usize);
    let mut nodes: Vec<_> = (first..first + n).map(|index| index % NODES).collect();
    nodes.sort_unstable();
    nodes
}

fn kill_one(rng: &mut Rng) -> Fault {
    // Often at once: then its old peers are still thought to be there.
    let down_ms = if rng.chance(60) { rng.below(300) } else { rng.between(300, 5_000) };
    Fault::Kill { nodes: vec![node(rng)], down_ms }
}

fn kill_two(rng: &mut Rng) -> Fault {
    let first = node(rng);
    let mut nodes = vec![first, (first + 1) % NODES];
    nodes.sort_unstable();
    Fault::Kill { nodes, down_ms: rng.below(4_000) }
}

fn mass_restart(rng: &mut Rng) -> Fault {
    Fault::Kill { nodes: (0..NODES).collect(), down_ms: rng.below(2_000) }
}

fn pause(rng: &mut Rng) -> Fault {
    Fault::Pause { node: node(rng), for_ms: around_a_session(rng) }
}

fn isolate(rng: &mut Rng) -> Fault {
    Fault::Isolate { nodes: some_nodes(rng), for_ms: around_a_session(rng) }
}

fn split(rng: &mut Rng) -> Fault {
    Fault::Split { nodes: some_nodes(rng), for_ms: rng.between(2_000, 12_000) }
}

fn bridge(rng: &mut Rng) -> Fault {
    Fault::Bridge { middle: node(rng), for_ms: rng.between(2_000, 12_000) }
}

fn one_way(rng: &mut Rng) -> Fault {
    let from = node(rng);
    let to = (from + 1 + rng.below(NODES as u64 - 1) as usize) % NODES;
    Fault::OneWay { from, to, for_ms: rng.between(1_000, 10_000) }
}

fn no_store(rng: &mut Rng) -> Fault {
    Fault::NoStore { node: node(rng), for_ms: around_a_session(rng) }
}

fn deaf_to_store(rng: &mut Rng) -> Fault {
    Fault::DeafToStore { node: node(rng), for_ms: around_a_session(rng) }
}

fn no_queues(rng: &mut Rng) -> Fault {
    Fault::NoQueues { node: node(rng), for_ms: around_a_session(rng) }
}

fn store_killed(rng: &mut Rng) -> Fault {
    Fault::StoreKilled { down_ms: rng.below(4_000) }
}

fn store_paused(rng: &mut Rng) -> Fault {
    Fault::StorePaused { for_ms: around_a_session(rng) }
}

fn queues_killed(rng: &mut Rng) -> Fault {
    Fault::QueuesKilled { down_ms: rng.below(4_000) }
}

fn disk_full(rng: &mut Rng) -> Fault {
    Fault::DiskFull { node: node(rng), for_ms: rng.between(1_000, 5_000) }
}

fn clock_step(rng: &mut Rng) -> Fault {
    // From a millisecond to an hour, and as often back as ahead.
    let size = [1, 20, 400, 5_000, 60_000, 3_600_000];
    let most = *rng.pick(&size).unwrap_or(&1);
    let by_ms = 1 + rng.below(most) as i64;
    Fault::ClockStep { drawer: drawer(rng), by_ms: if rng.chance(50) { by_ms } else { -by_ms } }
}

fn drawer_killed(rng: &mut Rng) -> Fault {
    Fault::DrawerKilled { drawer: drawer(rng), down_ms: rng.below(3_000) }
}

fn drawer_paused(rng: &mut Rng) -> Fault {
    Fault::DrawerPaused { drawer: drawer(rng), for_ms: around_a_session(rng) }
}

fn drawer_cut(rng: &mut Rng) -> Fault {
    Fault::DrawerCut { drawer: drawer(rng), for_ms: around_a_session(rng) }
}

fn reschedule(rng: &mut Rng) -> Fault {
    let all = [JobScheduler::Greedy, JobScheduler::RoundRobin, JobScheduler::Percentage];
    let scheduler = *rng.pick(&all).unwrap_or(&JobScheduler::RoundRobin);
    Fault::Reschedule { scheduler }
}

fn gc_lagging(rng: &mut Rng) -> Fault {
    Fault::GcLagging { node: node(rng), for_ms: around_a_session(rng) }
}

fn gc_killed(rng: &mut Rng) -> Fault {
    // It takes some tens of milliseconds to start, and then trims in several steps.
    Fault::GcKilled { after_ms: rng.between(10, 400) }
}

fn thin_line(rng: &mut Rng) -> Fault {
    let kbit = *rng.pick(&[64, 256, 1_000]).unwrap_or(&256);
    Fault::ThinLine { node: node(rng), kbit, for_ms: rng.between(1_000, 8_000) }
}

fn flicker(rng: &mut Rng) -> Fault {
    let (dark_ms, well_ms) = (rng.between(30, 400), rng.between(30, 400));
    Fault::Flicker { node: node(rng), dark_ms, well_ms, for_ms: rng.between(2_000, 10_000) }
}

fn store_lost(rng: &mut Rng) -> Fault {
    Fault::StoreLost { down_ms: around_a_session(rng) }
}
