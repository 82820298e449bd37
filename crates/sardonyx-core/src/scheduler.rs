//! Who should run what: one pure function of the replica, [`plan`](Replica::plan).
//!
//! A peer asks for a task when the plan gives it another one than it has, and is granted exactly
//! that: asking and granting look at the same plan, so they cannot disagree. The plan has three
//! steps: how many peers each job gets ([`greedy`], [`round_robin`], [`percentage`]), how many of
//! them each of its unfinished tasks gets (the same three again), and who they are ([`place`]).
//!
//! A plan is computed when somebody first asks and kept until something changes that it depends
//! on. Carrying it out is no such change: each move, in whatever order, leaves the rest of the plan
//! as it was.

mod greedy;
mod percentage;
mod place;
mod round_robin;
mod waiting;

use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::fmt;

use once_cell::race::OnceBox;

use crate::{
    id::PeerId,
    mutant::{self, Mutant},
    replica::{
        JobScheduler, Replica,
        job::{Job, TaskScheduler},
    },
    tree::Tree,
};

/// Who should run what.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where each peer should go that is not where it should be; `None` for no task at all.
    pub(crate) moves: Tree<PeerId, Option<Target>>,
    /// How many peers each live job gets, by its place.
    pub(crate) counts: Arc<[(u64, usize)]>,
}

/// A task of a job, by their places.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Target {
    pub(crate) job: u64,
    pub(crate) task: usize,
}

impl Plan {
    /// Whether carrying out the plan moves anybody.
    pub fn is_carried_out(&self) -> bool {
        self.moves.is_empty()
    }

    /// Whom the plan moves, by id.
    pub fn movers(&self) -> impl Iterator<Item = &PeerId> {
        self.moves.keys()
    }

    /// How many peers the plan gives a live job.
    pub(crate) fn n_peers_of(&self, job: u64) -> usize {
        let found = self.counts.binary_search_by_key(&job, |(place, _)| *place);
        found.map_or(0, |index| self.counts[index].1)
    }
}

/// The bounds within which a job or a task can use peers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bounds {
    /// Fewer are of no use.
    pub(crate) low: usize,
    /// More are of no use.
    pub(crate) high: usize,
}

/// A live job, as the schedulers see it.
pub(crate) struct JobView<'a> {
    pub(crate) place: u64,
    pub(crate) job: &'a Job,
    pub(crate) bounds: Bounds,
    /// Its unfinished tasks in topological order.
    pub(crate) tasks: Vec<TaskView>,
}

/// An unfinished task, as the schedulers see it.
pub(crate) struct TaskView {
    pub(crate) index: usize,
    pub(crate) bounds: Bounds,
    /// What of `low` the job must be able to give. A sealer keeps its place before others get
    /// one, but a job is not left without peers for want of one more.
    pub(crate) must: usize,
    /// Its share in hundredths of a percent; 0 when it named none.
    pub(crate) percentage: u32,
    /// How many peers it has now.
    pub(crate) present: usize,
}

