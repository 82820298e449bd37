//! The ring in which members look after each other.
//!
//! Law: from any of two or more members, going from watcher to watched passes everybody once and
//! ends where it began (`laws::ring_is_one_cycle`). A lone member watches nobody.
//!
//! A ring, because it needs no second opinion: a death has exactly one witness, and that witness
//! already knows who stands behind the dead.
//!
//! Elsewhere: the choice of who takes a joiner in (`command::prepare_join_cluster`), and the
//! watching itself, which is an effect.

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

    /// Takes `peer` out and ties its two neighbours together. Of a pair, one is left, and no ring.
    pub(crate) fn unstitch(&mut self, peer: &PeerId) {
        self.release(peer);
        self.plan.forget();
        let Some(member) = self.members.remove(peer) else { return };
        self.seats.remove(&member.seat);
        self.idle.remove(&member.seat);
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
        self.plan.forget();
        let seat = self.seats.last().map_or(0, |(last, _)| last + 1);
        self.seats.insert(seat, peer.clone());
        self.idle.insert(seat, ());
        self.members.insert(peer.clone(), Member { watches, watched_by, seat, slot: None });
    }
}
