//! The cases A1 to A25 as far as they are about the machine. A1 is in `storms` and `model`, A23 in
//! `relays`; A17, A18, A20, A21 and A22 are about connections and queues. Which test is which is in
//! `docs/mesh-cases.md`.

use std::collections::BTreeSet;

use sardonyx_mesh::{
    Change, Input, Member, Message, Phase, Profile, Quality, Reason, Status, Version,
    kept::Recovery,
    vote::{Ballot, Certificate, Value},
};
use sardonyx_sim::mesh::World;

use crate::cluster::{
    TEST, address, agree_within, agreed, config, established, n_resets, reasons, secs, settled,
    timers, well,
};

const TTL: f64 = 0.9;

#[test]
fn a2_a_voter_that_restarts_keeps_its_promise_and_one_without_a_store_does_not_vote() {
    // Kept: the promise is on the disk before the answer is out.
    let mut world = settled(2, 3, &[0], TEST);
    world.crash(0);
    world.held_back = Some("Vote");
    let voted = world.until(secs(3.0), |world| world.n_aside() > 0);
    assert!(voted.is_some());
    let (proposer, voter, _) = world.take_aside().remove(0);
    let voter = (1..3).find(|it| *it != proposer && address(*it) == voter.address).unwrap();
    let promised = world.disk(voter).unwrap().votes.get(&Version(2)).cloned();
    assert!(promised.unwrap().promised.is_some(), "it answered, so it is kept");
    // Lost: the voter does not vote until a later version than the present is established.
    let mut world = settled(2, 3, &[0], TEST);
    world.crash(2);
    world.lose_disk(2);
    world.start(2);
    agree_within(&mut world, secs(2.0), &[0, 1, 2], 3);
    world.run(secs(2.0 * TTL));
    assert_eq!(world.member(2).unwrap().kept().recovery, Recovery::UpTo(Version(2)));
    assert!(world.status(2).unwrap().voting.is_err());
    world.crash(0);
    world.run(secs(3.0 * TTL));
    well(&world);
    assert_eq!(established(&world), None, "one of three may not decide");
    // The leader comes back: now there is a majority that remembers, and then all are whole.
    world.start(0);
    let is_whole =
        |world: &World| world.agree(&[0, 1, 2], 3).is_some() && established(world).is_some();
    assert!(world.until(secs(6.0 * TTL), is_whole).is_some());
    well(&world);
    let restored = |world: &World| world.member(2).unwrap().kept().recovery == Recovery::Intact;
    assert!(world.until(secs(1.0), restored).is_some());
}

#[test]
fn a3_a_leader_that_was_frozen_changes_nothing_when_it_wakes() {
    let mut world = settled(3, 5, &[0, 1], TEST);
    let claim = world.claim(0).unwrap().clone();
    world.pause(0, secs(4.0 * TTL));
    world.run(secs(3.9 * TTL));
    let rest = [1, 2, 3, 4];
    assert_eq!(agreed(&world, &rest, 4), Version(2));
    let before: Vec<usize> = rest.iter().map(|it| world.counts(*it)[2..].iter().sum()).collect();
    agree_within(&mut world, secs(1.0), &[0, 1, 2, 3, 4], 5);
    let after: Vec<usize> = rest.iter().map(|it| world.counts(*it)[2..].iter().sum()).collect();
    assert_eq!(before, after, "nobody was called gone because the old leader woke");
    for node in rest {
        let by_stale = world.changes(node).iter().any(|change| {
            matches!(change, Change::Member { leader, version, reason, .. }
                if *leader == claim.leader && *version == claim.version
                    && matches!(reason, Reason::Silent { .. }))
        });
        assert!(!by_stale);
    }
}

#[test]
fn a4_a_leader_cut_off_with_a_minority_has_no_token_before_the_majority_has_one() {
    for seed in 1..100 {
        let mut world = settled(seed, 5, &[0, 3], TEST);
        world.network.split(5, &[&[0, 4], &[1, 2, 3]]);
        let lost = world.until(secs(TTL), |world| world.token(0).is_none()).unwrap();
        let gained = world.until(secs(2.0 * TTL), |world| established(world).is_some()).unwrap();
        assert!(lost > secs(0.0) && gained > secs(0.0));
        world.run(secs(2.0 * TTL));
        assert_eq!(agreed(&world, &[1, 2, 3], 3), Version(2));
        assert_eq!(world.status(0).unwrap().quality, Some(Quality::Provisional));
        assert_eq!(world.claim(0).unwrap().version, Version(1));
        let leader = world.leader_of(1).unwrap();
        world.network.heal();
        // Three heartbeats and a second, scaled like the rest.
        agree_within(&mut world, secs(0.5), &[0, 1, 2, 3, 4], 5);
        assert_eq!(world.leader_of(0), Some(leader), "the majority's leader stays");
        assert_eq!(agreed(&world, &[0, 1, 2, 3, 4], 5), Version(2));
    }
}

