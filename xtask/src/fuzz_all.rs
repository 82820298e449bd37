//! Every decoder and machine that strangers' bytes reach, fuzzed for as long as you like.
//!
//! The targets are tests of their crates (`fuzz/harness.rs` says how they search); here is the list of
//! them, and the limit on memory: an allocation that no input can be worth ends the process, and that
//! is a finding.

use std::{
    collections::BTreeSet,
    process::Command,
    sync::{Mutex, PoisonError},
    thread,
};

use crate::run::{call, cargo, untold};

/// A target: the name of its corpus, and the test that feeds it.
struct Target {
    name: &'static str,
    package: &'static str,
    program: &'static [&'static str],
    test: &'static str,
}

const fn target(
    name: &'static str,
    package: &'static str,
    program: &'static [&'static str],
    test: &'static str,
) -> Target {
    Target { name, package, program, test }
}

const IT: &[&str] = &["--test", "it"];
const LIB: &[&str] = &["--lib"];
const PROGRAM: &[&str] = &["--bin", "sardonyx"];

const TARGETS: &[Target] = &[
    target("core-command", "sardonyx-core", IT, "fuzz::a_command_in_bytes"),
    target("core-entry-json", "sardonyx-core", IT, "fuzz::an_entry_in_json"),
    target("core-replica-json", "sardonyx-core", IT, "fuzz::a_replica_in_json"),
    target("store-frame", "sardonyx-store", LIB, "fuzz::a_stream_of_frames"),
    target("store-origin", "sardonyx-store", LIB, "fuzz::an_origin"),
    target("store-journal", "sardonyx-store", LIB, "fuzz::a_journal"),
    target("queue-frame", "sardonyx-queue", LIB, "fuzz::a_stream_of_frames"),
    target("queue-segments", "sardonyx-queue", LIB, "fuzz::encoded_segments"),
    target("queue-journal", "sardonyx-queue", LIB, "fuzz::a_journal"),
    target("ids-resp", "sardonyx-ids", LIB, "tests::fuzz::requests_in_resp"),
    target("ids-raw", "sardonyx-ids", LIB, "tests::fuzz::requests_in_raw_frames"),
    target("ids-text", "sardonyx-ids", LIB, "tests::fuzz::an_id_as_text"),
    target("ids-records", "sardonyx-ids", LIB, "tests::fuzz::records_of_a_store"),
    target("mesh-stream", "sardonyx-mesh", IT, "fuzz::a_stream_from_a_stranger"),
    target("mesh-kept", "sardonyx-mesh", IT, "fuzz::what_a_member_kept"),
    target("mesh-member", "sardonyx-mesh", IT, "fuzz::a_member_in_any_order_of_things"),
    target("job-toml", "sardonyx-peer", IT, "fuzz::a_job_file_in_toml"),
    target("job-json", "sardonyx-peer", IT, "fuzz::a_job_file_in_json"),
    target("task-sql", "sardonyx-task", LIB, "sql::fuzz::a_query"),
    target("task-rows", "sardonyx-task", IT, "fuzz::rows_in_a_file"),
    target("task-parquet", "sardonyx-task", IT, "fuzz::a_parquet_file"),
    target("task-path", "sardonyx-task", IT, "fuzz::a_path"),
    target("http-request", "sardonyx", LIB, "http::tests::fuzz::a_request"),
    target("http-bytes", "sardonyx", LIB, "http::tests::fuzz::bytes_on_the_line"),
    target("settings", "sardonyx", PROGRAM, "cli::settings::fuzz::a_settings_file"),
    target("fire-trace", "sardonyx-fire", LIB, "judge::fuzz::a_trace"),
    target("fire-log", "sardonyx-fire", LIB, "judge::fuzz::a_written_log"),
    target("fire-ids", "sardonyx-fire", LIB, "judge::fuzz::what_was_drawn"),
    target("fire-plan", "sardonyx-fire", LIB, "judge::fuzz::a_plan"),
    target("sim-plan", "sardonyx-sim", IT, "fuzz::a_plan_in_a_file"),
];

/// How many KiB of addresses a target may have: more than any needs, less than a length of 32 bits.
const ADDRESS_KIB_MAX: u64 = 3 << 20;

