//! The document's own cases, T1 to T17, and its four exceptional ones, on virtual time.
//!
//! Waits are the document's. T18 to T20 are about connections and users' events, not the machine.

use std::time::Duration;

use sardonyx_mesh::{
    Config, Message, NodeId, Profile, Status, Version,
    address::Incarnation,
    mutant::{Mutant, with_mutant},
};
use sardonyx_sim::mesh::World;

use crate::cluster::{
    DOCUMENTED, TEST, address, agree_within, agreed, aside, config, established, secs, settled,
    timers, well, world,
};

#[test]
fn t1_a_bad_configuration_is_refused_by_the_first_rule_it_breaks() {
    let good = config(3, 0, &[0], TEST);
    let refused = |change: &dyn Fn(&mut Config)| {
        let mut bad = good.clone();
        change(&mut bad);
        bad.check().unwrap_err().to_string()
    };
    let zero = Duration::ZERO;
    let cases: Vec<(&str, String)> = vec![
        ("nodes", refused(&|it| it.nodes = 0)),
        ("nodes", refused(&|it| it.nodes = 102)),
        ("nodes", refused(&|it| (it.nodes, it.name) = (0, String::new()))),
        ("name", refused(&|it| it.name = " ".to_owned())),
        ("cluster", refused(&|it| it.cluster = "x".repeat(129))),
        ("seeds", refused(&|it| it.seeds.clear())),
        ("seeds", refused(&|it| it.seeds = vec![address(0); 257])),
        ("heartbeat-interval", refused(&|it| it.timers.heartbeat_interval = zero)),
        ("heartbeat-timeout", refused(&|it| it.timers.heartbeat_timeout = zero)),
        ("ttl-timeout", refused(&|it| it.timers.ttl_timeout = zero)),
        ("retry-interval", refused(&|it| it.timers.retry_interval = zero)),
        ("retry-interval", refused(&|it| it.timers.retry_interval = secs(86_401.0))),
        ("must not be above", refused(&|it| it.timers.heartbeat_timeout = secs(1.0))),
        ("no lease would last", refused(&|it| it.timers.heartbeat_interval = secs(0.405))),
        ("voters", refused(&|it| it.voters = Some(vec![address(0), address(1)]))),
        ("voters", refused(&|it| it.voters = Some(vec![address(0); 3]))),
        (
            "observer",
            refused(&|it| {
                it.observer = true;
                it.voters = Some(vec![address(0), address(1), address(2)]);
            }),
        ),
    ];
    for (rule, refused) in cases {
        assert!(refused.contains(rule), "{rule}: {refused}");
    }
    for profile in Profile::ALL {
        let timers = profile.timers();
        assert!(Config { timers, nodes: 101, ..good.clone() }.check().is_ok());
        assert_eq!(profile.name().parse::<Profile>(), Ok(profile));
    }
    assert!("fast".parse::<Profile>().unwrap_err().to_string().contains("lan"));
}

#[test]
fn members_that_do_not_fit_are_told_why() {
    let ours = config(3, 0, &[0], TEST);
    let refused = |change: &dyn Fn(&mut Config)| {
        let mut other = ours.clone();
        change(&mut other);
        ours.fits(&other.summary()).unwrap_err().to_string()
    };
    assert!(ours.fits(&config(3, 1, &[1], TEST).summary()).is_ok());
    assert!(refused(&|it| it.nodes = 5).contains("5 nodes"));
    assert!(refused(&|it| it.cluster = "x".to_owned()).contains("cluster \"x\""));
    assert!(refused(&|it| it.timers.ttl_timeout = secs(1.0)).contains("ttl-timeout"));
    assert!(refused(&|it| it.timers.retry_interval = secs(1.7)).contains("retry-interval"));
}

#[test]
fn t2_who_was_unreachable_is_active_again_when_it_is_heard() {
    let mut world = World::new(2);
    world.add(config(7, 0, &[0], "5/2/20/5"));
    world.add(config(7, 1, &[0], "1/2/20/5"));
    for node in 2..7 {
        world.add(config(7, node, &[0], "8/4/20/5"));
    }
    world.start(0);
    world.run(secs(1.0));
    (1..7).for_each(|node| world.start(node));
    world.run(secs(6.0));
    well(&world);
    assert_eq!(world.counts(0), [7, 7, 5, 0, 0]);
    let [joining, active, unreachable, leaving, removed] = world.counts(1);
    assert!((1..=6).contains(&joining), "{joining}");
    assert_eq!([active, unreachable, leaving, removed], [7, 5, 0, 0]);
    world.run(secs(4.0));
    assert_eq!(world.counts(0)[1..3], [12, 5]);
    assert_eq!(world.counts(1)[1..3], [12, 5]);
}

