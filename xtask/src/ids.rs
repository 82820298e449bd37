//! The long proofs of the ids: more seeds, more states, every order of the atomics, and real
//! processes under faults for minutes.

use crate::run::{call, cargo};

/// How much of each.
pub(crate) struct Amounts {
    pub(crate) seeds: u64,
    pub(crate) states: u64,
    pub(crate) seconds: u64,
}

/// Runs them one after the other, up to the first that fails.
pub(crate) fn run(amounts: &Amounts) -> Result<(), String> {
    let steps: [(&str, &[&str], &[&str]); 3] = [
        ("simulation and model", &["--lib"], &["simulation::", "model::"]),
        ("loom", &["--lib", "--features", "loom"], &["loom"]),
        ("faults", &["--test", "it"], &["every_id_of_every_process_differs"]),
    ];
    for (name, args, tests) in steps {
        eprintln!("== ids, {name}");
        let mut test = cargo();
        test.args(["test", "--release", "-p", "sardonyx-ids"]).args(args);
        test.arg("--").args(tests).arg("--nocapture");
        test.env("IDS_SEEDS", amounts.seeds.to_string());
        test.env("IDS_STATES", amounts.states.to_string());
        test.env("IDS_FAULT_SECONDS", amounts.seconds.to_string());
        if !call(&mut test)? {
            return Err(format!("ids, {name}: failed; see above"));
        }
    }
    Ok(())
}
