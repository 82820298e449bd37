//! Planned exits: leaving, and handing the office over.

use std::collections::BTreeSet;

use super::{Member, Role};
use crate::{
    address::{Address, NodeId},
    change::Reason,
    claim::Claim,
    message::{Message, Release},
    moment::Moment,
    slots::Slots,
    view::{Row, Status},
};

#[derive(Clone, Debug)]
pub(super) struct Departing {
    pub(super) next: Moment,
    pub(super) give_up: Moment,
}

impl Member {
    pub(super) fn leave(&mut self) {
        if self.departing.is_none() && !matches!(self.role, Role::Stopped) {
            let give_up = self.now + self.config.timers.ttl_timeout;
            self.departing = Some(Departing { next: self.now, give_up });
            if let Role::Follower(_) = &self.role {
                // Whoever asked for an office before it decided to go does not want it any more.
                self.contest = None;
            }
        }
    }

    pub(super) fn tick_departing(&mut self) {
        let Some(departing) = &mut self.departing else { return };
        let is_over = self.now >= departing.give_up;
        if self.now < departing.next && !is_over {
            return;
        }
        departing.next = self.now + self.config.timers.retry_interval;
        match &self.role {
            Role::Init(_) | Role::Stopped => self.stop(),
            Role::Follower(_) if is_over => self.stop(),
            Role::Follower(following) => {
                let to = following.target.leader.address.clone();
                self.send(&to, Message::Leave);
            }
            Role::Leader(_) => self.leave_office(is_over),
        }
    }

    /// Hands over if there is somebody to hand over to; the rest begin anew.
    fn leave_office(&mut self, is_over: bool) {
        let successor = self.successor();
        match successor {
            Some(to) if !is_over && self.is_certified() => {
                let Role::Leader(leading) = &self.role else { return };
                if !leading.released {
                    self.hand_over(&to);
                }
            }
            Some(_) | None => {
                self.resign(None);
                self.stop();
            }
        }
    }

    /// Whether it is no use to take an office that was just won: we are about to go, and there is no time
    /// or nobody to hand it over. Votes that were on their way when we decided to leave can still
    /// elect us, and so can another that repeats our proposal.
    pub(super) fn declines(&self, slots: &Slots) -> bool {
        let Some(departing) = &self.departing else { return false };
        let may_succeed = |row: &Row| {
            row.node.address != self.me.address
                && row.status == Status::Active
                && slots.slot_of(&row.node.address).is_some()
        };
        self.now >= departing.give_up || !self.view.table.rows().any(may_succeed)
    }

    /// Says that nobody should wait for us, and goes. No table is made for a moment: it could reach others
    /// after the news that it is gone, and they would keep it.
    pub(super) fn decline(&mut self, claim: &Claim, slots: &Slots) {
        let mut all: BTreeSet<Address> = slots.voters().cloned().collect();
        all.extend(self.others());
        for to in all {
            self.send(&to, Message::ReJoinCluster { loser: claim.clone(), winner: None });
        }
        // If we led an earlier version: its followers begin anew too.
        self.resign(None);
        self.stop();
    }

    /// The voter that was heard last, of those that are active.
    fn successor(&self) -> Option<Address> {
        let Role::Leader(leading) = &self.role else { return None };
        let candidates = leading.peers.iter().filter(|(address, _)| {
            let row = self.view.table.get(address);
            let is_active = row.is_some_and(|it| it.status == Status::Active);
            is_active && leading.committed.slot_of(address).is_some()
        });
        let best = candidates.max_by_key(|(address, peer)| (peer.heard, (*address).clone()));
        best.map(|(address, _)| address.clone())
    }

    /// A member says goodbye.
    pub(super) fn let_go(&mut self, from: &NodeId) {
        let Role::Leader(_) = &self.role else { return };
        if let Some(row) = self.view.table.row_of(from).cloned() {
            self.remove(&row, &Reason::Left);
        }
        self.send(&from.address, Message::LeaveAck);
    }

    pub(super) fn take_leave_ack(&mut self, from: &NodeId) {
        let Role::Follower(following) = &self.role else { return };
        if self.departing.is_some() && following.target.leader == *from {
            self.stop();
        }
    }

    pub(super) fn transfer(&mut self, to: &Address) {
        let refused = self.why_not_transfer(to);
        match refused {
            Some(why) => self.out.refused = Some(why),
            None => self.hand_over(to),
        }
    }

    fn why_not_transfer(&self, to: &Address) -> Option<String> {
        let Role::Leader(leading) = &self.role else {
            let leader = self.view.claim.as_ref().map(|it| it.leader.address.to_string());
            let leader = leader.unwrap_or_else(|| "nobody".to_owned());
            return Some(format!("only the leader can hand over, and that is {leader}"));
        };
        if *to == self.me.address {
            return Some(format!("{to} leads already"));
        }
        if !self.has_lease() {
            return Some("the leader is provisional: there is nothing to hand over".to_owned());
        }
        let is_active = self.view.table.get(to).is_some_and(|it| it.status == Status::Active);
        if !is_active || leading.committed.slot_of(to).is_none() {
            return Some(format!("{to} is not an active voter"));
        }
        None
    }

    /// Gives up the lease for good and asks `to` to be elected. The table is kept until it is.
    fn hand_over(&mut self, to: &Address) {
        let Some(claim) = self.view.claim.clone() else { return };
        let Role::Leader(leading) = &mut self.role else { return };
        leading.released = true;
        // If nothing comes of it, we ask for ourselves.
        self.next_try = self.now + self.config.timers.heartbeat_timeout;
        let release = Release { leader: claim.leader, version: claim.version };
        self.send(to, Message::TransferLeadership(release));
    }

    pub(super) fn take_over(&mut self, from: &NodeId, release: Release) {
        let is_ours = self.view.claim.as_ref().is_some_and(|it| {
            it.leader == *from && it.leader == release.leader && it.version == release.version
        });
        let Role::Follower(_) = &self.role else { return };
        if is_ours && self.has_slot() && self.departing.is_none() {
            self.poll = None;
            self.open_contest(Some(release), None);
        }
    }
}
