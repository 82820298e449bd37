//! Holes of the original that no other case is about, each shut. What is said to members here was
//! said in other circumstances, or by nobody.

use std::collections::BTreeSet;

use sardonyx_mesh::{
    Change, Claim, Message, Moment, NodeId, Phase, Version,
    message::{Lease, Proposal},
    vote::{Acceptor, Ballot, Certificate, Refusal, Stage, Value},
};
use sardonyx_sim::mesh::World;

use crate::cluster::{
    TEST, address, agree_within, agreed, aside, established, secs, settled, well, world,
};

const TTL: f64 = 0.9;

/// A mesh of five whose leader is dead, up to the first yes that anybody says; votes are held back.
/// Who asks, who says so, and the vote.
fn first_vote(seed: u64) -> (World, usize, NodeId, Message) {
    let mut world = settled(seed, 5, &[0], TEST);
    world.crash(0);
    world.held_back = Some("Vote");
    for _ in 0..100 {
        world.until(secs(4.0), |world| world.n_aside() > 0).expect("somebody asks");
        let is_yes = |it: &Message| matches!(it, Message::Vote { answer: Ok(_), .. });
        let yes = world.take_aside().into_iter().find(|(_, _, vote)| is_yes(vote));
        if let Some((proposer, voter, vote)) = yes {
            return (world, proposer, voter, vote);
        }
    }
    panic!("nobody says yes");
}

#[test]
fn h2_a_vote_counts_once_and_only_in_its_own_round() {
    let (mut world, proposer, voter, vote) = first_vote(2);
    for _ in 0..5 {
        world.inject(proposer, voter.clone(), vote.clone());
    }
    let stage = |world: &World| world.member(proposer).unwrap().asks_for().map(|it| it.1);
    assert_eq!(stage(&world), Some(Stage::Pre), "its own and one more are two of five");
    // The same yes for another ballot, from two others.
    let Message::Vote { ballot, stage: of, version, answer } = vote else { panic!("a vote") };
    let other = Ballot { round: ballot.round + 1, ..ballot };
    for node in (1..5).filter(|it| *it != proposer) {
        let from = world.process(node).unwrap();
        let vote =
            Message::Vote { ballot: other.clone(), stage: of, version, answer: answer.clone() };
        world.inject(proposer, from, vote);
    }
    assert_eq!(stage(&world), Some(Stage::Pre));
    well(&world);
}

#[test]
fn h3_votes_are_kept_by_version_and_go_when_it_is_over() {
    let mut world = settled(3, 3, &[0], TEST);
    world.crash(0);
    agree_within(&mut world, secs(4.0 * TTL), &[1, 2], 2);
    world.run(secs(TTL));
    for node in [1, 2] {
        let kept = world.member(node).unwrap().kept();
        assert_eq!(kept.established, Version(2));
        assert!(kept.votes.keys().all(|it| *it > Version(2)), "{:?}", kept.votes);
    }
    // What was accepted for one version says nothing about the next.
    let mut votes = std::collections::BTreeMap::from([(Version(2), Acceptor::default())]);
    let (ballot, value) = (ballot(&world, 1, 7), value(&world, 1, 1));
    votes.entry(Version(2)).or_default().accept(&ballot, &value).unwrap();
    assert_eq!(votes.entry(Version(3)).or_default().accepted, None);
}

fn ballot(world: &World, node: usize, round: u64) -> Ballot {
    Ballot { round, proposer: world.process(node).unwrap() }
}

fn value(world: &World, of: usize, candidate: usize) -> Value {
    let kept = world.member(of).unwrap().kept();
    let candidate = world.process(candidate).unwrap();
    Value { candidate, cluster: kept.cluster.unwrap(), slots: kept.slots.clone() }
}

#[test]
fn h5_a_round_that_failed_does_not_spoil_the_next() {
    let (mut world, proposer, _, _) = first_vote(5);
    // All votes of the first rounds are lost.
    world.run(secs(0.5));
    world.take_aside();
    world.held_back = None;
    let took = agree_within(&mut world, secs(2.0 * TTL), &[1, 2, 3, 4], 4);
    assert!(took < secs(2.0 * TTL), "{took:?}");
    assert!(established(&world).is_some() && proposer > 0);
}

#[test]
fn h6_who_says_it_was_elected_must_show_by_whom() {
    let mut world = settled(6, 5, &[0], TEST);
    let before = world.claim(1).cloned();
    let voters = |n: usize| -> BTreeSet<_> { (1..=n).map(address).collect() };
    let certificate = |voters: BTreeSet<_>| Certificate {
        version: Version(2),
        value: value(&world, 1, 4),
        ballot: ballot(&world, 4, 9),
        voters,
    };
    let (few, strangers) = (certificate(voters(2)), certificate((7..12).map(address).collect()));
    let liar = world.process(4).unwrap();
    for lie in [few, strangers] {
        world.inject(1, liar.clone(), Message::LeaderElected(Box::new(lie)));
        assert_eq!(world.claim(1), before.as_ref());
    }
    agreed(&world, &[0, 1, 2, 3, 4], 5);
}

