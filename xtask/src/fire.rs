//! The whole system under fire: builds the program and its driver, and runs the driver.

use std::{
    path::PathBuf,
    process::{Command, ExitCode, Stdio},
};

use serde_json::Value;

use crate::run::{call, cargo};

/// Runs the driver with these arguments; its exit code is ours, because it says whether the run was
/// well, broken or void.
pub(crate) fn run(args: &[String]) -> Result<ExitCode, String> {
    let mut build = cargo();
    build.args(["build", "--release", "-p", "sardonyx", "-p", "sardonyx-fire"]);
    if !call(&mut build)? {
        return Err("the program or its driver does not build".to_owned());
    }
    // Not `cargo run`: that would build the driver once more, with other features of what both use.
    let mut fire = Command::new(target()?.join("release").join("sardonyx-fire"));
    let status = fire.args(args).status().map_err(|why| format!("sardonyx-fire: {why}"))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
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
