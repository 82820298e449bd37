//! The ring: every member watches exactly one other, and is watched by exactly one.
//!
//! Law: with two or more members, following `watches` from any of them visits all of them once
//! and comes back (`laws::ring_is_one_cycle`). A cluster of one has no pairs.
//!
//! Why a ring: when a peer dies, one survivor knows it, and the same survivor knows whom to watch
//! next, without asking anyone.
//!
//! Not here: who stitches a joiner in (`command::prepare_join_cluster`), and actually watching
//! anybody, which is an effect.

use super::{Member, Replica};
use crate::id::PeerId;

impl Replica {
    /// Whom `peer` watches, or itself in a cluster of one.
    pub(crate) fn successor<'a>(&'a self, peer: &'a PeerId) -> &'a PeerId {
        let member = self.members.get(peer);
        member.and_then(|member| member.watches.as_ref()).unwrap_or(peer)
    }

    /// Who watches `peer`, or itself in a cluster of one.
    pub(crate) fn predecessor<'a>(&'a self, peer: &'a PeerId) -> &'a PeerId {
        let member = self.members.get(peer);
        member.and_then(|member| member.watched_by.as_ref()).unwrap_or(peer)
    }

    /// Adds the first member, which watches nobody.
    pub(crate) fn found(&mut self, peer: &PeerId) {
        self.seat(peer, None, None);
        self.refresh_free(peer);
    }

    /// Puts `joiner` between `watcher` and whom `watcher` watches.
    pub(crate) fn stitch(&mut self, watcher: &PeerId, joiner: &PeerId) {
        let target = self.successor(watcher).clone();
        if let Some(member) = self.members.get_mut(watcher) {
            member.watches = Some(joiner.clone());
        }
        if let Some(member) = self.members.get_mut(&target) {
            member.watched_by = Some(joiner.clone());
        }
        self.seat(joiner, Some(target), Some(watcher.clone()));
        self.refresh_free(joiner);
        self.refresh_free(watcher);
    }

    /// Takes `peer` out and closes the gap: whoever watched it now watches whom it watched. When
    /// the last pair breaks, the ring is empty.
    pub(crate) fn unstitch(&mut self, peer: &PeerId) {
        let Some(member) = self.members.remove(peer) else { return };
        self.seats.remove(&member.seat);
        self.free.remove(peer);
        let (Some(before), Some(after)) = (member.watched_by, member.watches) else { return };
        let pair_is_left = before != after;
        if let Some(member) = self.members.get_mut(&before) {
            member.watches = pair_is_left.then(|| after.clone());
        }
        if let Some(member) = self.members.get_mut(&after) {
            member.watched_by = pair_is_left.then(|| before.clone());
        }
        self.refresh_free(&before);
    }

    /// Gives `peer` the last place in the join order.
    fn seat(&mut self, peer: &PeerId, watches: Option<PeerId>, watched_by: Option<PeerId>) {
        let seat = self.seats.last().map_or(0, |(last, _)| last + 1);
        self.seats.insert(seat, peer.clone());
        self.members.insert(peer.clone(), Member { watches, watched_by, seat });
    }
}