/// Somebody whose own line is broken asks for votes while all others hear the leader.
#[test]
fn h10_a_voter_that_hears_its_leader_does_not_vote() {
    let mut world = settled(10, 5, &[0], TEST);
    world.held_back = Some("Vote");
    for stage in [Stage::Pre, Stage::Formal] {
        let own = value(&world, 4, 4);
        let proposal = Proposal {
            ballot: ballot(&world, 4, 50),
            stage,
            version: Version(2),
            cluster: Some(own.cluster),
            slots: own.slots.clone(),
            value: (stage == Stage::Formal).then_some(own),
            release: None,
        };
        let from = world.process(4).unwrap();
        world.inject(1, from, Message::Proposal(Box::new(proposal)));
        let (to, _, vote) = aside(&mut world, "Vote");
        assert_eq!(to, 4);
        let Message::Vote { answer: Err(why), .. } = vote else { panic!("a yes: {vote:?}") };
        assert!(matches!(why, Refusal::Pledged { .. } | Refusal::LeaderAlive(_)), "{why:?}");
    }
    world.held_back = None;
    world.run(secs(3.0 * TTL));
    assert_eq!(agreed(&world, &[0, 1, 2, 3, 4], 5), Version(1), "nobody was disturbed");
}

#[test]
fn h11_a_leader_that_was_elected_and_does_not_show_itself_is_not_waited_for() {
    let mut world = settled(11, 5, &[0], TEST);
    let (old, value) = (ballot(&world, 1, 9), value(&world, 1, 4));
    world.crash(0);
    // 4 dies as well, and then the other three hear that it was elected, by a ballot of 1.
    world.run(secs(TTL * 0.7));
    world.crash(4);
    let voters = [1, 2, 3].map(address).into();
    let certificate = Certificate { version: Version(2), value, ballot: old, voters };
    for node in [1, 2, 3] {
        let from = world.process(node % 3 + 1).unwrap();
        let news = Message::LeaderElected(Box::new(certificate.clone()));
        world.inject(node, from, news);
        assert_eq!(world.claim(node).unwrap().version, Version(2));
    }
    let is_led = |world: &World| established(world).is_some_and(|it| it != 4);
    let took = world.until(secs(TTL), is_led).expect("the next election begins at once");
    assert!(took < secs(TTL), "a heartbeat and an election, not a ttl: {took:?}");
    let leader = established(&world).unwrap();
    assert_eq!(world.claim(leader).unwrap().version, Version(3));
}

#[test]
fn h12_a_proposals_number_names_its_process_and_goes_on_after_a_restart() {
    let (mut world, proposer, _, _) = first_vote(12);
    let (first, _) = world.member(proposer).unwrap().asks_for().unwrap();
    let first = first.clone();
    assert_eq!(Some(&first.proposer), world.process(proposer).as_ref());
    world.run(secs(0.1));
    world.crash(proposer);
    world.start(proposer);
    world.run(secs(TTL));
    world.held_back = None;
    agree_within(&mut world, secs(4.0 * TTL), &[1, 2, 3, 4], 4);
    for node in 1..5 {
        let kept = world.member(node).unwrap().kept().clone();
        let later = kept.certificate.unwrap().ballot;
        assert!(later.round >= first.round && later != first, "{later} after {first}");
    }
}

fn beat(world: &World, from: usize, established: Version) -> Message {
    let claim = world.claim(from).unwrap().clone();
    Message::LeaderKeepAlive {
        leader: claim.leader,
        version: claim.version,
        digest: 0,
        seq: 0,
        echo: None,
        promised: Version(0),
        established,
        slots: (Version(1), 0),
    }
}

#[test]
fn h18_a_leader_that_hears_of_a_later_version_leads_no_more() {
    // Two seeds: one that is alone in its list leads again at once, by itself and without a token.
    let mut world = settled(18, 3, &[0, 1], TEST);
    assert!(world.token(0).is_some());
    let (from, news) = (world.process(1).unwrap(), beat(&world, 1, Version(9)));
    world.inject(0, from, news);
    assert_eq!(world.token(0), None);
    assert_ne!(world.status(0).unwrap().phase, Phase::Leader);
}

