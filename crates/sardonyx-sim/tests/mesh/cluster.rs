//! Small meshes for cases: nodes by their index, timers as `interval/timeout/ttl/retry` in seconds.

use std::time::Duration;

use sardonyx_mesh::{Address, Change, Config, Message, Timers, Version, change::Reason};
use sardonyx_sim::mesh::World;

pub(crate) fn secs(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

pub(crate) fn address(node: usize) -> Address {
    Address::new("127.0.0.1", 10_001 + u16::try_from(node).unwrap()).unwrap()
}

/// Timers from `1/2/3/2`.
pub(crate) fn timers(text: &str) -> Timers {
    let spans: Vec<Duration> = text.split('/').map(|it| secs(it.parse().unwrap())).collect();
    Timers {
        heartbeat_interval: spans[0],
        heartbeat_timeout: spans[1],
        ttl_timeout: spans[2],
        retry_interval: spans[3],
    }
}

pub(crate) const TEST: &str = "0.1/0.3/0.9/0.2";
pub(crate) const DOCUMENTED: &str = "10/30/90/5";

pub(crate) fn config(nodes: u32, node: usize, seeds: &[usize], spans: &str) -> Config {
    Config {
        nodes,
        address: address(node),
        name: format!("n{}", node + 1),
        cluster: "cases".to_owned(),
        seeds: seeds.iter().map(|it| address(*it)).collect(),
        voters: None,
        observer: false,
        found_by_itself: true,
        timers: timers(spans),
    }
    .check()
    .unwrap()
}

/// A world of `n` nodes that are not started, all with the same seeds and timers.
pub(crate) fn world(seed: u64, nodes: u32, seeds: &[usize], spans: &str) -> World {
    let mut world = World::new(seed);
    for node in 0..nodes as usize {
        world.add(config(nodes, node, seeds, spans));
    }
    world
}

/// The same, started one after the other and settled: node 0 leads version 1, all are voters.
pub(crate) fn settled(seed: u64, nodes: u32, seeds: &[usize], spans: &str) -> World {
    let mut world = world(seed, nodes, seeds, spans);
    for node in 0..nodes as usize {
        world.start(node);
        world.run(timers(spans).retry_interval + timers(spans).heartbeat_interval);
    }
    let all: Vec<usize> = (0..nodes as usize).collect();
    let is_settled = |world: &World| {
        let all_vote = all.iter().all(|it| {
            world.member(*it).is_some_and(|it| it.kept().slots.bound.len() == nodes as usize)
        });
        all_vote
            && world.agree(&all, nodes as usize) == Some(Version(1))
            && established(world).is_some()
    };
    let took = world.until(timers(spans).ttl_timeout * 4, is_settled);
    assert!(took.is_some(), "not settled: {:?}", world.broken());
    // Long enough for every voter to hold back for the leader.
    world.run(timers(spans).heartbeat_interval * 3);
    well(&world);
    world
}

/// The node that shows a token.
pub(crate) fn established(world: &World) -> Option<usize> {
    (0..world.len()).find(|it| world.token(*it).is_some())
}

/// No law was broken.
pub(crate) fn well(world: &World) {
    assert_eq!(world.broken(), None, "{}", world.trace());
}

/// All listed nodes agree on a leader and have `n_active` active members; which version.
pub(crate) fn agreed(world: &World, nodes: &[usize], n_active: usize) -> Version {
    well(world);
    let version = world.agree(nodes, n_active);
    version.unwrap_or_else(|| {
        let shown: Vec<String> = nodes
            .iter()
            .map(|it| {
                format!("{:?} {:?}\n", world.claim(*it), world.member(*it).map(|it| it.table()))
            })
            .collect();
        panic!("{nodes:?} do not agree on {n_active} active members:\n{shown:?}")
    })
}

/// Waits until the listed nodes agree, at most for `span`; how long it took.
pub(crate) fn agree_within(
    world: &mut World,
    span: Duration,
    nodes: &[usize],
    n: usize,
) -> Duration {
    let took = world.until(span, |world| world.agree(nodes, n).is_some());
    agreed(world, nodes, n);
    took.unwrap()
}

/// How often a node's user was told that it begins anew.
pub(crate) fn n_resets(world: &World, node: usize) -> usize {
    world.changes(node).iter().filter(|it| matches!(it, Change::ViewReset { .. })).count()
}

/// The reasons that a node's user was given for changes of members.
pub(crate) fn reasons(world: &World, node: usize) -> Vec<Reason> {
    let of = |change: &Change| match change {
        Change::Member { reason, .. } => Some(reason.clone()),
        Change::Leader { .. }
        | Change::Lease { .. }
        | Change::ViewReset { .. }
        | Change::Stopped
        | Change::Warning(_) => None,
    };
    world.changes(node).iter().filter_map(of).collect()
}

/// The first message of that name which was put aside.
pub(crate) fn aside(world: &mut World, name: &str) -> (usize, sardonyx_mesh::NodeId, Message) {
    let all = world.take_aside();
    let found = all.into_iter().find(|(_, _, message)| message.name() == name);
    found.unwrap_or_else(|| panic!("no {name} was sent"))
}