#[test]
fn a5_a_seed_that_was_alone_yields_to_the_elected_leader() {
    // The seed with the largest address, cut off until it leads by itself.
    let mut world = settled(5, 3, &[0, 2], TEST);
    world.network.isolate(2, 3);
    world.run(secs(6.0 * TTL));
    let alone = world.claim(2).unwrap().clone();
    assert!(!alone.certified && alone.version == Version(2) && world.leader_of(2) == Some(2));
    assert_eq!(agreed(&world, &[0, 1], 2), Version(1));
    world.network.heal();
    agree_within(&mut world, secs(0.5), &[0, 1, 2], 3);
    assert_eq!(world.leader_of(2), Some(0), "a smaller version and a smaller address, but elected");
    assert_eq!(n_resets(&world, 0) + n_resets(&world, 1), 0);
}

#[test]
fn a7_a_follower_that_was_cut_off_is_back_within_a_heartbeat() {
    for away in [1.2, 1.8, 2.5] {
        let mut world = settled(7, 3, &[0], TEST);
        world.network.isolate(2, 3);
        world.run(secs(away * TTL));
        world.network.heal();
        let took = agree_within(&mut world, secs(0.3), &[0, 1, 2], 3);
        assert!(took <= secs(0.1 + 0.01), "{away} ttl away: {took:?}");
    }
}

#[test]
fn a8_a_member_that_restarts_on_its_address_is_active_at_once_as_another() {
    let mut world = settled(8, 3, &[0], TEST);
    let old = world.process(2).unwrap();
    world.crash(2);
    world.run(secs(0.05));
    world.start(2);
    let took = agree_within(&mut world, secs(0.5), &[0, 1, 2], 3);
    assert!(took < secs(0.2), "{took:?}");
    assert!(reasons(&world, 1).contains(&Reason::Restarted));
    // The old life is refused.
    let seq = world.member(0).unwrap().table().seq;
    let claim = world.claim(0).unwrap().clone();
    let beat = sardonyx_mesh::Message::LeaderKeepAlive {
        leader: claim.leader,
        version: claim.version,
        digest: 0,
        seq: 0,
        echo: None,
        promised: Version(0),
        established: Version(1),
        slots: (Version(1), 0),
    };
    world.inject(0, old.clone(), beat);
    world.inject(0, old, sardonyx_mesh::Message::Leave);
    assert_eq!(world.member(0).unwrap().table().seq, seq);
    agreed(&world, &[0, 1, 2], 3);
}

#[test]
fn a9_one_more_than_there_are_voters_is_an_observer() {
    let mut world = settled(9, 3, &[0], TEST);
    let fourth = world.add(config(3, 3, &[0], TEST));
    world.start(fourth);
    agree_within(&mut world, secs(1.0), &[0, 1, 2, 3], 4);
    world.run(secs(2.0 * TTL));
    let report = world.status(3).unwrap();
    assert_eq!(report.voters, [address(0), address(1), address(2)]);
    assert!(report.voting.unwrap_err().contains("observer"));
    // It makes no majority: with two voters gone nobody leads by right.
    world.crash(1);
    world.crash(2);
    world.run(secs(3.0 * TTL));
    well(&world);
    assert_eq!(established(&world), None);
}

