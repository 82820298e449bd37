//! Nobody moves for symmetry: numbers that are the planned ones in another order stay as they are.
//!
//! While a plan is being carried out, the present numbers change. They may come to be the planned
//! ones in another order, and then a plan made anew would keep them; or cease to be what was kept.
//! [`Evenness`] notices either at the cost of a few additions for each move.

use alloc::{sync::Arc, vec::Vec};

use super::Bounds;

/// One job of the cluster, or one task of a job: its key, how many peers it is to get, how many it
/// has, and its bounds.
pub(super) struct Share {
    pub(super) key: u64,
    pub(super) planned: usize,
    pub(super) present: usize,
    pub(super) bounds: Bounds,
}

impl Share {
    fn may_stay(&self) -> bool {
        self.bounds.hold(self.present) || (self.present == 0 && self.planned == 0)
    }
}

/// The planned numbers, or the present ones where they are the same in another order and within
/// their bounds.
pub(super) fn keep_if_even(shares: &[Share]) -> (Vec<usize>, Evenness) {
    let now: Vec<_> = shares.iter().map(|share| share.present).collect();
    let planned: Vec<_> = shares.iter().map(|share| share.planned).collect();
    let sorted = |counts: &[usize]| {
        let mut counts = counts.to_vec();
        counts.sort_unstable();
        counts
    };
    let is_kept = now != planned
        && sorted(&now) == sorted(&planned)
        && shares.iter().all(|share| share.may_stay());
    let even = Evenness {
        planned: shares.iter().map(|share| (share.key, share.planned)).collect(),
        marks: shares.iter().fold(0, |sum, share| {
            sum.wrapping_add(mark(share.planned)).wrapping_sub(mark(share.present))
        }),
        off: shares.iter().map(|share| share.planned.abs_diff(share.present)).sum(),
        is_kept,
    };
    (if is_kept { now } else { planned }, even)
}

/// How far present numbers are from the planned ones.
#[derive(Clone, Debug)]
pub(crate) struct Evenness {
    planned: Arc<[(u64, usize)]>,
    /// The marks of the planned numbers less those of the present ones: 0 for the same numbers in
    /// any order. For others hardly ever, and then a plan is made anew in vain.
    marks: u64,
    /// By how much all of them together are off. 0 for the same numbers in the same order.
    off: usize,
    /// The present numbers were kept instead of the planned ones.
    is_kept: bool,
}

impl Evenness {
    /// The one at `key` had `from` and has `to`.
    pub(super) fn change(&mut self, key: u64, from: usize, to: usize) {
        self.marks = self.marks.wrapping_add(mark(from)).wrapping_sub(mark(to));
        if let Ok(index) = self.planned.binary_search_by_key(&key, |(key, _)| *key) {
            let planned = self.planned[index].1;
            self.off = self.off - planned.abs_diff(from) + planned.abs_diff(to);
        }
    }

    /// Whether a plan made now would take another turn.
    pub(super) fn turns(&self) -> bool {
        self.is_kept || (self.marks == 0 && self.off > 0)
    }
}

/// A number that looks random but is not (the finaliser of SplitMix64).
fn mark(count: usize) -> u64 {
    let mut z = (count as u64).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
