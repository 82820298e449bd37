//! `sardonyx bench node`: what a node costs while nothing happens.
//!
//! Starts this program again as a node, waits until all its peers are in, and then reads from
//! `/proc` what it uses. Nothing is measured in this process.

use std::{
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use clap::Args;
use serde::Serialize;
use serde_json::Value;

use super::{Failure, bench::print};

/// How long a node may take to get all its peers in.
const JOINED_MAX: Duration = Duration::from_secs(120);

#[derive(Args)]
pub(super) struct BenchNode {
    /// How many peers, one node after the other.
    #[arg(long, value_name = "K", value_delimiter = ',', default_value = "1,50,500")]
    peers: Vec<u32>,

    /// The store; left out, a directory of its own that another process serves. Give a cluster of
    /// its own: with others in it, it is not idle.
    #[arg(long, value_name = "URL")]
    store: Option<String>,

    /// For how long it is watched.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    seconds: u64,
}

#[derive(Serialize)]
struct Row {
    peers: u32,
    joined_seconds: f64,
    /// Of one core.
    cpu_percent: f64,
    memory_mb: f64,
    threads: u64,
}

/// A process of ours; killed when dropped.
pub(super) struct Process(pub(super) Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Process {
    pub(super) fn start(args: &[&str]) -> Result<Process, Failure> {
        let program = std::env::current_exe()?;
        let child = Command::new(program).args(args).stdout(Stdio::piped()).spawn()?;
        Ok(Process(child))
    }

    /// Reads lines until one is as wanted.
    pub(super) fn until<T>(
        &mut self,
        mut wanted: impl FnMut(&str) -> Option<T>,
    ) -> Result<T, Failure> {
        let stdout = self.0.stdout.as_mut().ok_or_else(|| Failure::world("no output"))?;
        let mut lines = BufReader::new(stdout);
        let begun = Instant::now();
        loop {
            let mut line = String::new();
            if lines.read_line(&mut line)? == 0 || begun.elapsed() > JOINED_MAX {
                return Err(Failure::world("the process did not come up; see above"));
            }
            if let Some(found) = wanted(line.trim_end()) {
                return Ok(found);
            }
        }
    }

    /// Processor time used so far.
    pub(super) fn cpu(&self) -> Result<Duration, Failure> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id()))?;
        // The name in parentheses may have spaces; what follows has none.
        let rest = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
        let ticks = |at: usize| rest.split(' ').nth(at).and_then(|it| it.parse::<u64>().ok());
        let used = ticks(11).zip(ticks(12)).map(|(user, system)| user + system);
        let used = used.ok_or_else(|| Failure::world("/proc/PID/stat has another form"))?;
        // A tick is a hundredth of a second wherever Linux shows it.
        Ok(Duration::from_millis(10 * used))
    }

    /// A number from /proc/PID/status.
    pub(super) fn status(&self, key: &str) -> Result<u64, Failure> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        number.ok_or_else(|| Failure::world(format!("/proc/PID/status has no {key}")))
    }
}

/// A directory that is removed at the end.
struct Dir(PathBuf);

impl Drop for Dir {
    fn drop(&mut self) {
        // What is left is in the system's directory for such things.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl BenchNode {
    pub(super) fn run(self, json: bool) -> Result<(), Failure> {
        let mut rows = Vec::new();
        for &peers in &self.peers {
            rows.push(self.measure(peers)?);
        }
        print(
            json,
            "an idle node",
            &["peers", "joined in", "cpu", "memory", "threads"],
            &rows,
            |row| {
                vec![
                    row.peers.to_string(),
                    format!("{:.2} s", row.joined_seconds),
                    format!("{:.2} % of a core", row.cpu_percent),
                    format!("{:.1} MB", row.memory_mb),
                    row.threads.to_string(),
                ]
            },
        )
    }

    fn measure(&self, peers: u32) -> Result<Row, Failure> {
        // Kept until the node is gone: first the node ends, then the server, then the directory.
        let dir = std::env::temp_dir().join(format!("sardonyx-bench-{}", std::process::id()));
        let dir = Dir(dir);
        let mut server = None;
        let url = match &self.store {
            Some(url) => url.clone(),
            None => {
                let url = format!("embedded:{}", dir.0.display());
                let args = ["store", "serve", &url, "--listen", "127.0.0.1:0"];
                let served = server.insert(Process::start(&args)?);
                served.until(|line| Some(line.rsplit_once(" at ")?.1.to_owned()))?
            }
        };
        let begun = Instant::now();
        let n = peers.to_string();
        let mut node = Process::start(&["start", "--json", "--peers", &n, "--store", &url])?;
        let mut n_in = 0;
        node.until(|line| {
            let event: Value = serde_json::from_str(line).unwrap_or_default();
            n_in += u32::from(event["event"] == "joined");
            (n_in >= peers).then_some(())
        })?;
        let joined_seconds = begun.elapsed().as_secs_f64();
        // What joining left to be done is not idling.
        std::thread::sleep(Duration::from_secs(2));
        let (before, watched) = (node.cpu()?, Instant::now());
        std::thread::sleep(Duration::from_secs(self.seconds.max(1)));
        let used = node.cpu()?.saturating_sub(before);
        let cpu_percent = 100.0 * used.as_secs_f64() / watched.elapsed().as_secs_f64();
        let (memory, threads) = (node.status("VmRSS")?, node.status("Threads")?);
        Ok(Row { peers, joined_seconds, cpu_percent, memory_mb: memory as f64 / 1024.0, threads })
    }
}