/// Runs the targets, all or some, for so many seconds each and so many at once. Goes on after a
/// finding; an error says which have one.
pub(crate) fn run(
    seconds: u64,
    at_once: usize,
    only: Option<&str>,
    seed: Option<u64>,
) -> Result<(), String> {
    let wanted: Vec<_> =
        TARGETS.iter().filter(|it| only.is_none_or(|only| it.name.starts_with(only))).collect();
    if wanted.is_empty() {
        let names: Vec<_> = TARGETS.iter().map(|it| it.name).collect();
        return Err(format!("there is no such target; there are {}", names.join(", ")));
    }
    // Before the first: a build takes the time of those who run beside it.
    for (package, program) in
        wanted.iter().map(|it| (it.package, it.program)).collect::<BTreeSet<_>>()
    {
        let mut build = cargo();
        build.args(["test", "--quiet", "--no-run", "-p", package]).args(program);
        if !call(&mut build)? {
            return Err(format!("{package} cannot be built"));
        }
    }
    let waiting = Mutex::new(wanted.into_iter());
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || -> Result<Vec<&str>, String> {
        let mut failed = Vec::new();
        while let Some(target) = next() {
            if !is_well(target, seconds, seed)? {
                failed.push(target.name);
            }
        }
        Ok(failed)
    };
    let failed = thread::scope(|scope| {
        let workers: Vec<_> = (0..at_once).map(|_| scope.spawn(work)).collect();
        let failed =
            workers.into_iter().map(|it| it.join().unwrap_or_else(|_| Err("a panic".into())));
        failed.collect::<Result<Vec<_>, String>>()
    })?;
    match failed.concat() {
        failed if failed.is_empty() => Ok(()),
        failed => Err(format!("found something: {}; see above", failed.join(", "))),
    }
}

/// Runs one, and shows what it said when it is over: others may speak meanwhile.
fn is_well(target: &Target, seconds: u64, seed: Option<u64>) -> Result<bool, String> {
    eprintln!("== {}: for {seconds} s", target.name);
    let output =
        fuzz(target, seconds, seed).output().map_err(|why| format!("cannot start cargo: {why}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        eprintln!("{said}{complaint}== {}: FAILED", target.name);
        return Ok(false);
    }
    // A test run in which no test has the name asked for succeeds as well.
    let done = said.lines().find(|line| line.starts_with("FUZZ\t")).ok_or_else(|| {
        let Target { package, test, .. } = target;
        format!("{package} has no test `{test}`; if it was renamed, rename it in xtask/src/fuzz_all.rs too")
    })?;
    eprintln!("{done}");
    Ok(true)
}

fn fuzz(target: &Target, seconds: u64, seed: Option<u64>) -> Command {
    let cargo = cargo();
    let mut shell = Command::new("sh");
    let limited = format!("ulimit -v {ADDRESS_KIB_MAX}; exec \"$@\"");
    shell.args(["-c", &limited, "sh"]).arg(cargo.get_program());
    shell.current_dir(crate::tree::root());
    // Otherwise it would build once more, and within the limit.
    untold(&mut shell);
    shell.args(["test", "--quiet", "-p", target.package]).args(target.program);
    shell.args(["--", "--exact", target.test, "--nocapture", "--test-threads", "1"]);
    // Some targets catch panics of libraries below them, and a backtrace takes longer than the rest.
    shell.env("RUST_BACKTRACE", "0");
    shell.env("FUZZ_ONLY", target.name).env("FUZZ_SECONDS", seconds.to_string());
    if let Some(seed) = seed {
        shell.env("FUZZ_SEED", seed.to_string());
    }
    shell
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_a_corpus_and_every_corpus_a_target() {
        let corpus = crate::tree::root().join("fuzz/corpus");
        let dirs = std::fs::read_dir(corpus).expect("the corpus").flatten();
        let mut dirs: Vec<_> =
            dirs.map(|it| it.file_name().to_string_lossy().into_owned()).collect();
        dirs.sort();
        let mut names: Vec<_> = TARGETS.iter().map(|it| it.name.to_owned()).collect();
        names.sort();
        assert_eq!(dirs, names);
    }
}