#[test]
fn h19_an_alignment_of_an_earlier_version_is_no_reason_to_forget_the_leader() {
    let mut world = settled(19, 3, &[0, 1], TEST);
    world.held_back = Some("ClusterAlignment");
    // A table of the first version, on its way for a long time.
    let (from, ask) = (world.process(1).unwrap(), beat(&world, 1, Version(1)));
    world.inject(0, from, ask);
    let (_, sender, old) = aside(&mut world, "ClusterAlignment");
    world.held_back = None;
    world.crash(0);
    agree_within(&mut world, secs(4.0 * TTL), &[1, 2], 2);
    let claims: Vec<_> = [1, 2].iter().map(|it| world.claim(*it).cloned()).collect();
    for node in [1, 2] {
        world.inject(node, sender.clone(), old.clone());
    }
    let after: Vec<_> = [1, 2].iter().map(|it| world.claim(*it).cloned()).collect();
    assert_eq!(after, claims);
    assert_eq!(agreed(&world, &[1, 2], 2), Version(2));
}

#[test]
fn h21_an_ack_of_anybody_else_keeps_nobody_quiet() {
    let mut world = settled(21, 3, &[0], TEST);
    let claim = world.claim(1).unwrap().clone();
    let me = world.process(1).unwrap();
    let other = world.process(2).unwrap();
    world.crash(0);
    let ack = |claim: Claim| Message::LeaderKeepAliveAck {
        claim,
        incarnation: me.incarnation,
        token: Moment(0),
        lease: Lease::Held,
    };
    let of_other = Claim { leader: other.clone(), ..claim.clone() };
    let of_past = Claim { version: Version(0), ..claim.clone() };
    let mut has_lost = false;
    for _ in 0..12 {
        world.run(secs(0.1));
        // By another member as itself, by another member for the leader, by the leader for another
        // version.
        world.inject(1, other.clone(), ack(of_other.clone()));
        world.inject(1, other.clone(), ack(claim.clone()));
        world.inject(1, claim.leader.clone(), ack(of_past.clone()));
        let lost = |it: &Change| matches!(it, Change::Leader { claim: None, .. });
        has_lost |= world.changes(1).iter().any(lost);
    }
    assert!(has_lost, "it waited for a ttl, and no longer");
}

#[test]
fn h38_changes_that_come_together_go_out_together() {
    let mut world = world(38, 5, &[0], TEST);
    for node in 5..50 {
        world.add(crate::cluster::config(5, node, &[0], TEST));
    }
    world.start(0);
    world.run(secs(1.0));
    (1..50).for_each(|node| world.start(node));
    let all: Vec<usize> = (0..50).collect();
    agree_within(&mut world, secs(5.0), &all, 50);
    let n_updates = world.n_messages().get("MemberStatusUpdate").copied().unwrap_or(0);
    // Forty-nine joins are ninety-eight steps, to up to fifty members.
    println!("{n_updates} updates for 49 joins of 50 members");
    assert!(n_updates <= 12 * 50, "{n_updates}");
}

#[test]
fn a19_clocks_that_go_wrong_by_a_twentieth_change_nothing() {
    let mut world = world(19, 5, &[0], TEST);
    for (node, ppm) in [(0, 50_000), (1, -50_000), (2, 13_000), (3, -50_000), (4, 50_000)] {
        world.set_clock(node, ppm, (node as u64) << 40);
    }
    (0..5).for_each(|node| world.start(node));
    agree_within(&mut world, secs(5.0), &[0, 1, 2, 3, 4], 5);
    world.run(secs(5.0));
    for _ in 0..60 {
        world.run(secs(10.0));
        assert!(established(&world).is_some());
    }
    assert_eq!(agreed(&world, &[0, 1, 2, 3, 4], 5), Version(1));
    for node in 0..5 {
        assert_eq!(world.counts(node)[2..], [0, 0, 0], "node {node}");
    }
}

/// Found by storm 19,942: a leader that had promoted itself gave way, was elected in the same moment, and
/// its followers heard of the election first. What it resigned with is no news about who leads.
#[test]
fn who_follows_an_elected_leader_does_not_go_over_to_one_that_nobody_elected() {
    let mut world = settled(7, 5, &[0], TEST);
    let (follower, other) = (1, 2);
    let elected = world.claim(follower).cloned().expect("a leader");
    assert!(elected.certified);
    let before = Claim { certified: false, ..elected.clone() };
    let winner = world.process(other).map(|leader| Claim { leader, ..before.clone() });
    let order = Message::ReJoinCluster { loser: before, winner };
    world.inject(follower, elected.leader.clone(), order);
    // It begins anew, since the table that it has is no longer kept, and comes back to who was elected.
    well(&world);
    agree_within(&mut world, secs(4.0 * TTL), &[0, 1, 2, 3, 4], 5);
    assert_eq!(world.claim(follower), Some(&elected));
}
