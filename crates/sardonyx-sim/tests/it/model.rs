//! All interleavings of small clusters.

use sardonyx_core::{JoinProtocol, mutant::Mutant};
use sardonyx_sim::model::{Explored, Small, count, explore};

use crate::number;

/// Explores and prints; nothing may be broken, stuck or unseen.
fn holds(small: Small) -> Explored {
    let started = std::time::Instant::now();
    let explored = explore(small);
    let Explored { states, steps, at_rest, cut, stuck, witness, unseen } = &explored;
    println!(
        "{small:?}\n  {states} states, {steps} steps, {at_rest} at rest, {cut} cut, {stuck} stuck, \
         {:.1} s",
        started.elapsed().as_secs_f64()
    );
    assert!(witness.is_none(), "{witness:#?}");
    assert!(unseen.is_empty(), "never seen: {unseen:?}");
    assert!(*at_rest > 0, "nothing was ever at rest");
    explored
}

/// The documents ask for formal verification: here every interleaving of a small cluster is tried.
#[test]
fn a_small_cluster_has_no_corner_without_a_way_out() {
    for protocol in [JoinProtocol::ThreePhase, JoinProtocol::TwoPhase] {
        holds(Small { protocol, members: 2, log_max: 8, ..Small::default() });
    }
}

/// The size that the documents' examples have. Larger ones: MODEL_MEMBERS and so on.
#[test]
fn three_members_one_joiner_one_crash() {
    let size = |name, otherwise| number(name, otherwise) as usize;
    let protocols = [JoinProtocol::ThreePhase, JoinProtocol::TwoPhase];
    let small = Small {
        protocol: protocols[size("MODEL_TWO_PHASE", 0).min(1)],
        members: size("MODEL_MEMBERS", 3),
        joiners: size("MODEL_JOINERS", 1),
        crashes: size("MODEL_CRASHES", 1) as u8,
        losses: size("MODEL_LOSSES", 0) as u8,
        tasks: size("MODEL_TASKS", 0),
        log_max: size("MODEL_LOG_MAX", 14),
        every_order: size("MODEL_EVERY_ORDER", 0) > 0,
        ..Small::default()
    };
    holds(small);
}

/// The store may give up somebody who is alive and goes on.
#[test]
fn somebody_who_is_taken_for_dead_does_no_harm() {
    holds(Small { members: 2, crashes: 0, losses: 1, log_max: 9, ..Small::default() });
}

/// A job is sealed and completed, whoever dies in between.
#[test]
fn a_job_is_finished_whoever_dies() {
    holds(Small { members: 2, joiners: 0, tasks: 1, log_max: 8, ..Small::default() });
}

/// The checker's threads share their work; none of it may get lost.
#[test]
fn the_checker_finds_as_many_states_as_a_plain_search() {
    let small = Small { every_order: true, ..Small::default() };
    assert_eq!(explore(small).states, count(small));
}

/// Leaving out orders that nobody can tell apart leaves out nothing else.
#[test]
fn one_order_of_quiet_steps_is_enough() {
    for protocol in [JoinProtocol::ThreePhase, JoinProtocol::TwoPhase] {
        let small = Small { protocol, members: 2, log_max: 6, ..Small::default() };
        let (few, all) = (holds(small), holds(Small { every_order: true, ..small }));
        assert!(few.states < all.states, "{} of {}", few.states, all.states);
        for mutant in [Mutant::NoAbortWhenForgotten, Mutant::AnchorUnwatched, Mutant::NoGuards] {
            let off = Small { mutant: Some(mutant), ..small };
            let (few, all) = (explore(off), explore(Small { every_order: true, ..off }));
            let found = |it: &Explored| it.witness.as_ref().map(|(why, _)| why.clone());
            println!("{protocol} {mutant:?}: {:?}", found(&all));
            assert_eq!(found(&few).is_some(), found(&all).is_some(), "{mutant:?}");
        }
    }
}

/// What ten thousand random runs may miss, looking at everything cannot: a watch that is lost when
/// a member leaves between notify and accept.
#[test]
fn without_derived_watches_there_is_a_corner_without_a_way_out() {
    // The second member is the one whom the joiner is to watch.
    let may_crash = Some(1);
    let mutant = Some(Mutant::EdgeWatches);
    let explored = explore(Small { may_crash, mutant, ..Small::default() });
    let (why, way) = explored.witness.expect("the model must notice");
    println!("{} states, {} stuck: {why}\n{}", explored.states, explored.stuck, way.join("\n"));
    assert!(way.iter().any(|step| step.contains("crashes")));
}