#[test]
fn t3_seeds_that_disagree_find_each_other() {
    let mut world = World::new(3);
    world.add(config(3, 0, &[0, 1], "3/6/15/5"));
    world.add(config(3, 1, &[1], "3/6/15/5"));
    world.add(config(3, 2, &[0, 1, 2], "3/6/15/5"));
    for node in 0..3 {
        world.start(node);
        world.run(secs(1.0));
    }
    world.run(secs(10.0));
    assert_eq!(agreed(&world, &[0, 1, 2], 3), Version(1));
    assert_eq!(world.leader_of(0), Some(1), "the larger address wins");
    for node in 0..3 {
        assert_eq!(world.counts(node)[2..], [0, 0, 0], "node {node}");
    }
    assert_eq!(world.counts(1)[..2], [3, 3]);
}

#[test]
fn t4_the_leader_dies() {
    let mut world = settled(4, 3, &[0], "2/4/5/2");
    world.crash(0);
    world.run(secs(15.0));
    assert_eq!(agreed(&world, &[1, 2], 2), Version(2));
    assert_eq!(world.counts(1), [2, 3, 1, 1, 1]);
    assert_eq!(world.counts(2), [1, 3, 1, 1, 1]);
}

#[test]
fn t5_how_often_each_user_is_told() {
    for n in 1..=3 {
        let nodes = u32::try_from(n).unwrap();
        let mut world = world(5, nodes, &[0], "1/2/3/2");
        for node in 0..n {
            world.start(node);
            world.run(secs(1.0));
        }
        let all: Vec<usize> = (0..n).collect();
        assert_eq!(agreed(&world, &all, n), Version(1));
        for node in (0..n).rev() {
            let gone = n - node - 1;
            assert_eq!(world.counts(node), [n - node, n, gone, gone, gone], "{node} of {n}");
            world.crash(node);
            world.run(secs(5.0));
            well(&world);
        }
    }
}

/// Starts nodes at the given times and expects agreement in time.
fn start_at(seed: u64, seeds: &[usize], spans: &str, at: &[f64], within: f64) -> Version {
    let mut world = world(seed, u32::try_from(at.len()).unwrap(), seeds, spans);
    let mut order: Vec<(f64, usize)> = at.iter().copied().zip(0..).collect();
    order.sort_by(|one, other| one.partial_cmp(other).unwrap());
    for (at, node) in order {
        let wait = secs(at).saturating_sub(world.now());
        world.run(wait);
        world.start(node);
    }
    let all: Vec<usize> = (0..at.len()).collect();
    agree_within(&mut world, secs(within), &all, at.len());
    let version = agreed(&world, &all, at.len());
    // And it stays so, with an elected leader.
    world.run(secs(within));
    assert_eq!(agreed(&world, &all, at.len()), version);
    assert!(established(&world).is_some());
    version
}

#[test]
fn t6_t7_t8_t9_one_seed_first_last_or_together() {
    let one = Version(1);
    assert_eq!(start_at(6, &[0], "1/2/3/2", &[0.0], 5.0), one);
    for at in [[0.0, 1.0, 2.0], [1.0, 0.0, 2.0], [2.0, 1.0, 0.0]] {
        assert_eq!(start_at(6, &[0], "1/2/3/2", &at, 5.0), one, "T6 {at:?}");
    }
    for seed in 1..20 {
        assert_eq!(start_at(seed, &[0], DOCUMENTED, &[0.0, 2.0, 2.0], 5.0), one, "T7");
        assert_eq!(start_at(seed, &[0], "1/2/3/2", &[1.0, 0.0, 0.0], 5.0), one, "T8");
        assert_eq!(start_at(seed, &[0], "1/2/3/2", &[0.0; 3], 5.0), one, "T9");
    }
}

#[test]
fn t10_t12_several_seeds_at_once_are_one_cluster_within_five_seconds() {
    let subsets: [&[usize]; 7] = [&[0], &[1], &[2], &[0, 1], &[0, 2], &[1, 2], &[0, 1, 2]];
    for seed in 1..10 {
        for seeds in subsets {
            start_at(seed, seeds, "1/2/3/2", &[0.0; 3], 5.0);
        }
    }
}

#[test]
fn t11_all_are_seeds_and_start_one_after_the_other() {
    for at in [[0.0, 1.0, 2.0], [1.0, 0.0, 2.0], [2.0, 1.0, 0.0], [1.0, 2.0, 0.0]] {
        let version = start_at(11, &[0, 1, 2], DOCUMENTED, &at, 3.0);
        assert_eq!(version, Version(1));
    }
}