#[test]
fn a10_replacing_a_voter_never_makes_two_majorities() {
    let mut world = settled(10, 3, &[0], TEST);
    let fourth = world.add(config(3, 3, &[0], TEST));
    world.start(fourth);
    agree_within(&mut world, secs(1.0), &[0, 1, 2, 3], 4);
    let replace = Input::ReplaceVoter { old: address(2), new: address(3) };
    assert!(world.order(1, replace.clone()).unwrap().contains("only the leader"));
    // While voters 1 and 2 are cut off nothing is decided.
    world.network.split(4, &[&[0, 3], &[1, 2]]);
    assert_eq!(world.order(0, replace.clone()), None);
    world.run(secs(3.0 * TTL));
    well(&world);
    assert!(!world.status(3).unwrap().voters.contains(&address(3)));
    world.network.heal();
    let is_whole =
        |world: &World| world.agree(&[0, 1, 2, 3], 4).is_some() && established(world).is_some();
    assert!(world.until(secs(4.0), is_whole).is_some());
    well(&world);
    let leader = established(&world).unwrap();
    let voters: BTreeSet<_> = world.status(leader).unwrap().voters.into_iter().collect();
    if voters.contains(&address(2)) {
        assert_eq!(world.order(leader, replace), None);
    }
    let replaced = |world: &World| {
        let expected: BTreeSet<_> = [0, 1, 3].map(address).into();
        (0..4).all(|it| {
            world.status(it).unwrap().voters.into_iter().collect::<BTreeSet<_>>() == expected
        })
    };
    assert!(world.until(secs(3.0), replaced).is_some());
    well(&world);
    // The new voter counts after the next election, the old one no more.
    world.crash(2);
    world.crash(leader);
    world.run(secs(4.0 * TTL));
    well(&world);
}

/// Cuts all links but the given ones and waits for an established leader that is not the old one.
/// Nobody carries for others here: then the old leader would stay.
fn elects_within(n: u32, links: &[(usize, usize)], ttls: f64) {
    for seed in 1..30 {
        let mut world = settled(seed, n, &[0], TEST);
        world.network.only(n as usize, links);
        world.held_back = Some("Relay");
        let took = world.until(secs(ttls), |world| established(world).is_some_and(|it| it != 0));
        well(&world);
        assert!(took.is_some(), "seed {seed}, {links:?}: nobody was elected");
        // And it stays.
        let leader = established(&world).unwrap();
        world.run(secs(4.0 * TTL));
        well(&world);
        assert_eq!(established(&world), Some(leader), "seed {seed}: it does not stay");
    }
}

#[test]
fn a11_a_bridge_helps_a_connected_majority_against_a_leader_without_one() {
    // The old leader hears only 1; 1, 2, 3 and 4 hear each other.
    let links = [(0, 1), (1, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 4)];
    elects_within(5, &links, 2.0 * TTL);
}

#[test]
fn a12_quorum_loss_constrained_election_and_a_chain() {
    let timeout = 0.9 + 0.2;
    // Everybody hears only 2.
    elects_within(5, &[(2, 0), (2, 1), (2, 3), (2, 4)], 4.0 * timeout);
    // The old leader is gone, and of the others only 1 hears a majority.
    elects_within(5, &[(1, 2), (1, 3), (1, 4)], 4.0 * timeout);
    // The same, but the leader still hears one that hears no majority.
    elects_within(5, &[(0, 4), (1, 2), (1, 3), (1, 4)], 4.0 * timeout);
    // A chain in which the old leader is at the end.
    elects_within(5, &[(0, 1), (1, 2), (2, 3), (3, 4)], 4.0 * timeout);
}

#[test]
fn a12_a_chain_whose_leader_hears_a_majority_keeps_it() {
    let mut world = settled(12, 3, &[0], TEST);
    // 0 and 2 do not hear each other, but the leader and 1 are a majority.
    world.network.only(3, &[(0, 1), (1, 2)]);
    world.run(secs(5.0 * TTL));
    well(&world);
    assert_eq!(established(&world), Some(0));
    assert_eq!(world.claim(0).unwrap().version, Version(1), "nobody disturbed it");
}

#[test]
fn a13_members_that_a_dying_leader_called_unreachable_still_vote() {
    let mut world = settled(13, 5, &[0], TEST);
    world.network.split(5, &[&[0, 1], &[2, 3, 4]]);
    world.run(secs(0.5));
    let table = world.member(1).unwrap().table().clone();
    assert_eq!(table.rows().filter(|it| it.status == Status::Unreachable).count(), 3);
    world.crash(0);
    world.network.heal();
    agree_within(&mut world, secs(3.0 * TTL), &[1, 2, 3, 4], 4);
}

