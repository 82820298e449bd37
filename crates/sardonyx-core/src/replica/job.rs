//! One job: what was agreed when it was submitted, and how far it is.

use alloc::{string::String, sync::Arc, vec::Vec};
use core::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    id::{JobId, PeerId, Position, TaskId},
    tree::Tree,
};

/// The most tasks a job may have. A plan looks at every unfinished task of every job.
pub const TASKS_MAX: usize = 1_000;

/// A share in hundredths of a percent: integers, so that every node computes the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Percentage(u32);

impl Percentage {
    /// All of it.
    pub const WHOLE: Percentage = Percentage(10_000);

    /// So many hundredths of a percent; `None` above the whole.
    pub fn from_hundredths(hundredths: u32) -> Option<Percentage> {
        (hundredths <= Self::WHOLE.0).then_some(Percentage(hundredths))
    }

    /// How many hundredths of a percent it is.
    pub const fn hundredths(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Percentage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0 / 100, self.0 % 100) {
            (whole, 0) => write!(f, "{whole}"),
            (whole, rest) if rest % 10 == 0 => write!(f, "{whole}.{}", rest / 10),
            (whole, rest) => write!(f, "{whole}.{rest:02}"),
        }
    }
}

/// How a job's peers are shared out among its tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskScheduler {
    /// All to the first unfinished task.
    Greedy,
    /// About as many to each unfinished task as to any other.
    #[default]
    RoundRobin,
    /// To each unfinished task the share it asked for.
    Percentage,
}

impl fmt::Display for TaskScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            TaskScheduler::Greedy => "greedy",
            TaskScheduler::RoundRobin => "round-robin",
            TaskScheduler::Percentage => "percentage",
        })
    }
}

/// What a task asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TaskLimits {
    /// Fewer peers than this are of no use.
    pub min_peers: Option<u32>,
    /// More peers than this are of no use.
    pub max_peers: Option<u32>,
    /// Its share of the job's peers.
    pub percentage: Option<Percentage>,
}

/// What the cluster needs to know of a job, as it was submitted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Terms {
    /// Its tasks in topological order.
    pub tasks: Vec<(TaskId, TaskLimits)>,
    /// How its peers are shared out among them.
    pub task_scheduler: TaskScheduler,
    /// Its share of the cluster.
    pub percentage: Option<Percentage>,
    /// Run all unfinished tasks, or none.
    pub partial_coverage_protection: bool,
}

/// How a job ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobOutcome {
    /// All its tasks are.
    Completed,
    /// Somebody wanted it to end, or a task failed for good.
    Killed,
}

impl fmt::Display for JobOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            JobOutcome::Completed => "completed",
            JobOutcome::Killed => "killed",
        })
    }
}

/// Where a job stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobState {
    /// It has no peers; [`crate::Replica::waiting`] says why.
    Pending,
    /// It has peers.
    Running,
    /// All its tasks are done.
    Completed,
    /// It was ended before that.
    Killed,
}

/// One job in the replica.
#[derive(Clone, Debug)]
pub struct Job {
    pub(crate) id: JobId,
    pub(crate) terms: Arc<Terms>,
    /// One for each task of the terms, in the same order.
    pub(crate) tasks: Vec<Task>,
    pub(crate) outcome: Option<JobOutcome>,
}

/// How far one task is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Task {
    /// Who runs it, in the order of assignment.
    pub(crate) peers: Tree<u64, PeerId>,
    pub(crate) is_completed: bool,
    /// Who may seal it. Always one of its peers.
    pub(crate) sealer: Option<PeerId>,
}

/// A peer's place in a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Slot {
    /// The job, by its place in the order of submission.
    pub(crate) job: u64,
    pub(crate) task: usize,
    /// The place in the order of assignment to that task.
    pub(crate) ticket: u64,
    /// The position of the entry that gave it. Taken away and given back is another assignment.
    pub(crate) since: Position,
}

/// What a peer runs, in words of the outside.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Assignment {
    /// The job.
    pub job: JobId,
    /// The task.
    pub task: TaskId,
    /// The position of the entry that gave it: the epoch by which its writes are fenced.
    pub since: Position,
}

impl Job {
    pub(crate) fn new(id: JobId, terms: Terms) -> Job {
        let tasks = terms.tasks.iter().map(|_| Task::default()).collect();
        Job { id, terms: Arc::new(terms), tasks, outcome: None }
    }

    /// Its id.
    pub fn id(&self) -> &JobId {
        &self.id
    }

    /// What was agreed when it was submitted.
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// How it ended, if it has.
    pub fn outcome(&self) -> Option<JobOutcome> {
        self.outcome
    }

    /// Where it stands.
    pub fn state(&self) -> JobState {
        match self.outcome {
            Some(JobOutcome::Completed) => JobState::Completed,
            Some(JobOutcome::Killed) => JobState::Killed,
            None if self.n_peers() > 0 => JobState::Running,
            None => JobState::Pending,
        }
    }

    /// Whether it still wants peers.
    pub fn is_live(&self) -> bool {
        self.outcome.is_none()
    }

    /// How many peers it has.
    pub fn n_peers(&self) -> usize {
        self.tasks.iter().map(|task| task.peers.len()).sum()
    }

    /// Who runs which task, in topological order and in the order of assignment.
    pub fn allocations(&self) -> impl Iterator<Item = (&TaskId, impl Iterator<Item = &PeerId>)> {
        let ids = self.terms.tasks.iter().map(|(id, _)| id);
        ids.zip(self.tasks.iter().map(|task| task.peers.values()))
    }

    /// The tasks that are done, in topological order.
    pub fn completions(&self) -> impl Iterator<Item = &TaskId> {
        let tasks = self.terms.tasks.iter().zip(&self.tasks);
        tasks.filter(|(_, task)| task.is_completed).map(|((id, _), _)| id)
    }

    /// Who may seal which task.
    pub fn sealing(&self) -> impl Iterator<Item = (&TaskId, &PeerId)> {
        let tasks = self.terms.tasks.iter().zip(&self.tasks);
        tasks.filter_map(|((id, _), task)| Some((id, task.sealer.as_ref()?)))
    }

    /// The bytes that it occupies by itself, not counting ids.
    pub(crate) fn bytes(&self) -> usize {
        let terms = size_of::<Terms>() + self.terms.tasks.len() * size_of::<(TaskId, TaskLimits)>();
        let tasks = self.tasks.iter().map(|task| size_of::<Task>() + task.peers.bytes());
        size_of::<Job>() + terms + tasks.sum::<usize>()
    }

    pub(crate) fn task_index(&self, task: &TaskId) -> Option<usize> {
        self.terms.tasks.iter().position(|(id, _)| id == task)
    }
}

impl Terms {
    /// Why no job can be run on these terms, if so.
    pub fn check(&self) -> Result<(), String> {
        use alloc::{collections::BTreeSet, format};
        if self.tasks.is_empty() {
            return Err("a job has at least one task".into());
        }
        if self.tasks.len() > TASKS_MAX {
            return Err(format!("a job has at most {TASKS_MAX} tasks, not {}", self.tasks.len()));
        }
        let mut seen = BTreeSet::new();
        for (task, limits) in &self.tasks {
            if !seen.insert(task) {
                return Err(format!("task {task} is there twice"));
            }
            let max = limits.max_peers.unwrap_or(u32::MAX);
            if max == 0 {
                return Err(format!("task {task}: max-peers must be at least 1"));
            }
            if let Some(min) = limits.min_peers.filter(|min| *min > max) {
                return Err(format!("task {task}: min-peers {min} is above max-peers {max}"));
            }
        }
        Ok(())
    }
}
