//! What the cluster is for in a run, as data.

use sardonyx_core::{
    Command, JobId, JobScheduler, JoinProtocol, TaskId,
    command::{ConfigureCluster, JobText, KillJob, SubmitJob},
    replica::job::TaskScheduler,
};
use serde::{Deserialize, Serialize};

use crate::rng::Rng;

/// What a client wants.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// A job.
    Submit {
        /// Its number.
        job: usize,
        /// What it asks for.
        spec: JobSpec,
        /// Said by a peer of this process, or straight to the log.
        through: Option<usize>,
    },
    /// An end to a job.
    Kill {
        /// Its number.
        job: usize,
        /// Said by a peer of this process, or straight to the log.
        through: Option<usize>,
    },
    /// Another job scheduler.
    Schedule(JobScheduler),
    /// No more than so many members and joiners, until the storm is over.
    Limit(u32),
}

/// What a job asks for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct JobSpec {
    /// How its peers are shared out among its tasks.
    pub scheduler: TaskScheduler,
    /// Its share of the cluster.
    pub percentage: u64,
    /// All its tasks, or none.
    pub covered: bool,
    /// Its tasks in topological order.
    pub tasks: Vec<TaskSpec>,
}

/// What a task asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct TaskSpec {
    /// `min-peers`.
    pub min: Option<u64>,
    /// `max-peers`.
    pub max: Option<u64>,
    /// Its share of the job.
    pub percentage: u64,
}

impl JobSpec {
    fn draw(rng: &mut Rng) -> JobSpec {
        let schedulers =
            [TaskScheduler::Greedy, TaskScheduler::RoundRobin, TaskScheduler::Percentage];
        let task = |rng: &mut Rng| {
            let min = rng.chance(30).then(|| rng.between(1, 4));
            let max = rng.chance(40).then(|| min.unwrap_or(1) + rng.below(3));
            TaskSpec { min, max, percentage: rng.below(101) }
        };
        JobSpec {
            scheduler: *rng.pick(&schedulers).unwrap_or(&TaskScheduler::Greedy),
            percentage: rng.between(20, 101),
            covered: rng.chance(40),
            tasks: (0..rng.between(1, 4)).map(|_| task(rng)).collect(),
        }
    }

    fn json(&self, ids: &[TaskId]) -> String {
        let limit = |name: &str, limit: Option<u64>| {
            limit.map_or(String::new(), |limit| format!(r#""{name}":{limit},"#))
        };
        let catalog = self.tasks.iter().zip(ids).map(|(task, id)| {
            let (min, max) = (limit("min-peers", task.min), limit("max-peers", task.max));
            format!(r#""{id}":{{{min}{max}"percentage":{}}}"#, task.percentage)
        });
        format!(
            r#"{{"task-scheduler":"{}","percentage":{},"partial-coverage-protection":{},"catalog":{{{}}}}}"#,
            self.scheduler,
            self.percentage,
            self.covered,
            catalog.collect::<Vec<_>>().join(",")
        )
    }
}

/// Every job scheduler there is.
pub(crate) const SCHEDULERS: [JobScheduler; 3] =
    [JobScheduler::Greedy, JobScheduler::RoundRobin, JobScheduler::Percentage];

/// What clients want in a run: no more than so many peers; nothing, or a few jobs, some of which are killed, and now and then
/// another scheduler.
pub(crate) fn draw(rng: &mut Rng) -> Vec<Request> {
    let mut requests = Vec::new();
    if rng.chance(15) {
        requests.push(Request::Limit(rng.between(1, 8) as u32));
    }
    if rng.chance(25) {
        return requests;
    }
    let through = |rng: &mut Rng| rng.chance(40).then(|| rng.below(16) as usize);
    for job in 0..rng.between(1, 5) as usize {
        let spec = JobSpec::draw(rng);
        let submit = Request::Submit { job, spec, through: through(rng) };
        // A client that got no answer submits again.
        if rng.chance(20) {
            requests.push(submit.clone());
        }
        requests.push(submit);
        if rng.chance(20) {
            requests.push(Request::Kill { job, through: through(rng) });
        }
    }
    for _ in 0..rng.below(4) {
        requests.push(Request::Schedule(*rng.pick(&SCHEDULERS).unwrap_or(&SCHEDULERS[0])));
    }
    requests
}

impl Request {
    pub(crate) fn command(&self) -> Option<Command> {
        let id = |job: &usize| JobId::new(&format!("j{job}")).ok();
        match self {
            Request::Submit { job, spec, .. } => {
                let ids = (0..spec.tasks.len()).map(|at| TaskId::new(&format!("t{at}")));
                let tasks: Vec<_> = ids.filter_map(Result::ok).collect();
                let text = JobText::new(&spec.json(&tasks));
                Some(SubmitJob { id: id(job)?, job: text, tasks }.into())
            }
            Request::Kill { job, .. } => {
                Some(KillJob { job: id(job)?, reason: "the run wants it".into() }.into())
            }
            Request::Schedule(scheduler) => Some(schedule(*scheduler)),
            Request::Limit(peers_max) => Some(limit(*peers_max)),
        }
    }

    /// The process of which a peer says it, if any.
    pub(crate) fn through(&self) -> Option<usize> {
        match self {
            Request::Submit { through, .. } | Request::Kill { through, .. } => *through,
            Request::Schedule(_) | Request::Limit(_) => None,
        }
    }
}

pub(crate) fn configure(protocol: JoinProtocol, scheduler: JobScheduler) -> Command {
    let (join_protocol, job_scheduler) = (Some(protocol), Some(scheduler));
    ConfigureCluster { join_protocol, job_scheduler, ..ConfigureCluster::default() }.into()
}

pub(crate) fn limit(peers_max: u32) -> Command {
    let peers_max = Some(peers_max);
    ConfigureCluster { peers_max, ..ConfigureCluster::default() }.into()
}

pub(crate) fn schedule(scheduler: JobScheduler) -> Command {
    let job_scheduler = Some(scheduler);
    ConfigureCluster { job_scheduler, ..ConfigureCluster::default() }.into()
}
