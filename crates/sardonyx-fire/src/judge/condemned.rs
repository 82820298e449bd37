//! One broken record for each group of invariants: whoever judges that group must condemn it, and the
//! run with it. A judge that has been switched off, or has gone blind, fails here.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use sardonyx_core::{
    mutant::{Mutant, with_mutant},
    replica::job::JobOutcome,
};

use super::{
    Finding, end, ids,
    log::{self, Line},
    outputs, tokens,
    traffic::Traffic,
};
use crate::report::{Outcome, Verdict};

/// A run in which enough happened and this is all that was found.
fn is_condemned(about: &'static str, broken: Vec<String>) {
    assert_ne!(broken, [""; 0], "{about}: the judge sees nothing");
    let finding = Finding::new(about, String::new(), broken);
    let verdict = Verdict {
        seed: 1,
        kinds: Vec::new(),
        dir: PathBuf::new(),
        traffic: Traffic::default(),
        void: Vec::new(),
        counts: Vec::new(),
        findings: vec![Finding::new("all else", String::new(), Vec::new()), finding],
    };
    assert_eq!(verdict.outcome(), Outcome::Broken, "{about}");
    assert!(verdict.to_string().contains("BROKEN"), "{verdict}");
}

fn play(entries: &[&str]) -> Vec<String> {
    let lines: Vec<_> = (0..)
        .zip(entries)
        .map(|(at, entry)| format!(r#"{{"id":{at},{}"#, &entry[1..]))
        .map(|text| Line::parse(&text).expect("a line"))
        .collect();
    log::judge(&lines, &BTreeSet::new()).broken
}

const A: &str = r#"{"fn":"prepare-join-cluster","args":{"joiner":"a"}}"#;
const B: &str = r#"{"fn":"prepare-join-cluster","args":{"joiner":"b"}}"#;

/// LR-6: a peer is stitched into the ring where it does not belong.
const STITCHED: [&str; 3] =
    [A, B, r#"{"fn":"accept-join-cluster","args":{"joiner":"z","observer":"y","subject":"x"}}"#];

/// AL-1: somebody who is no member is given a task.
const GHOST: [&str; 3] = [
    A,
    r#"{"fn":"submit-job","args":{"id":"j","tasks":["t"],"job":{"name":"j"}}}"#,
    r#"{"fn":"volunteer-for-task","args":{"peers":["z"]}}"#,
];

/// AL-4: a protected job of two tasks loses one of its two peers.
const UNCOVERED: [&str; 7] = [
    A,
    B,
    r#"{"fn":"notify-join-cluster","args":{"joiner":"b","observer":"a","subject":"a"}}"#,
    r#"{"fn":"accept-join-cluster","args":{"joiner":"b","observer":"a","subject":"a"}}"#,
    r#"{"fn":"submit-job","args":{"id":"j","tasks":["t","u"],
        "job":{"name":"j","partial-coverage-protection":true}}}"#,
    r#"{"fn":"volunteer-for-task","args":{"peers":["a","b"]}}"#,
    r#"{"fn":"leave-cluster","args":{"peer":"b"}}"#,
];

/// AL-8: one peer for two jobs, of which each is due half of it.
const SHARED: [&str; 4] = [
    r#"{"fn":"configure-cluster","args":{"job-scheduler":"percentage"}}"#,
    A,
    r#"{"fn":"submit-job","args":{"id":"j","tasks":["t"],"job":{"name":"j","percentage":50}}}"#,
    r#"{"fn":"submit-job","args":{"id":"k","tasks":["t"],"job":{"name":"k","percentage":50}}}"#,
];

#[test]
fn lr_a_ring_that_is_none() {
    assert_eq!(play(&STITCHED), [""; 0], "with the rule it is refused");
    is_condemned("LR", with_mutant(Some(Mutant::NoGuards), || play(&STITCHED)));
}

#[test]
fn lr_replicas_that_differ() {
    let other = |peer: &str| {
        let Ok(Line::Entry(entry)) = Line::parse(&A.replacen('{', r#"{"id":0,"#, 1)) else {
            panic!("an entry")
        };
        let mut replica = sardonyx_core::Replica::new();
        assert!(peer.is_empty() || replica.play(&entry).is_ok());
        replica
    };
    let said = [("node0".to_owned(), Ok(other("a"))), ("node1".to_owned(), Ok(other("")))];
    is_condemned("LR-1", end::agree(&other("a"), &said));
}

#[test]
fn lr_the_dead_in_the_ring() {
    let lines = [Line::parse(&A.replacen('{', r#"{"id":0,"#, 1)).expect("a line")];
    let played = log::judge(&lines, &BTreeSet::new());
    is_condemned("LR-10", end::ring(&played.replica, &BTreeMap::new()));
}

#[test]
fn al_a_task_for_nobody() {
    assert_eq!(play(&GHOST), [""; 0], "with the rule it is refused");
    is_condemned("AL", with_mutant(Some(Mutant::Ghosts), || play(&GHOST)));
}

#[test]
fn al_a_protected_job_that_runs_in_part() {
    assert_eq!(play(&UNCOVERED), [""; 0], "with the rule it lets go of its peers");
    is_condemned("AL-4", with_mutant(Some(Mutant::CoverageKept), || play(&UNCOVERED)));
}

#[test]
fn al_a_scheduler_that_hands_out_too_little() {
    assert_eq!(play(&SHARED), [""; 0], "with the rule one of them gets it");
    is_condemned("AL-8", with_mutant(Some(Mutant::RoundedAway), || play(&SHARED)));
}

#[test]
fn dp_rows_that_are_lost_and_rows_that_are_there_twice() {
    let lines = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    is_condemned("DP-1", outputs::compare("j", &lines("a b c"), &lines("a c")));
    is_condemned("DP-2", outputs::compare("j", &lines("a b"), &lines("a b z")));
    is_condemned("DP-3", outputs::compare("j", &lines("a b"), &lines("a b b")));
}

#[test]
fn dp_a_job_that_does_not_end() {
    let ended = [("j".to_owned(), None, JobOutcome::Completed)];
    is_condemned("DP-13", end::jobs(&ended));
}

#[test]
fn mb_two_tokens_at_once() {
    let seen = |at_micros, node, version| tokens::Sighting { at_micros, node, version };
    let (_, broken) = tokens::judge(&[seen(1, 0, 1), seen(5, 1, 2), seen(6, 0, 1)]);
    is_condemned("MB-2", broken);
    let (_, broken) = tokens::judge(&[seen(1, 0, 3), seen(5, 1, 3)]);
    is_condemned("MB-1", broken);
}

#[test]
fn mb_nodes_that_follow_different_leaders() {
    let view = |leader: &str| end::MeshView { leader: Some(leader.into()), table: "t".into() };
    let views = BTreeMap::from([(0, view("a 7")), (1, view("b 7"))]);
    is_condemned("MB-9", end::mesh(&views, 2));
}

#[test]
fn id_one_that_comes_twice() {
    let run = |first, n| ids::Run { first, n };
    is_condemned("ID-1", ids::differ(&mut [run(10, 5), run(12, 1)]).1);
    is_condemned("ID-2", ids::grows("drawer0", &[run(10, 5), run(3, 1)]));
    let decode = |id: u64| (1, id);
    is_condemned("ID-4", ids::below_marks(&[run(10, 5)], decode, &BTreeMap::from([(1, 12)])));
}

#[test]
fn st_a_log_whose_order_is_none() {
    let line = |at: u64| {
        let text = A.replacen('{', &format!(r#"{{"id":{at},"#), 1);
        Line::parse(&text).expect("a line")
    };
    is_condemned("ST-2", log::judge(&[line(5), line(4)], &BTreeSet::new()).broken);
    is_condemned("ST-2", log::judge(&[line(5), line(5)], &BTreeSet::new()).broken);
    let damaged = Line::Unreadable(sardonyx_core::Position(3), "noise".into());
    is_condemned("ST-2", log::judge(&[damaged], &BTreeSet::new()).broken);
}

#[test]
fn a_process_that_panicked() {
    is_condemned("ends", end::exits(&[("node1".to_owned(), Some(101))], false));
    is_condemned("ends", end::panics([("node1", "thread 'main' panicked at src/x.rs:1:2:")]));
}
