//! Each rule of the journal that is switched off is found. `cargo xtask mutants` reads the lines that
//! begin with `MUTANT`.

use std::{panic::catch_unwind, time::Instant};

use super::{damage::a_cut_has_all_or_nothing, power::commits_outlive_the_power};
use crate::mutant::{Mutant, with_mutant};

/// Where it is found, in the words of the test that finds it.
fn find(mutant: Mutant) -> Option<String> {
    match mutant {
        Mutant::AnsweredFirst => {
            let lost = commits_outlive_the_power(Some(mutant), None).err();
            lost.map(|n| format!("commit {n}"))
        }
        Mutant::SyncedAgain => (1..=12).find_map(|fails_at| {
            let lost = commits_outlive_the_power(Some(mutant), Some(fails_at)).err();
            lost.map(|n| format!("sync {fails_at} fails, commit {n}"))
        }),
        Mutant::TwoRecords => {
            // The last of two records is the smaller one.
            let cut = || with_mutant(Some(mutant), || a_cut_has_all_or_nothing(400));
            let caught = catch_unwind(cut);
            caught.is_err().then(|| "a cut between two records".to_owned())
        }
        // Found by data in simulation.
        Mutant::Unfenced => None,
    }
}

#[test]
fn each_rule_switched_off_is_found() {
    let only = std::env::var("MUTANT_ONLY").ok();
    let cases = [
        (Mutant::AnsweredFirst, "queue: what was acknowledged outlives the power"),
        (Mutant::SyncedAgain, "queue: after a sync that failed nothing more is promised"),
        (Mutant::TwoRecords, "queue: a journal cut at any byte has all or nothing"),
    ];
    for (mutant, found_by) in cases {
        let name = format!("{mutant:?}");
        if only.as_ref().is_some_and(|only| only.split(',').all(|it| it != name)) {
            continue;
        }
        let begun = Instant::now();
        let at = find(mutant).unwrap_or_else(|| panic!("{name} goes unnoticed"));
        println!("MUTANT\t{name}\t{found_by}\t{at}\t{}", begun.elapsed().as_millis());
    }
}