#[test]
fn t13_shrinking_to_a_quorum() {
    for seed in 1..20 {
        let mut world = settled(seed, 5, &[0], "1/2/3/2");
        let mut live: Vec<usize> = (0..5).collect();
        let mut version = Version(1);
        let mut at = seed as usize;
        while live.len() > 3 {
            at = at * 7 + 3;
            let gone = live.remove(at % live.len());
            let was_leader = world.leader_of(gone) == Some(gone);
            world.crash(gone);
            let wait = if was_leader { 9.0 } else { 5.0 };
            world.run(secs(wait));
            if was_leader {
                version = version.next();
            }
            assert_eq!(agreed(&world, &live, live.len()), version, "seed {seed}");
        }
    }
}

#[test]
fn t14_leaders_die_in_a_row_until_nobody_can_lead() {
    let mut world = settled(14, 5, &[0], "1/2/3/2");
    let mut live: Vec<usize> = (0..5).collect();
    for version in [2, 3] {
        let leader = world.leader_of(live[0]).unwrap();
        live.retain(|it| *it != leader);
        world.crash(leader);
        world.run(secs(9.0));
        assert_eq!(agreed(&world, &live, live.len()), Version(version));
    }
    let leader = world.leader_of(live[0]).unwrap();
    live.retain(|it| *it != leader);
    world.crash(leader);
    world.run(secs(9.0));
    well(&world);
    assert!(!live.contains(&0), "the seed was the first leader");
    for node in live {
        assert_eq!(world.claim(node), None);
    }
}

#[test]
fn t15_exactly_a_quorum_is_left() {
    for nodes in [3, 5] {
        assert_eq!(elected_by_exactly_a_quorum(nodes), Some(Version(2)), "of {nodes}");
    }
}

/// `cargo xtask mutants` reads the line.
#[test]
fn a_vote_that_its_proposer_does_not_count_is_missed_where_exactly_a_quorum_is_left() {
    let begun = std::time::Instant::now();
    let elected =
        |nodes| with_mutant(Some(Mutant::OwnVoteUncounted), || elected_by_exactly_a_quorum(nodes));
    let missed = [3, 5].into_iter().find(|nodes| elected(*nodes).is_none());
    let nodes = missed.expect("OwnVoteUncounted goes unnoticed");
    let ms = begun.elapsed().as_millis();
    println!("MUTANT\tOwnVoteUncounted\tmesh case T15: a quorum elects\t{nodes} nodes\t{ms}");
}

/// The leader and all that are too many die; which version the others agree on in the document's time.
fn elected_by_exactly_a_quorum(nodes: u32) -> Option<Version> {
    // What is tested is the election that follows.
    let mut world = with_mutant(None, || settled(15, nodes, &[0], "1/2/3/2"));
    let dead: &[usize] = if nodes == 3 { &[0] } else { &[0, 3] };
    for node in dead {
        world.crash(*node);
    }
    world.run(secs(9.0));
    well(&world);
    let left: Vec<usize> = (0..nodes as usize).filter(|it| !dead.contains(it)).collect();
    world.agree(&left, left.len())
}

#[test]
fn t16_a_rolling_reboot() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
        let mut world = settled(16, 3, &[0, 1], "1/2/3/2");
        let mut version = Version(1);
        for node in order {
            let was_leader = world.leader_of(node) == Some(node);
            let rest: Vec<usize> = (0..3).filter(|it| *it != node).collect();
            world.crash(node);
            world.run(secs(if was_leader { 9.0 } else { 5.0 }));
            if was_leader {
                version = version.next();
            }
            assert_eq!(agreed(&world, &rest, 2), version);
            world.start(node);
            world.run(secs(2.0));
            assert_eq!(agreed(&world, &[0, 1, 2], 3), version);
            // A voter holds back for a ttl after it began anew; then the next may go.
            world.run(secs(3.0));
        }
    }
}

#[test]
fn t17_a_minority_with_a_seed_goes_on_provisionally() {
    let mut world = settled(17, 3, &[0, 1], "1/2/3/3");
    world.crash(0);
    world.run(secs(9.0));
    assert_eq!(agreed(&world, &[1, 2], 2), Version(2));
    world.start(0);
    world.run(secs(5.0));
    assert_eq!(agreed(&world, &[0, 1, 2], 3), Version(2));
    world.crash(1);
    world.crash(2);
    agree_within(&mut world, secs(15.0), &[0], 1);
    assert_eq!(agreed(&world, &[0], 1), Version(3));
    assert_eq!(world.leader_of(0), Some(0));
    assert_eq!(established(&world), None, "nobody elected it");
    assert_eq!(world.member(0).unwrap().kept().established, Version(2));
}

#[test]
fn case_1_who_polled_in_time_but_was_late_starts_no_second_election() {
    for seed in 1..50 {
        let mut world = settled(seed, 5, &[0], TEST);
        world.network.delay_max = 20_000;
        world.crash(0);
        let rest = [1, 2, 3, 4];
        agree_within(&mut world, secs(6.0), &rest, 4);
        world.run(secs(3.0));
        assert_eq!(agreed(&world, &rest, 4), Version(2), "seed {seed}: one election was enough");
    }
}

