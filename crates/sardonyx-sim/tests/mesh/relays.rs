//! A line that is cut between two members, while both hear others, is no reason to suspect anybody;
//! and few messages that are lost are none either (A23).

use std::time::Duration;

use sardonyx_mesh::{Change, Reason, Status, Version};
use sardonyx_sim::mesh::World;

use crate::{
    cluster::{
        TEST, address, agree_within, agreed, config, established, n_resets, secs, settled, well,
    },
    number,
};

const TTL: f64 = 0.9;

/// How often anybody was said to be unreachable, on its way out, or out.
fn n_suspected(world: &World) -> usize {
    (0..world.len()).map(|it| world.counts(it)[2..].iter().sum::<usize>()).sum()
}

/// How often anybody lost its leader.
fn n_lost(world: &World, node: usize) -> usize {
    let lost = |it: &&Change| matches!(it, Change::Leader { claim: None, .. });
    world.changes(node).iter().filter(lost).count()
}

/// One link is cut, in one direction or both, between the leader and a follower.
fn nothing_happens(n: u32, cut: &[(usize, usize)]) {
    for seed in 1..10 {
        let mut world = settled(seed, n, &[0], TEST);
        world.network.cut.extend(cut);
        for _ in 0..40 {
            world.run(secs(0.5 * TTL));
            assert!(world.token(0).is_some(), "seed {seed}: it may act all the time");
        }
        well(&world);
        let all: Vec<usize> = (0..n as usize).collect();
        assert_eq!(agreed(&world, &all, n as usize), Version(1));
        assert_eq!(n_suspected(&world), 0, "seed {seed}");
        for node in all {
            assert_eq!((n_lost(&world, node), n_resets(&world, node)), (0, 0), "seed {seed}");
            assert!(world.status(node).unwrap().suspicions.is_empty(), "seed {seed}");
        }
    }
}

#[test]
fn a_cut_between_a_leader_and_a_follower_is_bridged_by_others() {
    for n in [3, 5, 7] {
        nothing_happens(n, &[(0, 1), (1, 0)]);
    }
}

#[test]
fn a_line_that_carries_one_way_only_is_bridged_by_others() {
    nothing_happens(5, &[(0, 1)]);
    nothing_happens(5, &[(1, 0)]);
}

#[test]
fn a_bridge_keeps_everybody_together() {
    // The leader hears only 1, and all others hear each other.
    nothing_happens(5, &[(0, 2), (2, 0), (0, 3), (3, 0), (0, 4), (4, 0)]);
    // Two groups, and 2 in both of them.
    let apart = [(0, 3), (0, 4), (1, 3), (1, 4)];
    let both: Vec<_> =
        apart.iter().flat_map(|(one, other)| [(*one, *other), (*other, *one)]).collect();
    nothing_happens(5, &both);
}

#[test]
fn what_changes_in_the_table_comes_by_relays_too() {
    let mut world = settled(3, 5, &[0], TEST);
    world.network.cut.extend([(0, 1), (1, 0)]);
    world.run(secs(2.0 * TTL));
    world.crash(4);
    let is_out = |world: &World| world.member(1).unwrap().table().get(&address(4)).is_none();
    let took = world.until(secs(3.0 * TTL), is_out).expect("it hears of it");
    assert!(took < secs(1.05 * TTL + 0.2 + 0.01), "as soon as its next sign of life: {took:?}");
    world.start(4);
    agree_within(&mut world, secs(1.0), &[0, 1, 2, 3, 4], 5);
    assert_eq!(n_lost(&world, 1), 0);
}

#[test]
fn the_dead_are_noticed_as_soon_as_without_relays() {
    for seed in 1..20 {
        let died = |relays: bool| {
            let mut world = settled(seed, 5, &[0], TEST);
            world.held_back = (!relays).then_some("Relay");
            world.crash(3);
            let is_so = |world: &World| {
                let row = world.member(1).unwrap().table().get(&address(3)).cloned();
                row.is_some_and(|it| it.status == Status::Unreachable)
            };
            world.until(secs(1.0), is_so).unwrap()
        };
        let (with, without) = (died(true), died(false));
        assert!(with <= without.mul_f64(1.1), "{with:?} against {without:?}");
    }
}

#[test]
fn who_is_cut_off_from_everybody_is_suspected_as_before() {
    let mut world = settled(5, 5, &[0], TEST);
    world.network.isolate(3, 5);
    let is_out = |world: &World| world.member(1).unwrap().table().get(&address(3)).is_none();
    assert!(world.until(secs(1.05 * TTL + 0.01), is_out).is_some());
    well(&world);
}

