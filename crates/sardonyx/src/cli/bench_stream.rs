//! `sardonyx bench stream`: how late rows of a stream are, and what a stream costs that stands still.
//!
//! Rows are due at a fixed rate, whether anybody took the last ones or not; a row is late by the time
//! from when it was due until it is committed at the other end. Beside it the same rows on a bare
//! channel between two threads, which has no more to do than wake up. A stream that stands still is a
//! process of its own, fed by a pipe.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Command, Stdio},
    sync::{Arc, Mutex, PoisonError, mpsc},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use arrow::{
    array::{AsArray as _, RecordBatch},
    datatypes::TimestampMicrosecondType,
};
use bytes::Bytes;
use clap::Args;
use sardonyx::{
    Embedded, JobOutcome, Options, Output, Registry,
    job::{Job, Language, RegisteredNames},
    output::Writer,
};
use serde::Serialize;
use serde_json::json;

use super::{Failure, bench::print, bench_node::Process};

/// Rows that come before this do not count: the cluster is still coming up.
const WARM_UP: Duration = Duration::from_secs(2);

/// How late the rows of a stream are, and what a stream costs that stands still.
#[derive(Args)]
pub(super) struct BenchStream {
    /// How many rows are due in a second.
    #[arg(long, value_name = "N", default_value_t = 50_000)]
    rate: u64,

    /// For how long, after two seconds that do not count.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    seconds: u64,

    /// Where messages are kept.
    #[arg(long, value_name = "URL", default_value = "memory:")]
    queues: String,

    /// How many virtual peers.
    #[arg(long, value_name = "K", default_value_t = 4)]
    peers: u32,
}

#[derive(Serialize)]
struct Row {
    what: String,
    measured: f64,
    unit: &'static str,
    /// At most this much.
    goal: Option<f64>,
}

impl BenchStream {
    pub(super) fn run(self, json: bool) -> Result<(), Failure> {
        let ours = super::block_on(self.through_a_job())?;
        let bare = self.through_a_channel()?;
        let mut rows = Vec::new();
        for (what, late, goals) in
            [("three tasks", ours, [Some(2.0), Some(20.0)]), ("a bare channel", bare, [None, None])]
        {
            let wanted = self.rate * self.seconds;
            if (late.len() as u64) < wanted {
                let n = late.len();
                return Err(Failure::world(format!("{what}: {n} rows instead of {wanted}")));
            }
            for (quantile, goal) in [(0.50, goals[0]), (0.99, goals[1])] {
                let measured = late[(late.len() as f64 * quantile) as usize] as f64 / 1e3;
                let what = format!("late by, {what}, p{:.0}", quantile * 100.0);
                rows.push(Row { what, measured, unit: "ms", goal });
            }
        }
        rows.extend(still()?);
        print(json, "streams", &["what", "measured", "goal"], &rows, |row| {
            let goal = row.goal.map_or_else(String::new, |goal| format!("{goal} {}", row.unit));
            vec![row.what.clone(), format!("{:.3} {}", row.measured, row.unit), goal]
        })
    }

    fn n_rows(&self) -> u64 {
        self.rate * (self.seconds + WARM_UP.as_secs())
    }

    /// By how much rows were late, in microseconds, sorted.
    fn count(&self, begun: u64, seen: &[(u64, u64)]) -> Vec<u64> {
        let counts_from = begun + WARM_UP.as_micros() as u64;
        let counted = seen.iter().filter(|(due, _)| *due >= counts_from);
        let mut late: Vec<u64> = counted.map(|(due, now)| now.saturating_sub(*due)).collect();
        late.sort_unstable();
        late
    }

    async fn through_a_job(&self) -> Result<Vec<u64>, Failure> {
        let seen = Seen::default();
        let mut registry = Registry::built_in();
        let kept = Arc::clone(&seen);
        registry.output("late", &[], move |_| Ok(Arc::new(Late(Arc::clone(&kept)))));
        let job = json!({
            "name": "stream", "workflow": [["in", "f"], ["f", "out"]],
            "catalog": {
                "in": {"type": "input", "plugin": "generate", "rate": self.rate,
                       "count": self.n_rows(), "shape": {"n": "sequence", "due": "due"}},
                "f": {"type": "function", "fn": "sql", "query": "select n + 1 as n, due from segments"},
                "out": {"type": "output", "plugin": "late"},
            }
        });
        let names = RegisteredNames::new(registry.clone());
        let job = Job::read(&job.to_string(), Language::Json, &names)
            .map_err(|all| Failure::world(format!("{all:?}")))?;
        let (queues, peers) = (self.queues.clone(), self.peers as usize);
        let options = Options { queues, peers, registry, ..Options::default() };
        let cluster = Embedded::start(options).await.map_err(Failure::input)?;
        let ended = cluster.run(&job, "stream").await.map_err(Failure::world)?;
        cluster.stop().await.map_err(Failure::world)?;
        if ended.outcome != JobOutcome::Completed {
            return Err(Failure::world(ended.reason.unwrap_or_default()));
        }
        let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = seen.iter().map(|(due, _)| *due).min().unwrap_or_default();
        Ok(self.count(begun, &seen))
    }

