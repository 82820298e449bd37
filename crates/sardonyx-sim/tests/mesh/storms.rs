//! Storms: many seeds, every law after every step.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use sardonyx_mesh::mutant::{Mutant, with_mutant};
use sardonyx_sim::mesh::storm;

use crate::number;

/// Every seed holds, and together they have seen every fault and every message.
#[test]
fn every_storm_calms_down() {
    let (first, seeds) = (number("MESH_SEED", 1), number("MESH_SEEDS", 200));
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    let (mut n_steps, mut n_elections, mut n_stuck) = (0, 0, 0);
    let mut calms: Vec<Duration> = Vec::new();
    let mut failures = Vec::new();
    for seed in first..first + seeds {
        let passed = match storm::run_once(seed, false) {
            Ok(passed) => passed,
            Err(failed) => {
                println!("{failed}");
                failures.push(seed);
                if failures.len() >= 20 {
                    break;
                }
                continue;
            }
        };
        n_steps += passed.n_steps;
        n_elections += passed.n_elections;
        match passed.calm_after {
            Some(calm) => calms.push(calm),
            None => n_stuck += 1,
        }
        for (what, count) in passed.seen {
            *seen.entry(what).or_default() += count;
        }
    }
    calms.sort();
    let at = |part: usize| calms.get(calms.len() * part / 100).copied().unwrap_or_default();
    println!("{seeds} seeds, {n_steps} steps, {n_elections} elections");
    println!(
        "well again after: half {:?}, 99 of 100 {:?}, last {:?}; too many votes lost: {n_stuck}",
        at(50),
        at(99),
        calms.last()
    );
    for (what, count) in seen {
        println!("{count:>12}  {what}");
    }
    if let Some(seed) = failures.first() {
        let failed = storm::run_once(*seed, true).map(|_| ()).unwrap_err();
        panic!("{} of the seeds fail: {failures:?}; the first:\n{failed}", failures.len());
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in 1..10 {
        let hash = || storm::run_once(seed, false).unwrap().hash;
        assert_eq!(hash(), hash());
    }
}

#[test]
fn each_hole_that_is_opened_again_is_found() {
    let seeds = number("MESH_MUTANT_SEEDS", 10_000);
    let only = std::env::var("MUTANT_ONLY").ok();
    for mutant in Mutant::ALL {
        let name = format!("{mutant:?}");
        if only.as_ref().is_some_and(|only| only.split(',').all(|it| it != name)) {
            continue;
        }
        let begun = Instant::now();
        let fails = |seed: u64| with_mutant(Some(mutant), || storm::run_once(seed, false)).err();
        let found = (1..=seeds).find_map(fails);
        let found = found.unwrap_or_else(|| panic!("{name} went unnoticed in {seeds} seeds"));
        let (seed, law, ms) = (found.seed, found.law, begun.elapsed().as_millis());
        println!("MUTANT\t{name}\tmesh storms: {law}\tseed {seed}\t{ms}");
    }
}
