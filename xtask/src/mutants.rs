//! The mutants: each a rule that is switched off, and the check that must notice.
//!
//! The rules live in the crates, each beside the tests that would miss it; a test that finds some prints
//! `MUTANT`, the switch, what found it, where, and after how many milliseconds, with tabs between. This
//! table says which of them are which, runs the tests, and holds what they print against it.

#![allow(clippy::print_stdout, reason = "the table is the result")]

use std::{collections::BTreeMap, time::Instant};

use serde_json::json;

use crate::run::proof;

/// A test that switches rules off.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Finder {
    package: &'static str,
    /// What cargo is told, to find the program that the test is in.
    program: &'static [&'static str],
    test: &'static str,
}

const IDS: Finder = Finder {
    package: "sardonyx-ids",
    program: &["--lib"],
    test: "tests::mutants::each_rule_left_out_is_found",
};
const STORMS: Finder = Finder {
    package: "sardonyx-sim",
    program: &["--test", "it"],
    test: "mutants::each_rule_switched_off_is_found",
};
const DATA: Finder = Finder {
    package: "sardonyx-sim",
    program: &["--test", "it"],
    test: "data::a_rule_switched_off_is_found",
};
const MESH: Finder = Finder {
    package: "sardonyx-sim",
    program: &["--test", "mesh"],
    test: "storms::each_hole_that_is_opened_again_is_found",
};
const CASE: Finder = Finder {
    package: "sardonyx-sim",
    program: &["--test", "mesh"],
    test: "document::a_vote_that_its_proposer_does_not_count_is_missed_where_exactly_a_quorum_is_left",
};
const GREETING: Finder = Finder {
    package: "sardonyx-mesh",
    program: &["--lib"],
    test: "greet::tests::two_connections_that_are_both_kept_are_noticed",
};
const JOURNAL: Finder = Finder {
    package: "sardonyx-queue",
    program: &["--lib"],
    test: "embedded::tests::mutants::each_rule_switched_off_is_found",
};
const LOG: Finder = Finder {
    package: "sardonyx-store",
    program: &["--lib"],
    test: "mutant::tests::each_rule_switched_off_is_found",
};

/// A rule, and the switch that turns it off.
struct Mutant {
    number: u8,
    rule: &'static str,
    switch: &'static str,
    finder: Finder,
}

const fn mutant(number: u8, switch: &'static str, finder: Finder, rule: &'static str) -> Mutant {
    Mutant { number, rule, switch, finder }
}

/// All of them, by number.
const MUTANTS: [Mutant; 32] = [
    mutant(1, "Document", IDS, "times are reserved before they are used"),
    mutant(2, "LeaseChecked", IDS, "a lease that was just checked is no reservation"),
    mutant(3, "MarkUnderLease", IDS, "the mark outlives the lease"),
    mutant(4, "CheckedOnce", STORMS, "a joiner looks after pulses until it is in"),
    mutant(5, "EdgeWatches", STORMS, "watches follow from the replica"),
    mutant(6, "NoPeerGc", STORMS, "a joiner that makes no progress has pulses checked"),
    mutant(7, "Ungated", STORMS, "until it is in, a peer speaks only of joining"),
    mutant(8, "Undetermined", STORMS, "everybody computes the same from the same log"),
    mutant(9, "NoGuards", STORMS, "an acceptance is checked against the replica"),
    mutant(10, "NoTombstone", STORMS, "a job that was collected is not submitted again"),
    mutant(11, "TrimBeforeOrigin", STORMS, "the origin is stored before entries are forgotten"),
    mutant(12, "SkippedGap", STORMS, "a reader whose next entry is gone takes the origin"),
    mutant(13, "ReducedRemainder", STORMS, "every peer that is left over is handed out"),
    mutant(14, "CoverageKept", STORMS, "a job that cannot be covered lets go of its peers"),
    mutant(15, "RoundedAway", STORMS, "nobody is idle because of rounding"),
    mutant(16, "ReadyOnly", DATA, "a queue is drained when nothing is in flight either"),
    mutant(17, "FirstDrained", DATA, "a task is drained when all its inputs are"),
    mutant(18, "Unfenced", DATA, "who left a task commits nothing more"),
    mutant(19, "AnsweredFirst", JOURNAL, "a commit is answered when it is synced"),
    mutant(20, "TwoRecords", JOURNAL, "what is acknowledged and sent is one record"),
    mutant(21, "SyncedAgain", JOURNAL, "after a sync that failed nothing more is promised"),
    mutant(22, "SmallWindow", LOG, "readers remember all that a writer may send again"),
    mutant(23, "UnelectedToken", MESH, "only who was elected has a token"),
    mutant(24, "VersionReset", MESH, "versions grow, also when a seed leads by itself"),
    mutant(25, "OwnVoteUncounted", CASE, "a proposer counts itself"),
    mutant(26, "H4", MESH, "votes are kept"),
    mutant(27, "H15", MESH, "who was elected wins over who was not"),
    mutant(28, "BothKept", GREETING, "of two connections one is kept, the same on both sides"),
    mutant(29, "WokenFor", LOG, "readers read on from where they are, whatever woke them"),
    mutant(30, "FreshTokens", LOG, "what is sent again has the same token"),
    mutant(31, "SequenceFirst", IDS, "a clock that stepped back begins no millisecond anew"),
    mutant(32, "LeapBelieved", IDS, "a clock that leaps ahead alone is not believed"),
];

