//! Percentage: to each the share it asked for, in integers.

use alloc::{vec, vec::Vec};
use core::cmp::Reverse;

use super::{JobView, TaskView};
use crate::{
    mutant::{self, Mutant},
    replica::job::Percentage,
};

const WHOLE: u64 = Percentage::WHOLE.hundredths() as u64;

/// The highest percentages come first, while they fit into a hundred; the first that does not fit
/// ends the list. Each gets its share rounded down, and the seats lost by rounding go to the
/// largest remainders. A job that this does not cover gets nothing, and what nobody asked for
/// stays idle.
pub(super) fn jobs(peers: usize, jobs: &[JobView<'_>]) -> Vec<usize> {
    let asked = |job: usize| jobs[job].job.terms.percentage.unwrap_or_default().hundredths();
    let mut ranked: Vec<_> = (0..jobs.len()).collect();
    if !mutant::is_on(Mutant::OldestSharesFirst) {
        ranked.sort_by_key(|&job| Reverse(asked(job)));
    }
    let mut sum = 0;
    ranked.retain(|&job| {
        // Once a job did not fit, the sum stays above the whole, and so nobody after it fits.
        sum += u64::from(asked(job));
        sum <= WHOLE
    });
    let shares: Vec<_> = ranked.iter().map(|&job| u64::from(asked(job))).collect();
    let total = shares.iter().sum::<u64>();
    let seats = (peers as u64 * total / WHOLE) as usize;
    let mut counts = vec![0; jobs.len()];
    let mut given = apportion(peers, &shares, WHOLE, seats);
    if mutant::is_on(Mutant::LeftOversToTop) {
        given = apportion(peers, &shares, WHOLE, 0);
        let left = peers - given.iter().sum::<usize>();
        given.iter_mut().take(1).for_each(|top| *top += left);
    }
    for (&job, count) in ranked.iter().zip(given) {
        let bounds = jobs[job].bounds;
        counts[job] = if count < bounds.low { 0 } else { count.min(bounds.high) };
    }
    counts
}

/// The unfinished tasks share all of `peers` in the ratio of their percentages.
///
/// A task that would get more than its maximum or less than its minimum is set to that, and the
/// others share the rest. When both happen at once, the side that is further off is set first:
/// the other may come right by itself.
pub(super) fn tasks(peers: usize, tasks: &[TaskView]) -> Vec<usize> {
    let (minima, left) = super::minima(peers, tasks);
    if left == 0 {
        return minima;
    }
    let mut set: Vec<Option<usize>> = vec![None; tasks.len()];
    loop {
        let open: Vec<_> = (0..tasks.len()).filter(|&task| set[task].is_none()).collect();
        let taken: usize = set.iter().flatten().sum();
        let left = peers.saturating_sub(taken);
        let asked = open.iter().map(|&task| u64::from(tasks[task].percentage));
        let mut shares: Vec<_> = asked.collect();
        if shares.iter().sum::<u64>() == 0 {
            shares.fill(1);
        }
        let total = shares.iter().sum::<u64>().max(1);
        let counts = apportion(left, &shares, total, left);
        let clamped = |at: usize| {
            let bounds = tasks[open[at]].bounds;
            counts[at].clamp(bounds.low, bounds.high)
        };
        let over: usize = (0..open.len()).map(|at| counts[at] - counts[at].min(clamped(at))).sum();
        let under: usize =
            (0..open.len()).map(|at| clamped(at) - counts[at].min(clamped(at))).sum();
        let is_set = |at: usize| match over >= under {
            true => counts[at] > clamped(at),
            false => counts[at] < clamped(at),
        };
        for at in 0..open.len() {
            if (over == 0 && under == 0) || is_set(at) {
                set[open[at]] = Some(clamped(at));
            }
        }
        if set.iter().all(Option::is_some) {
            return set.into_iter().flatten().collect();
        }
    }
}

/// Each `share` of `whole`, taken of `n` and rounded down; then one more to the largest remainders
/// until `seats` are given, ties to the first.
fn apportion(n: usize, shares: &[u64], whole: u64, seats: usize) -> Vec<usize> {
    let exact: Vec<_> = shares.iter().map(|share| n as u64 * share).collect();
    let mut counts: Vec<_> = exact.iter().map(|it| (it / whole) as usize).collect();
    let given: usize = counts.iter().sum();
    let mut by_remainder: Vec<_> = (0..shares.len()).collect();
    by_remainder.sort_by_key(|&at| Reverse(exact[at] % whole));
    let seats = if mutant::is_on(Mutant::RoundedAway) { 0 } else { seats };
    for at in by_remainder.into_iter().take(seats.saturating_sub(given)) {
        counts[at] += 1;
    }
    counts
}
