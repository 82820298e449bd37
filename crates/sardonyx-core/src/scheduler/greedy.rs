//! Greedy: first come, first served, and served in full.

use alloc::vec::Vec;

use super::{JobView, TaskView};

/// The oldest job takes all it can use, and what it leaves goes to the next. A job that cannot be
/// covered with what is left is passed over.
pub(super) fn jobs(peers: usize, jobs: &[JobView<'_>]) -> Vec<usize> {
    let mut left = peers;
    let take = |job: &JobView<'_>| {
        let taken = if left < job.bounds.low { 0 } else { left.min(job.bounds.high) };
        left -= taken;
        taken
    };
    jobs.iter().map(take).collect()
}

/// After the minima, all to the first task with room, the overflow to the next.
pub(super) fn tasks(peers: usize, tasks: &[TaskView]) -> Vec<usize> {
    let (mut counts, mut left) = super::minima(peers, tasks);
    for (count, task) in counts.iter_mut().zip(tasks) {
        let taken = left.min(task.bounds.high - *count);
        *count += taken;
        left -= taken;
    }
    counts
}
