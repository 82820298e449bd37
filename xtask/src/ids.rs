//! The long proofs of the ids: more seeds, more states, every order of the atomics, and real
//! processes under faults for minutes.

use crate::run::{call, proof};

/// How much of each.
pub(crate) struct Amounts {
    pub(crate) seeds: u64,
    pub(crate) seconds: u64,
}

/// Runs them one after the other, up to the first that fails.
pub(crate) fn run(amounts: &Amounts) -> Result<(), String> {
    let steps: [(&str, &[&str], &[&str]); 5] = [
        ("simulation and conditions", &["--lib"], &["simulation::", "conditions::"]),
        ("model", &["--lib"], &["model::"]),
        ("loom", &["--lib", "--features", "loom"], &["loom"]),
        ("faults", &["--test", "it"], &["every_id_of_every_process_differs"]),
        (
            "nobody is refused, joins, crash to reuse",
            &["--test", "it"],
            &["refuse_nobody", "join_at_once", "a_crashed_holder", "a_poisoned", "a_step_back"],
        ),
    ];
    for (name, args, tests) in steps {
        eprintln!("== ids, {name}");
        let mut test = proof("test", "sardonyx-ids");
        test.args(args);
        // One at a time: what is timed must not wait for its neighbour.
        test.arg("--").args(tests).args(["--nocapture", "--test-threads", "1"]);
        test.env("IDS_SEEDS", amounts.seeds.to_string());
        test.env("IDS_MODEL_FULL", "1");
        test.env("IDS_FAULT_SECONDS", amounts.seconds.to_string());
        if !call(&mut test)? {
            return Err(format!("ids, {name}: failed; see above"));
        }
    }
    Ok(())
}
