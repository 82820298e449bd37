//! Never two valid tokens: who was seen with one, in which version, and when.
//!
//! A node is asked again and again. From the first to the last moment at which it showed the token of
//! one version it had it all the while: a token that is lost is not found again in the same version.
//! So each node and version is a span, and no two spans may touch. Versions only grow.

use std::collections::BTreeMap;

/// A node was seen with a token.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Sighting {
    /// When, in microseconds on the machine's own clock, which all processes share.
    pub at_micros: u64,
    /// Which node.
    pub node: usize,
    /// In which version.
    pub version: u64,
}

/// A time in which a node stood still.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stillness {
    /// Which node.
    pub node: usize,
    /// From when on.
    pub from_micros: u64,
    /// Until when, with the time in which an answer that was half ready is on its way.
    pub to_micros: u64,
}

/// Leaves out what says nothing: a node that was stopped between looking at its token and looking at
/// the clock gives a time that does not belong to the token.
pub fn leave_out(sightings: &mut Vec<Sighting>, still: &[Stillness]) -> usize {
    let before = sightings.len();
    let is_within = |seen: &Sighting, it: &Stillness| {
        it.node == seen.node && (it.from_micros..=it.to_micros).contains(&seen.at_micros)
    };
    sightings.retain(|seen| !still.iter().any(|it| is_within(seen, it)));
    before - sightings.len()
}

/// How many tokens there were, and what is wrong with them.
pub fn judge(sightings: &[Sighting]) -> (usize, Vec<String>) {
    let mut spans: BTreeMap<(u64, usize), (u64, u64)> = BTreeMap::new();
    for seen in sightings {
        let at = seen.at_micros;
        let span = spans.entry((seen.version, seen.node)).or_insert((at, at));
        *span = (span.0.min(at), span.1.max(at));
    }
    let mut by_time: Vec<_> =
        spans.iter().map(|((version, node), (from, to))| (*from, *to, *version, *node)).collect();
    by_time.sort_unstable();
    let mut broken = Vec::new();
    for pair in by_time.windows(2) {
        let ((_, to, version, node), (from, _, next_version, next)) = (pair[0], pair[1]);
        if to >= from {
            broken.push(format!(
                "node {node} with version {version} and node {next} with {next_version} at once: \
                 the one until {to}, the other from {from}"
            ));
        }
        if version >= next_version {
            broken.push(format!(
                "node {next} had version {next_version} at {from}, after node {node} had {version}"
            ));
        }
    }
    (by_time.len(), broken)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(list: &[(u64, usize, u64)]) -> Vec<Sighting> {
        let sighting = |(at_micros, node, version): &(u64, usize, u64)| Sighting {
            at_micros: *at_micros,
            node: *node,
            version: *version,
        };
        list.iter().map(sighting).collect()
    }

    #[test]
    fn one_after_the_other_is_well() {
        let (n, broken) = judge(&seen(&[(1, 0, 1), (5, 0, 1), (6, 1, 2), (9, 1, 2), (12, 0, 3)]));
        assert_eq!((n, broken), (3, vec![]));
    }

    #[test]
    fn two_at_once_are_found() {
        // Never seen at the same moment, but the first still had it after the second did.
        let (_, broken) = judge(&seen(&[(1, 0, 1), (5, 1, 2), (6, 0, 1)]));
        assert_eq!(broken.len(), 1, "{broken:?}");
    }

    #[test]
    fn two_in_one_version_are_found() {
        let (_, broken) = judge(&seen(&[(1, 0, 4), (2, 1, 4)]));
        assert_eq!(broken.len(), 1, "{broken:?}");
    }

    #[test]
    fn a_version_that_goes_back_is_found() {
        let (_, broken) = judge(&seen(&[(1, 0, 4), (2, 1, 3)]));
        assert_eq!(broken.len(), 1, "{broken:?}");
    }

    #[test]
    fn what_was_said_across_a_pause_is_left_out() {
        let mut list = seen(&[(1, 0, 1), (50, 0, 1), (20, 1, 2)]);
        assert_eq!(judge(&list).1.len(), 1);
        let still = Stillness { node: 0, from_micros: 10, to_micros: 60 };
        assert_eq!(leave_out(&mut list, &[still]), 1);
        assert_eq!(judge(&list).1, [""; 0]);
    }
}
