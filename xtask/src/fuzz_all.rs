//! Every decoder and machine that strangers' bytes reach, fuzzed for as long as you like.
//!
//! The targets are tests of their crates (`fuzz/harness.rs` says how they search); here is the list of
//! them, and the limit on memory: an allocation that no input can be worth ends the process, and that
//! is a finding.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Mutex, PoisonError},
    thread,
};

use serde_json::Value;

use crate::run::{cargo, untold};

/// A target: the name of its corpus, and the test that feeds it.
struct Target {
    name: &'static str,
    package: &'static str,
    program: Program,
    test: &'static str,
}

const fn target(
    name: &'static str,
    package: &'static str,
    program: Program,
    test: &'static str,
) -> Target {
    Target { name, package, program, test }
}

/// Which of a package's test programs: what cargo calls its kind, and its name unless there is but one.
type Program = (&'static str, Option<&'static str>);

const IT: Program = ("test", Some("it"));
const LIB: Program = ("lib", None);
const PROGRAM: Program = ("bin", Some("sardonyx"));

const TARGETS: &[Target] = &[
    target("core-command", "sardonyx-core", IT, "fuzz::a_command_in_bytes"),
    target("core-entry-json", "sardonyx-core", IT, "fuzz::an_entry_in_json"),
    target("core-replica-json", "sardonyx-core", IT, "fuzz::a_replica_in_json"),
    target("store-frame", "sardonyx-store", LIB, "fuzz::a_stream_of_frames"),
    target("store-origin", "sardonyx-store", LIB, "fuzz::an_origin"),
    target("store-journal", "sardonyx-store", LIB, "fuzz::a_journal"),
    target("store-pieces", "sardonyx-store", LIB, "fuzz::a_pointer_and_its_pieces"),
    target("queue-frame", "sardonyx-queue", LIB, "fuzz::a_stream_of_frames"),
    target("queue-segments", "sardonyx-queue", LIB, "fuzz::encoded_segments"),
    target("queue-journal", "sardonyx-queue", LIB, "fuzz::a_journal"),
    target("queue-board", "sardonyx-queue", LIB, "nats::fuzz::a_board"),
    target("queue-letter", "sardonyx-queue", LIB, "nats::fuzz::a_message_or_a_key"),
    target("ids-resp", "sardonyx-ids", LIB, "tests::fuzz::requests_in_resp"),
    target("ids-raw", "sardonyx-ids", LIB, "tests::fuzz::requests_in_raw_frames"),
    target("ids-text", "sardonyx-ids", LIB, "tests::fuzz::an_id_as_text"),
    target("ids-records", "sardonyx-ids", LIB, "tests::fuzz::records_of_a_store"),
    target("mesh-stream", "sardonyx-mesh", IT, "fuzz::a_stream_from_a_stranger"),
    target("mesh-kept", "sardonyx-mesh", IT, "fuzz::what_a_member_kept"),
    target("mesh-member", "sardonyx-mesh", IT, "fuzz::a_member_in_any_order_of_things"),
    target("mesh-event", "sardonyx-mesh", LIB, "events::fuzz::an_event_behind_the_greeting"),
    target("job-toml", "sardonyx-peer", IT, "fuzz::a_job_file_in_toml"),
    target("job-json", "sardonyx-peer", IT, "fuzz::a_job_file_in_json"),
    target("peer-told", "sardonyx-peer", LIB, "figures::fuzz::what_nodes_tell"),
    target("task-sql", "sardonyx-task", LIB, "sql::fuzz::a_query"),
    target("task-rows", "sardonyx-task", IT, "fuzz::rows_in_a_file"),
    target("task-parquet", "sardonyx-task", IT, "fuzz::a_parquet_file"),
    target("task-path", "sardonyx-task", IT, "fuzz::a_path"),
    target("task-mark", "sardonyx-task", LIB, "plugin::file::fuzz::what_parts_committed"),
    target("http-request", "sardonyx", LIB, "http::tests::fuzz::a_request"),
    target("http-bytes", "sardonyx", LIB, "http::tests::fuzz::bytes_on_the_line"),
    target("http-tokens", "sardonyx", LIB, "http::tests::fuzz::a_tokens_file"),
    target("settings", "sardonyx", PROGRAM, "cli::settings::fuzz::a_settings_file"),
    target("fire-trace", "sardonyx-fire", LIB, "judge::fuzz::a_trace"),
    target("fire-log", "sardonyx-fire", LIB, "judge::fuzz::a_written_log"),
    target("fire-ids", "sardonyx-fire", LIB, "judge::fuzz::what_was_drawn"),
    target("fire-plan", "sardonyx-fire", LIB, "judge::fuzz::a_plan"),
    target("sim-plan", "sardonyx-sim", IT, "fuzz::a_plan_in_a_file"),
];

