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

use crate::tree;

/// One measured run.
struct Measured {
    job: String,
    engine: &'static str,
    rows: f64,
    seconds: f64,
    cpu_seconds: f64,
}

pub(crate) fn run(runs: u64) -> Result<(), String> {
    let root = tree::root();
    let home = root.join("target/bench-peers");
    let data = home.join("data");
    fs::create_dir_all(&data).map_err(|why| why.to_string())?;
    call(Command::new("cargo").current_dir(&root).args(["build", "--release", "-p", "sardonyx"]))?;
    let ours = target(&root).join("release/sardonyx");
    // Installed before anything is measured: what can go wrong does so at once.
    let timely = said(timely(&root, &home), "timely");
    let flink = said(flink(&root, &home), "Flink");
    let duckdb = said(duckdb(&home), "DuckDB");
    let words = data.join("words-1000000.txt");
    let mut all = sardonyx(&ours, &data, runs)?;
    for _ in 0..runs {
        if let Some(program) = &timely {
            let map = time("map", "timely", 1e7, Command::new(program).args(["map", "10000000"]));
            all.push(map?);
            let count =
                time("words", "timely", 1e7, Command::new(program).arg("words").arg(&words));
            all.push(count?);
        }
        if let Some(classes) = &flink {
            all.push(time("words", "flink", 1e7, java(classes).arg("Words").arg(&words))?);
        }
        if let Some(python) = &duckdb {
            let mut command = Command::new(python);
            command.arg(root.join("bench/ndjson_duckdb.py"));
            command.arg(data.join("logs-10000000.ndjson")).arg(home.join("duckdb.csv"));
            all.push(time("ndjson", "duckdb", 1e7, &mut command)?);
        }
    }
    show(&all).map_err(|why| why.to_string())?;
    late(&ours, timely.as_deref())
}

/// What could be installed; what could not is left out, and that is said.
fn said<T>(installed: Result<T, String>, name: &str) -> Option<T> {
    installed.map_err(|why| eprintln!("{name} is left out: {why}")).ok()
}

/// How late the rows of a stream are.
fn late(ours: &Path, timely: Option<&Path>) -> Result<(), String> {
    call(Command::new(ours).args(["bench", "stream"]))?;
    let Some(timely) = timely else { return Ok(()) };
    eprintln!("the same rows on timely, in microseconds:");
    call(Command::new(timely).args(["late", "50000", "10"]))
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
    let into = home.join("timely");
    let manifest = root.join("bench/timely/Cargo.toml");
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--manifest-path"]).arg(manifest);
    call(cargo.arg("--target-dir").arg(&into))?;
    Ok(into.join("release/bench-timely"))
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

fn duckdb(home: &Path) -> Result<PathBuf, String> {
    let venv = home.join("venv");
    let python = venv.join("bin/python");
    if !python.exists() {
        call(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
        call(Command::new(venv.join("bin/pip")).args(["install", "-q", "duckdb"]))?;
    }
    Ok(python)
}

/// Runs a program under the shell's clock, which knows processor time.
fn time(
    job: &str,
    engine: &'static str,
    rows: f64,
    command: &mut Command,
) -> Result<Measured, String> {
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

/// Medians, each beside ours.
fn show(all: &[Measured]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "{:8} {:18} {:>8} {:>8} {:>14} {:>8}",
        "job", "engine", "s", "CPU s", "rows/CPU-s", "ours/it"
    )?;
    for job in ["map", "words", "ndjson"] {
        let mut engines: Vec<&str> = Vec::new();
        for it in all.iter().filter(|it| it.job == job) {
            if !engines.contains(&it.engine) {
                engines.push(it.engine);
            }
        }
        let median = |engine: &str| {
            let mut of: Vec<_> =
                all.iter().filter(|it| it.job == job && it.engine == engine).collect();
            of.sort_by(|a, b| a.cpu_seconds.total_cmp(&b.cpu_seconds));
            of.get(of.len() / 2).map(|it| (it.seconds, it.cpu_seconds, it.rows / it.cpu_seconds))
        };
        let ours = median("sardonyx").map_or(f64::NAN, |(_, _, speed)| speed);
        for engine in engines {
            if let Some((seconds, cpu, speed)) = median(engine) {
                let ratio = ours / speed;
                writeln!(
                    out,
                    "{job:8} {engine:18} {seconds:8.2} {cpu:8.2} {speed:14.0} {ratio:8.2}"
                )?;
            }
        }
    }
    Ok(())
}

fn call(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|why| format!("{command:?}: {why}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed")) }
}
