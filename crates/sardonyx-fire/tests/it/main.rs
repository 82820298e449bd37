//! A short run, as part of the ordinary tests: real processes on loopback, killed and stopped, and the
//! same judges as for the long ones.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// The program under test, beside the driver. A run of all tests has built it; built alone, this test
/// builds it.
fn program() -> PathBuf {
    let driver = Path::new(env!("CARGO_BIN_EXE_sardonyx-fire"));
    let program = driver.parent().expect("a directory").join("sardonyx");
    if !program.exists() {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let built = Command::new(cargo).args(["build", "-p", "sardonyx"]).status();
        assert!(built.expect("cargo runs").success(), "the program does not build");
    }
    program
}

fn fire(args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sardonyx-fire"));
    let output = command.args(args).output().expect("the driver runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// Twenty seconds of kills and pauses with everything in one served directory. How much comes through
/// depends on the machine, so that less counts here than in a long run.
#[test]
fn a_short_run_on_one_machine_breaks_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let (program, dir) = (program().display().to_string(), dir.path().display().to_string());
    let (code, out, err) = fire(&[
        "--no-sandbox",
        "--store",
        "embedded",
        "--queues",
        "embedded",
        "--minutes",
        "0.33",
        "--seed",
        "1",
        "--rows",
        "3000",
        "--jobs",
        "2",
        "--rate",
        "100",
        "--rows-least",
        "200",
        "--ids-least",
        "10000",
        "--kills-least",
        "6",
        "--calm",
        "120",
        "--json",
        "--program",
        &program,
        "--dir",
        &dir,
    ]);
    let verdict: Value = serde_json::from_str(out.trim()).unwrap_or_default();
    let wrong: Vec<_> = verdict["findings"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|it| it["broken"].as_array().is_none_or(|it| !it.is_empty()))
        .collect();
    assert_eq!(code, Some(0), "{wrong:#?}\n{}\n{err}", verdict["void"]);
    assert_eq!(verdict["findings"].as_array().map(Vec::len), Some(7), "all judges were asked");
    println!("{}", verdict["traffic"]);
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
