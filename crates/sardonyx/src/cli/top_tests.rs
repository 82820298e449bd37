//! Pictures of clusters, and what keys make of them.

use std::time::Duration;

use ratatui::{Terminal, backend::TestBackend};
use sardonyx_core::wire;
use sardonyx_peer::{Figure, Others, Told};
use sardonyx_queue::Place;
use serde_json::json;

use super::*;

/// Another node told how fast two tasks are, and left one out.
fn figures() -> Summed {
    let figure = |in_per_second| Figure { in_per_second, ..Figure::default() };
    let place = |task: &str| Place { job: "words".into(), task: task.into() };
    let tasks = vec![(place("read"), figure(1_200)), (place("count"), figure(34))];
    let told = Told { again_ms: Some(2_000), left_out: 1, tasks, ..Told::default() };
    let mut others = Others::default();
    others.note(vec![told], None, Duration::ZERO);
    others.sum(BTreeMap::new(), Duration::ZERO)
}

/// Two nodes with three peers; one job runs, one waits.
fn overview() -> Overview {
    let origin = json!({
        "peers": ["x1-1", "x1-2", "y2-1"],
        "pairs": {"x1-1": "x1-2", "x1-2": "y2-1", "y2-1": "x1-1"},
        "job-scheduler": "greedy",
        "jobs": [
            {"id": "words", "tasks": ["read", "count"], "task-scheduler": "greedy",
             "allocations": {"read": ["x1-1", "x1-2"], "count": ["y2-1"]}},
            {"id": "covered", "tasks": ["t", "u"], "task-scheduler": "greedy",
             "partial-coverage-protection": true},
        ],
        "outcomes": {"old": "killed"},
    });
    let replica = wire::replica_from_json(&origin.to_string()).unwrap();
    let about = BTreeMap::from([
        ("x1".to_owned(), json!({"label": "alpha pid 7", "peers": 2})),
        ("z3".to_owned(), json!({"label": "gamma pid 9", "peers": 4})),
    ]);
    Overview::of(&replica, Some(Position(41)), &about, Some(&figures()))
}

fn view() -> View {
    let mut view = View::new("etcd://user:secret@h:2379/prod".into());
    view.show(overview());
    view
}

fn picture(view: &View, columns: u16, rows: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|it| frame(view, it)).unwrap();
    let buffer = terminal.backend().buffer();
    let lines = buffer.content.chunks(usize::from(columns));
    lines.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>()).collect()
}

#[test]
fn nodes_ring_jobs_and_why_they_wait_are_shown() {
    let shown = picture(&view(), 100, 24).join("\n");
    for expected in [
        "sardonyx  etcd://…@h:2379/prod  after entry 41",
        "3 peers: 3 busy, 0 idle, 0 joining; one ring",
        "1234 rows/s without 1 tasks of nodes that have too many to tell; 2 jobs: 1 running",
        "nodes: 3",
        "alpha pid 7",
        "2 of 2",
        "0 of 4",
        "gone",
        "jobs: 2",
        "read 2  count 1",
        "needs 2 peers",
        "q quit",
    ] {
        assert!(shown.contains(expected), "{expected:?} is not in\n{shown}");
    }
    assert!(!shown.contains("secret"), "{shown}");
}

#[test]
fn a_row_is_whole() {
    let shown = picture(&view(), 100, 24);
    let row = shown.iter().find(|row| row.contains("words")).unwrap();
    let words: Vec<_> = row.trim_matches('│').split_whitespace().collect();
    assert_eq!(words, ["words", "running", "0", "of", "2", "3", "1234", "read", "2", "count", "1"]);
}

#[test]
fn keys_sort_turn_and_choose() {
    let mut view = view();
    let jobs =
        |view: &View| view.sorted_jobs().iter().map(|job| job.id.clone()).collect::<Vec<_>>();
    assert_eq!(jobs(&view), ["words", "covered"], "as they were submitted");
    assert!(view.press(Key::Sort));
    assert_eq!(jobs(&view), ["covered", "words"], "by id");
    assert!(picture(&view, 100, 24).join("").contains("job ▼"));
    view.press(Key::Reverse);
    assert_eq!(jobs(&view), ["words", "covered"]);
    for _ in 0..6 {
        view.press(Key::Sort);
    }
    view.press(Key::Reverse);
    assert_eq!(jobs(&view), ["words", "covered"], "round and back to how they were submitted");
    view.press(Key::Other);
    view.press(Key::Sort);
    view.press(Key::Sort);
    let nodes: Vec<_> = view.sorted_nodes().iter().map(|node| node.name.as_str()).collect();
    assert_eq!(nodes, ["x1", "y2", "z3"], "by peers that are in");
    assert!(!view.press(Key::Quit));
}

#[test]
fn what_is_chosen_stays_inside() {
    let mut view = view();
    view.press(Key::Down(10));
    assert_eq!(view.jobs.chosen, 1);
    view.press(Key::Up(10));
    assert_eq!(view.jobs.chosen, 0);
    view.press(Key::Down(1));
    view.show(Overview::default());
    assert_eq!(view.jobs.chosen, 0, "the rows went away");
}

#[test]
fn an_old_picture_says_so_and_small_or_empty_ones_can_be_drawn() {
    let mut view = view();
    view.complain("the store does not answer".into());
    assert!(picture(&view, 120, 24)[0].contains("OLD: the store does not answer"));
    for (columns, rows) in [(8, 8), (1, 1), (300, 4), (40, 100)] {
        picture(&view, columns, rows);
        picture(&View::new("memory:".into()), columns, rows);
    }
    let summary = picture(&View::new("memory:".into()), 80, 20)[2].clone();
    assert!(summary.starts_with("- rows/s; 0 jobs"), "nobody was asked: {summary}");
    let empty = picture(&View::new("memory:".into()), 80, 20);
    assert!(empty[0].contains("no entries yet"), "{}", empty[0]);
}
