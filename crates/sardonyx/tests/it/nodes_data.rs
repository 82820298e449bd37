//! A job on three processes, of which one is killed and one stands still for longer than its session.

use std::{
    collections::BTreeMap,
    fs,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    node::{Node, SOON},
    program::sardonyx,
};

const ROWS: u64 = 60_000;

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < SOON, "no {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn state(url: &str) -> Value {
    let ran = sardonyx(&["jobs", "--store", url, "--json"], "");
    let jobs: Value = serde_json::from_str(ran.stdout.trim()).unwrap_or_default();
    jobs["jobs"][0].clone()
}

#[test]
fn a_killed_process_and_one_that_stood_still_lose_and_double_nothing() {
    let dir = tempfile::TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let store = format!("embedded:{}", path("data"));
    let first = Node::start(&[
        "--peers",
        "3",
        "--store",
        &store,
        "--listen",
        "127.0.0.1:0",
        "--session",
        "2s",
    ]);
    let url = wait_for("address", || {
        let events = first.events();
        Some(events.first()?["serves"].as_str()?.to_owned())
    });
    let other = || Node::start(&["--peers", "3", "--store", &url, "--session", "2s"]);
    let (mut second, third) = (other(), other());
    let out = path("counts.csv");
    let job = serde_json::json!({
        "name": "counts", "workflow": [["in", "key"], ["key", "count"], ["count", "out"]],
        "task-scheduler": "round-robin",
        "catalog": {
            "in": {"type": "input", "plugin": "generate", "count": ROWS, "splits": 12,
                   "batch-size": 40},
            "key": {"type": "function", "fn": "sql", "query": "select n % 17 as key from segments"},
            "count": {"type": "function", "fn": "count", "group-by": ["key"]},
            "out": {"type": "output", "plugin": "file", "path": out},
        }
    });
    fs::write(path("job.json"), job.to_string()).unwrap();
    let ran = sardonyx(&["submit", &path("job.json"), "--store", &url], "");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let works = |node: &Node| node.events().iter().any(|it| it["event"] == "task-started");
    wait_for("work", || (works(&second) && works(&third)).then_some(()));
    second.kill();
    third.signal("STOP");
    std::thread::sleep(Duration::from_secs(5));
    third.signal("CONT");
    let state = wait_for("end", || {
        let state = state(&url)["state"].as_str()?.to_owned();
        (state == "completed" || state == "killed").then_some(state)
    });
    assert_eq!(state, "completed");
    let mut counts = BTreeMap::new();
    for row in fs::read_to_string(&out).unwrap().lines().skip(1) {
        let (key, count) = row.split_once(',').unwrap();
        let number = |text: &str| text.parse::<u64>().unwrap();
        assert!(counts.insert(number(key), number(count)).is_none(), "{key} is there twice");
    }
    let wanted = (0..17).map(|key| (key, (ROWS + 16 - key) / 17)).collect();
    assert_eq!(counts, wanted);
}