#[test]
fn case_2_an_update_that_overtakes_the_answer_waits_for_it() {
    let mut world = world(22, 3, &[0], TEST);
    world.start(0);
    world.run(secs(0.5));
    world.held_back = Some("JoinClusterResponse");
    world.start(1);
    world.run(secs(0.01));
    let (to, from, answer) = aside(&mut world, "JoinClusterResponse");
    world.held_back = None;
    // Another joins meanwhile: its update reaches node 1 before the answer does.
    world.start(2);
    world.run(secs(0.05));
    assert_eq!(world.claim(1), None);
    world.inject(to, from, answer);
    world.run(secs(0.02));
    agreed(&world, &[0, 1, 2], 3);
    assert_eq!(world.counts(1)[..2], [1 + 1, 3], "itself and node 2 as joining, all as active");
}

#[test]
fn case_3_everybody_that_heartbeats_is_aligned_whatever_its_status() {
    let mut world = settled(23, 3, &[0], TEST);
    // Node 2 is cut off long enough to be unreachable, and misses that node 1 leaves.
    world.network.isolate(2, 3);
    world.run(secs(0.5));
    let row = world.member(0).unwrap().table().get(&address(2)).unwrap().clone();
    assert_eq!(row.status, Status::Unreachable);
    world.crash(1);
    world.run(secs(0.3));
    world.network.heal();
    let aligned = |world: &World| {
        let tables = [0, 2].map(|it| world.member(it).unwrap().table().clone());
        tables[0] == tables[1]
    };
    let took = world.until(secs(0.2), aligned);
    well(&world);
    assert!(took.is_some(), "two heartbeats were not enough");
}

#[test]
fn case_4_who_is_joining_a_leader_that_is_relieved_joins_the_winner() {
    let mut world = World::new(24);
    let spans = "1/2/9/2";
    for node in 0..3 {
        world.add(config(5, node, &[0, 1], spans));
    }
    // Two seeds that do not see each other, neither of them elected by anybody, and one that is
    // just joining the loser.
    world.network.cut.extend([(0, 1), (1, 0), (2, 1), (1, 2)]);
    world.start(0);
    world.start(1);
    world.run(secs(1.5));
    world.held_back = Some("JoinClusterResponse");
    world.start(2);
    world.run(secs(1.1));
    world.take_aside();
    world.held_back = None;
    assert_eq!(world.claim(2), None, "it waits for an answer that is lost");
    world.network.heal();
    let took = agree_within(&mut world, secs(5.0), &[0, 1, 2], 3);
    assert_eq!(world.leader_of(2), Some(1));
    let ttl = timers(spans).ttl_timeout;
    assert!(took < ttl * 3, "not by beginning anew: {took:?}");
}

#[test]
fn a6_an_order_that_was_true_of_another_time_is_not_followed() {
    // What a leader of the past, or somebody about it, says.
    let mut world = settled(6, 3, &[0, 1], TEST);
    let old = world.claim(0).unwrap().clone();
    world.crash(0);
    agree_within(&mut world, secs(6.0), &[1, 2], 2);
    let new = world.claim(1).unwrap().clone();
    let leader = world.leader_of(1).unwrap();
    let follower = 3 - leader;
    let before = world.member(follower).unwrap().table().clone();
    let step = sardonyx_mesh::view::Step {
        row: sardonyx_mesh::Row {
            status: Status::Unreachable,
            ..before.get(&address(leader)).unwrap().clone()
        },
        reason: sardonyx_mesh::Reason::HeardAgain,
    };
    let stale =
        Message::MemberStatusUpdate { claim: old.clone(), after: before.seq, steps: vec![step] };
    world.inject(follower, old.leader.clone(), stale);
    assert_eq!(*world.member(follower).unwrap().table(), before);
    // A relief that names another loser, a winner that does not outrank, and an order to rejoin by
    // somebody who does not lead.
    let liar = NodeId { address: address(0), incarnation: Incarnation(9) };
    let better =
        sardonyx_mesh::Claim { leader: liar.clone(), version: Version(1), certified: false };
    let relieve = Message::LeaderRelieve { loser: old.clone(), winner: better.clone() };
    world.inject(leader, liar.clone(), relieve);
    let relieve = Message::LeaderRelieve { loser: new.clone(), winner: better.clone() };
    world.inject(leader, liar.clone(), relieve);
    let rejoin = Message::ReJoinCluster { loser: new.clone(), winner: None };
    world.inject(follower, liar.clone(), rejoin);
    assert_eq!(world.claim(leader), Some(&new));
    assert_eq!(world.claim(follower), Some(&new));
    agreed(&world, &[1, 2], 2);
}