impl<'a> JobView<'a> {
    fn new(place: u64, job: &'a Job) -> JobView<'a> {
        let is_covered = job.terms.partial_coverage_protection;
        let covered = usize::from(is_covered || mutant::is_on(Mutant::CoverageForAll));
        let unfinished = job.terms.tasks.iter().zip(&job.tasks).enumerate();
        let unfinished = unfinished.filter(|(_, (_, task))| !task.is_completed);
        let tasks: Vec<_> = unfinished
            .map(|(index, ((_, limits), task))| {
                let present = task.peers.len();
                let low = limits.min_peers.map_or(0, |min| min as usize).max(covered);
                let high = limits.max_peers.map_or(usize::MAX, |max| max as usize);
                // A task that is being sealed takes nobody new, and needs nobody but its sealer.
                let (must, low, high) = match task.sealer {
                    Some(_) => (low.min(1), 1, high.min(present)),
                    None => (low, low, high),
                };
                let percentage = limits.percentage.unwrap_or_default().hundredths();
                let bounds = Bounds { low, high };
                TaskView { index, bounds, must, percentage, present }
            })
            .collect();
        let low = tasks.iter().map(|task| task.must).sum();
        let high = tasks.iter().fold(0, |sum: usize, task| sum.saturating_add(task.bounds.high));
        JobView { place, job, bounds: Bounds { low, high }, tasks }
    }

    fn present(&self) -> usize {
        self.tasks.iter().map(|task| task.present).sum()
    }

    /// How many of `n` peers each unfinished task gets. A job gets what covers it, or nothing.
    fn spread(&self, n: usize) -> Vec<usize> {
        if n == 0 {
            return alloc::vec![0; self.tasks.len()];
        }
        match self.job.terms.task_scheduler {
            TaskScheduler::Greedy => greedy::tasks(n, &self.tasks),
            TaskScheduler::RoundRobin => round_robin::tasks(n, &self.tasks),
            TaskScheduler::Percentage => percentage::tasks(n, &self.tasks),
        }
    }
}

impl Replica {
    /// Who should run what. Computed at the first question after a change, then kept.
    pub fn plan(&self) -> Arc<Plan> {
        self.plan.0.get_or_init(|| Box::new(Arc::new(self.compute_plan()))).clone()
    }

    /// Whether the plan gives `peer` another task than it has.
    pub fn moves(&self, peer: &PeerId) -> bool {
        !self.jobs.is_empty() && self.plan().moves.contains(peer)
    }

    fn live_jobs(&self) -> Vec<JobView<'_>> {
        let live = self
            .jobs
            .iter()
            .filter(|(_, job)| job.is_live() || mutant::is_on(Mutant::EndedJobsPlanned));
        live.map(|(place, job)| JobView::new(*place, job)).collect()
    }

    /// How many peers each live job gets.
    fn share_out(&self, jobs: &[JobView<'_>]) -> Vec<usize> {
        let scheduler = match mutant::is_on(Mutant::OneSchedulerForAll) {
            true => JobScheduler::RoundRobin,
            false => self.job_scheduler,
        };
        match scheduler {
            JobScheduler::Greedy => greedy::jobs(self.n_peers(), jobs),
            JobScheduler::RoundRobin => round_robin::jobs(self.n_peers(), jobs),
            JobScheduler::Percentage => percentage::jobs(self.n_peers(), jobs),
        }
    }

    fn compute_plan(&self) -> Plan {
        let jobs = self.live_jobs();
        let counts = self.share_out(&jobs);
        self.place(&jobs, counts)
    }
}

/// A plan, once somebody has asked for it.
#[derive(Default)]
pub(crate) struct PlanCell(OnceBox<Arc<Plan>>);

impl PlanCell {
    /// Something changed on which the plan depends.
    pub(crate) fn forget(&mut self) {
        *self = PlanCell::default();
    }

    pub(crate) fn keep(&mut self, plan: Arc<Plan>) {
        *self = PlanCell(OnceBox::with_value(Box::new(plan)));
    }
}

impl Clone for PlanCell {
    fn clone(&self) -> Self {
        let mut cell = PlanCell::default();
        if let Some(plan) = self.0.get() {
            cell.keep(plan.clone());
        }
        cell
    }
}

impl fmt::Debug for PlanCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.get().is_some() { "planned" } else { "not planned" })
    }
}

/// What each task gets at least, as far as the peers go, and how many are left after that.
fn minima(peers: usize, tasks: &[TaskView]) -> (Vec<usize>, usize) {
    let mut left = peers;
    let mut counts = alloc::vec![0; tasks.len()];
    let musts = tasks.iter().map(|task| task.must).enumerate();
    let lows = tasks.iter().map(|task| task.bounds.low).enumerate();
    for (at, minimum) in musts.chain(lows) {
        let more = left.min(minimum.saturating_sub(counts[at]));
        counts[at] += more;
        left -= more;
    }
    (counts, left)
}
