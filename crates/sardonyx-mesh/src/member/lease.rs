//! The lease: what a leadership is worth at this moment.
//!
//! A voter that hears an ack with a token promises to elect nobody of a later version for
//! `ttl-timeout` on its own clock, and echoes the token. The promise begins after the token was
//! made, so from the M-th newest token on the leader can count: for `ttl-timeout` shortened by the
//! error of both clocks no quorum can elect anybody else, however long the messages took. Clocks
//! may disagree about the time as much as they like; only their speed must be right to 5 %.

use std::collections::BTreeSet;

use super::{Member, Role};
use crate::{
    address::Address,
    change::{Change, Reason},
    claim::{FencingToken, Version},
    kept::Recovery,
    message::Lease,
    moment::Moment,
    mutant::{self, Mutant},
};

impl Member {
    /// Whether this member's word to hold back for `version` is worth something: it votes, it has
    /// not moved on to a later version, and it cannot have forgotten that it did.
    pub(super) fn may_pledge(&self, version: Version) -> bool {
        let remembers = match self.kept.recovery {
            Recovery::Intact => true,
            Recovery::Unknown => false,
            Recovery::UpTo(lost) => version >= lost,
        };
        self.has_slot() && remembers && self.kept.promised_version() <= version
    }

    /// When the lease ends or ended; `None` if there was none.
    pub(super) fn lease_end(&self) -> Option<Moment> {
        let Role::Leader(leading) = &self.role else { return None };
        let claim = self.view.claim.as_ref()?;
        if !claim.certified || leading.released {
            return None;
        }
        if mutant::is_on(Mutant::H9) {
            return Some(self.now + self.config.timers.ttl_timeout);
        }
        let mut tokens: Vec<(Moment, &Address)> =
            leading.tokens.iter().map(|(address, token)| (*token, address)).collect();
        if self.may_pledge(claim.version) {
            tokens.push((self.now, &self.me.address));
        }
        tokens.sort_by(|one, other| other.cmp(one));
        let mut voters = BTreeSet::new();
        for (token, voter) in tokens {
            voters.insert(voter.clone());
            if self.kept.slots.is_quorum(&voters) {
                return Some(token + self.config.timers.lease());
            }
        }
        None
    }

    /// Whether a quorum holds back for us right now.
    pub(super) fn has_lease(&self) -> bool {
        self.lease_end().is_some_and(|end| self.now < end)
    }

    /// The token, while this member is the established leader and its lease is valid.
    pub fn token(&self, now: Moment) -> Option<FencingToken> {
        let claim = self.view.claim.as_ref()?;
        let is_shown = !claim.certified && mutant::is_on(Mutant::UnelectedToken);
        let valid_until = match is_shown && matches!(self.role, Role::Leader(_)) {
            true => now + self.config.timers.ttl_timeout,
            false => self.lease_end().filter(|end| now < *end)?,
        };
        let version = claim.version;
        Some(FencingToken { cluster: self.kept.cluster?, version, valid_until })
    }

    /// What an ack asks of a voter.
    pub(super) fn lease_to_ask(&self) -> Lease {
        let Role::Leader(leading) = &self.role else { return Lease::Off };
        let is_certified = self.view.claim.as_ref().is_some_and(|it| it.certified);
        if !is_certified || leading.released || !self.hears_quorum() {
            return Lease::Off;
        }
        match self.lease_end() {
            Some(end) if self.now < end => Lease::Held,
            Some(_) | None => Lease::Wanted,
        }
    }

    /// The voters that were heard within `heartbeat-timeout`, this one included.
    pub(super) fn heard_voters(&self) -> BTreeSet<Address> {
        let Role::Leader(leading) = &self.role else { return BTreeSet::new() };
        let timeout = self.config.timers.heartbeat_timeout;
        let is_fresh = |heard: Moment| self.now.since(heard) < timeout;
        let peers = leading.peers.iter().filter(|(_, peer)| is_fresh(peer.heard));
        let mut heard: BTreeSet<Address> = peers.map(|(address, _)| address.clone()).collect();
        heard.insert(self.me.address.clone());
        heard
    }

    fn hears_quorum(&self) -> bool {
        self.kept.slots.is_quorum(&self.heard_voters())
    }

    /// Tells the user when the lease came or went.
    pub(super) fn note_lease(&mut self) {
        let holds = self.has_lease();
        let version = self.view.claim.as_ref().map_or(Version(0), |it| it.version);
        let Role::Leader(leading) = &mut self.role else { return };
        if leading.held_lease == holds {
            return;
        }
        leading.held_lease = holds;
        let reason = match (holds, leading.released) {
            (true, _) => Reason::LeaseGained,
            (false, true) => Reason::Transferred,
            (false, false) => Reason::LeaseLost,
        };
        self.tell(Change::Lease { held: holds, version, reason });
    }
}
