//! Data under weather: nothing lost, nothing twice, whoever dies.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use sardonyx_queue::mutant::Mutant as QueueMutant;
use sardonyx_sim::{data, seeds::spread};
use sardonyx_task::{
    mutant::{self, Mutant},
    spy::Phase,
};

use crate::{is_wanted, number};

/// What some seeds have seen.
#[derive(Default)]
struct Seen {
    killed: u64,
    paused: u64,
    phases: BTreeSet<Phase>,
    shapes: BTreeMap<String, u64>,
}

/// `DATA_SEEDS` and `DATA_FIRST` ask for more, or for others.
#[test]
fn what_reaches_the_outputs_is_what_was_put_in() {
    let (first, n) = (number("DATA_FIRST", 0), number("DATA_SEEDS", 2_000));
    let all = spread(first, n, |seen: &mut Seen, seed| {
        let passed = data::run(seed).unwrap_or_else(|failed| panic!("{failed}"));
        seen.killed += passed.killed;
        seen.paused += passed.paused;
        seen.phases.extend(passed.phases);
        *seen.shapes.entry(passed.shape).or_default() += 1;
    });
    let (mut phases, mut shapes) = (BTreeSet::new(), BTreeMap::<String, u64>::new());
    let (mut killed, mut paused) = (0, 0);
    for seen in all {
        killed += seen.killed;
        paused += seen.paused;
        phases.extend(seen.phases);
        seen.shapes.into_iter().for_each(|(shape, n)| *shapes.entry(shape).or_default() += n);
    }
    println!("{n} seeds from {first}: {killed} killed, {paused} stood still, {shapes:?}");
    if n >= 200 {
        assert_eq!(phases, BTreeSet::from(Phase::ALL), "every phase must have been seen");
        assert_eq!(shapes.len(), 5, "every shape must have been drawn");
        assert!(killed > 0 && paused > 0);
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in 0..20 {
        assert_eq!(data::run(seed), data::run(seed), "seed {seed}");
    }
}

/// Each rule of the pipeline switched off is noticed: by a wrong result, or by a job that never ends.
#[test]
fn a_rule_switched_off_is_found() {
    let n = number("DATA_MUTANT_SEEDS", 2_000);
    let first = || (0..n).find_map(|seed| data::run(seed).err().map(|it| (seed, it.what)));
    for mutant in Mutant::ALL.into_iter().filter(|it| is_wanted(&format!("{it:?}"))) {
        let begun = Instant::now();
        let found = mutant::with(mutant, first);
        tell(&format!("{mutant:?}"), found, begun);
    }
    // A rule of the queues below.
    let mutant = QueueMutant::Unfenced;
    if is_wanted(&format!("{mutant:?}")) {
        let begun = Instant::now();
        let found = sardonyx_queue::mutant::with_mutant(Some(mutant), first);
        tell(&format!("{mutant:?}"), found, begun);
    }
}

/// For `cargo xtask mutants`.
fn tell(name: &str, found: Option<(u64, String)>, begun: Instant) {
    let (seed, why) = found.unwrap_or_else(|| panic!("{name} goes unnoticed"));
    let (why, ms) = (why.lines().next().unwrap_or_default(), begun.elapsed().as_millis());
    println!("MUTANT\t{name}\tdata: {why}\tseed {seed}\t{ms}");
}
