//! A node whose jobs are kept beneath a directory, from the outside.

use std::{fs, os::unix::fs::symlink, time::Instant};

use serde_json::{Value, json};

use crate::{
    node::{Node, SOON, ring_of},
    program::sardonyx,
};

/// The state of a job that is over, and why.
fn ended(url: &str, id: &str) -> (String, String) {
    let begun = Instant::now();
    loop {
        let ran = sardonyx(&["jobs", id, "--store", url, "--json"], "");
        let job: Value = serde_json::from_str(ran.stdout.trim()).unwrap_or_default();
        let job = job["jobs"].get(0).cloned().unwrap_or(job);
        let state = job["state"].as_str().unwrap_or_default().to_owned();
        if state == "completed" || state == "killed" {
            return (state, ran.stdout);
        }
        assert!(begun.elapsed() < SOON, "{id} does not end: {}{}", ran.stdout, ran.stderr);
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}

#[test]
fn jobs_that_come_by_the_log_are_kept_beneath_the_roots() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    fs::create_dir_all(path("root/in")).unwrap();
    fs::write(path("secret.csv"), "n\n424242\n").unwrap();
    fs::write(path("root/in/a.csv"), "n\n1\n2\n").unwrap();
    symlink("../secret.csv", path("root/link.csv")).unwrap();
    symlink("..", path("root/up")).unwrap();
    let store = format!("embedded:{}", path("data"));
    let root = path("root");
    let node = ["--peers", "3", "--store", &store, "--listen", "127.0.0.1:0"];
    let node = Node::start(&[&node[..], &["--files-root", &root]].concat());
    let begun = Instant::now();
    let url = loop {
        if let Some(url) =
            node.events().first().and_then(|it| it["serves"].as_str().map(String::from))
        {
            break url;
        }
        assert!(begun.elapsed() < SOON, "no address");
        std::thread::sleep(std::time::Duration::from_millis(30));
    };
    ring_of(&url, 3, SOON, |_| true);
    let submit = |id: &str, from: &str, to: &str| {
        let job = json!({
            "name": id, "workflow": [["in", "out"]],
            "catalog": {
                "in": {"type": "input", "plugin": "file", "path": from, "format": "csv"},
                "out": {"type": "output", "plugin": "file", "path": to, "format": "csv"},
            }
        });
        fs::write(path("job.json"), job.to_string()).unwrap();
        let ran = sardonyx(&["submit", &path("job.json"), "--store", &url, "--id", id], "");
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        ended(&url, id)
    };
    let (state, said) = submit("good", "in/*.csv", "out.csv");
    assert_eq!(state, "completed", "{said}");
    assert_eq!(fs::read_to_string(path("root/out.csv")).unwrap(), "n\n1\n2\n");
    let outside = path("out.csv");
    for (id, from, to) in [
        ("up", "../secret.csv", "x.csv"),
        ("link", "link.csv", "x.csv"),
        ("through", "up/secret.csv", "x.csv"),
        ("system", "/etc/passwd", "x.csv"),
        ("out-up", "in/a.csv", "../out.csv"),
        ("out-through", "in/a.csv", "up/out.csv"),
        ("out-system", "in/a.csv", &outside),
    ] {
        let (state, said) = submit(id, from, to);
        assert_eq!(state, "killed", "{id}: {said}");
    }
    let left: Vec<_> =
        fs::read_dir(directory.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with("out.csv")), "{left:?}");
    assert!(!fs::exists(path("root/x.csv")).unwrap());
}
