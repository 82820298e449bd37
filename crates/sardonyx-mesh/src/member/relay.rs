//! Relays: a line between a follower and its leader that is cut, while both see others, is no reason
//! to suspect anybody.
//!
//! ```text
//!   follower ── Relay { to: leader, beat } ──► a member ── Relayed { origin: follower, beat } ──► leader
//!   follower ◄── Relayed { origin: leader, ack } ── the same one ◄── Relay { to: follower, ack } ── leader
//! ```
//!
//! A follower whose signs of life go unanswered sends them by way of a few others as well, before
//! anybody's patience is at an end. Answers go back the way that the question came. Nothing is carried
//! over more than one member, and only what belongs to a sign of life. The rules of leases do not
//! change: a token that made a detour is older when it comes back, and that is all that they look at.
//!
//! Since the leader's rule for silence is the same as without relays, the dead are noticed as soon.

use std::time::Duration;

use super::{Member, Role};
use crate::{
    address::{Address, NodeId},
    message::{Message, carried::Carried},
    view::Status,
};

/// How many others are asked to carry one sign of life.
pub(super) const RELAYS_MAX: usize = 3;

impl Member {
    /// Sends a sign of life by way of others as well, if those before it were not answered.
    pub(super) fn beat_by_relays(&mut self, to: &Address, beat: &Message) {
        let Role::Follower(following) = &self.role else { return };
        let is_late = self.now.since(following.last_ack) > self.relay_after();
        let last = following.relay.clone();
        // Who has given up its leader asks the others whom they hear; until then they can carry.
        if (!is_late && last.is_none()) || self.view.claim.is_none() {
            return;
        }
        let Some(carried) = Carried::of(beat).map(Box::new) else { return };
        // While one of them carries, the others need not.
        let relays = match last.filter(|_| !is_late) {
            Some(relay) => vec![relay],
            None => self.relays_to(to),
        };
        for relay in relays {
            self.send(&relay, Message::Relay { to: to.clone(), carried: carried.clone() });
        }
    }

    /// After how long without an ack others are asked to carry: one was missed, and there is time for
    /// another before the leader calls us unreachable.
    pub(super) fn relay_after(&self) -> Duration {
        self.config.timers.heartbeat_interval * 3 / 2
    }

    /// A few active members that are neither we nor `to`, others each time.
    fn relays_to(&mut self, to: &Address) -> Vec<Address> {
        let rows = self.view.table.rows().filter(|row| row.status == Status::Active);
        let addresses = rows.map(|row| &row.node.address);
        let mut all: Vec<Address> =
            addresses.filter(|it| *it != to && **it != self.me.address).cloned().collect();
        let mut chosen = Vec::new();
        while chosen.len() < RELAYS_MAX && !all.is_empty() {
            let at = self.rng.next() % all.len() as u64;
            chosen.push(all.swap_remove(usize::try_from(at).unwrap_or(0)));
        }
        chosen
    }

    /// Somebody asks us to carry something to a member whom it cannot reach.
    pub(super) fn carry(&mut self, from: &NodeId, to: &Address, carried: Box<Carried>) {
        let knows_both =
            self.view.table.row_of(from).is_some() && self.view.table.get(to).is_some();
        if knows_both && *to != from.address {
            self.send(to, Message::Relayed { origin: from.clone(), carried });
        }
    }

    /// Something came by way of another member. What we answer goes back by it.
    pub(super) fn take_carried(&mut self, by: &NodeId, origin: &NodeId, carried: Carried) {
        if origin.address == by.address || self.view.table.row_of(by).is_none() {
            return;
        }
        self.via = Some((origin.address.clone(), by.address.clone()));
        self.receive(origin, carried.open());
        self.via = None;
    }

    /// Wraps what goes back to somebody whose message was carried.
    pub(super) fn wrapped(&self, to: &Address, message: Message) -> (Address, Message) {
        match &self.via {
            Some((origin, relay)) if origin == to => match Carried::of(&message) {
                Some(carried) => {
                    let carried = Box::new(carried);
                    (relay.clone(), Message::Relay { to: to.clone(), carried })
                }
                None => (to.clone(), message),
            },
            Some(_) | None => (to.clone(), message),
        }
    }
}
