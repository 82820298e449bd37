//! One printer: how replicas, commands and effects look to a person. Tests, the command line and
//! the logs all show the same.

use alloc::{collections::BTreeMap, format, string::String, vec::Vec};
use core::fmt;

use crate::{
    command::{Command, Entry},
    effect::Effect,
    id::PeerId,
    replica::{
        Phase, Replica,
        job::{Job, JobState},
    },
};

impl fmt::Display for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs = |between: &str, pairs: BTreeMap<&PeerId, &PeerId>| {
            let pairs = pairs.into_iter().map(|(from, to)| format!("{from}{between}{to}"));
            pairs.collect::<Vec<_>>().join(" ")
        };
        match self.n_peers() {
            0 => write!(f, "nobody")?,
            1 => self.peers().try_for_each(|peer| write!(f, "{peer}"))?,
            _ => write!(f, "{}", pairs(">", self.pairs().collect()))?,
        }
        for (title, phase) in [("prepared", Phase::Prepared), ("accepted", Phase::Accepted)] {
            let joins = self.joins_in(phase);
            if !joins.is_empty() {
                write!(f, "  {title} {}", pairs(":", joins))?;
            }
        }
        self.jobs().try_for_each(|job| write_job(f, self, job))?;
        let outcomes = self.outcomes().map(|(job, outcome)| format!(" {job}:{outcome}"));
        let outcomes: String = outcomes.collect();
        if !outcomes.is_empty() {
            write!(f, "\n  over{outcomes}")?;
        }
        match &self.origin {
            Some(origin) => write!(f, "\n  origin {} by {}", origin.position, origin.owner),
            None => Ok(()),
        }
    }
}

/// `  j1 running  t1 a b  t2 c sealing  t3 done`
fn write_job(f: &mut fmt::Formatter<'_>, replica: &Replica, job: &Job) -> fmt::Result {
    write!(f, "\n  {}", job.id())?;
    match (job.state(), replica.waiting(job)) {
        (JobState::Completed, _) => return write!(f, " completed"),
        (JobState::Killed, _) => return write!(f, " killed"),
        (JobState::Pending, why) => write!(f, " pending: {}", why.unwrap_or_default())?,
        (JobState::Running, _) => write!(f, " running")?,
    }
    for (task, (id, _)) in job.tasks.iter().zip(&job.terms.tasks) {
        let peers: String = task.peers.values().map(|peer| format!(" {peer}")).collect();
        match (&task.sealer, task.is_completed) {
            (_, true) => write!(f, "  {id} done")?,
            (Some(sealer), _) => write!(f, "  {id}{peers} sealed by {sealer}")?,
            (None, _) => write!(f, "  {id}{peers}")?,
        }
    }
    Ok(())
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name())?;
        match self {
            Command::ConfigureCluster(it) => {
                let protocol = it.join_protocol.map(|it| format!("join-protocol={it}"));
                let scheduler = it.job_scheduler.map(|it| format!("job-scheduler={it}"));
                let max = |name, max: Option<u32>| max.map(|max| format!("{name}={max}"));
                let (peers, jobs) = (max("peers-max", it.peers_max), max("jobs-max", it.jobs_max));
                let outcomes = max("outcomes-max", it.outcomes_max);
                let options = [protocol, scheduler, peers, jobs, outcomes].into_iter().flatten();
                let options: String = options.map(|option| format!(" {option}")).collect();
                write!(f, "{options}")
            }
            Command::PrepareJoinCluster(it) => write!(f, " {}", it.joiner),
            Command::NotifyJoinCluster(it) => {
                write!(f, " {} observer={} subject={}", it.joiner, it.observer, it.subject)
            }
            Command::NotifyWatchers(it) => {
                write!(f, " {} observer={} subject={}", it.joiner, it.observer, it.subject)
            }
            Command::AcceptJoinCluster(it) => {
                write!(f, " {} observer={} subject={}", it.joiner, it.observer, it.subject)
            }
            Command::AbortJoinCluster(it) => write!(f, " {}", it.joiner),
            Command::LeaveCluster(it) => write!(f, " {}", it.peer),
            Command::PeerGc(it) => write!(f, " {}", it.peer),
            Command::SubmitJob(it) => {
                let tasks: String = it.tasks.iter().map(|task| format!(" {task}")).collect();
                write!(f, " {}:{tasks}", it.id)
            }
            Command::VolunteerForTask(it) => {
                it.peers.iter().try_for_each(|peer| write!(f, " {peer}"))
            }
            Command::SealTask(it) => write!(f, " {} {} {}", it.peer, it.job, it.task),
            Command::CompleteTask(it) => write!(f, " {} {} {}", it.peer, it.job, it.task),
            Command::KillJob(it) if it.reason.is_empty() => write!(f, " {}", it.job),
            Command::KillJob(it) => write!(f, " {}: {}", it.job, it.reason),
            Command::Gc(it) => write!(f, " {}", it.caller),
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.position, self.command)
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Effect::Watch(peer) => write!(f, "watch {peer}"),
            Effect::Unwatch(peer) => write!(f, "unwatch {peer}"),
            Effect::Probe(peer) => write!(f, "probe {peer}"),
            Effect::BackOff => write!(f, "back off"),
            Effect::StopTask(it) => write!(f, "stop {} of {}", it.task, it.job),
            Effect::StartTask(it) => write!(f, "start {} of {}", it.task, it.job),
            Effect::SealTask(it) => write!(f, "seal {} of {}", it.task, it.job),
            Effect::TrimLog(position) => write!(f, "trim the log up to {position}"),
            Effect::Stop => write!(f, "stop"),
        }
    }
}
