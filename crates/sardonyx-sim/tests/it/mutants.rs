//! Each rule switched off is found: a storm that notices nothing would be worth nothing.
//!
//! `cargo xtask mutants` reads the lines that begin with `MUTANT`; `MUTANT_ONLY` names some of them.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Instant,
};

use sardonyx_core::mutant::{Mutant, with_mutant};
use sardonyx_sim::{Failed, Plan, World, shrink::shrink};

use crate::{is_wanted, number};

/// The first seed that fails with the rule switched off.
fn found(mutant: Mutant, seeds: u64) -> Option<Failed> {
    with_mutant(Some(mutant), || (1..=seeds).find_map(|seed| World::run(seed).err()))
}

#[test]
fn each_rule_switched_off_is_found() {
    let seeds = number("MUTANT_SEEDS", 2_000);
    let next = AtomicUsize::new(0);
    // Each thread switches off rules of its own.
    let run = || {
        let mut unnoticed = Vec::new();
        while let Some(mutant) = Mutant::ALL.get(next.fetch_add(1, Ordering::Relaxed)).copied() {
            if !is_wanted(&format!("{mutant:?}")) {
                continue;
            }
            let begun = Instant::now();
            let Some(failed) = found(mutant, seeds) else {
                unnoticed.push(mutant);
                continue;
            };
            let (seed, name) = (failed.plan.seed, format!("{mutant:?}"));
            let (what, ms) = (failed.name(), begun.elapsed().as_millis());
            println!("MUTANT\t{name}\tstorms: {what}\tseed {seed}\t{ms}");
        }
        unnoticed
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let unnoticed: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(run)).collect();
        workers.into_iter().flat_map(|it| it.join().expect("no rule off makes it panic")).collect()
    });
    assert!(unnoticed.is_empty(), "not found within {seeds} seeds: {unnoticed:?}");
}

/// A failure is no use if nobody can read it: at most half of the steps may be left, and mostly it is
/// far fewer.
#[test]
fn a_failing_plan_shrinks_and_fails_again() {
    for mutant in [Mutant::NoGuards, Mutant::NoSelfStop, Mutant::SealOutlivesSealer] {
        with_mutant(Some(mutant), || {
            let failed = found(mutant, 2_000).expect("found in the test above");
            let (name, n_steps) = (failed.name().to_owned(), failed.plan.steps.len());
            let (small, runs) = shrink(failed, |plan| World::play(plan).err());
            let left = small.plan.steps.len();
            println!("{mutant:?}: {n_steps} steps, {left} after {runs} runs\n{}", small.plan);
            assert!(left * 2 <= n_steps, "{left} of {n_steps} steps are left");
            let printed = Plan::parse(&small.plan.to_string()).unwrap();
            let again = World::play(&printed).expect_err("the printed plan must fail too");
            assert_eq!(again.name(), name);
            assert_eq!(again.trace, small.trace);
        });
    }
}
