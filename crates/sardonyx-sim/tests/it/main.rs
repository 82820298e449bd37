//! Campaigns: many seeds, and tests of the test itself.

// A test that cannot go on says so by panicking, and what a long run saw is printed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use sardonyx_core::JoinProtocol;
use sardonyx_core::mutant::{Mutant, with_mutant};
use sardonyx_sim::{
    Probes, World,
    model::{Explored, Small, explore},
};

fn number(name: &str, otherwise: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => {
            text.parse().unwrap_or_else(|_| panic!("{name} must be a number, not {text:?}"))
        }
        Err(_) => otherwise,
    }
}

/// Every seed holds, and together they have seen every rare path.
#[test]
fn every_storm_calms_down() {
    let (first, seeds) = (number("SIM_SEED", 1), number("SIM_SEEDS", 300));
    let mut probes = Probes::default();
    let mut entries = 0;
    for seed in first..first + seeds {
        let passed = World::run(seed).unwrap_or_else(|failed| panic!("{failed}"));
        probes.add(&passed.probes);
        entries += passed.entries;
    }
    println!("{seeds} seeds, {entries} entries");
    for (what, count) in probes.counts() {
        println!("{count:>8}  {what}");
        assert!(count > 0 || seeds < 300, "no seed has seen: {what}");
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in 1..20 {
        let hash = || World::run(seed).unwrap().trace_hash;
        assert_eq!(hash(), hash());
    }
}

#[test]
fn each_rule_switched_off_is_found() {
    for mutant in [Mutant::NoGuards, Mutant::EdgeWatches, Mutant::NoProbe] {
        let fails =
            |seed: &u64| with_mutant(Some(mutant), || World::run_with(*seed, None)).is_err();
        let found = (1..=2_000).find(fails);
        println!("{mutant:?} is found by seed {found:?}");
        assert!(found.is_some(), "{mutant:?} went unnoticed");
    }
}

/// The documents ask for formal verification: here every interleaving of a small cluster is tried.
#[test]
fn a_small_cluster_has_no_corner_without_a_way_out() {
    for protocol in [JoinProtocol::ThreePhase, JoinProtocol::TwoPhase] {
        let small =
            Small { protocol, members: 2, joiners: 1, crashes: 1, may_crash: None, log_max: 8 };
        let explored = explore(small);
        println!("{small:?}: {explored:?}");
        assert!(explored.witness.is_none(), "{small:?}: {:#?}", explored.witness);
        assert!(explored.at_rest > 0 && explored.states > 1_000, "{explored:?}");
    }
}

/// What ten thousand random runs may miss, looking at everything cannot: a watch that is lost when
/// a member leaves between notify and accept.
#[test]
fn without_derived_watches_there_is_a_corner_without_a_way_out() {
    let protocol = JoinProtocol::ThreePhase;
    // The second member is the one whom the joiner is to watch.
    let may_crash = Some(1);
    let small = Small { protocol, members: 3, joiners: 1, crashes: 1, may_crash, log_max: 6 };
    let explored = with_mutant(Some(Mutant::EdgeWatches), || explore(small));
    let (why, way) = explored.witness.expect("the model must notice");
    println!("{} states, {} stuck: {why}\n{}", explored.states, explored.stuck, way.join("\n"));
    assert!(way.iter().any(|step| step.contains("crashes")));
}

/// The size that the documents' examples have. Larger ones: MODEL_MEMBERS and so on.
#[test]
fn three_members_one_joiner_one_crash() {
    let size = |name, otherwise| number(name, otherwise) as usize;
    let small = Small {
        protocol: JoinProtocol::ThreePhase,
        members: size("MODEL_MEMBERS", 3),
        joiners: size("MODEL_JOINERS", 1),
        crashes: size("MODEL_CRASHES", 1) as u8,
        may_crash: None,
        log_max: size("MODEL_LOG_MAX", 5),
    };
    let explored = explore(small);
    let Explored { states, steps, at_rest, cut, stuck, witness } = explored;
    println!(
        "{small:?}: {states} states, {steps} steps, {at_rest} at rest, {cut} cut, {stuck} stuck"
    );
    assert!(witness.is_none(), "{small:?}: {witness:#?}");
    assert!(at_rest > 0, "nothing was ever at rest");
}
