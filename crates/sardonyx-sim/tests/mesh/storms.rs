//! Storms: many seeds, every law after every step.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use sardonyx_mesh::mutant::{Mutant, with_mutant};
use sardonyx_sim::{
    mesh::{Passed, storm},
    seeds::spread,
};

use crate::number;

/// After so many nobody needs more.
const FAILURES_MAX: usize = 10;

/// What some seeds have seen.
#[derive(Default)]
struct Seen {
    seen: BTreeMap<String, u64>,
    n_steps: u64,
    n_elections: usize,
    n_stuck: u64,
    calms: Vec<Duration>,
    failures: Vec<u64>,
}

impl Seen {
    fn add(&mut self, passed: Passed) {
        self.n_steps += passed.n_steps;
        self.n_elections += passed.n_elections;
        match passed.calm_after {
            Some(calm) => self.calms.push(calm),
            None => self.n_stuck += 1,
        }
        for (what, count) in passed.seen {
            *self.seen.entry(what).or_default() += count;
        }
    }
}

/// Every seed holds, and together they have seen every fault and every message.
#[test]
fn every_storm_calms_down() {
    let (first, seeds) = (number("MESH_SEED", 1), number("MESH_SEEDS", 200));
    let all = spread(first, seeds, |seen: &mut Seen, seed| {
        if seen.failures.len() >= FAILURES_MAX {
            return;
        }
        match storm::run_once(seed, false) {
            Ok(passed) => seen.add(passed),
            Err(failed) => {
                println!("{failed}");
                seen.failures.push(seed);
            }
        }
    });
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    let (mut n_steps, mut n_elections, mut n_stuck) = (0, 0, 0);
    let (mut calms, mut failures) = (Vec::new(), Vec::new());
    for some in all {
        n_steps += some.n_steps;
        n_elections += some.n_elections;
        n_stuck += some.n_stuck;
        calms.extend(some.calms);
        failures.extend(some.failures);
        some.seen.into_iter().for_each(|(what, n)| *seen.entry(what).or_default() += n);
    }
    failures.sort_unstable();
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
