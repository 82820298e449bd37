//! `sardonyx bench mesh`: joining, detection, failover, merging, traffic and events, each beside
//! its goal, and beside a bare echo in the same run.
//!
//! All nodes live in this process and speak through real sockets on loopback, or through pipes
//! where lines are cut. The timers are those of the profile `test`.

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

use clap::Args;
use serde::Serialize;

use super::{
    Failure, bench, bench_mesh_events, bench_mesh_faults, bench_mesh_join, bench_mesh_nodes::Nodes,
    block_on,
};

/// Measure the mesh on this machine.
#[derive(Args)]
pub(super) struct BenchMesh {
    /// How many times each thing that takes seconds is done.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,

    /// How many members the large cluster has.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(6..=400))]
    members: u32,

    /// How long each rate is measured, in seconds.
    #[arg(long, value_name = "S", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,

    /// Measure only what has this in its goal or name, such as G4.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

/// What is to be measured, and how much of it.
pub(super) struct Plan {
    pub(super) runs: u32,
    pub(super) members: usize,
    pub(super) time: Duration,
}

/// One measurement beside its goal.
#[derive(Serialize)]
pub(super) struct Row {
    goal: &'static str,
    what: String,
    n: usize,
    p50: String,
    p99: String,
    max: String,
    target: String,
    met: Option<bool>,
}

impl Row {
    /// Times, with what they should be at most in the middle and at the far end.
    pub(super) fn times(
        goal: &'static str,
        what: &str,
        mut times: Vec<Duration>,
        p50_max: Option<Duration>,
        p99_max: Option<Duration>,
    ) -> Row {
        times.sort_unstable();
        let at = |share: f64| {
            let last = times.len().saturating_sub(1);
            times.get((last as f64 * share).round() as usize).copied().unwrap_or_default()
        };
        let (p50, p99) = (at(0.5), at(0.99));
        let mut target = String::new();
        if let Some(max) = p50_max {
            let _ = write!(target, "p50 ≤ {} ", show(max));
        }
        if let Some(max) = p99_max {
            let _ = write!(target, "p99 ≤ {}", show(max));
        }
        let is_met = !times.is_empty()
            && p50_max.is_none_or(|max| p50 <= max)
            && p99_max.is_none_or(|max| p99 <= max);
        Row {
            goal,
            what: what.to_owned(),
            n: times.len(),
            p50: show(p50),
            p99: show(p99),
            max: show(at(1.0)),
            met: (!target.is_empty()).then_some(is_met),
            target: target.trim().to_owned(),
        }
    }

    /// One number.
    pub(super) fn number(
        goal: &'static str,
        what: &str,
        value: impl Into<String>,
        target: &str,
        met: Option<bool>,
    ) -> Row {
        let (what, target) = (what.to_owned(), target.to_owned());
        let (p50, dash) = (value.into(), || "-".to_owned());
        Row { goal, what, n: 1, p50, p99: dash(), max: dash(), target, met }
    }
}

/// `0.001234` seconds as `1.23 ms`.
pub(super) fn show(time: Duration) -> String {
    let micros = time.as_secs_f64() * 1e6;
    match micros {
        ..1_000.0 => format!("{micros:.0} µs"),
        ..1_000_000.0 => format!("{:.2} ms", micros / 1e3),
        _ => format!("{:.2} s", micros / 1e6),
    }
}

impl BenchMesh {
    pub(super) fn run(self, json: bool) -> Result<(), Failure> {
        let plan = Plan {
            runs: self.runs,
            members: self.members as usize,
            time: Duration::from_secs(self.seconds),
        };
        let wants = |goal: &str| self.only.as_deref().is_none_or(|only| goal.contains(only));
        let begun = Instant::now();
        let rows = block_on(async {
            let mut rows = Vec::new();
            if wants("G14") || wants("echo") {
                rows.extend(bench_mesh_events::rows(&plan).await?);
            }
            if wants("G15") {
                rows.extend(bench_mesh_events::isolation(&plan).await?);
            }
            if wants("G3") || wants("G4") {
                rows.extend(bench_mesh_faults::failover(&plan).await?);
                rows.extend(bench_mesh_faults::handover(&plan).await?);
            }
            if wants("G2") || wants("G7") {
                rows.extend(bench_mesh_faults::isolation(&plan).await?);
                rows.extend(bench_mesh_faults::seeds_at_once(&plan).await?);
            }
            if wants("G10") {
                rows.extend(bench_mesh_faults::partial(&plan).await?);
            }
            if wants("G5") || wants("G9") {
                rows.extend(bench_mesh_join::detection(&plan).await?);
                rows.extend(bench_mesh_join::rejoin(&plan).await?);
            }
            if wants("G6") || wants("G11") {
                rows.extend(bench_mesh_join::large(&plan).await?);
            }
            Ok(rows)
        })?;
        eprintln!("sardonyx: measured for {:.0} s", begun.elapsed().as_secs_f64());
        let head = ["goal", "what", "n", "p50", "p99", "max", "target", "met"];
        bench::print(json, "mesh", &head, &rows, |row| {
            let met = match row.met {
                Some(true) => "yes",
                Some(false) => "NO",
                None => "-",
            };
            vec![
                row.goal.to_owned(),
                row.what.clone(),
                row.n.to_string(),
                row.p50.clone(),
                row.p99.clone(),
                row.max.clone(),
                row.target.clone(),
                met.to_owned(),
            ]
        })
    }
}

/// Waits until something holds, for at most half a minute.
pub(super) async fn until(
    what: &str,
    nodes: &Nodes,
    mut holds: impl FnMut(&Nodes) -> bool,
) -> Result<Duration, Failure> {
    let begun = Instant::now();
    while !holds(nodes) {
        if begun.elapsed() > Duration::from_secs(30) {
            return Err(Failure::world(format!("not within 30 s: {what}")));
        }
        tokio::time::sleep(Duration::from_micros(500)).await;
    }
    Ok(begun.elapsed())
}
