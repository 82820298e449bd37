//! Two nodes on one store: whichever is asked, the rates are those of both.

use std::{
    fs,
    net::SocketAddr,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    node::{Node, SOON, get, ring_of},
    program::sardonyx,
};

/// Rows a second. With a rate, rows are due by the clock, whoever takes them.
const RATE: u64 = 400;

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Result<T, String>) -> T {
    let begun = Instant::now();
    loop {
        match look() {
            Ok(found) => return found,
            Err(last) => assert!(begun.elapsed() < SOON, "no {what}: {last}"),
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// What a node has said about itself under `event`.
fn said(node: &Node, event: &str, key: &str) -> String {
    wait_for(event, || {
        let found = node.events().into_iter().find(|it| it["event"] == event);
        let text = found.and_then(|it| it[key].as_str().map(str::to_owned));
        text.ok_or_else(|| "not said".into())
    })
}

fn get_json(address: SocketAddr, path: &str) -> Value {
    serde_json::from_str(&get(address, path)).unwrap()
}

/// How many segments went into `out` on one node alone.
fn own_rows(address: SocketAddr) -> u64 {
    let name = "sardonyx_task_segments_in_total{job=\"flow\",task=\"out\"} ";
    let metrics = get(address, "/metrics");
    let line = metrics.lines().find_map(|line| line.strip_prefix(name));
    line.map_or(0, |number| number.parse().unwrap())
}

fn task(job: &Value, id: &str) -> Value {
    let tasks = job["task-list"].as_array().unwrap();
    tasks.iter().find(|it| it["id"] == id).unwrap()["measured"].clone()
}

#[test]
fn whoever_is_asked_knows_the_rates_of_all_nodes_that_live() {
    let dir = tempfile::TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (store, http) = (format!("embedded:{}", path("data")), "127.0.0.1:0");
    let usual = ["--peers", "2", "--session", "2s", "--http", http, "--store"];
    let first = Node::start(&[&usual[..], &[&store, "--listen", "127.0.0.1:0"]].concat());
    let url = said(&first, "start", "serves");
    let mut second = Node::start(&[&usual[..], &[&url]].concat());
    let at = |node: &Node| -> SocketAddr {
        let url = said(node, "http", "url");
        url.trim_start_matches("http://").trim_end_matches('/').parse().unwrap()
    };
    let (one, other) = (at(&first), at(&second));
    ring_of(&url, 4, SOON, |_| true);
    let nothing = json!({"nodes": 0, "left-out": 0, "whole": true});
    assert_eq!(get_json(one, "/v1/overview")["sources"], nothing, "nobody has anything to tell");

    // One peer reads, so that the other three, of both nodes, write.
    let job = json!({
        "name": "flow", "workflow": [["in", "out"]], "task-scheduler": "round-robin",
        "catalog": {
            "in": {"type": "input", "plugin": "generate", "rate": RATE, "max-peers": 1,
                   "batch-size": 20, "batch-timeout": "20ms"},
            "out": {"type": "output", "plugin": "null"},
        }
    });
    fs::write(path("job.json"), job.to_string()).unwrap();
    let submitted = sardonyx(&["submit", &path("job.json"), "--id", "flow", "--store", &url], "");
    assert_eq!(submitted.code, Some(0), "{}", submitted.stderr);

    for asked in [one, other] {
        wait_for("rate of both", || {
            let job = get_json(asked, "/v1/jobs/flow");
            let (out, overview) = (task(&job, "out"), get_json(asked, "/v1/overview"));
            let rate = out["in-per-second"].as_u64().unwrap_or(0);
            let is_whole = out["nodes"] == 2
                && job["sources"] == json!({"nodes": 2, "left-out": 0, "whole": true})
                && (RATE / 2..RATE * 2).contains(&rate)
                && overview["in-per-second"].as_u64().unwrap_or(0) >= RATE / 2;
            if is_whole { Ok(()) } else { Err(format!("{job:#} {overview:#}")) }
        });
    }
    wait_for("sum of rows", || {
        // Counters grow while they are asked for: what was there before is in the sum, what is
        // told late is not yet.
        let before = [own_rows(one), own_rows(other)];
        let sum = task(&get_json(one, "/v1/jobs/flow"), "out")["rows-in"].as_u64().unwrap_or(0);
        let is_more = before.iter().all(|own| *own > 0 && sum > *own);
        if is_more { Ok(()) } else { Err(format!("{sum} of {before:?}")) }
    });
    let top = sardonyx(&["top", "--once", "--store", &url], "");
    assert_eq!(top.code, Some(0), "{}", top.stderr);
    let row = top.stdout.lines().find(|line| line.contains("flow")).unwrap();
    let words: Vec<_> = row.trim_matches('│').split_whitespace().collect();
    let rate: u64 = words[6].parse().unwrap();
    assert!((RATE / 2..RATE * 4).contains(&rate), "{}", top.stdout);

    second.kill();
    wait_for("end of its figures", || {
        let job = get_json(one, "/v1/jobs/flow");
        let is_gone = job["sources"]["nodes"] == 1 && task(&job, "out")["nodes"] == 1;
        if is_gone { Ok(()) } else { Err(format!("{job:#}")) }
    });
}
