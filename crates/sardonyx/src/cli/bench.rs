//! `sardonyx bench`: the numbers of this machine, each beside something to compare it with.

use std::io::{self, Write};

use clap::{Args, Subcommand};
use serde::Serialize;

use super::{
    Failure, bench_http, bench_ids, bench_job, bench_mesh, bench_node, bench_replica,
    bench_schedule, bench_store, bench_stream,
};

/// Measure this build on this machine.
#[derive(Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    what: What,

    /// Print JSON instead of a table.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum What {
    /// How fast the log is played, and how large a cluster is.
    Replica(bench_replica::BenchReplica),
    /// How fast peers are shared out among jobs and tasks.
    Schedule(bench_schedule::BenchSchedule),
    /// How fast ids are made and served, beside other generators and bare servers.
    Ids(bench_ids::BenchIds),
    /// How fast whole jobs are: rows per second, processor time, memory.
    Job(bench_job::BenchJob),
    /// What a node uses while nothing happens.
    Node(bench_node::BenchNode),
    /// How soon the mesh notices, elects and merges, and how fast its events are.
    Mesh(bench_mesh::BenchMesh),
    /// How soon a dashboard shows a large cluster, and any past of it.
    Http(bench_http::BenchHttp),
    /// How fast a store is, beside its server or its disk without us.
    Store(bench_store::BenchStore),
    /// How late the rows of a stream are, and what a stream costs that stands still.
    Stream(bench_stream::BenchStream),
}

impl Bench {
    pub(crate) fn run(self) -> Result<(), Failure> {
        if cfg!(debug_assertions) {
            eprintln!("sardonyx: this is not a release build; the numbers are too low");
        }
        match self.what {
            What::Replica(it) => it.run(self.json),
            What::Schedule(it) => it.run(self.json),
            What::Ids(it) => it.run(self.json),
            What::Job(it) => it.run(self.json),
            What::Node(it) => it.run(self.json),
            What::Mesh(it) => it.run(self.json),
            What::Http(it) => it.run(self.json),
            What::Store(it) => it.run(self.json),
            What::Stream(it) => it.run(self.json),
        }
    }
}

/// The machine a number comes from.
#[derive(Serialize)]
pub(super) struct Machine {
    cores: usize,
    cpu: String,
    os: &'static str,
}

impl Machine {
    pub(super) fn this() -> Machine {
        let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        Machine {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            cpu: model.map_or_else(|| std::env::consts::ARCH.into(), |(_, name)| name.into()),
            os: std::env::consts::OS,
        }
    }
}

/// Prints rows as a table under `head`, or as one JSON document.
pub(super) fn print<R: Serialize>(
    json: bool,
    title: &str,
    head: &[&str],
    rows: &[R],
    cells: impl Fn(&R) -> Vec<String>,
) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct Report<'a, R> {
        bench: &'a str,
        version: &'static str,
        machine: Machine,
        rows: &'a [R],
    }
    let machine = Machine::this();
    let mut out = io::stdout().lock();
    if json {
        let report = Report { bench: title, version: env!("CARGO_PKG_VERSION"), machine, rows };
        serde_json::to_writer_pretty(&mut out, &report).map_err(Failure::world)?;
        return Ok(writeln!(out)?);
    }
    writeln!(out, "{title} · {} cores · {} · {}", machine.cores, machine.cpu, machine.os)?;
    let mut lines = vec![head.iter().map(ToString::to_string).collect::<Vec<_>>()];
    lines.extend(rows.iter().map(cells));
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
    for line in &lines {
        for (column, cell) in line.iter().enumerate() {
            write!(out, "{cell:>width$}  ", width = width(column).unwrap_or_default())?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// `1234567` as `1,234,567`.
pub(super) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let grouped = digits.as_bytes().rchunks(3).rev();
    let groups: Vec<_> = grouped.map(|group| String::from_utf8_lossy(group)).collect();
    groups.join(",")
}

/// The least of three measurements, since others use this machine too.
pub(super) fn best_of_three(mut measure: impl FnMut() -> f64) -> f64 {
    (0..3).map(|_| measure()).fold(f64::INFINITY, f64::min)
}
