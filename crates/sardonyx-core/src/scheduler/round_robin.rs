//! Round robin: as even as the bounds allow, and as near to what is there as evenness allows.
//!
//! Where numbers cannot be equal, somebody gets one more. That is whoever has more already, so that
//! nobody moves for symmetry; among equals the first. Carrying the plan out does not change the
//! choice: who was chosen comes to have more, and who was not comes to have no more.

use alloc::{collections::BinaryHeap, vec::Vec};
use core::cmp::Reverse;

use super::{Bounds, JobView, TaskView};
use crate::mutant::{self, Mutant};

/// Lower bounds are covered in the order of submission, as far as the peers go. The rest goes one
/// by one to the covered job that has the fewest.
pub(super) fn jobs(peers: usize, jobs: &[JobView<'_>]) -> Vec<usize> {
    let mut left = peers;
    let mut covered = Vec::with_capacity(jobs.len());
    let mut counts: Vec<_> = jobs
        .iter()
        .map(|job| {
            let is_covered = job.bounds.low <= left;
            covered.push(is_covered);
            let count = if is_covered { job.bounds.low } else { 0 };
            left -= count;
            count
        })
        .collect();
    // A job that cannot be covered has no room for anybody.
    let bounds = jobs.iter().zip(covered).map(|(job, is_covered)| match is_covered {
        true => own_share(peers, jobs.len(), job.bounds),
        false => Bounds { low: 0, high: 0 },
    });
    let present: Vec<_> = jobs.iter().map(JobView::present).collect();
    let bounds: Vec<_> = bounds.collect();
    let n_open = bounds.iter().filter(|it| it.high > 0).count();
    level(&mut counts, &bounds, &present, handed_out(left, n_open));
    counts
}

/// How many of the peers that are left the jobs are given: all. In the documents the remainder is
/// the numerator of a fraction, which loses peers when the fraction is reduced (2 of 4 is 1 of 2).
fn handed_out(left: usize, n_jobs: usize) -> usize {
    if n_jobs == 0 || !mutant::is_on(Mutant::ReducedRemainder) {
        return left;
    }
    let rest = left % n_jobs;
    let (mut a, mut b) = (n_jobs, rest);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    left - rest + rest / a
}

/// The bounds within which a job takes part. In the documents, what one job cannot use goes to jobs
/// without a limit only.
fn own_share(peers: usize, n_jobs: usize, bounds: Bounds) -> Bounds {
    if bounds.high == usize::MAX || !mutant::is_on(Mutant::ExcessToUnlimited) {
        return bounds;
    }
    let share = peers.div_ceil(n_jobs);
    Bounds { low: bounds.low, high: bounds.high.min(share).max(bounds.low) }
}

/// After the minima, one by one to the task that has the fewest and has room.
pub(super) fn tasks(peers: usize, tasks: &[TaskView]) -> Vec<usize> {
    let (mut counts, left) = super::minima(peers, tasks);
    let bounds: Vec<_> = tasks.iter().map(|task| task.bounds).collect();
    let present: Vec<_> = tasks.iter().map(|task| task.present).collect();
    level(&mut counts, &bounds, &present, left);
    counts
}

/// Hands out `left` one by one to whoever has the fewest and room for more; ties to who has more
/// than that at present, then to the first.
fn level(counts: &mut [usize], bounds: &[Bounds], present: &[usize], mut left: usize) {
    let is_kept = !mutant::is_on(Mutant::MovedForSymmetry);
    let turn =
        |index: usize, count: usize| Reverse((count, is_kept && present[index] <= count, index));
    let has_room = |&index: &usize| counts[index] < bounds[index].high;
    let with_room = (0..counts.len()).filter(has_room);
    let mut fewest: BinaryHeap<_> = with_room.map(|index| turn(index, counts[index])).collect();
    while left > 0
        && let Some(Reverse((count, _, index))) = fewest.pop()
    {
        counts[index] = count + 1;
        left -= 1;
        if counts[index] < bounds[index].high {
            fewest.push(turn(index, counts[index]));
        }
    }
}
