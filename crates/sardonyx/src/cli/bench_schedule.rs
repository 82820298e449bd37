//! `sardonyx bench schedule`: what sharing out peers costs.

use std::{hint::black_box, time::Instant};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use sardonyx_core::{
    Command, Entry, JobId, PeerId, Position, Replica, apply,
    command::{ConfigureCluster, JobText, SubmitJob, VolunteerForTask},
    wire,
};
use serde::Serialize;

use super::{
    Failure,
    bench::{best_of_three, print, thousands},
    bench_log,
};

/// Measures plans, volunteers and a long log full of jobs.
#[derive(Args)]
pub(crate) struct BenchSchedule {
    /// The sizes of cluster to try.
    #[arg(long, value_delimiter = ',', default_value = "100,1000,10000", value_name = "N,…")]
    peers: Vec<u32>,

    /// How many jobs there are, of ten tasks each.
    #[arg(long, default_value_t = 100, value_name = "N")]
    jobs: u32,

    /// How many entries the long log has; 200 peers, a thousand jobs.
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    log: u32,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Row {
    peers: u32,
    /// A plan from nothing, with everybody idle.
    plan_ms: f64,
    /// One volunteer, played in place.
    volunteer_us: f64,
    /// One volunteer, with the replica before it kept.
    volunteer_us_keeping_old: f64,
    /// How many entries it took to give everybody a task, and how many had to move.
    entries: usize,
    movers: usize,
    /// A plan after one peer left, when everybody was busy.
    plan_after_leave_ms: f64,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct LogRow {
    entries: usize,
    applied: usize,
    jobs: usize,
    entries_per_second: u64,
    /// Whether playing the rest from an origin in the middle gave the same digest.
    same_from_origin: bool,
}

impl BenchSchedule {
    pub(super) fn run(self, json: bool) -> Result<(), Failure> {
        if self.peers.is_empty() || self.peers.contains(&0) || self.jobs == 0 {
            return Err(Failure::input("--peers and --jobs must be at least 1"));
        }
        let bar = ProgressBar::new(self.peers.len() as u64 + 1)
            .with_style(ProgressStyle::with_template("{bar:30} {msg}").map_err(Failure::world)?);
        let mut rows = Vec::new();
        for &peers in &self.peers {
            bar.set_message(format!("{} peers, {} jobs", thousands(peers.into()), self.jobs));
            rows.push(measure(peers, self.jobs)?);
            bar.inc(1);
        }
        bar.set_message(format!("a log of {} entries", thousands(self.log.into())));
        let log = long_log(self.log as usize)?;
        bar.finish_and_clear();
        let head = [
            "peers",
            "plan ms",
            "volunteer µs",
            "keeping old",
            "entries",
            "movers",
            "after a leave ms",
        ];
        print(json, "schedule", &head, &rows, |row| {
            vec![
                thousands(row.peers.into()),
                format!("{:.2}", row.plan_ms),
                format!("{:.2}", row.volunteer_us),
                format!("{:.2}", row.volunteer_us_keeping_old),
                thousands(row.entries as u64),
                thousands(row.movers as u64),
                format!("{:.2}", row.plan_after_leave_ms),
            ]
        })?;
        let head = ["log entries", "applied", "jobs", "entries/s", "same from origin"];
        print(json, "schedule-log", &head, &[log], |row| {
            vec![
                thousands(row.entries as u64),
                thousands(row.applied as u64),
                thousands(row.jobs as u64),
                thousands(row.entries_per_second),
                row.same_from_origin.to_string(),
            ]
        })
    }
}

/// A job of ten tasks, round robin, without bounds.
pub(super) fn ten_tasks(number: u32) -> Result<SubmitJob, Failure> {
    let id = JobId::new(&format!("job-{number}")).map_err(Failure::world)?;
    let tasks = (0..10).map(|task| sardonyx_core::TaskId::new(&format!("task-{task}")));
    let tasks = tasks.collect::<Result<_, _>>().map_err(Failure::world)?;
    Ok(SubmitJob { id, job: JobText::new(r#"{"task-scheduler":"round-robin"}"#), tasks })
}

fn idle_cluster(peers: u32) -> Result<Replica, Failure> {
    let ids: Vec<_> = (0..peers).map(bench_log::uuid).collect();
    let origin = serde_json::json!({"peers": ids}).to_string();
    wire::replica_from_json(&origin).map_err(Failure::world)
}

fn measure(peers: u32, jobs: u32) -> Result<Row, Failure> {
    let mut replica = idle_cluster(peers)?;
    let mut position = 0;
    let mut play = |replica: &mut Replica, command: Command| {
        position += 1;
        _ = replica.play(&Entry { position: Position(position), command });
    };
    for job in 0..jobs {
        play(&mut replica, ten_tasks(job)?.into());
    }
    let plan_ms = 1e3 * best_of_three(|| time_plan(&replica));
    let movers: Vec<PeerId> = replica.plan().movers().cloned().collect();
    let volunteers: Vec<_> = movers.iter().zip(1_000..).map(volunteer).collect();

    let in_place = best_of_three(|| {
        let mut replica = replica.clone();
        time(|| volunteers.iter().for_each(|entry| _ = black_box(replica.play(entry))))
    });
    let keeping = best_of_three(|| {
        let mut replica = replica.clone();
        time(|| {
            for entry in &volunteers {
                let (new, _) = apply(&replica, entry);
                drop(black_box(std::mem::replace(&mut replica, new)));
            }
        })
    });
    for entry in &volunteers {
        _ = replica.play(entry);
    }
    if !replica.plan().is_carried_out() {
        return Err(Failure::world("the volunteers left something of the plan undone"));
    }
    let gone = replica.peers().next().cloned();
    if let Some(peer) = gone {
        play(&mut replica, sardonyx_core::command::LeaveCluster { peer }.into());
    }
    let n = volunteers.len().max(1) as f64;
    Ok(Row {
        peers,
        plan_ms,
        volunteer_us: 1e6 * in_place / n,
        volunteer_us_keeping_old: 1e6 * keeping / n,
        entries: volunteers.len(),
        movers: movers.len(),
        plan_after_leave_ms: 1e3 * best_of_three(|| time_plan(&replica)),
    })
}

fn volunteer((peer, position): (&PeerId, u64)) -> Entry {
    let command = VolunteerForTask { peers: vec![peer.clone()] }.into();
    Entry { position: Position(position), command }
}

fn time(work: impl FnOnce()) -> f64 {
    let started = Instant::now();
    work();
    started.elapsed().as_secs_f64()
}

/// The seconds that a plan takes from nothing. Any configuration makes a replica forget its plan.
fn time_plan(replica: &Replica) -> f64 {
    let mut replica = replica.clone();
    let command = ConfigureCluster { outcomes_max: Some(77), ..ConfigureCluster::default() };
    _ = replica.play(&Entry { position: Position(0), command: command.into() });
    time(|| drop(black_box(replica.plan())))
}

/// Plays a long log from zero, and again from an origin in its middle.
fn long_log(entries: usize) -> Result<LogRow, Failure> {
    let log = bench_log::life_of_a_cluster(200, 1_000, entries)?;
    let mut applied = 0;
    let seconds = best_of_three(|| {
        let mut replica = Replica::new();
        applied = 0;
        time(|| {
            for entry in &log {
                applied += usize::from(replica.play(entry).is_ok());
            }
        })
    });
    let is_gc = |entry: &Entry| matches!(entry.command, Command::Gc(_));
    let middle = log.len() / 2;
    let origin_at = log[..middle].iter().rposition(is_gc).unwrap_or(0);
    let mut from_zero = Replica::new();
    let mut origin = wire::replica_to_json(&from_zero);
    for (index, entry) in log.iter().enumerate() {
        _ = from_zero.play(entry);
        if index == origin_at {
            origin = wire::replica_to_json(&from_zero);
        }
    }
    let mut from_origin = wire::replica_from_json(&origin).map_err(Failure::world)?;
    for entry in &log[origin_at + 1..] {
        _ = from_origin.play(entry);
    }
    Ok(LogRow {
        entries: log.len(),
        applied,
        jobs: log.iter().filter(|it| matches!(it.command, Command::SubmitJob(_))).count(),
        entries_per_second: (log.len() as f64 / seconds) as u64,
        same_from_origin: wire::digest(&from_origin) == wire::digest(&from_zero),
    })
}
