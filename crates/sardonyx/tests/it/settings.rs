//! Settings of a node from flags, variables and files, from the outside. Each of these ends before a
//! node begins, because the value that wins is wrong.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

use serde_json::Value;

struct Try {
    dir: tempfile::TempDir,
}

impl Try {
    fn with_file(text: &str) -> Try {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("sardonyx.toml"), text).unwrap();
        Try { dir }
    }

    /// The complaint.
    fn start(&self, args: &[&str], variables: &[(&str, &str)]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sardonyx"));
        command.arg("start").args(args).envs(variables.iter().copied());
        let output = command.current_dir(self.dir.path()).output().unwrap();
        let why = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{why}");
        why
    }
}

#[test]
fn the_file_of_the_working_directory_holds_where_nothing_else_is_said() {
    let there = Try::with_file("peers = 0");
    assert!(there.start(&[], &[]).contains("--peers 0: a node has at least one peer"));
    // The flag and the variable win, so that something else is wrong then.
    let why = there.start(&["--peers", "x"], &[]);
    assert!(why.contains("'x' for '--peers <K>'"), "{why}");
    let why = there.start(&[], &[("SARDONYX_PEERS", "y")]);
    assert!(why.contains("'y' for '--peers <K>'"), "{why}");
    assert!(why.contains("note: --peers is from the variable SARDONYX_PEERS"), "{why}");
    let why = there.start(&["-p", "z"], &[("SARDONYX_PEERS", "y")]);
    assert!(why.contains("'z' for '--peers <K>'"), "{why}");
}

#[test]
fn another_file_can_be_named() {
    let there = Try::with_file("no-such-key = 1");
    let other = there.dir.path().join("other.toml");
    fs::write(&other, "session = \"soon\"").unwrap();
    let other = other.to_str().unwrap();
    for why in [
        there.start(&["--config", other], &[]),
        there.start(&[&format!("--config={other}")], &[]),
        there.start(&[], &[("SARDONYX_CONFIG", other)]),
    ] {
        assert!(why.contains("'soon' for '--session <TIME>'"), "{why}");
        assert!(why.contains("other.toml"), "{why}");
    }
    let why = there.start(&["--config", "missing.toml"], &[]);
    assert!(why.contains("missing.toml: No such file"), "{why}");
}

#[test]
fn a_log_for_programs_has_an_object_on_each_line() {
    let there = Try::with_file("store = \"memory:\"\n[log]\nlevel = \"debug\"");
    let mut node = Command::new(env!("CARGO_BIN_EXE_sardonyx"))
        .args(["start", "--log", "json"])
        .current_dir(there.dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(node.stderr.take().unwrap()).lines();
    let mut messages = Vec::new();
    for line in lines {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        assert!(line["level"].is_string() && line["timestamp"].is_string(), "{line}");
        let is_in = line["fields"]["message"] == "joined" && line["fields"]["ring"] == 1;
        messages.push(line);
        if is_in {
            let pid = node.id().to_string();
            assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        }
    }
    assert_eq!(node.wait().unwrap().code(), Some(0));
    let said = |text: &str| messages.iter().any(|line| line["fields"]["message"] == text);
    assert!(said("a life begins") && said("joined") && said("leaving the ring"), "{messages:?}");
}

#[test]
fn a_slip_is_refused_with_what_was_meant() {
    let there = Try::with_file("sesion = \"5s\"\n[log]\nlevle = \"warn\"");
    let why = there.start(&[], &[("SARDONYX_PEER", "3"), ("SARDONYX_PORT_7440_TCP", "tcp://x")]);
    for part in [
        "sesion: there is no such key; did you mean session?",
        "log-levle: there is no such key; did you mean log-level?",
        "SARDONYX_PEER: there is no such variable; did you mean SARDONYX_PEERS?",
    ] {
        assert!(why.contains(part), "{part:?} is not in {why}");
    }
    assert!(!why.contains("7440"), "variables of others are left alone: {why}");
    assert!(!Try::with_file("not toml").start(&[], &[]).is_empty());
}
