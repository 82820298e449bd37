//! The driver from outside: plans, and what it refuses.

#![allow(clippy::expect_used, reason = "a test may")]

use std::process::Command;

use serde_json::Value;

fn fire(args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sardonyx-fire"));
    let output = command.args(args).output().expect("the driver runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// The same faults every time, and none in the first seconds.
#[test]
fn a_plan_is_printed_and_nothing_is_started() {
    let print = || fire(&["--plan", "--minutes", "1", "--seed", "7"]);
    let (code, out, err) = print();
    assert_eq!((code, &*err), (Some(0), ""));
    let plan: Value = serde_json::from_str(&out).expect("a plan");
    assert_eq!(plan["seed"], 7);
    assert!(plan["steps"].as_array().is_some_and(|it| it.len() > 20), "{out}");
    assert_eq!(print().1, out);
}

#[test]
fn what_cannot_be_run_is_refused_with_advice() {
    let dir = tempfile::tempdir().expect("a directory");
    let used = dir.path().display().to_string();
    let (code, _, err) = fire(&["--no-sandbox", "--dir", &used, "--program", "/none"]);
    assert!(code == Some(1) && err.contains("give --program"), "{err}");
    let (code, _, err) = fire(&["--no-sandbox", "--dir", &used, "--program", "/none"]);
    assert!(code == Some(1) && err.contains("is not empty"), "{err}");
    let (code, _, err) = fire(&["--store", "paper"]);
    assert!(code == Some(2) && err.contains("zookeeper"), "{err}");
}