/// A mutant is found if so many seeds, or so much time, are enough.
const SEEDS_MAX: u64 = 10_000;
const MILLIS_MAX: u64 = 60_000;

/// How and where a switch was noticed.
struct Found {
    by: String,
    at: String,
    millis: u64,
}

impl Found {
    fn is_in_time(&self) -> bool {
        let seed = self.at.strip_prefix("seed ").and_then(|it| it.parse::<u64>().ok());
        self.millis <= MILLIS_MAX || seed.is_some_and(|seed| seed <= SEEDS_MAX)
    }
}

/// Runs the mutants, all or one, and says what found each. An error if one is not found.
pub(crate) fn run(only: Option<&str>, as_json: bool) -> Result<(), String> {
    let is_wanted = |it: &&Mutant| {
        let name = format!("M{}", it.number);
        only.is_none_or(|only| name.eq_ignore_ascii_case(only) || it.switch == only)
    };
    let wanted: Vec<&Mutant> = MUTANTS.iter().filter(is_wanted).collect();
    if wanted.is_empty() {
        return Err(format!("there is no mutant {}: write M1 to M32", only.unwrap_or_default()));
    }
    let mut by_finder: BTreeMap<Finder, Vec<&str>> = BTreeMap::new();
    for mutant in &wanted {
        by_finder.entry(mutant.finder).or_default().push(mutant.switch);
    }
    let begun = Instant::now();
    let mut found = BTreeMap::new();
    for (finder, switches) in by_finder {
        eprintln!("== {} {}", finder.package, finder.test);
        found.extend(ask(finder, &switches)?);
        // One that goes unnoticed may have kept those behind it from being tried.
        let missing: Vec<&str> =
            switches.iter().copied().filter(|it| !found.contains_key(*it)).collect();
        for switch in missing.into_iter().filter(|_| switches.len() > 1) {
            found.extend(ask(finder, &[switch])?);
        }
    }
    let n_found = wanted.iter().filter(|it| is_found(&found, it)).count();
    match as_json {
        true => print_json(&wanted, &found),
        false => print_table(&wanted, &found),
    }
    let seconds = begun.elapsed().as_secs();
    eprintln!("== {n_found} of {} found, {seconds} s", wanted.len());
    match n_found == wanted.len() {
        true => Ok(()),
        false => Err("a rule that is switched off goes unnoticed: a check has a hole".to_owned()),
    }
}

fn is_found(found: &BTreeMap<String, Found>, mutant: &Mutant) -> bool {
    found.get(mutant.switch).is_some_and(Found::is_in_time)
}

