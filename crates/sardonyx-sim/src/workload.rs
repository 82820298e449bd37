//! What the cluster is for in a run.

use sardonyx_core::{
    Command, JobId, JobScheduler, JoinProtocol, TaskId,
    command::{ConfigureCluster, JobText, KillJob, SubmitJob},
};

use crate::rng::Rng;

/// The work of a run.
#[derive(Clone, Debug)]
pub struct Workload {
    /// How peers join.
    pub protocol: JoinProtocol,
    /// How many processes there are, and peers in each.
    pub processes: usize,
    /// How many virtual peers each process has.
    pub peers: usize,
    /// How many jobs are submitted; none for membership alone.
    pub jobs: usize,
}

impl Workload {
    pub(crate) fn draw(rng: &mut Rng) -> Workload {
        let protocols =
            [JoinProtocol::ThreePhase, JoinProtocol::ThreePhase, JoinProtocol::TwoPhase];
        Workload {
            protocol: *rng.pick(&protocols).unwrap_or(&JoinProtocol::ThreePhase),
            processes: rng.between(1, 6) as usize,
            peers: rng.between(1, 4) as usize,
            jobs: rng.below(5) as usize,
        }
    }
}

pub(crate) fn configure(protocol: JoinProtocol) -> Command {
    ConfigureCluster { join_protocol: Some(protocol), ..ConfigureCluster::default() }.into()
}

pub(crate) fn change_scheduler(rng: &mut Rng) -> Command {
    let schedulers = [JobScheduler::Greedy, JobScheduler::RoundRobin, JobScheduler::Percentage];
    let job_scheduler = rng.pick(&schedulers).copied();
    ConfigureCluster { job_scheduler, ..ConfigureCluster::default() }.into()
}

pub(crate) fn schedule_greedily() -> Command {
    let job_scheduler = Some(JobScheduler::Greedy);
    ConfigureCluster { job_scheduler, ..ConfigureCluster::default() }.into()
}

pub(crate) fn job_id(number: usize) -> Option<JobId> {
    JobId::new(&format!("j{number}")).ok()
}

pub(crate) fn kill(number: usize) -> Option<Command> {
    let job = job_id(number)?;
    Some(KillJob { job, reason: "the run wants it".into() }.into())
}

/// A job that a cluster of any size can finish.
pub(crate) fn submit(rng: &mut Rng, number: usize) -> Option<Command> {
    let n_tasks = rng.between(1, 4);
    let tasks: Vec<_> = (0..n_tasks).filter_map(|at| TaskId::new(&format!("t{at}")).ok()).collect();
    let scheduler = *rng.pick(&["greedy", "round-robin", "percentage"])?;
    let catalog: Vec<_> = tasks
        .iter()
        .map(|task| match rng.below(3) {
            0 => format!(r#""{task}":{{"max-peers":{}}}"#, rng.between(1, 4)),
            _ => format!(r#""{task}":{{"percentage":{}}}"#, rng.below(101)),
        })
        .collect();
    // With one peer, a job of one task can be covered, and others make progress without.
    let covered = n_tasks == 1 && rng.chance(50);
    let job = format!(
        r#"{{"task-scheduler":"{scheduler}","percentage":{},"partial-coverage-protection":{covered},"catalog":{{{}}}}}"#,
        rng.between(40, 101),
        catalog.join(",")
    );
    Some(SubmitJob { id: job_id(number)?, job: JobText::new(&job), tasks }.into())
}