#[test]
fn a_stranger_is_carried_nowhere() {
    let mut world = settled(6, 3, &[0], TEST);
    let stranger =
        sardonyx_mesh::NodeId { address: address(9), incarnation: sardonyx_mesh::Incarnation(1) };
    world.held_back = Some("Relayed");
    let why = sardonyx_mesh::message::NackReason::NotLeader { claim: None };
    let incarnation = world.process(2).unwrap().incarnation;
    let nack = sardonyx_mesh::Message::LeaderKeepAliveNack { incarnation, why };
    let carried = sardonyx_mesh::message::carried::Carried::of(&nack).unwrap();
    let carried = Box::new(carried);
    let relay = sardonyx_mesh::Message::Relay { to: address(2), carried: carried.clone() };
    world.inject(1, stranger.clone(), relay);
    assert_eq!(world.n_aside(), 0, "it is no member");
    // Nor does it carry anything to us.
    let leader = world.process(0).unwrap();
    let relayed = sardonyx_mesh::Message::Relayed { origin: leader, carried };
    world.inject(2, stranger, relayed);
    assert_eq!(n_lost(&world, 2), 0);
}

/// What the loss of messages does to fifty members in some virtual minutes.
struct Lossy {
    unreachable: usize,
    removed: usize,
    has_token: bool,
}

fn lossy(seed: u64, lost_per_mille: u64, span: Duration, relays: bool) -> Lossy {
    const N: usize = 50;
    let mut world = World::new(seed);
    for node in 0..N {
        world.add(config(5, node, &[0, 1, 2], "0.5/1.5/4.5/1"));
    }
    (0..N).for_each(|node| world.start(node));
    let all: Vec<usize> = (0..N).collect();
    agree_within(&mut world, secs(20.0), &all, N);
    world.run(secs(10.0));
    world.held_back = (!relays).then_some("Relay");
    let leader = established(&world).unwrap();
    let before = world.counts(leader);
    world.network.lost_per_mille = lost_per_mille;
    let slices = (span.as_secs() / 10).max(1);
    for _ in 0..slices {
        world.run(secs(10.0));
        world.take_aside();
    }
    well(&world);
    let after = world.counts(leader);
    let has_token = established(&world).is_some();
    Lossy { unreachable: after[2] - before[2], removed: after[4] - before[4], has_token }
}

/// A23 and G8: `MESH_LOSS_SECONDS` of virtual time; an hour is 3600.
#[test]
fn a23_loss_suspects_almost_nobody_and_removes_nobody() {
    let span = Duration::from_secs(number("MESH_LOSS_SECONDS", 300));
    let few = lossy(23, 10, span, true);
    println!("1 % lost: {} unreachable, {} removed (goal 0, 0)", few.unreachable, few.removed);
    assert_eq!((few.unreachable, few.removed), (0, 0));
    let (with, without) = (lossy(23, 100, span, true), lossy(23, 100, span, false));
    println!(
        "10 % lost: {} unreachable with relays, {} without (goal 50 times fewer); {} removed",
        with.unreachable, without.unreachable, with.removed
    );
    assert!(with.removed == 0 && with.has_token);
    assert!(without.unreachable >= 50 * with.unreachable.max(1), "too few");
    let many = lossy(23, 300, span, true);
    println!("30 % lost: {} unreachable, {} removed", many.unreachable, many.removed);
    assert!(many.has_token, "there is a leader that may act");
}

/// G8: who stands still for a while is suspected at most itself, also if it is the leader.
#[test]
fn a_member_that_stands_still_makes_nobody_suspect_others() {
    const N: usize = 20;
    let mut world = World::new(8);
    for node in 0..N {
        world.add(config(5, node, &[0, 1, 2], "0.5/1.5/4.5/1"));
    }
    (0..N).for_each(|node| world.start(node));
    let all: Vec<usize> = (0..N).collect();
    agree_within(&mut world, secs(20.0), &all, N);
    world.run(secs(10.0));
    let mut n_seen: Vec<usize> = (0..N).map(|node| world.changes(node).len()).collect();
    for round in 0..100_usize {
        let frozen = round * 7 % N;
        world.pause(frozen, secs(0.8 * 4.5 * (round % 10) as f64 / 9.0 + 0.01));
        world.run(secs(12.0));
        agree_within(&mut world, secs(1.0), &all, N);
        for (node, n_seen) in n_seen.iter_mut().enumerate() {
            let silent = |it: &&Change| match it {
                Change::Member { row, reason: Reason::Silent { .. }, .. } => {
                    row.node.address != address(frozen)
                }
                Change::Member { .. }
                | Change::Leader { .. }
                | Change::Lease { .. }
                | Change::ViewReset { .. }
                | Change::Stopped
                | Change::Warning(_) => false,
            };
            let n_others = world.changes(node)[*n_seen..].iter().filter(silent).count();
            assert_eq!(n_others, 0, "round {round}: {node} heard that others are silent");
            *n_seen = world.changes(node).len();
        }
    }
}
