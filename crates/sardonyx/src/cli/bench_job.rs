//! `sardonyx bench job`: whole jobs, as `sardonyx run` runs them, in a process of their own.
//!
//! The data is made by a job as well, and kept in `--data` for the next time. Rows per second of
//! processor time is the number to compare: it does not suffer from neighbours.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::{Value, json};

use super::{Failure, bench};

/// How fast whole jobs are: rows per second, processor time, memory.
#[derive(Args)]
pub(super) struct BenchJob {
    /// Which job; left out, all of them.
    #[arg(value_enum)]
    jobs: Vec<Name>,

    /// How many rows (lines for words), instead of the usual ten million (one million).
    #[arg(long, value_name = "N")]
    rows: Option<u64>,

    /// Where messages are kept; may be given several times.
    #[arg(long, value_name = "URL", default_values_t = ["memory:".to_owned()])]
    queues: Vec<String>,

    /// How many virtual peers.
    #[arg(long, value_name = "K", default_value_t = 4)]
    peers: u32,

    /// How often; the median is shown.
    #[arg(long, value_name = "N", default_value_t = 3)]
    runs: u32,

    /// Where the data is kept between runs; left out, it is made anew and thrown away.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Name {
    /// n → n + 1, through three tasks.
    Map,
    /// Lines of ten words, split and counted.
    Words,
    /// Events counted by key and window of ten seconds.
    Window,
    /// NDJSON: filter by status, sum of bytes by user, CSV.
    Ndjson,
}

#[derive(Serialize)]
struct Row {
    job: String,
    queues: String,
    rows: u64,
    rows_per_second: u64,
    rows_per_cpu_second: u64,
    seconds: f64,
    cpu_seconds: f64,
    peak_mb: u64,
}

impl BenchJob {
    pub(super) fn run(self, json: bool) -> Result<(), Failure> {
        let scratch = tempfile::tempdir()?;
        let data = self.data.clone().unwrap_or_else(|| scratch.path().to_owned());
        fs::create_dir_all(&data)?;
        let jobs =
            if self.jobs.is_empty() { Name::value_variants().to_vec() } else { self.jobs.clone() };
        let mut rows = Vec::new();
        for name in jobs {
            let n = self.rows.unwrap_or(if name == Name::Words { 1_000_000 } else { 10_000_000 });
            let input = make(name, n, &data, scratch.path())?;
            for queues in &self.queues {
                rows.push(self.measure(name, n, &input, queues, scratch.path())?);
            }
        }
        let head = ["job", "queues", "rows", "rows/s", "rows/CPU-s", "s", "CPU s", "peak MB"];
        bench::print(json, "jobs", &head, &rows, |row| {
            vec![
                row.job.clone(),
                row.queues.clone(),
                row.rows.to_string(),
                row.rows_per_second.to_string(),
                row.rows_per_cpu_second.to_string(),
                format!("{:.2}", row.seconds),
                format!("{:.2}", row.cpu_seconds),
                row.peak_mb.to_string(),
            ]
        })
    }

    fn measure(
        &self,
        name: Name,
        n: u64,
        input: &Value,
        queues: &str,
        scratch: &Path,
    ) -> Result<Row, Failure> {
        let mut all = Vec::new();
        for run in 0..self.runs.max(1) {
            let out = scratch.join("out.csv");
            let job = job(name, input, &out);
            // A directory that nobody has used, if it is to be one.
            let queues = match queues {
                "embedded:" => {
                    format!("embedded:{}", scratch.join(format!("queues-{run}")).display())
                }
                other => other.to_owned(),
            };
            let ran = run_job(&job, scratch, self.peers, &queues)?;
            let words = if name == Name::Words { 10 } else { 1 };
            check(name, n * words, &out, &ran)?;
            all.push(ran);
        }
        all.sort_by(|a, b| number(a, "cpu-seconds").total_cmp(&number(b, "cpu-seconds")));
        let median = &all[all.len() / 2];
        let (seconds, cpu) = (number(median, "seconds"), number(median, "cpu-seconds"));
        let rows = if name == Name::Words { n * 10 } else { n };
        let per = |seconds: f64| (rows as f64 / seconds.max(1e-3)) as u64;
        Ok(Row {
            job: format!("{name:?}").to_lowercase(),
            queues: queues.to_owned(),
            rows,
            rows_per_second: per(seconds),
            rows_per_cpu_second: per(cpu),
            seconds,
            cpu_seconds: cpu,
            peak_mb: (number(median, "peak-bytes") / 1e6) as u64,
        })
    }
}

