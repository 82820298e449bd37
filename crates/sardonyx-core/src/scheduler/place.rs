//! Who goes where: as few moves as the numbers force.
//!
//! Every task keeps those who have been on it longest, and its sealer before all others: moving that
//! one would take back what was granted. Whoever is too many somewhere fills a gap
//! elsewhere; if that is not enough, the idle do. Gaps are filled job by job and task by task, and
//! those who fill them go in the order in which they joined.
//!
//! Under round robin the numbers themselves may stay as they are; see [`super::even`].

use alloc::vec::Vec;

use super::{
    JobView, Plan, Target, TaskView,
    even::{Evenness, Share, keep_if_even},
};
use crate::{
    id::PeerId,
    replica::{
        JobScheduler, Replica,
        job::{Task, TaskScheduler},
    },
    tree::Tree,
};

impl Replica {
    pub(super) fn place(&self, jobs: &[JobView<'_>], planned: Vec<usize>) -> Plan {
        let (mut counts, mut jobs_even) = (planned, None);
        if self.job_scheduler == JobScheduler::RoundRobin {
            let share = |(view, &planned): (&JobView<'_>, _)| Share {
                key: view.place,
                planned,
                present: view.present(),
                bounds: view.bounds,
            };
            let shares: Vec<_> = jobs.iter().zip(&counts).map(share).collect();
            let (kept, even) = keep_if_even(&shares);
            (counts, jobs_even) = (kept, Some(even));
        }
        let mut placing = Placing::default();
        let mut tasks_even = Vec::new();
        for (view, &count) in jobs.iter().zip(&counts) {
            let mut counts = view.spread(count);
            if view.job.terms.task_scheduler == TaskScheduler::RoundRobin {
                let share = |(task, &planned): (&TaskView, _)| Share {
                    key: task.index as u64,
                    planned,
                    present: task.present,
                    bounds: task.bounds,
                };
                let shares: Vec<_> = view.tasks.iter().zip(&counts).map(share).collect();
                let (kept, even) = keep_if_even(&shares);
                counts = kept;
                tasks_even.push((view.place, even));
            }
            for (task, count) in view.tasks.iter().zip(counts) {
                let target = Target { job: view.place, task: task.index };
                placing.place_task(self, target, &view.job.tasks[task.index], count);
            }
        }
        let counts = jobs.iter().zip(counts).map(|(view, count)| (view.place, count)).collect();
        let tasks_even = Tree::from_growing(tasks_even);
        Plan { moves: placing.moves(self), counts, jobs_even, tasks_even }
    }
}

impl Plan {
    /// Strikes out the move of `peer`, which goes from `from` to `to`. The counts are those before
    /// the move. Says whether the rest of the plan still holds.
    pub(crate) fn carry_out(
        &mut self,
        peer: &PeerId,
        from: Option<(Target, Count)>,
        to: Option<(Target, Count)>,
    ) -> bool {
        self.moves.remove(peer);
        let job = |end: &Option<(Target, Count)>| end.as_ref().map(|(target, _)| target.job);
        let changes_job = job(&from) != job(&to);
        for (end, step) in [(from, -1), (to, 1)] {
            let Some((target, count)) = end else { continue };
            let after = |n: usize| n.saturating_add_signed(step);
            if let Some(even) = self.tasks_even.get_mut(&target.job) {
                even.change(target.task as u64, count.task, after(count.task));
            }
            if let Some(even) = self.jobs_even.as_mut().filter(|_| changes_job) {
                even.change(target.job, count.job, after(count.job));
            }
        }
        let tasks_turn = |end: Option<(Target, Count)>| {
            let even = end.and_then(|(target, _)| self.tasks_even.get(&target.job));
            even.is_some_and(Evenness::turns)
        };
        let jobs_turn = changes_job && self.jobs_even.as_ref().is_some_and(Evenness::turns);
        !(jobs_turn || tasks_turn(from) || tasks_turn(to))
    }
}

/// How many peers a job and one of its tasks have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Count {
    pub(crate) job: usize,
    pub(crate) task: usize,
}

/// Gaps, and those who are too many where they are. Peers go by their seat: the join order.
#[derive(Default)]
struct Placing {
    gaps: Vec<(Target, usize)>,
    n_gaps: usize,
    surplus: Vec<u64>,
}

impl Placing {
    fn place_task(&mut self, replica: &Replica, target: Target, task: &Task, count: usize) {
        let n = task.peers.len();
        if count > n {
            self.gaps.push((target, count - n));
            self.n_gaps += count - n;
            return;
        }
        let stays = |peer: &PeerId| count > 0 && task.sealer.as_ref() == Some(peer);
        let latest_first = (0..n).rev().filter_map(|rank| task.peers.nth(rank));
        let leaving = latest_first.filter(|(_, peer)| !stays(peer)).take(n - count);
        let seats = leaving.filter_map(|(_, peer)| replica.members.get(peer));
        self.surplus.extend(seats.map(|member| member.seat));
    }

    fn moves(mut self, replica: &Replica) -> Tree<PeerId, Option<Target>> {
        self.surplus.sort_unstable();
        let mut fillers = self.surplus.clone();
        fillers.truncate(self.n_gaps);
        let wanted = self.n_gaps - fillers.len();
        if wanted > 0 {
            fillers.extend(replica.idle.keys().take(wanted));
            fillers.sort_unstable();
        }
        let gaps = self.gaps.iter().flat_map(|(target, n)| core::iter::repeat_n(*target, *n));
        let peer = |seat: u64| replica.seats.get(&seat).cloned();
        let filling =
            fillers.iter().zip(gaps).filter_map(|(&seat, gap)| Some((peer(seat)?, Some(gap))));
        let leaving =
            self.surplus.iter().skip(self.n_gaps).filter_map(|&seat| Some((peer(seat)?, None)));
        let mut moves: Vec<_> = filling.chain(leaving).collect();
        moves.sort_by(|(a, _), (b, _)| a.cmp(b));
        Tree::from_growing(moves)
    }
}