#[test]
fn a14_a_join_that_is_interrupted_ends_well() {
    let within = secs(2.0 * 0.2 + TTL + 0.1);
    // By a lost answer.
    let mut world = settled(14, 3, &[0, 1], TEST);
    world.crash(2);
    world.held_back = Some("JoinClusterResponse");
    world.start(2);
    world.run(secs(0.01));
    world.take_aside();
    world.held_back = None;
    agree_within(&mut world, within, &[0, 1, 2], 3);
    // By the leader's death, while the other two can elect.
    let mut world = settled(14, 5, &[0, 1], TEST);
    world.crash(4);
    world.run(secs(2.0 * TTL));
    world.start(4);
    world.run(secs(0.0012));
    world.crash(0);
    agree_within(&mut world, within + secs(2.0 * TTL), &[1, 2, 3, 4], 4);
}

#[test]
fn a15_a16_updates_that_are_lost_doubled_or_late_are_repaired() {
    for seed in 1..20 {
        let mut world = settled(seed, 5, &[0], TEST);
        world.network.doubled_per_mille = 300;
        world.network.delay_max = 40_000;
        world.held_back = Some("MemberStatusUpdate");
        world.crash(4);
        world.run(secs(2.0 * TTL));
        world.held_back = None;
        for (to, from, message) in world.take_aside().into_iter().rev() {
            world.inject(to, from.clone(), message.clone());
            world.inject(to, from, message);
        }
        well(&world);
        world.start(4);
        agree_within(&mut world, secs(1.5), &[0, 1, 2, 3, 4], 5);
    }
}

#[test]
fn a24_everything_dies_and_comes_back_with_and_without_its_store() {
    for keeps in [true, false] {
        let mut world = settled(24, 3, &[0, 1], TEST);
        (0..3).for_each(|node| world.crash(node));
        if !keeps {
            (0..3).for_each(|node| world.lose_disk(node));
        }
        world.run(secs(1.0));
        (0..3).for_each(|node| world.start(node));
        let is_whole =
            |world: &World| world.agree(&[0, 1, 2], 3).is_some() && established(world).is_some();
        assert!(world.until(secs(5.0 * TTL), is_whole).is_some());
        well(&world);
        let version = agreed(&world, &[0, 1, 2], 3);
        assert_eq!(version, if keeps { Version(2) } else { Version(1) });
    }
}

#[test]
fn a25_a_planned_exit_costs_no_timeout() {
    let mut world = settled(25, 3, &[0], TEST);
    assert_eq!(world.order(2, Input::Leave), None);
    let took = world.until(secs(1.0), |world| !world.is_up(2)).unwrap();
    assert!(took < secs(0.05), "{took:?}");
    world.run(secs(0.05));
    agreed(&world, &[0, 1], 2);
    assert_eq!(world.counts(1)[2..], [0, 1, 1], "leaving and removed, never unreachable");
    assert!(reasons(&world, 1).contains(&Reason::Left));
    world.crash(2);
    world.start(2);
    agree_within(&mut world, secs(1.0), &[0, 1, 2], 3);
    // The leader hands over first.
    world.run(secs(2.0 * TTL));
    assert_eq!(world.order(0, Input::Leave), None);
    let took = world.until(secs(1.0), |world| !world.is_up(0) && world.agree(&[1, 2], 2).is_some());
    well(&world);
    assert!(took.unwrap() < secs(0.1), "{took:?}");
    assert_eq!(agreed(&world, &[1, 2], 2), Version(2));
    assert!(established(&world).is_some());
}

/// Found by storms 58,808 and 70,174: it took office, sent its table and resigned in one breath, and the
/// table arrived when nobody kept it any more.
#[test]
fn who_is_elected_when_it_should_be_gone_makes_no_table() {
    let world = settled(27, 3, &[0], TEST);
    let proposer = world.process(2).unwrap();
    let kept = world.member(1).unwrap().kept().clone();
    let slots = kept.slots.clone();
    let certificate = Certificate {
        version: Version(2),
        voters: slots.voters().cloned().collect(),
        value: Value {
            candidate: world.process(1).unwrap(),
            cluster: kept.cluster.unwrap(),
            slots,
        },
        ballot: Ballot { round: 9, proposer: proposer.clone() },
    };
    let message = Message::LeaderElected(Box::new(certificate));
    let elected = Input::Message { from: proposer, message };
    let now = world.local(1);
    let late = now + secs(2.0 * TTL);
    let sent = |member: &mut Member, at| {
        let out = member.step(at, elected.clone());
        let names: Vec<_> = out.messages.iter().map(|it| it.message.name()).collect();
        (names, out.changes.contains(&Change::Stopped))
    };
    // Who stays takes office, however late it hears of it.
    let mut staying = world.member(1).unwrap().clone();
    let (names, has_stopped) = sent(&mut staying, late);
    assert!(names.contains(&"ClusterAlignment") && !has_stopped, "{names:?}");
    // Who is leaving and has the time hands over what it has got.
    let mut leaving = world.member(1).unwrap().clone();
    leaving.step(now, Input::Leave);
    let (names, has_stopped) = sent(&mut leaving.clone(), now);
    assert!(names.contains(&"ClusterAlignment") && !has_stopped, "{names:?}");
    // Who has no time left says that it is gone, and nothing else.
    let (names, has_stopped) = sent(&mut leaving, late);
    assert!(!names.contains(&"ClusterAlignment"), "{names:?}");
    assert!(names.contains(&"ReJoinCluster") && has_stopped, "{names:?}");
}

