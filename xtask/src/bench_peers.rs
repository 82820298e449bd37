//! `cargo xtask bench-peers`: the same jobs here and on other engines, in one run.
//!
//! What is compared is rows per second of processor time: neighbours cannot spoil it. An engine that
//! cannot be installed is left out, and that is said.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use crate::{run::cargo, tree};

/// One measured run.
pub(crate) struct Measured {
    pub(crate) job: String,
    pub(crate) engine: &'static str,
    rows: f64,
    seconds: f64,
    cpu_seconds: f64,
}

/// The middle one of the runs of a job on an engine.
pub(crate) struct Median {
    pub(crate) seconds: f64,
    pub(crate) cpu_seconds: f64,
    pub(crate) rows_per_cpu_second: f64,
}

/// All runs, and what was to run and could not: what, and why.
pub(crate) struct Compared {
    pub(crate) all: Vec<Measured>,
    pub(crate) left_out: LeftOut,
}

type LeftOut = Vec<(String, String)>;

/// The jobs that are compared.
pub(crate) const JOBS: [&str; 3] = ["map", "words", "ndjson"];

/// How ours is called in the tables.
pub(crate) const OURS: &str = "sardonyx";

/// Measures, and shows.
pub(crate) fn run(runs: u64) -> Result<(), String> {
    show(&measure(runs)?.all).map_err(|why| why.to_string())?;
    call(Command::new(program()?).args(["bench", "stream"]))?;
    match late() {
        Ok(said) => eprintln!("the same rows on timely, in microseconds: {said}"),
        Err(why) => eprintln!("timely is left out: {why}"),
    }
    Ok(())
}

/// Runs everything that can be installed.
pub(crate) fn measure(runs: u64) -> Result<Compared, String> {
    let root = tree::root();
    let home = root.join("target/bench-peers");
    let data = home.join("data");
    fs::create_dir_all(&data).map_err(|why| why.to_string())?;
    let ours = program()?;
    // Installed before anything is measured: what can go wrong does so at once.
    let mut left_out = Vec::new();
    let mut others = others(&root, &home, &data, &mut left_out);
    let mut all = sardonyx(&ours, &data, runs)?;
    for _ in 0..runs {
        // Whoever fails once would fail again.
        others.retain(|(job, engine, command)| match time(job, engine, 1e7, command) {
            Ok(measured) => {
                all.push(measured);
                true
            }
            Err(why) => {
                eprintln!("{engine} is left out: {why}");
                left_out.push((format!("{job} on {engine}"), why));
                false
            }
        });
    }
    Ok(Compared { all, left_out })
}

/// Our own program, built.
pub(crate) fn program() -> Result<PathBuf, String> {
    call(cargo().args(["build", "--release", "-p", "sardonyx"]))?;
    Ok(target(&tree::root()).join("release/sardonyx"))
}

/// The others: which job, on which engine, by which command.
fn others(
    root: &Path,
    home: &Path,
    data: &Path,
    left_out: &mut LeftOut,
) -> Vec<(&'static str, &'static str, Command)> {
    let words = data.join("words-1000000.txt");
    let logs = data.join("logs-10000000.ndjson");
    let mut all = Vec::new();
    if let Some(program) = said(timely(root, home), "timely", left_out) {
        let mut map = Command::new(&program);
        map.args(["map", "10000000"]);
        let mut count = Command::new(program);
        count.arg("words").arg(&words);
        all.extend([("map", "timely", map), ("words", "timely", count)]);
    }
    if let Some(classes) = said(flink(root, home), "Flink", left_out) {
        let mut count = java(&classes);
        count.arg("Words").arg(&words);
        all.push(("words", "flink", count));
    }
    for (job, engine, package, source, into) in [
        ("words", "spark", "pyspark==4.3.0", &words, "spark.csv"),
        ("words", "bytewax", "bytewax==0.21.1", &words, "bytewax.csv"),
        ("ndjson", "duckdb", "duckdb==2.0.0", &logs, "duckdb.csv"),
        ("ndjson", "polars", "polars==2.1.0", &logs, "polars.csv"),
    ] {
        let Some(python) = said(python(home, engine, package), engine, left_out) else { continue };
        let mut command = Command::new(python);
        command.arg(root.join(format!("bench/{job}_{engine}.py"))).arg(source);
        command.arg(home.join(into));
        all.push((job, engine, command));
    }
    all
}

