//! The whole system under fire: builds the program and its driver, and runs the driver. The short
//! run of `cargo xtask test` takes what the tests have built.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::PathBuf,
    process::{Command, ExitCode, Stdio},
};

use serde_json::Value;

use crate::run::{call, cargo};

/// Runs the driver with these arguments; its exit code is ours, because it says whether the run was
/// well, broken or void.
pub(crate) fn run(args: &[String]) -> Result<ExitCode, String> {
    // One after the other: together they would share the features of what both use, and what is under
    // fire would not be the program that users have.
    for package in ["sardonyx", "sardonyx-fire"] {
        if !call(cargo().args(["build", "--release", "-p", package]))? {
            return Err(format!("{package} does not build"));
        }
    }
    let mut fire = Command::new(target()?.join("release").join("sardonyx-fire"));
    let status = fire.args(args).status().map_err(|why| format!("sardonyx-fire: {why}"))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// The short run: one seed, twenty seconds of storm, on a store and queues of our own. What counts
/// is less than in a long run, because the program is built without optimisation and the machine may
/// be busy; but it must happen. With this seed nodes are killed and stopped, their connections are
/// reset, one's line flickers, the mesh is split, the process that serves all is killed, the log is
/// trimmed.
const SHORT: &[&str] = &[
    "--minutes",
    "0.34",
    "--seed",
    "41",
    "--store",
    "embedded",
    "--queues",
    "embedded",
    "--jobs",
    "2",
    "--rows",
    "3000",
    "--rate",
    "100",
    "--kills-least",
    "6",
    "--rows-least",
    "300",
    "--ids-least",
    "5000",
    "--calm",
    "90",
];

/// The short run alone.
pub(crate) fn build_and_run_short() -> Result<(), String> {
    match call(cargo().args(["build", "-p", "sardonyx", "-p", "sardonyx-fire"]))? {
        true => short(),
        false => Err("the program or its driver does not build".to_owned()),
    }
}

/// Runs the short one with what `cargo test` has just built. Whatever it starts is in namespaces of
/// its own and ends with it; what it wrote down is kept only if something is wrong.
pub(crate) fn short() -> Result<(), String> {
    if fs::metadata("/proc/self").map_or(true, |it| it.uid() != 0) {
        eprintln!("NOT CHECKED: network namespaces need root; run the tests as root");
        return Ok(());
    }
    let built = target()?.join("debug");
    let (driver, program) = (built.join("sardonyx-fire"), built.join("sardonyx"));
    let dir = std::env::temp_dir().join(format!("sardonyx-fire-short-{}", std::process::id()));
    let mut fire = Command::new(&driver);
    fire.args(SHORT).arg("--program").arg(&program).arg("--dir").arg(&dir);
    let status = fire.status().map_err(|why| format!("{}: {why}", driver.display()))?;
    match status.code() {
        Some(0) => fs::remove_dir_all(&dir).map_err(|why| format!("{}: {why}", dir.display())),
        Some(3) => Err(format!("too little happened to judge; see {}", dir.display())),
        _ => Err(format!("something is broken; what was written down is in {}", dir.display())),
    }
}

/// Where cargo puts what it builds.
fn target() -> Result<PathBuf, String> {
    let mut metadata = cargo();
    metadata.args(["metadata", "--format-version", "1", "--no-deps"]).stderr(Stdio::inherit());
    let output = metadata.output().map_err(|why| format!("cannot start cargo: {why}"))?;
    let metadata: Value = serde_json::from_slice(&output.stdout)
        .map_err(|why| format!("cargo metadata is not JSON: {why}"))?;
    let target = metadata["target_directory"].as_str();
    target.map(PathBuf::from).ok_or_else(|| "cargo does not say where it builds".to_owned())
}