#[test]
fn who_is_leaving_asks_nobody_to_be_elected() {
    for seed in 1..40 {
        let mut world = settled(seed, 3, &[0], TEST);
        world.crash(0);
        world.run(secs(0.5 * TTL));
        assert_eq!(world.order(1, Input::Leave), None);
        let leaver = world.process(1).unwrap();
        let is_out = world.until(secs(4.0 * TTL), |world| !world.is_up(1));
        assert!(is_out.is_some(), "seed {seed}");
        world.run(secs(2.0 * TTL));
        well(&world);
        let leads = |it: &Change| match it {
            Change::Leader { claim, .. } => claim.as_ref().is_some_and(|it| it.leader == leaver),
            Change::Member { .. }
            | Change::Lease { .. }
            | Change::ViewReset { .. }
            | Change::Stopped
            | Change::Warning(_) => false,
        };
        assert!(!world.changes(2).iter().any(leads), "seed {seed}");
    }
}

#[test]
fn the_office_is_handed_over_without_a_gap() {
    let mut world = settled(26, 5, &[0], TEST);
    let why = world.order(1, Input::Transfer { to: address(2) }).unwrap();
    assert!(why.contains("only the leader") && why.contains("10001"), "{why}");
    assert!(world.order(0, Input::Transfer { to: address(0) }).unwrap().contains("already"));
    assert!(world.order(0, Input::Transfer { to: address(9) }).unwrap().contains("not an active"));
    assert_eq!(world.order(0, Input::Transfer { to: address(3) }), None);
    assert_eq!(world.token(0), None, "the lease is given up first");
    assert_eq!(world.leader_of(1), Some(0), "the table is still kept");
    let took = world.until(secs(0.1), |world| established(world) == Some(3)).unwrap();
    assert!(took < secs(0.01), "{took:?}");
    world.run(secs(0.1));
    assert_eq!(agreed(&world, &[0, 1, 2, 3, 4], 5), Version(2));
    assert_eq!(world.counts(1)[2..], [0, 0, 0]);
    // To one that dies at that moment: the old leader asks for itself.
    world.crash(4);
    assert_eq!(world.order(3, Input::Transfer { to: address(4) }), None);
    let again = world.until(secs(3.0 * TTL), |world| established(world).is_some());
    assert!(again.is_some());
    well(&world);
}

#[test]
fn a_single_node_is_established_at_once_and_again_after_a_restart() {
    let mut world = crate::cluster::world(1, 1, &[0], TEST);
    world.start(0);
    let took = world.until(secs(1.0), |world| world.token(0).is_some()).unwrap();
    assert!(took < secs(0.01), "{took:?}");
    assert_eq!(world.token(0).unwrap().version, Version(1));
    world.crash(0);
    world.start(0);
    let took = world.until(secs(1.0), |world| world.token(0).is_some()).unwrap();
    assert!(took < secs(0.01), "{took:?}");
    assert_eq!(world.token(0).unwrap().version, Version(2));
    well(&world);
}

#[test]
fn nothing_is_founded_before_an_operator_says_so_where_that_is_asked() {
    let mut world = World::new(27);
    for node in 0..3 {
        let mut config = config(3, node, &[0], TEST);
        config.found_by_itself = false;
        world.add(config);
    }
    (0..3).for_each(|node| world.start(node));
    agree_within(&mut world, secs(2.0), &[0, 1, 2], 3);
    world.run(secs(3.0 * TTL));
    assert_eq!(established(&world), None);
    world.order(0, Input::Found);
    assert!(world.until(secs(1.0), |world| world.token(0).is_some()).is_some());
    well(&world);
}

