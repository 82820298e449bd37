//! Each rule switched off is found: a storm that notices nothing would be worth nothing.

use sardonyx_core::mutant::{Mutant, with_mutant};
use sardonyx_sim::{Failed, Plan, World, shrink::shrink};

use crate::number;

/// The first seed that fails with the rule switched off.
fn found(mutant: Mutant, seeds: u64) -> Option<Failed> {
    with_mutant(Some(mutant), || (1..=seeds).find_map(|seed| World::run(seed).err()))
}

#[test]
fn each_rule_switched_off_is_found() {
    let seeds = number("MUTANT_SEEDS", 2_000);
    let mut unnoticed = Vec::new();
    for mutant in Mutant::ALL {
        match found(mutant, seeds) {
            Some(failed) => {
                println!(
                    "{:>5}  {:<20}  {}",
                    failed.plan.seed,
                    format!("{mutant:?}"),
                    failed.name()
                );
            }
            None => unnoticed.push(mutant),
        }
    }
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
