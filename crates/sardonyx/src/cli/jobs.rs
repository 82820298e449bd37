//! `sardonyx jobs`: which jobs there are, how far they are, and why one waits.

use std::io::{self, Write};

use clap::Args;
use sardonyx::shown::{self, TaskState};
use sardonyx_core::{JobId, Replica, replica::job::Job, wire};
use sardonyx_peer::Client;
use serde_json::Value;

use super::{Failure, cluster::At};

/// Show the jobs of a cluster.
#[derive(Args)]
#[command(after_help = "Exit code 2: there is no job of that id, nor was one.")]
pub(crate) struct Jobs {
    /// Only this job, task by task.
    job: Option<String>,

    #[command(flatten)]
    at: At,

    /// Print JSON: the jobs as in `sardonyx replica --json`, and the outcomes of collected ones.
    #[arg(long)]
    json: bool,
}

impl Jobs {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let client = super::block_on(async {
            let store = self.at.open().await?;
            Ok(Client::open(&store).await?)
        })?;
        let replica = client.replica();
        match (&self.job, self.json) {
            (None, true) => all_as_json(replica),
            (None, false) => all(replica),
            (Some(job), json) => one(replica, job, json),
        }
    }
}

fn as_json(replica: &Replica) -> Result<Value, Failure> {
    serde_json::from_str(&wire::replica_to_json(replica)).map_err(Failure::world)
}

fn all_as_json(replica: &Replica) -> Result<(), Failure> {
    let mut whole = as_json(replica)?;
    let jobs = serde_json::json!({
        "jobs": whole["jobs"].take(), "outcomes": whole["outcomes"].take(),
    });
    Ok(writeln!(io::stdout().lock(), "{jobs}")?)
}

fn all(replica: &Replica) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    for job in replica.jobs() {
        let (done, tasks) = (job.completions().count(), job.terms().tasks.len());
        let id = job.id();
        let state = shown::job_state(job.state());
        write!(out, "{id}  {state}  {done} of {tasks} tasks done, {} peers", job.n_peers())?;
        match replica.waiting(job) {
            Some(why) => writeln!(out, "; {why}")?,
            None => writeln!(out)?,
        }
    }
    for (job, outcome) in replica.outcomes() {
        writeln!(out, "{job}  {outcome}  collected")?;
    }
    Ok(())
}

fn one(replica: &Replica, id: &str, json: bool) -> Result<(), Failure> {
    let id = JobId::new(id).map_err(Failure::input)?;
    let collected = replica.outcomes().find(|(job, _)| **job == id).map(|(_, outcome)| outcome);
    let mut out = io::stdout().lock();
    match (replica.job(&id), collected, json) {
        (Some(_), _, true) => {
            let mut whole = as_json(replica)?;
            let jobs = whole["jobs"].as_array_mut();
            let found = jobs.and_then(|jobs| jobs.iter_mut().find(|it| it["id"] == id.as_str()));
            Ok(writeln!(out, "{}", found.map(Value::take).unwrap_or_default())?)
        }
        (Some(job), _, false) => tasks(&mut out, replica, job),
        (None, Some(outcome), true) => {
            let state = outcome.to_string();
            let line = serde_json::json!({"id": id, "state": state, "collected": true});
            Ok(writeln!(out, "{line}")?)
        }
        (None, Some(outcome), false) => Ok(writeln!(out, "{id}  {outcome}  collected")?),
        (None, None, _) => {
            Err(Failure::input(format!("there is no job {id}; `sardonyx jobs` lists them")))
        }
    }
}

fn tasks(out: &mut impl Write, replica: &Replica, job: &Job) -> Result<(), Failure> {
    writeln!(out, "{}  {}", job.id(), shown::job_state(job.state()))?;
    if let Some(why) = replica.waiting(job) {
        writeln!(out, "  {why}")?;
    }
    for (task, state) in shown::tasks(job) {
        let state = match state {
            TaskState::Done => "done".into(),
            TaskState::Sealing(peer) => format!("{peer} seals"),
            TaskState::Open(peers) => peers.join(" "),
        };
        writeln!(out, "  {task}: {state}")?;
    }
    Ok(())
}
