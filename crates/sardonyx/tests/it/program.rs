//! Runs the built program.

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

/// What came of one run.
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

pub fn sardonyx(args: &[&str], stdin: &str) -> Ran {
    let mut child = Command::new(env!("CARGO_BIN_EXE_sardonyx"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    Ran {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// What is built in, in the allocator's own words: without it a node keeps the most it ever needed.
#[test]
fn memory_that_is_not_used_goes_back_after_a_second() {
    let mut version = Command::new(env!("CARGO_BIN_EXE_sardonyx"));
    version.arg("--version").env("_RJEM_MALLOC_CONF", "confirm_conf:true");
    let said = String::from_utf8(version.output().unwrap().stderr).unwrap();
    for setting in ["narenas:2", "dirty_decay_ms:1000", "muzzy_decay_ms:0"] {
        assert!(said.contains(setting), "{setting} is not among the settings: {said}");
    }
}
