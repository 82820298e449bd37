//! Each rule that is left out is found. `cargo xtask mutants` reads the lines that begin with
//! `MUTANT`; the names are those of its table.

use std::time::Instant;

use super::{leaps::first_poisoned, simulation::first_duplicate, world::Rules};
use crate::mutant::{Mutant, with_mutant};

/// How many seeds may be needed.
const SEEDS_MAX: u64 = 10_000;

/// A rule that is left out: its name, what finds it, and how.
struct Case {
    name: &'static str,
    found_by: &'static str,
    first_seed: fn() -> Option<u64>,
}

fn duplicate(mutant: Mutant) -> Option<u64> {
    with_mutant(Some(mutant), || first_duplicate(Rules::Ours, SEEDS_MAX))
}

const NO_ID_TWICE: &str = "ids simulation: no id twice";

const CASES: &[Case] = &[
    Case {
        name: "Document",
        found_by: NO_ID_TWICE,
        first_seed: || first_duplicate(Rules::Document, SEEDS_MAX),
    },
    Case {
        name: "LeaseChecked",
        found_by: NO_ID_TWICE,
        first_seed: || first_duplicate(Rules::LeaseChecked, SEEDS_MAX),
    },
    Case {
        name: "MarkUnderLease",
        found_by: NO_ID_TWICE,
        first_seed: || first_duplicate(Rules::MarkUnderLease, SEEDS_MAX),
    },
    Case {
        name: "SequenceFirst",
        found_by: NO_ID_TWICE,
        first_seed: || duplicate(Mutant::SequenceFirst),
    },
    Case {
        name: "LeapBelieved",
        found_by: "ids leaps: no mark far ahead of the others",
        first_seed: || {
            with_mutant(Some(Mutant::LeapBelieved), || {
                (1..=SEEDS_MAX).find(|seed| first_poisoned(*seed).is_some())
            })
        },
    },
];

#[test]
fn each_rule_left_out_is_found() {
    let only = std::env::var("MUTANT_ONLY").ok();
    let is_wanted =
        |case: &&Case| only.as_ref().is_none_or(|only| only.split(',').any(|it| it == case.name));
    for Case { name, found_by, first_seed } in CASES.iter().filter(is_wanted) {
        let begun = Instant::now();
        let seed = first_seed().unwrap_or_else(|| panic!("{name} goes unnoticed"));
        let ms = begun.elapsed().as_millis();
        println!("MUTANT\t{name}\t{found_by}\tseed {seed}\t{ms}");
    }
}