#[test]
fn an_observer_never_votes_and_listed_voters_are_the_only_ones() {
    let mut world = World::new(28);
    for node in 0..4 {
        let mut config = config(3, node, &[0], TEST);
        config.observer = node == 1;
        config.voters = (node != 1).then(|| [0, 2, 3].map(address).into());
        world.add(config.check().unwrap());
    }
    (0..4).for_each(|node| world.start(node));
    agree_within(&mut world, secs(2.0), &[0, 1, 2, 3], 4);
    world.run(secs(2.0 * TTL));
    let voters: BTreeSet<_> = world.status(0).unwrap().voters.into_iter().collect();
    assert_eq!(voters, [0, 2, 3].map(address).into());
    world.crash(0);
    agree_within(&mut world, secs(4.0 * TTL), &[1, 2, 3], 3);
}

#[test]
fn status_names_who_suspects_whom_and_why() {
    let mut world = settled(29, 3, &[0], TEST);
    world.crash(2);
    world.run(secs(0.5));
    let leader = world.process(0).unwrap();
    for node in [0, 1] {
        let report = world.status(node).unwrap();
        let suspicion = &report.suspicions[0];
        assert_eq!(suspicion.observer, leader);
        assert_eq!(suspicion.suspect.address, address(2));
        assert!(matches!(suspicion.reason, Reason::Silent { millis } if millis >= 300));
    }
    // Node 1 stops hearing the leader: it says so itself, and whom it asks knows too.
    let mut world = settled(29, 3, &[0], TEST);
    world.network.cut.insert((0, 1));
    world.held_back = Some("Relay");
    world.run(secs(1.2));
    let own = world.status(1).unwrap().suspicions;
    assert!(own.iter().any(|it| it.observer.address == address(1) && it.suspect == leader));
    let told = world.status(2).unwrap().suspicions;
    assert!(told.iter().any(|it| it.observer.address == address(1) && it.suspect == leader));
    assert_eq!(world.status(1).unwrap().phase, Phase::Follower);
    well(&world);
}

#[test]
fn h37_a_leader_that_stood_still_judges_nobody_before_it_has_heard_them() {
    for factor in [1.0, 2.0, 2.5] {
        let mut world = settled(37, 5, &[0], TEST);
        world.pause(0, Profile::Test.timers().heartbeat_timeout.mul_f64(factor));
        world.run(secs(3.0));
        well(&world);
        for node in 0..5 {
            assert_eq!(world.counts(node)[2..], [0, 0, 0], "{factor}: node {node}");
        }
        assert_eq!(agreed(&world, &[0, 1, 2, 3, 4], 5), Version(1));
    }
    assert_eq!(timers(TEST), Profile::Test.timers());
}

#[test]
fn voters_are_not_replaced_faster_than_the_new_ones_may_vote() {
    let mut world = settled(30, 3, &[0], TEST);
    for node in [3, 4] {
        let index = world.add(config(3, node, &[0], TEST));
        world.start(index);
    }
    agree_within(&mut world, secs(1.0), &[0, 1, 2, 3, 4], 5);
    let replace = |old, new| Input::ReplaceVoter { old: address(old), new: address(new) };
    assert_eq!(world.order(0, replace(2, 3)), None);
    let votes = |world: &World, node| world.status(0).unwrap().voters.contains(&address(node));
    assert!(world.until(secs(2.0), |world| votes(world, 3) && !votes(world, 2)).is_some());
    world.run(secs(TTL));
    assert!(world.token(0).is_some(), "two of three hold back");
    let why = world.order(0, replace(1, 4)).expect("only the leader would be left");
    assert!(why.contains("hand over first"), "{why}");
    // After the next election the new voter counts, and another one may be replaced.
    assert_eq!(world.order(0, Input::Transfer { to: address(1) }), None);
    assert!(world.until(secs(2.0 * TTL), |world| world.token(1).is_some()).is_some());
    world.run(secs(TTL));
    assert_eq!(world.order(1, replace(0, 4)), None);
    let voters: BTreeSet<_> = [1, 3, 4].map(address).into();
    let is_done = |world: &World| {
        world.status(1).unwrap().voters.into_iter().collect::<BTreeSet<_>>() == voters
    };
    assert!(world.until(secs(2.0), is_done).is_some());
    world.run(secs(2.0 * TTL));
    well(&world);
    assert!(established(&world).is_some());
}