/// A target that tries fewer has waited and not searched. The slowest tries some hundred on a machine of
/// its own.
const INPUTS_A_SECOND_LEAST: u64 = 5;

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
    let built = build()?;
    let mut found = Vec::new();
    for target in wanted {
        let program = built.iter().find_map(|it| target.program_in(it)).ok_or_else(|| {
            format!("{} has no test program of the kind {}", target.package, target.program.0)
        })?;
        found.push((target, program));
    }
    let waiting = Mutex::new(found.into_iter());
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || -> Result<Vec<&str>, String> {
        let mut failed = Vec::new();
        while let Some((target, program)) = next() {
            if !is_well(target, &program, seconds, seed)? {
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
fn is_well(
    target: &Target,
    program: &Path,
    seconds: u64,
    seed: Option<u64>,
) -> Result<bool, String> {
    eprintln!("== {}: for {seconds} s", target.name);
    let output = fuzz(target, program, seconds, seed)
        .output()
        .map_err(|why| format!("cannot start {}: {why}", program.display()))?;
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
    let n_least = seconds * INPUTS_A_SECOND_LEAST;
    let is_enough = n_inputs(done).is_some_and(|n| n >= n_least);
    if !is_enough {
        eprintln!("== {}: FAILED: fewer than {n_least} inputs are no search", target.name);
    }
    Ok(is_enough)
}

/// How many inputs a target tried, by what it says.
fn n_inputs(done: &str) -> Option<u64> {
    done.split('\t').nth(2)?.strip_suffix(" inputs")?.parse().ok()
}

fn fuzz(target: &Target, program: &Path, seconds: u64, seed: Option<u64>) -> Command {
    let mut shell = Command::new("sh");
    let limited = format!("ulimit -v {ADDRESS_KIB_MAX}; exec \"$@\"");
    shell.args(["-c", &limited, "sh"]).arg(program);
    // Quietly: otherwise what a target prints stands behind its name, on one line.
    shell.args(["--quiet", "--exact", target.test, "--nocapture", "--test-threads", "1"]);
    // Where cargo runs tests.
    shell.current_dir(crate::tree::root().join("crates").join(target.package));
    untold(&mut shell);
    // Some targets catch panics of libraries below them, and a backtrace takes longer than the rest.
    shell.env("RUST_BACKTRACE", "0");
    shell.env("FUZZ_ONLY", target.name).env("FUZZ_SECONDS", seconds.to_string());
    if let Some(seed) = seed {
        shell.env("FUZZ_SEED", seed.to_string());
    }
    shell
}

/// Builds the tests of the workspace, all of them: package by package, cargo would choose other
/// features for what they share, and build most of it a second time. What it says of each program.
fn build() -> Result<Vec<Value>, String> {
    let mut build = cargo();
    build.args(["test", "--workspace", "--no-run", "--message-format"]);
    build.arg("json-render-diagnostics").stderr(Stdio::inherit());
    let output = build.output().map_err(|why| format!("cannot start cargo: {why}"))?;
    if !output.status.success() {
        return Err("the tests cannot be built".to_owned());
    }
    let said = String::from_utf8_lossy(&output.stdout);
    Ok(said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

impl Target {
    /// The program that this target is in, if cargo speaks of that.
    fn program_in(&self, built: &Value) -> Option<PathBuf> {
        let (kind, name) = self.program;
        let manifest = Path::new(built["manifest_path"].as_str()?);
        let is_ours = manifest.parent()?.ends_with(self.package);
        let is_test = built["profile"]["test"] == true;
        let is_kind = built["target"]["kind"].as_array()?.iter().any(|it| it == kind);
        let is_named = name.is_none_or(|name| built["target"]["name"] == name);
        let program = built["executable"].as_str().map(PathBuf::from)?;
        (is_ours && is_test && is_kind && is_named).then_some(program)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_target_is_in_one_of_the_programs_that_were_built() {
        let said = |package: &str, kind: &str, name: &str, test: bool| {
            json!({"reason": "compiler-artifact", "manifest_path": format!("/x/crates/{package}/Cargo.toml"),
                   "target": {"kind": [kind], "name": name}, "profile": {"test": test}, "executable": name})
        };
        let built = [
            json!({"reason": "build-finished", "success": true}),
            said("sardonyx-core", "test", "it", true),
            said("sardonyx", "lib", "sardonyx", true),
            said("sardonyx", "bin", "sardonyx", false),
            said("sardonyx", "test", "it", true),
            said("sardonyx", "bin", "sardonyx", true),
        ];
        let places = |target: Target| -> Vec<usize> {
            (0..built.len()).filter(|it| target.program_in(&built[*it]).is_some()).collect()
        };
        assert_eq!(places(target("a", "sardonyx-core", IT, "")), [1]);
        assert_eq!(places(target("b", "sardonyx", LIB, "")), [2]);
        assert_eq!(places(target("c", "sardonyx", PROGRAM, "")), [5]);
        assert_eq!(places(target("d", "sardonyx-store", LIB, "")), [0; 0]);
    }

    #[test]
    fn how_much_was_tried_is_in_what_a_target_says() {
        assert_eq!(
            n_inputs("FUZZ\tids-raw\t5120 inputs\t60 s\t9 outcomes\tslowest 1ms"),
            Some(5120)
        );
        assert_eq!(n_inputs("FUZZ\tids-raw\tnothing"), None);
    }

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