    fn through_a_channel(&self) -> Result<Vec<u64>, Failure> {
        let (sender, receiver) = mpsc::sync_channel::<Vec<u64>>(1024);
        let (begun, rate, n_rows) = (micros(), self.rate, self.n_rows());
        let sending = std::thread::spawn(move || {
            let mut n_sent = 0;
            while n_sent < n_rows {
                let n_due = ((micros() - begun) * rate / 1_000_000 + 1).min(n_rows);
                let due = (n_sent..n_due).map(|row| begun + row * 1_000_000 / rate).collect();
                if n_due > n_sent && sender.send(due).is_err() {
                    return;
                }
                n_sent = n_due;
                // As seldom as the input of the job wakes up.
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let mut seen = Vec::with_capacity(n_rows as usize);
        for batch in receiver {
            let now = micros();
            seen.extend(batch.into_iter().map(|due| (due, now)));
        }
        sending.join().map_err(|_| Failure::world("the sending thread panicked"))?;
        Ok(self.count(begun, &seen))
    }
}

/// A job that waits for lines: how soon the first is through, and what it costs to wait for the next.
fn still() -> Result<Vec<Row>, Failure> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("job.json");
    let job = json!({
        "name": "still", "workflow": [["in", "f"], ["f", "out"]],
        "catalog": {
            "in": {"type": "input", "plugin": "stdin", "format": "lines"},
            "f": {"type": "function", "fn": "split-words"},
            "out": {"type": "output", "plugin": "stdout"},
        }
    });
    std::fs::write(&file, job.to_string())?;
    let begun = Instant::now();
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["run", "--quiet"]).arg(&file);
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut process = Process(child);
    let (stdin, stdout) = (process.0.stdin.take(), process.0.stdout.take());
    let (Some(mut stdin), Some(stdout)) = (stdin, stdout) else {
        return Err(Failure::world("no pipes"));
    };
    stdin.write_all(b"first\n")?;
    let mut line = String::new();
    if BufReader::new(stdout).read_line(&mut line)? == 0 {
        return Err(Failure::world("the job ended before its first row"));
    }
    let first = begun.elapsed();
    // What coming up left to be done is not standing still.
    std::thread::sleep(Duration::from_secs(2));
    let (before, watched) = (process.cpu()?, Instant::now());
    std::thread::sleep(Duration::from_secs(10));
    let used = process.cpu()?.saturating_sub(before);
    let share = 100.0 * used.as_secs_f64() / watched.elapsed().as_secs_f64();
    let row = |what: &str, measured, unit, goal| Row { what: what.into(), measured, unit, goal };
    Ok(vec![
        row("first row, from the start of the process", first.as_secs_f64(), "s", Some(0.2)),
        row("standing still, of a core", share, "%", Some(1.0)),
    ])
}

fn micros() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or(u64::MAX)
}

/// When rows were due, and when they were committed.
type Seen = Arc<Mutex<Vec<(u64, u64)>>>;

/// An output that only looks at the clock.
struct Late(Seen);

impl Output for Late {
    fn open(&self, _part: &str) -> Result<Box<dyn Writer>, String> {
        Ok(Box::new(LateWriter { seen: Arc::clone(&self.0), written: Vec::new() }))
    }

    fn finish(&self, _parts: &[(String, Bytes)]) -> Result<(), String> {
        Ok(())
    }
}

struct LateWriter {
    seen: Seen,
    written: Vec<u64>,
}

impl Writer for LateWriter {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), String> {
        let due = batch.column_by_name("due").ok_or("there is no column due")?;
        let due = due.as_primitive_opt::<TimestampMicrosecondType>().ok_or("due is no time")?;
        self.written.extend(due.values().iter().map(|due| due.cast_unsigned()));
        Ok(())
    }

    fn prepare(&mut self, _is_durable: bool) -> Result<Option<Bytes>, String> {
        Ok(None)
    }

    fn committed(&mut self) -> Result<(), String> {
        let now = micros();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.extend(self.written.drain(..).map(|due| (due, now)));
        Ok(())
    }
}