fn number(summary: &Value, key: &str) -> f64 {
    summary[key].as_f64().unwrap_or(f64::NAN)
}

/// The input of a job: made by a job, unless it is there.
fn make(name: Name, n: u64, data: &Path, scratch: &Path) -> Result<Value, Failure> {
    let (file, shape) = match name {
        Name::Map | Name::Window => {
            return Ok(json!({"type": "input", "plugin": "generate", "count": n}));
        }
        Name::Words => {
            (format!("words-{n}.txt"), json!({"line": {"words": 10, "vocabulary": 50_000}}))
        }
        Name::Ndjson => (
            format!("logs-{n}.ndjson"),
            json!({"ts": {"timestamp": "2026-01-01T00:00:00Z", "step": "1ms"},
                   "user": {"text": "u{0..99999}"}, "url": {"text": "/item/{0..9999}"},
                   "status": {"choice": [200, 200, 200, 404, 500]},
                   "bytes": {"random": [100, 99_999]}}),
        ),
    };
    let path = data.join(file);
    if !path.exists() {
        let job = json!({
            "name": "make", "workflow": [["make", "write"]],
            "catalog": {
                "make": {"type": "input", "plugin": "generate", "count": n, "shape": shape},
                "write": {"type": "output", "plugin": "file", "path": path},
            }
        });
        run_job(&job, scratch, 2, "memory:")?;
    }
    let columns = match name {
        Name::Ndjson => json!(["user", "status", "bytes"]),
        Name::Map | Name::Words | Name::Window => Value::Null,
    };
    let mut input = json!({"type": "input", "plugin": "file", "path": path});
    if !columns.is_null() {
        input["columns"] = columns;
    }
    Ok(input)
}

fn job(name: Name, input: &Value, out: &Path) -> Value {
    let sql = |query: &str| json!({"type": "function", "fn": "sql", "query": query});
    let csv = json!({"type": "output", "plugin": "file", "path": out});
    let tasks = |function: Value, group: Value| {
        json!({"name": "bench", "workflow": [["in", "f"], ["f", "g"], ["g", "out"]],
               "catalog": {"in": input, "f": function, "g": group, "out": csv}})
    };
    let count = |keys: &[&str]| json!({"type": "function", "fn": "count", "group-by": keys});
    match name {
        Name::Map => json!({
            "name": "bench", "workflow": [["in", "f"], ["f", "out"]],
            "catalog": {"in": input, "f": sql("select n + 1 as n from segments"),
                        "out": {"type": "output", "plugin": "null"}}
        }),
        Name::Words => tasks(json!({"type": "function", "fn": "split-words"}), count(&["word"])),
        Name::Window => tasks(
            sql("select (n * 2654435761 % 4294967296) // 256 % 10000 as key, \
                 case when n // 10 < n * 40503 % 65536 % 500 then 0 \
                      else (n // 10 - n * 40503 % 65536 % 500) // 10000 end as window \
                 from segments"),
            count(&["key", "window"]),
        ),
        Name::Ndjson => tasks(
            sql("select user, bytes from segments where status = 200"),
            json!({"type": "function", "fn": "sum", "of": "bytes", "group-by": ["user"]}),
        ),
    }
}

/// Runs a job in a process of its own, and returns its summary.
fn run_job(job: &Value, scratch: &Path, peers: u32, queues: &str) -> Result<Value, Failure> {
    let file = scratch.join("job.json");
    fs::write(&file, job.to_string())?;
    let output = Command::new(std::env::current_exe()?)
        .args(["run", "--json", "--peers", &peers.to_string(), "--queues", queues])
        .arg(&file)
        .output()?;
    if !output.status.success() {
        return Err(Failure::world(String::from_utf8_lossy(&output.stderr)));
    }
    serde_json::from_slice(&output.stdout).map_err(Failure::world)
}

/// A fast wrong answer is worth nothing.
fn check(name: Name, rows: u64, out: &Path, summary: &Value) -> Result<(), Failure> {
    let (what, got) = match name {
        Name::Map | Name::Ndjson => {
            let tasks = summary["tasks"].as_array();
            let first = tasks.and_then(|tasks| tasks.first());
            ("rows", first.and_then(|task| task["out"].as_u64()).unwrap_or(0))
        }
        Name::Words | Name::Window => {
            let text = fs::read_to_string(out)?;
            let last = |row: &str| row.rsplit(',').next().and_then(|n| n.parse::<u64>().ok());
            ("counts", text.lines().skip(1).filter_map(last).sum())
        }
    };
    match got == rows {
        true => Ok(()),
        false => Err(Failure::world(format!("{name:?}: {got} {what} instead of {rows}"))),
    }
}