/// What could be installed; what could not is left out, and that is said.
fn said<T>(installed: Result<T, String>, name: &str, left_out: &mut LeftOut) -> Option<T> {
    let said = installed.map_err(|why| {
        eprintln!("{name} is left out: {why}");
        left_out.push((name.to_owned(), why));
    });
    said.ok()
}

/// How timely is told to measure by how much the rows of a stream are late.
pub(crate) const LATE: [&str; 3] = ["late", "50000", "10"];

/// How late the rows of the stream of `bench stream` are on timely, in microseconds.
pub(crate) fn late() -> Result<Value, String> {
    let root = tree::root();
    let timely = timely(&root, &root.join("target/bench-peers"))?;
    let output = Command::new(timely).args(LATE).output().map_err(|why| why.to_string())?;
    serde_json::from_slice(&output.stdout)
        .map_err(|_| String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Where cargo puts what it builds.
fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

fn sardonyx(program: &Path, data: &Path, runs: u64) -> Result<Vec<Measured>, String> {
    let mut command = Command::new(program);
    command.args(["bench", "--json", "job", "map", "words", "ndjson"]);
    command.args(["--queues", "memory:", "--queues", "embedded:", "--runs", &runs.to_string()]);
    command.arg("--data").arg(data);
    let output = command.output().map_err(|why| why.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let report: Value = serde_json::from_slice(&output.stdout).map_err(|why| why.to_string())?;
    let number = |row: &Value, key: &str| row[key].as_f64().unwrap_or(f64::NAN);
    let rows = report["rows"].as_array().cloned().unwrap_or_default();
    let measured = rows.iter().map(|row| Measured {
        job: row["job"].as_str().unwrap_or_default().to_owned(),
        engine: if row["queues"] == "memory:" { "sardonyx" } else { "sardonyx, durable" },
        rows: number(row, "rows"),
        seconds: number(row, "seconds"),
        cpu_seconds: number(row, "cpu_seconds"),
    });
    Ok(measured.collect())
}

fn timely(root: &Path, home: &Path) -> Result<PathBuf, String> {
    apart(root, home, "timely")
}

/// Other memberships, for the report.
pub(crate) fn gossip() -> Result<PathBuf, String> {
    let root = tree::root();
    apart(&root, &root.join("target/bench-peers"), "gossip")
}

/// A program of ours that is not part of the workspace, built.
fn apart(root: &Path, home: &Path, name: &str) -> Result<PathBuf, String> {
    let into = home.join(name);
    let manifest = root.join(format!("bench/{name}/Cargo.toml"));
    let mut cargo = cargo();
    cargo.args(["build", "--release", "--manifest-path"]).arg(manifest);
    call(cargo.arg("--target-dir").arg(&into))?;
    Ok(into.join(format!("release/bench-{name}")))
}

/// Flink's libraries and our job for it: where classes are to be found.
fn flink(root: &Path, home: &Path) -> Result<String, String> {
    let venv = home.join("flink");
    if !venv.join("classes").exists() {
        call(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
        let mut pip = Command::new(venv.join("bin/pip"));
        call(pip.args(["install", "-q", "--no-deps", "apache-flink-libraries==2.3.0"]))?;
    }
    let python = Command::new(venv.join("bin/python"))
        .args(["-c", "import sysconfig; print(sysconfig.get_path('purelib'))"])
        .output()
        .map_err(|why| why.to_string())?;
    let site = String::from_utf8_lossy(&python.stdout).trim().to_owned();
    let libraries = format!("{site}/pyflink/lib/*");
    let classes = venv.join("classes");
    let mut javac = Command::new("javac");
    javac.arg("-d").arg(&classes).args(["-cp", &libraries]);
    call(javac.arg(root.join("bench/flink/Words.java")))?;
    Ok(format!("{}:{libraries}", classes.display()))
}

/// Flink looks into classes of Java that newer versions close.
fn java(classes: &str) -> Command {
    let mut java = Command::new("java");
    for package in ["java.lang", "java.util", "java.time", "java.nio", "java.net"] {
        java.arg("--add-opens").arg(format!("{package}=ALL-UNNAMED").replacen(
            "java",
            "java.base/java",
            1,
        ));
    }
    java.args(["-Xmx4g", "-cp", classes]);
    java
}

/// A Python that has this package, and nothing of the others'.
fn python(home: &Path, engine: &str, package: &str) -> Result<PathBuf, String> {
    let venv = home.join(engine);
    let python = venv.join("bin/python");
    let installed = venv.join("installed");
    if !installed.exists() {
        call(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
        call(Command::new(venv.join("bin/pip")).args(["install", "-q", package]))?;
        fs::write(installed, package).map_err(|why| why.to_string())?;
    }
    Ok(python)
}

/// Runs a program under the shell's clock, which knows processor time.
fn time(job: &str, engine: &'static str, rows: f64, command: &Command) -> Result<Measured, String> {
    let mut shell = Command::new("bash");
    shell.args(["-c", "TIMEFORMAT='%R %U %S'; time \"$@\" > /dev/null", "time"]);
    shell.arg(command.get_program()).args(command.get_args());
    let output = shell.output().map_err(|why| why.to_string())?;
    let text = String::from_utf8_lossy(&output.stderr);
    let last = text.lines().last().unwrap_or_default();
    let times: Vec<f64> = last.split_whitespace().filter_map(|it| it.parse().ok()).collect();
    match (times[..].as_ref(), output.status.success()) {
        ([seconds, user, system], true) => {
            let (job, cpu_seconds) = (job.to_owned(), user + system);
            Ok(Measured { job, engine, rows, seconds: *seconds, cpu_seconds })
        }
        _ => Err(format!("{engine} {job}: {text}")),
    }
}

/// The engines that did a job, in the order in which they were measured.
pub(crate) fn engines(all: &[Measured], job: &str) -> Vec<&'static str> {
    let mut engines = Vec::new();
    for it in all.iter().filter(|it| it.job == job) {
        if !engines.contains(&it.engine) {
            engines.push(it.engine);
        }
    }
    engines
}

/// The middle one of an engine's runs of a job.
pub(crate) fn median(all: &[Measured], job: &str, engine: &str) -> Option<Median> {
    let mut of: Vec<_> = all.iter().filter(|it| it.job == job && it.engine == engine).collect();
    of.sort_by(|a, b| a.cpu_seconds.total_cmp(&b.cpu_seconds));
    let &Measured { rows, seconds, cpu_seconds, .. } = *of.get(of.len() / 2)?;
    Some(Median { seconds, cpu_seconds, rows_per_cpu_second: rows / cpu_seconds })
}

/// Medians, each beside ours.
fn show(all: &[Measured]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "{:8} {:18} {:>8} {:>8} {:>14} {:>8}",
        "job", "engine", "s", "CPU s", "rows/CPU-s", "ours/it"
    )?;
    for job in JOBS {
        let ours = median(all, job, OURS).map_or(f64::NAN, |it| it.rows_per_cpu_second);
        for engine in engines(all, job) {
            let Some(it) = median(all, job, engine) else { continue };
            let Median { seconds, cpu_seconds: cpu, rows_per_cpu_second: speed } = it;
            let ratio = ours / speed;
            writeln!(out, "{job:8} {engine:18} {seconds:8.2} {cpu:8.2} {speed:14.0} {ratio:8.2}")?;
        }
    }
    Ok(())
}

fn call(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|why| format!("{command:?}: {why}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed")) }
}
