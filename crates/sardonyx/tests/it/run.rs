//! Jobs that run: the examples, with results computed a second time by other means; jobs that
//! cannot run; processes that are killed in the middle of everything.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

use sardonyx_queue::suite::nats::NatsServers;
use serde_json::Value;
use tempfile::TempDir;

use crate::program::Ran;

/// How long a run may take, restarts of peers included, on a machine that does many other things.
const RUN_MAX: Duration = Duration::from_secs(180);

/// A working directory that sees the examples and has its own place for results.
struct Bench {
    dir: TempDir,
}

impl Bench {
    fn new() -> Bench {
        let dir = TempDir::new().unwrap();
        std::os::unix::fs::symlink(root().join("jobs"), dir.path().join("jobs")).unwrap();
        fs::create_dir(dir.path().join("out")).unwrap();
        Bench { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn run(&self, args: &[&str]) -> Ran {
        self.run_at(args, None)
    }

    /// With a failpoint.
    fn run_at(&self, args: &[&str], at: Option<&str>) -> Ran {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sardonyx"));
        command.current_dir(self.dir.path()).args(args).stdin(Stdio::null());
        if let Some(at) = at {
            command.env("SARDONYX_AT", at);
        }
        let output = output_in_time(command);
        Ran {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|why| panic!("{name}: {why}"))
    }

    /// The lines of a CSV file, without its header, sorted.
    fn rows(&self, name: &str) -> Vec<String> {
        let mut rows: Vec<_> = self.read(name).lines().skip(1).map(str::to_owned).collect();
        rows.sort();
        rows
    }
}

/// What a program prints, if it ends in time: one that hangs must not hang the tests.
fn output_in_time(mut command: Command) -> Output {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    in_time(child, &format!("{command:?}"))
}

fn in_time(child: Child, what: &str) -> Output {
    let pid = child.id().to_string();
    let (ended, is_over) = std::sync::mpsc::channel();
    std::thread::spawn(move || ended.send(child.wait_with_output()));
    is_over
        .recv_timeout(RUN_MAX)
        .unwrap_or_else(|_| {
            let _ = Command::new("kill").args(["-9", &pid]).status();
            panic!("{what} did not end within {RUN_MAX:?}")
        })
        .unwrap()
}

/// A stream has no end of its own: Ctrl-C and a service's stop are how it ends.
#[test]
fn a_stream_that_is_interrupted_ends_and_says_so() {
    let job = r#"{"name": "still", "workflow": [["in", "out"]], "catalog": {
        "in": {"type": "input", "plugin": "stdin", "format": "lines"},
        "out": {"type": "output", "plugin": "stdout"}}}"#;
    for signal in ["-INT", "-TERM"] {
        let bench = Bench::new();
        fs::write(bench.path("job.json"), job).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_sardonyx"));
        command.current_dir(bench.dir.path()).args(["run", "job.json"]).stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(b"first\n").unwrap();
        // The first row is through: it runs.
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("first"), "{line:?}");
        let pid = child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        let output = in_time(child, "run job.json");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(130), "{signal}: {said}");
        assert!(said.contains("was interrupted"), "{said}");
        drop(stdin);
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn data(name: &str) -> String {
    fs::read_to_string(root().join("jobs/data").join(name)).unwrap()
}

fn csv(name: &str) -> Vec<Vec<String>> {
    data(name).lines().skip(1).map(|row| row.split(',').map(str::to_owned).collect()).collect()
}

fn word_counts() -> Vec<String> {
    let mut counts = BTreeMap::<String, u64>::new();
    for book in ["books/log.txt", "books/queue.txt"] {
        for word in data(book).split_whitespace() {
            *counts.entry(word.to_owned()).or_default() += 1;
        }
    }
    let field = |word: &str| match word.contains(',') {
        true => format!("\"{word}\""),
        false => word.to_owned(),
    };
    let mut rows: Vec<_> = counts.iter().map(|(word, n)| format!("{},{n}", field(word))).collect();
    rows.sort();
    rows
}