/// What a test says about the rules that it is asked to switch off. One that goes unnoticed ends some
/// of the tests; those before it are known all the same.
fn ask(finder: Finder, switches: &[&str]) -> Result<BTreeMap<String, Found>, String> {
    let mut test = proof("test", finder.package);
    test.arg("--quiet").args(finder.program);
    test.args(["--", "--exact", finder.test, "--nocapture"]);
    test.env("MUTANT_ONLY", switches.join(","));
    for seeds in ["MUTANT_SEEDS", "DATA_MUTANT_SEEDS", "MESH_MUTANT_SEEDS"] {
        test.env(seeds, SEEDS_MAX.to_string());
    }
    let output = test.output().map_err(|why| format!("cannot start cargo: {why}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        let last: Vec<_> = why.lines().rev().take(12).collect();
        eprintln!("{}", last.into_iter().rev().collect::<Vec<_>>().join("\n"));
    }
    Ok(text.lines().filter_map(read).collect())
}

/// One line of a test.
fn read(line: &str) -> Option<(String, Found)> {
    // A test's name may stand in front of what it prints first.
    let line = &line[line.find("MUTANT\t")?..];
    let mut parts = line.split('\t').skip(1).map(str::to_owned);
    let (switch, by, at) = (parts.next()?, parts.next()?, parts.next()?);
    let millis = parts.next()?.trim().parse().ok()?;
    Some((switch, Found { by, at, millis }))
}

fn print_table(mutants: &[&Mutant], found: &BTreeMap<String, Found>) {
    println!("| mutant | rule | switched off by | found by | at | time |");
    println!("|---|---|---|---|---|---|");
    for mutant in mutants {
        let Mutant { number, rule, switch, .. } = mutant;
        let told = match found.get(*switch) {
            Some(Found { by, at, millis }) => {
                let late = if is_found(found, mutant) { "" } else { " TOO LATE" };
                format!("{by} | {at} | {:.1} s{late}", *millis as f64 / 1000.0)
            }
            None => "NOT FOUND | | ".to_owned(),
        };
        println!("| M{number} | {rule} | `{switch}` | {told} |");
    }
}

fn print_json(mutants: &[&Mutant], found: &BTreeMap<String, Found>) {
    for mutant in mutants {
        let told = found.get(mutant.switch);
        let line = json!({
            "mutant": format!("M{}", mutant.number),
            "rule": mutant.rule,
            "switch": mutant.switch,
            "found": is_found(found, mutant),
            "by": told.map(|it| &it.by),
            "at": told.map(|it| &it.at),
            "milliseconds": told.map(|it| it.millis),
        });
        println!("{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_each_number_and_each_switch_once() {
        let numbers: Vec<u8> = MUTANTS.iter().map(|it| it.number).collect();
        assert_eq!(numbers, (1..=32).collect::<Vec<u8>>());
        let mut switches: Vec<_> = MUTANTS.iter().map(|it| it.switch).collect();
        switches.sort_unstable();
        switches.dedup();
        assert_eq!(switches.len(), MUTANTS.len());
    }

    #[test]
    fn a_line_of_a_test_is_read() {
        let line = "test x ... MUTANT\tNoGuards\tstorms: ring-is-one-cycle\tseed 4\t12";
        let (switch, found) = read(line).expect("a line");
        assert_eq!((switch.as_str(), found.at.as_str(), found.millis), ("NoGuards", "seed 4", 12));
        assert!(found.is_in_time());
        assert!(read("MUTANT\tNoGuards").is_none());
        let late = Found { by: String::new(), at: "seed 10001".into(), millis: 60_001 };
        assert!(!late.is_in_time());
    }

    /// The tests that are named are there: otherwise cargo runs none of them, and says nothing.
    #[test]
    fn every_finder_is_a_test_of_its_crate() {
        let root = crate::tree::root();
        for Finder { package, test, .. } in [IDS, STORMS, DATA, MESH, CASE, GREETING, JOURNAL, LOG]
        {
            let name = test.rsplit("::").next().expect("a name");
            let dir = root.join("crates").join(package);
            assert!(holds(&dir, &format!("fn {name}()")), "{package} has no test {name}");
        }
    }

    fn holds(dir: &std::path::Path, text: &str) -> bool {
        std::fs::read_dir(dir).expect("a directory").flatten().any(|entry| {
            let path = entry.path();
            match path.is_dir() {
                true => holds(&path, text),
                false => std::fs::read_to_string(path).is_ok_and(|it| it.contains(text)),
            }
        })
    }
}
