//! Who goes where: as few moves as the numbers force.
//!
//! Every task keeps those who have been on it longest, and its sealer before all others: moving that
//! one would take back what was granted. Whoever is too many somewhere fills a gap
//! elsewhere; if that is not enough, the idle do. Gaps are filled job by job and task by task, and
//! those who fill them go in the order in which they joined.
//!
//! Under round robin nobody moves for symmetry: if the present numbers are the planned ones in
//! another order, they stay. While a plan is being carried out, the present numbers change, and may
//! come to be such an order by themselves, or cease to be; [`Evenness`] notices, and the plan is made
//! anew.

use alloc::vec::Vec;

use super::{JobView, Plan, Target};
use crate::{
    id::PeerId,
    replica::{
        JobScheduler, Replica,
        job::{Task, TaskScheduler},
    },
    tree::Tree,
};

impl Replica {
    pub(super) fn place(&self, jobs: &[JobView<'_>], counts: Vec<usize>) -> Plan {
        let round_robin = self.job_scheduler == JobScheduler::RoundRobin;
        let (counts, jobs_even) =
            keep_if_even(round_robin, counts, &|at| (jobs[at].present(), jobs[at].bounds));
        let mut placing = Placing::default();
        let mut tasks_even = Tree::new();
        for (view, &count) in jobs.iter().zip(&counts) {
            let round_robin = view.job.terms.task_scheduler == TaskScheduler::RoundRobin;
            let (counts, even) = keep_if_even(round_robin, view.spread(count), &|at| {
                (view.tasks[at].present, view.tasks[at].bounds)
            });
            if even.is_watched {
                tasks_even.insert(view.place, even);
            }
            for (task, count) in view.tasks.iter().zip(counts) {
                let target = Target { job: view.place, task: task.index };
                placing.place_task(self, target, &view.job.tasks[task.index], count);
            }
        }
        let counts = jobs.iter().zip(counts).map(|(view, count)| (view.place, count)).collect();
        Plan { moves: placing.moves(self), counts, jobs_even, tasks_even }
    }
}

/// The planned numbers, or the present ones if they are the same in another order and are within
/// their bounds.
fn keep_if_even(
    round_robin: bool,
    planned: Vec<usize>,
    present: &dyn Fn(usize) -> (usize, super::Bounds),
) -> (Vec<usize>, Evenness) {
    if !round_robin {
        return (planned, Evenness::default());
    }
    let now: Vec<_> = (0..planned.len()).map(|at| present(at).0).collect();
    let mut even = Evenness {
        present: mark_all(&now),
        planned: mark_all(&planned),
        is_watched: true,
        is_kept: false,
    };
    let sorted = |counts: &[usize]| {
        let mut counts = counts.to_vec();
        counts.sort_unstable();
        counts
    };
    let may_stay = |at: usize| {
        let (n, bounds) = present(at);
        bounds.hold(n) || (n == 0 && planned[at] == 0)
    };
    if now != planned && sorted(&now) == sorted(&planned) && (0..now.len()).all(may_stay) {
        even.is_kept = true;
        return (now, even);
    }
    (planned, even)
}

/// Notices when present numbers become the planned ones in another order, at the cost of a few
/// additions for each move: equal multisets have equal sums of marks. Unequal ones hardly ever do,
/// and then the plan is made anew in vain.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Evenness {
    present: u64,
    planned: u64,
    is_watched: bool,
    /// The present numbers were kept instead of the planned ones.
    is_kept: bool,
}

impl Evenness {
    fn change(&mut self, from: usize, to: usize) {
        self.present = self.present.wrapping_sub(mark(from)).wrapping_add(mark(to));
    }

    /// Whether a plan made now would take another turn: it would keep what it did not keep, or no
    /// longer keeps what it kept.
    fn turns(&self) -> bool {
        self.is_kept || (self.is_watched && self.present == self.planned)
    }
}

fn mark_all(counts: &[usize]) -> u64 {
    counts.iter().fold(0, |sum, count| sum.wrapping_add(mark(*count)))
}

/// A number that looks random but is not (the finaliser of SplitMix64).
fn mark(count: usize) -> u64 {
    let mut z = (count as u64).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
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
        let mut holds = true;
        for (end, step) in [(from, -1), (to, 1)] {
            let Some((target, count)) = end else { continue };
            let after = |n: usize| n.saturating_add_signed(step);
            if let Some(even) = self.tasks_even.get_mut(&target.job) {
                even.change(count.task, after(count.task));
                holds &= !even.turns();
            }
            if changes_job {
                self.jobs_even.change(count.job, after(count.job));
            }
        }
        holds && !(changes_job && self.jobs_even.turns())
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