#[test]
fn word_count_counts_words() {
    for peers in ["1", "4", "8"] {
        let bench = Bench::new();
        let ran = bench.run(&["run", "jobs/word-count.toml", "--peers", peers]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert_eq!(bench.rows("out/word-counts.csv"), word_counts(), "{peers} peers");
    }
}

#[test]
fn errors_per_user_are_those_of_the_log() {
    let mut wanted = BTreeMap::<String, (u64, u64, u64)>::new();
    for line in data("requests.ndjson").lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        if row["status"].as_u64().unwrap() >= 500 {
            let bytes = row["bytes"].as_u64().unwrap();
            let it = wanted.entry(row["user"].as_str().unwrap().into()).or_default();
            *it = (it.0 + 1, it.1 + bytes, it.2.max(bytes));
        }
    }
    for peers in ["1", "8"] {
        let bench = Bench::new();
        let ran = bench.run(&["run", "jobs/errors-per-user.toml", "--peers", peers]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let text = bench.read("out/errors-per-user.csv");
        let columns: Vec<_> = text.lines().next().unwrap().split(',').collect();
        let at = |name: &str| columns.iter().position(|column| *column == name).unwrap();
        let (user, errors, bytes, largest) = (at("user"), at("errors"), at("bytes"), at("largest"));
        let mut got = BTreeMap::new();
        for row in text.lines().skip(1) {
            let row: Vec<_> = row.split(',').collect();
            let number = |at: usize| row[at].parse::<u64>().unwrap();
            let it = (number(errors), number(bytes), number(largest));
            assert!(got.insert(row[user].to_owned(), it).is_none(), "{} twice", row[user]);
        }
        assert_eq!(got, wanted, "{peers} peers");
    }
}

#[test]
fn orders_are_enriched_and_go_where_they_belong() {
    for peers in ["1", "8"] {
        let bench = Bench::new();
        let ran = bench.run(&["run", "jobs/enrich.toml", "--peers", peers]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let (mut large, mut booked) = (Vec::new(), Vec::new());
        for row in csv("orders.csv") {
            let (id, customer, country) = (&row[0], &row[1], &row[2]);
            let amount: i64 = row[3].parse().unwrap();
            let is_eu = country == "DE" || country == "FR";
            let (region, tax) = if is_eu { ("eu", amount * 19 / 100) } else { ("world", 0) };
            match amount >= 400 {
                true => large.push(format!("{id} {customer} {amount} {region} {tax}")),
                false => booked.push(format!("{id},{amount},{region},{tax}")),
            }
        }
        let mut reviewed: Vec<_> = bench
            .read("out/review.ndjson")
            .lines()
            .map(|line| {
                let row: Value = serde_json::from_str(line).unwrap();
                let text = |key: &str| row[key].as_str().unwrap().to_owned();
                let (id, amount, tax) = (&row["id"], &row["amount"], &row["tax"]);
                format!("{id} {} {amount} {} {tax}", text("customer"), text("region"))
            })
            .collect();
        reviewed.sort();
        large.sort();
        booked.sort();
        assert_eq!(reviewed, large);
        assert_eq!(bench.rows("out/booked.csv"), booked);
    }
}

#[test]
fn two_inputs_meet_and_part_again() {
    for peers in ["1", "8"] {
        let bench = Bench::new();
        let ran = bench.run(&["run", "jobs/balance.toml", "--peers", peers]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let rows: Vec<_> = csv("orders.csv").into_iter().chain(csv("refunds.csv")).collect();
        let mut wanted = BTreeMap::<String, i64>::new();
        for row in &rows {
            *wanted.entry(row[1].clone()).or_default() += row[3].parse::<i64>().unwrap();
        }
        let mut wanted: Vec<_> = wanted.iter().map(|(who, sum)| format!("{who},{sum}")).collect();
        wanted.sort();
        assert_eq!(bench.rows("out/balance.csv"), wanted);
        assert_eq!(bench.read("out/movements.ndjson").lines().count(), rows.len());
    }
}

#[test]
fn a_stream_shows_its_counts_as_they_grow() {
    let bench = Bench::new();
    let ran = bench.run(&["run", "jobs/rate.toml"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let mut last = BTreeMap::<String, u64>::new();
    for line in ran.stdout.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let count = row["count"].as_u64().unwrap();
        let before = last.insert(row["sensor"].as_str().unwrap().into(), count);
        assert!(before.is_none_or(|before| before <= count), "a count went back: {line}");
    }
    assert_eq!(last.values().sum::<u64>(), 6_000);
    assert!(ran.stdout.lines().count() > last.len(), "shown once only:\n{}", ran.stdout);
}

/// The job file, with something else instead of a part of it.
fn spoiled(bench: &Bench, job: &str, part: &str, instead: &str) -> Ran {
    let text = fs::read_to_string(root().join("jobs").join(job)).unwrap();
    assert!(text.contains(part), "{job} has no {part}");
    fs::write(bench.path("spoiled.toml"), text.replace(part, instead)).unwrap();
    bench.run(&["run", "spoiled.toml"])
}

#[test]
fn a_job_that_cannot_run_says_what_to_write_instead() {
    let cases = [
        (
            "word-count.toml",
            r#"["split", "count"]"#,
            r#"["split", "count"], ["count", "split"]"#,
            "circle",
        ),
        ("word-count.toml", "split-words", "split-word", "did you mean split-words?"),
        (
            "word-count.toml",
            "jobs/data/books/*.txt",
            "jobs/data/nothing/*.txt",
            "jobs/data/nothing",
        ),
        ("errors-per-user.toml", "where status >= 500", "where status >=", "catalog.errors"),
        ("errors-per-user.toml", "select user, bytes", "select usr, bytes", "usr"),
        ("errors-per-user.toml", "sum(bytes)", "sum(byte)", "byte"),
        (
            "word-count.toml",
            r#"path = "jobs/data/books/*.txt""#,
            r#"path = "jobs/data/books/*.txt"
pth = "x""#,
            "pth",
        ),
        (
            "word-count.toml",
            "out/word-counts.csv",
            "nowhere/at/all/word-counts.csv",
            "catalog.write",
        ),
        ("balance.toml", r#"of = "amount""#, r#"of = "amont""#, "amont"),
    ];
    for (job, part, instead, says) in cases {
        let bench = Bench::new();
        let ran = spoiled(&bench, job, part, instead);
        assert_eq!(ran.code, Some(2), "{instead}: {}", ran.stderr);
        assert!(ran.stderr.contains(says), "{instead}: {}", ran.stderr);
        let left: Vec<_> = fs::read_dir(bench.path("out")).unwrap().collect();
        assert!(left.is_empty(), "{instead} left {left:?}");
    }
    let bench = Bench::new();
    fs::write(bench.path("bad.parquet"), b"PAR1 this is no parquet file").unwrap();
    let ran = spoiled(&bench, "balance.toml", "jobs/data/refunds.csv", "bad.parquet");
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(ran.stderr.contains("bad.parquet"), "{}", ran.stderr);
}

/// How many processes are killed; the variable `KILLS` asks for more.
const KILLS: usize = 24;

/// Every phase of every task, at the first, second and third time, in an order that mixes them.
fn failpoints() -> Vec<String> {
    let phases = [
        "open-session",
        "read-batch",
        "decode",
        "strip-sentinel",
        "requeue-sentinel",
        "apply-function",
        "route",
        "encode",
        "write",
        "commit",
        "seal",
        "complete",
    ];
    let mut points = Vec::new();
    for (at, phase) in phases.into_iter().enumerate() {
        for (turn, task) in ["read", "split", "count", "write"].into_iter().enumerate() {
            // An input decodes nothing, and only what sends on has routes: such points never come.
            let nth = if at == 0 || at > 9 { 1 } else { 1 + (at + turn) % 3 };
            points.push(format!("{phase}:{task}:{nth}=kill"));
        }
    }
    // Far from each other, so that a run meets its end at another place each time.
    (0..points.len()).map(|at| points[at * 19 % points.len()].clone()).collect()
}

/// Kills the process wherever a failpoint says, and runs it again until it is done: the result is
/// what it would have been.
#[test]
fn killed_at_every_phase_it_goes_on_and_nothing_is_lost_or_doubled() {
    kill(number("KILLS", KILLS), |_| "embedded:queues".into());
}

/// How many with the messages on a real NATS, which goes on; the variable `NATS_KILLS` asks for more.
const NATS_KILLS: usize = 8;

#[test]
fn killed_at_every_phase_with_its_messages_on_nats() {
    let n_kills = number("NATS_KILLS", NATS_KILLS);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let servers = runtime.block_on(NatsServers::start(1));
    kill(n_kills, |job| servers.url(&format!("job{job}")));
}

fn number(name: &str, otherwise: usize) -> usize {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap())
}

fn kill(n_kills: usize, queues: impl Fn(usize) -> String) {
    let wanted = word_counts();
    let text = fs::read_to_string(root().join("jobs/word-count.toml")).unwrap();
    let small = text.replace("format = \"lines\"", "format = \"lines\"\nbatch-size = 8");
    let (mut n_killed, mut n_jobs, mut points) = (0, 0, failpoints().into_iter().cycle());
    while n_killed < n_kills {
        let (bench, url) = (Bench::new(), queues(n_jobs));
        fs::write(bench.path("small.toml"), &small).unwrap();
        let args = [
            "run",
            "small.toml",
            "--peers",
            "4",
            "--id",
            "w",
            "--quiet",
            "--queues",
            &url,
            "--store",
            "embedded:log",
        ];
        let mut met = Vec::new();
        // The failpoint that does not come any more lets the job finish.
        loop {
            let point = points.next().unwrap();
            let ran = bench.run_at(&args, Some(&point));
            met.push(point);
            match ran.code {
                Some(0) => break,
                None => n_killed += 1,
                Some(_) => panic!("{met:?}: {}", ran.stderr),
            }
        }
        n_jobs += 1;
        assert_eq!(bench.rows("out/word-counts.csv"), wanted, "{met:?}");
    }
    println!("{n_killed} processes killed in {n_jobs} jobs");
}
