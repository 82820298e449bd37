//! Who goes where: as few moves as the numbers force.
//!
//! Every task keeps those who have been on it longest, and its sealer before all others: moving that
//! one would take back what was granted. Whoever is too many on a task fills a gap in the same job;
//! if there is none, a gap of another; and if that is not enough, the idle do. Gaps are filled job
//! by job and task by task, and those who fill them go in the order in which they joined.
//!
//! So a job with too many peers only loses some and one with too few only gains some: whatever the
//! order in which the moves are made, those that remain are still the plan.

use alloc::vec::Vec;

use super::{JobView, Plan, Target};
use crate::{
    id::PeerId,
    replica::{Replica, job::Task},
    tree::Tree,
};

impl Replica {
    pub(super) fn place(&self, jobs: &[JobView<'_>], counts: Vec<usize>) -> Plan {
        let mut placing = Placing::default();
        for (view, &count) in jobs.iter().zip(&counts) {
            let mut within = Within::default();
            for (task, count) in view.tasks.iter().zip(view.spread(count)) {
                let target = Target { job: view.place, task: task.index };
                within.place_task(self, target, &view.job.tasks[task.index], count);
            }
            placing.place_job(within);
        }
        let counts = jobs.iter().zip(counts).map(|(view, count)| (view.place, count)).collect();
        Plan { moves: placing.moves(self), counts }
    }
}

/// The gaps of one job's tasks, and who is too many on the others. Peers go by their seat: the join
/// order.
#[derive(Default)]
struct Within {
    gaps: Vec<Target>,
    surplus: Vec<u64>,
}

impl Within {
    fn place_task(&mut self, replica: &Replica, target: Target, task: &Task, count: usize) {
        let n = task.peers.len();
        if count > n {
            self.gaps.extend(core::iter::repeat_n(target, count - n));
            return;
        }
        let stays = |peer: &PeerId| count > 0 && task.sealer.as_ref() == Some(peer);
        let latest_first = (0..n).rev().filter_map(|rank| task.peers.nth(rank));
        let leaving = latest_first.filter(|(_, peer)| !stays(peer)).take(n - count);
        let seats = leaving.filter_map(|(_, peer)| replica.members.get(peer));
        self.surplus.extend(seats.map(|member| member.seat));
    }
}

/// All jobs: who goes where, which gaps are left, and who is left.
#[derive(Default)]
struct Placing {
    filled: Vec<(u64, Target)>,
    gaps: Vec<Target>,
    surplus: Vec<u64>,
}

impl Placing {
    fn place_job(&mut self, mut job: Within) {
        job.surplus.sort_unstable();
        let n_within = job.gaps.len().min(job.surplus.len());
        self.filled.extend(job.surplus.drain(..n_within).zip(job.gaps.drain(..n_within)));
        self.gaps.append(&mut job.gaps);
        self.surplus.append(&mut job.surplus);
    }

    fn moves(mut self, replica: &Replica) -> Tree<PeerId, Option<Target>> {
        self.surplus.sort_unstable();
        let too_many = self.surplus.split_off(self.gaps.len().min(self.surplus.len()));
        let mut fillers = self.surplus;
        let wanted = self.gaps.len() - fillers.len();
        if wanted > 0 {
            fillers.extend(replica.idle.keys().take(wanted));
            fillers.sort_unstable();
        }
        self.filled.extend(fillers.into_iter().zip(self.gaps));
        let filling = self.filled.into_iter().map(|(seat, gap)| (seat, Some(gap)));
        let leaving = too_many.into_iter().map(|seat| (seat, None));
        let peer = |seat: u64| replica.seats.get(&seat).cloned();
        let moves = filling.chain(leaving).filter_map(|(seat, to)| Some((peer(seat)?, to)));
        let mut moves: Vec<_> = moves.collect();
        moves.sort_by(|(a, _), (b, _)| a.cmp(b));
        Tree::from_growing(moves)
    }
}
