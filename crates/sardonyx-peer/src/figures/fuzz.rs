//! Whatever others left in the store as their figures: figures within their limits, or nothing; and
//! whatever they say, it can be added up.

#![allow(clippy::print_stdout)]

#[path = "../../../../fuzz/harness.rs"]
mod harness;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use harness::Target;
use sardonyx_queue::Place;

use super::{FIGURES_TASKS_MAX, Figure, HISTORY_MAX, Others, Summed, Told};

fn place(task: &str) -> Place {
    Place { job: "j".into(), task: task.into() }
}

/// What several nodes tell, each with its length in front.
fn together(all: &[Told]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for told in all {
        let told = told.to_bytes().expect("written");
        bytes.extend((told.len() as u16).to_be_bytes());
        bytes.extend(told);
    }
    bytes
}

fn seeds() -> Vec<Vec<u8>> {
    let busy = Figure { rows_in: 300, in_per_second: 3, history: vec![1, 3], ..Figure::default() };
    let full = Figure {
        rows_in: u64::MAX,
        rows_out: u64::MAX,
        rows_failed: u64::MAX,
        commits: u64::MAX,
        in_per_second: u64::MAX,
        out_per_second: u64::MAX,
        history: vec![u64::MAX; HISTORY_MAX + 1],
    };
    let one = Told {
        origin: 1,
        at_ms: 2,
        again_ms: Some(2_000),
        left_out: 0,
        tasks: vec![(place("t"), busy.clone()), (place("u"), Figure::default())],
    };
    let more = Figure { rows_in: 500, ..busy.clone() };
    let again = Told { at_ms: 3, tasks: vec![(place("t"), more)], ..one.clone() };
    let other = Told { origin: 2, again_ms: None, left_out: 7, ..one.clone() };
    let most = Told {
        origin: 3,
        again_ms: Some(u64::MAX),
        left_out: u64::MAX,
        tasks: vec![(place("t"), full)],
        ..one.clone()
    };
    let many = Told { tasks: vec![(place("t"), busy); FIGURES_TASKS_MAX + 1], ..one.clone() };
    vec![
        together(std::slice::from_ref(&one)),
        together(&[one, again, other.clone()]),
        together(&[other, most.clone(), most]),
        together(&[many]),
    ]
}

/// All of them that can be read.
fn read(mut bytes: &[u8]) -> Vec<Told> {
    let mut all = Vec::new();
    while let Some((n, rest)) = bytes.split_first_chunk::<2>() {
        let (told, rest) = rest.split_at(usize::from(u16::from_be_bytes(*n)).min(rest.len()));
        bytes = rest;
        let Some(told) = Told::from_bytes(told) else { continue };
        assert!(told.tasks.len() <= FIGURES_TASKS_MAX, "{} tasks", told.tasks.len());
        assert!(told.tasks.iter().all(|(_, it)| it.history.len() <= HISTORY_MAX), "a long history");
        let again = told.to_bytes().and_then(|bytes| Told::from_bytes(&bytes));
        assert_eq!(again.as_ref(), Some(&told), "what was read can be written");
        all.push(told);
    }
    all
}

/// Holds for what is made of figures, whatever they are.
fn check(summed: &Summed, n_told: usize) {
    assert!(summed.n_nodes <= n_told, "{} nodes of {n_told}", summed.n_nodes);
    let total = summed.total();
    assert!(total.history.len() <= HISTORY_MAX, "{} steps", total.history.len());
    for (place, task) in &summed.tasks {
        let (task, job) = (&task.figure, summed.of_job(&place.job));
        assert!(task.rows_in <= job.rows_in && job.rows_in <= total.rows_in, "a sum is no less");
    }
}

const NOW: Duration = Duration::from_secs(100);

#[test]
fn what_nodes_tell() {
    Target { name: "peer-told", seeds: seeds(), words: &[] }.run(|input| {
        let told = read(input);
        let times: BTreeSet<_> = told.iter().map(|it| (it.origin, it.at_ms)).collect();
        // Of two with one origin the later one counts; with one time too, either may be kept.
        let is_clear = times.len() == told.len();
        let (mut others, mut backwards) = (Others::default(), Others::default());
        others.note(told.clone(), None, NOW);
        backwards.note(told.iter().rev().cloned().collect(), None, NOW);
        let mut said = format!("{is_clear} {}", "#".repeat(told.len().min(9)));
        for age in [0, 1, 59, 1_000, u64::MAX - 100] {
            let then = NOW + Duration::from_secs(age);
            let summed = others.sum(BTreeMap::new(), then);
            check(&summed, told.len());
            let is_same = backwards.sum(BTreeMap::new(), then) == summed;
            assert!(is_same || !is_clear, "it matters who is heard first");
            let total = summed.total();
            said.push_str(&format!(" {} {}", total.in_per_second > 0, total.rows_in == u64::MAX));
        }
        others.note(Vec::new(), None, NOW);
        assert_eq!(others.sum(BTreeMap::new(), NOW), Summed::default(), "who is gone is forgotten");
        said
    });
}
