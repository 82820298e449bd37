//! Campaigns: many seeds, and tests of the test itself.

// A test that cannot go on says so by panicking, and what a long run saw is printed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use sardonyx_core::mutant::{Mutant, with_mutant};
use sardonyx_sim::{Probes, World};

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
