//! Joins in flight: who is being stitched in, at which member, and how far it is.
//!
//! Both protocols keep the same record, keyed by the *anchor*: the member that was chosen for the
//! joiner. In three phases that is the observer, which will watch the joiner; in two phases it is
//! the subject, which the joiner will watch. An anchor takes one joiner at a time.

use super::{Join, JoinProtocol, Phase, Replica};
use crate::{
    command::Rejected,
    id::{PeerId, Position},
    mutant::{self, Mutant},
};

impl Replica {
    /// Whether somebody could take a joiner in now. In an empty cluster anybody can join.
    pub fn has_candidate(&self) -> bool {
        self.members.is_empty() || !self.free.is_empty()
    }

    /// The anchor that every peer picks for a joiner at `position`; `None` when all are taken.
    pub(crate) fn pick_anchor(&self, position: Position) -> Option<&PeerId> {
        let position = Position(position.0.wrapping_add(mutant::drift()));
        let index = position.pick(self.free.len())?;
        self.free.nth(index).map(|(peer, ())| peer)
    }

    /// Whether a joiner could be stitched in at `peer` now.
    ///
    /// Not while it has a joiner already, and not while the one that it watches is an anchor in
    /// the first phase: both would move the same watch.
    pub(crate) fn is_candidate(&self, peer: &PeerId) -> bool {
        let watches_an_anchor = || {
            let next = self.joins.get(self.successor(peer));
            let is_prepared = next.is_some_and(|join| join.phase == Phase::Prepared);
            is_prepared && !mutant::is_on(Mutant::WatcherTaken)
        };
        let is_busy = self.joins.contains(peer) && !mutant::is_on(Mutant::BusyCandidate);
        self.is_member(peer) && !is_busy && !watches_an_anchor()
    }

    /// The anchor of `joiner`, if its join is in `phase`.
    pub(crate) fn anchor_in(&self, joiner: &PeerId, phase: Phase) -> Result<PeerId, Rejected> {
        if self.is_member(joiner) {
            return Err(Rejected::AlreadyMember(joiner.clone()));
        }
        let Some(anchor) = self.anchors.get(joiner) else {
            return Err(Rejected::NotJoining(joiner.clone()));
        };
        match self.joins.get(anchor) {
            Some(join) if join.phase == phase => Ok(anchor.clone()),
            Some(_) | None => Err(Rejected::WrongPhase(joiner.clone())),
        }
    }

    pub(crate) fn begin_join(&mut self, anchor: &PeerId, joiner: &PeerId) {
        let join = Join { joiner: joiner.clone(), phase: Phase::Prepared };
        self.joins.insert(anchor.clone(), join);
        self.anchors.insert(joiner.clone(), anchor.clone());
        self.refresh_around(anchor);
    }

    pub(crate) fn advance_join(&mut self, anchor: &PeerId) {
        if let Some(join) = self.joins.get_mut(anchor) {
            join.phase = Phase::Accepted;
        }
        self.refresh_around(anchor);
    }

    /// Forgets the join at `anchor`, whether it succeeded or not.
    pub(crate) fn end_join(&mut self, anchor: &PeerId) {
        if let Some(join) = self.joins.remove(anchor) {
            self.anchors.remove(&join.joiner);
        }
        self.refresh_around(anchor);
    }

    /// Forgets every join that cannot go on without `peer`.
    pub(crate) fn forget_joins_through(&mut self, peer: &PeerId) {
        let as_joiner = self.anchors.get(peer).cloned();
        let as_watcher = match self.join_protocol() {
            // Its watcher was about to switch to the joiner; now somebody else watches the anchor.
            JoinProtocol::TwoPhase => Some(self.successor(peer).clone()),
            JoinProtocol::ThreePhase => None,
        };
        for anchor in [as_joiner, as_watcher, Some(peer.clone())].into_iter().flatten() {
            self.end_join(&anchor);
        }
    }

    /// Brings `free` up to date for `anchor` and for the one that watches it.
    fn refresh_around(&mut self, anchor: &PeerId) {
        let watcher = self.predecessor(anchor).clone();
        self.refresh_free(anchor);
        if watcher != *anchor {
            self.refresh_free(&watcher);
        }
    }

    pub(crate) fn refresh_free(&mut self, peer: &PeerId) {
        match (self.is_candidate(peer), self.free.contains(peer)) {
            (true, false) => _ = self.free.insert(peer.clone(), ()),
            (false, true) => _ = self.free.remove(peer),
            (true, true) | (false, false) => {}
        }
    }
}
