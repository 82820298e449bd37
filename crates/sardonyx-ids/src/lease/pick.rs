//! Which number to ask for.

use super::record::Listing;
use crate::layout::{Layout, Millis};

/// Among how many of the longest unused numbers one is picked, at least: enough that those who
/// join together seldom meet.
const BEST_MIN: usize = 16;

/// A free number whose times before `now` are all unused or past; `dice` decides among the best.
///
/// Numbers never used come first, then the better half of the others, by how long ago they were
/// used. `None`: all are taken, retired, or still reserved for times to come.
pub(crate) fn pick(listing: &Listing, layout: &Layout, now: Millis, dice: u64) -> Option<u32> {
    let is_free = |it: &u32| !listing.live.contains_key(it) && !listing.retired.contains_key(it);
    let free: Vec<u32> = (0..layout.workers()).filter(is_free).collect();
    let unused: Vec<u32> =
        free.iter().copied().filter(|it| !listing.fresh.contains_key(it)).collect();
    if !unused.is_empty() {
        return choose(&unused, dice);
    }
    let until = |it: &u32| listing.fresh.get(it).map_or(0, |fresh| fresh.value.until);
    let mut used: Vec<u32> = free.into_iter().filter(|it| until(it) <= now).collect();
    used.sort_by_key(until);
    used.truncate(BEST_MIN.max(used.len() / 2));
    choose(&used, dice)
}

fn choose(numbers: &[u32], dice: u64) -> Option<u32> {
    let index = dice.checked_rem(numbers.len() as u64)?;
    numbers.get(index as usize).copied()
}
