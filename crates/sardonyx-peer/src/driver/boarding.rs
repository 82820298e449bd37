//! How many of a node's peers ask to join at a time.
//!
//! A member stitches in one joiner at a time, so a cluster of one takes one, and a hundred who ask
//! at once mostly abort and wait. A node lets its peers board as the ring grows; a sixth of the
//! ring at once leaves room for other nodes that do the same.

use std::collections::BTreeMap;

use sardonyx_core::{PeerId, peer::BackOff};
use tokio::time::Instant;

use crate::node::n_may_ask;

#[derive(Debug)]
pub(super) struct Boarding {
    n_wanted: usize,
    back_off: BackOff,
    /// How many were thrown out since all were in.
    n_lost: u32,
    not_before: Option<Instant>,
    /// In a ring of which size each was last called before its time.
    called: BTreeMap<PeerId, usize>,
}

impl Boarding {
    pub(super) fn new(n_wanted: usize, back_off: BackOff) -> Boarding {
        let called = BTreeMap::new();
        Boarding { n_wanted, back_off, n_lost: 0, not_before: None, called }
    }

    /// How many new peers may ask now, in a ring of `n_ring`, where this node has `n_present`, of
    /// which `n_joining` are on their way in.
    pub(super) fn n_now(
        &mut self,
        now: Instant,
        n_ring: usize,
        n_present: usize,
        n_joining: usize,
    ) -> usize {
        let missing = self.n_wanted.saturating_sub(n_present);
        if missing == 0 && n_joining == 0 {
            (self.n_lost, self.not_before) = (0, None);
        }
        if self.not_before.is_some_and(|then| now < then) {
            return 0;
        }
        missing.min(n_may_ask(n_ring).saturating_sub(n_joining))
    }

    /// Whether `peer`, which waits after failed attempts, may try sooner because nobody else is on
    /// the way in now. Once for each size of the ring: in a cluster that is full nobody ever is.
    pub(super) fn may_call(&mut self, peer: &PeerId, n_ring: usize) -> bool {
        self.called.insert(peer.clone(), n_ring) != Some(n_ring)
    }

    /// This id is over.
    pub(super) fn forget(&mut self, peer: &PeerId) {
        self.called.remove(peer);
    }

    /// One was thrown out. The next one waits a little, and the longer the more often it happens:
    /// something is wrong, and trying harder will not mend it.
    pub(super) fn lost_one(&mut self, now: Instant, random: u32) {
        self.n_lost = self.n_lost.saturating_add(1);
        self.not_before = Some(now + self.back_off.wait(self.n_lost, random));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn one_boards_an_empty_ring_and_a_sixth_a_large_one() {
        let (mut boarding, now) = (Boarding::new(50, BackOff::default()), Instant::now());
        assert_eq!(boarding.n_now(now, 0, 0, 0), 1);
        assert_eq!(boarding.n_now(now, 0, 1, 1), 0);
        assert_eq!(boarding.n_now(now, 120, 10, 5), 15);
        assert_eq!(boarding.n_now(now, 10_000, 45, 3), 5);
    }

    #[test]
    fn who_waits_is_called_once_for_each_size_of_the_ring() {
        let mut boarding = Boarding::new(2, BackOff::default());
        let peer = PeerId::new("a").unwrap();
        assert!(boarding.may_call(&peer, 7));
        assert!(!boarding.may_call(&peer, 7));
        assert!(boarding.may_call(&peer, 8));
        boarding.forget(&peer);
        assert!(boarding.may_call(&peer, 8));
    }

    #[test]
    fn who_is_thrown_out_again_and_again_waits_longer_until_all_are_in() {
        let (mut boarding, now) = (Boarding::new(2, BackOff::default()), Instant::now());
        let after = |millis| now + Duration::from_millis(millis);
        boarding.lost_one(now, u32::MAX);
        assert_eq!(boarding.n_now(after(499), 10, 1, 0), 0);
        assert_eq!(boarding.n_now(after(500), 10, 1, 0), 1);
        boarding.lost_one(now, u32::MAX);
        assert_eq!(boarding.n_now(after(999), 10, 1, 0), 0);
        assert_eq!(boarding.n_now(after(1000), 10, 1, 0), 1);
        assert_eq!(boarding.n_now(after(1000), 10, 2, 0), 0, "all are in");
        boarding.lost_one(now, u32::MAX);
        assert_eq!(boarding.n_now(after(500), 10, 1, 0), 1);
    }
}
