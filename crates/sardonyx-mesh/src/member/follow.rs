//! Following: signs of life to the leader, its table copied, and what happens when it falls silent.

use super::{Member, Pledge, Role};
use crate::{
    address::{Address, Incarnation, NodeId},
    change::Reason,
    claim::{Claim, Version},
    kept::Recovery,
    message::{Lease, Message, NackReason, Snapshot},
    moment::Moment,
    view::{Row, Status, Step, Table},
};

#[derive(Clone, Debug)]
pub(super) struct Following {
    /// Whom we send signs of life to; also after we gave it up, until a better one is named.
    pub(super) target: Claim,
    /// The last ack of any kind.
    pub(super) last_ack: Moment,
    /// The last ack for which we would hold back our vote.
    pub(super) last_healthy: Moment,
    /// What the last ack said about the lease.
    pub(super) lease: Lease,
    /// Who carried the last ack to us, if it did not come by itself.
    pub(super) relay: Option<Address>,
    /// The last ack that came by itself.
    direct: Moment,
    next_beat: Moment,
    echo: Option<Moment>,
    /// A leader that somebody else announced must show itself by then.
    pub(super) assert_by: Option<Moment>,
}

impl Following {
    pub(super) fn new(now: Moment, target: Claim) -> Following {
        Following {
            target,
            last_ack: now,
            last_healthy: now,
            lease: Lease::Off,
            relay: None,
            direct: now,
            next_beat: now,
            echo: None,
            assert_by: None,
        }
    }
}

impl Member {
    pub(super) fn follower_deadlines(&self, into: &mut Vec<Moment>) {
        let Role::Follower(following) = &self.role else { return };
        let timers = self.config.timers;
        into.extend([
            following.next_beat,
            following.last_ack + timers.ttl_timeout,
            following.last_ack + timers.reset_after(),
            following.last_healthy + timers.ttl_timeout,
        ]);
        into.extend(following.assert_by);
    }

    /// The leader that this member would name to others: itself, or one that it heard lately.
    pub(super) fn heard_claim(&self) -> Option<Claim> {
        match &self.role {
            Role::Leader(_) => self.view.claim.clone(),
            Role::Follower(following) => {
                let silence = self.now.since(following.last_ack);
                let is_heard = silence < self.config.timers.ttl_timeout;
                self.view.claim.clone().filter(|_| is_heard)
            }
            Role::Init(_) | Role::Stopped => None,
        }
    }

    /// Whether this member hears a leader that a quorum stands behind.
    pub(super) fn is_healthy(&self) -> bool {
        match &self.role {
            Role::Leader(_) => self.has_lease(),
            Role::Follower(following) => {
                let silence = self.now.since(following.last_healthy);
                let certified = self.view.claim.as_ref().is_some_and(|it| it.certified);
                certified && silence < self.config.timers.ttl_timeout
            }
            Role::Init(_) | Role::Stopped => false,
        }
    }

    pub(super) fn tick_follower(&mut self) {
        let (now, timers) = (self.now, self.config.timers);
        let Role::Follower(following) = &self.role else { return };
        if now >= following.next_beat {
            self.beat();
        }
        let Role::Follower(following) = &self.role else { return };
        let silence = now.since(following.last_ack);
        let may_judge = now >= self.judges_from;
        let did_not_assert = following.assert_by.is_some_and(|by| now >= by);
        if may_judge && silence >= timers.reset_after() {
            let millis = millis(silence);
            return self.reset(Reason::LeaderSilent { millis }, None);
        }
        if may_judge && (silence >= timers.ttl_timeout || did_not_assert) {
            self.lose_leader(Reason::LeaderSilent { millis: millis(silence) });
        }
        self.tick_poll();
    }

    /// Gives up the leader. Signs of life go on, in case it comes back.
    pub(super) fn lose_leader(&mut self, reason: Reason) {
        let ttl = self.config.timers.ttl_timeout;
        let Role::Follower(following) = &mut self.role else { return };
        following.assert_by = None;
        following.echo = None;
        following.lease = Lease::Off;
        following.last_healthy = following.last_healthy.min(self.now - ttl);
        following.last_ack = following.last_ack.min(self.now - ttl);
        if self.kept.cluster.is_none() {
            // Nobody was ever elected here, and nobody can be.
            return self.reset(reason, None);
        }
        self.set_claim(None, reason);
    }

    /// A sign of life to the leader.
    pub(super) fn beat(&mut self) {
        self.beat_with(self.digest());
    }

    fn beat_with(&mut self, digest: u64) {
        let seq = self.view.table.seq;
        let interval = self.config.timers.heartbeat_interval;
        let established = self.kept.established;
        let mut promised = self.kept.promised_version();
        let slots = self.kept.slots.order();
        let now = self.now;
        let Role::Follower(following) = &mut self.role else { return };
        following.next_beat = now + interval;
        let Claim { leader, version, .. } = following.target.clone();
        let echo = following.echo;
        // Who may have forgotten what it promised counts like one that has moved on.
        if !self.may_pledge(version) {
            promised = promised.max(version.next());
        }
        let to = leader.address.clone();
        let beat = Message::LeaderKeepAlive {
            leader,
            version,
            digest,
            seq,
            echo,
            promised,
            established,
            slots,
        };
        self.beat_by_relays(&to, &beat);
        self.send(&to, beat);
    }

    fn digest(&self) -> u64 {
        let name = self.view.of.as_ref();
        name.map_or(0, |(leader, version)| self.view.table.digest_as(leader, *version))
    }

    pub(super) fn take_ack(
        &mut self,
        from: &NodeId,
        claim: &Claim,
        incarnation: Incarnation,
        token: Moment,
        lease: Lease,
    ) {
        let Role::Follower(following) = &self.role else { return };
        let expected = &following.target;
        let is_ours = *from == claim.leader
            && claim.leader == expected.leader
            && claim.version == expected.version
            && incarnation == self.me.incarnation;
        if !is_ours {
            return;
        }
        let may_pledge = self.may_pledge(claim.version);
        let is_voter = self.has_slot();
        let now = self.now;
        let relay = self.via.as_ref().map(|(_, relay)| relay.clone());
        let patience = self.relay_after();
        self.note_lease_for_recovery(claim, lease);
        let Role::Follower(following) = &mut self.role else { return };
        following.last_ack = now;
        if relay.is_none() {
            following.direct = now;
        }
        // What comes by itself needs nobody to carry it, also if a carried copy comes behind it.
        following.relay = relay.filter(|_| now.since(following.direct) > patience);
        following.assert_by = None;
        following.lease = lease;
        following.target = claim.clone();
        if lease != Lease::Off && claim.certified {
            // Who has moved on cannot hold back; for those who do not vote there is nothing to hold.
            if may_pledge {
                following.echo = Some(token);
                self.pledge_to(claim);
            }
            let Role::Follower(following) = &mut self.role else { return };
            if may_pledge || !is_voter || self.kept.recovery != Recovery::Intact {
                following.last_healthy = now;
                self.n_failures = 0;
                self.poll = None;
            }
        }
        self.set_claim(Some(claim.clone()), Reason::HeardAgain);
    }

    fn pledge_to(&mut self, claim: &Claim) {
        let until = self.now + self.config.timers.ttl_timeout;
        self.pledge = Some(Pledge { leader: claim.leader.clone(), version: claim.version, until });
    }

    /// A leader with a lease speaks: no newer version than the one after its own can have been voted
    /// on before now, so that is as far as lost votes can reach.
    fn note_lease_for_recovery(&mut self, claim: &Claim, lease: Lease) {
        if self.kept.recovery == Recovery::Unknown && lease == Lease::Held && self.has_slot() {
            self.kept.recovery = Recovery::UpTo(claim.version.next());
            self.saves.is_dirty = true;
        }
    }

    pub(super) fn take_nack(&mut self, from: &NodeId, incarnation: Incarnation, why: NackReason) {
        let Role::Follower(following) = &self.role else { return };
        let is_ours = from.address == following.target.leader.address;
        if !is_ours || incarnation != self.me.incarnation {
            return;
        }
        match why {
            NackReason::NotAMember { claim } if claim.leader == *from => {
                self.reset(Reason::NotAMember, Some(claim));
            }
            NackReason::NotAMember { .. } => {}
            NackReason::NotLeader { claim } => {
                let is_new_life = from.incarnation > following.target.leader.incarnation;
                let reason = match is_new_life {
                    true => Reason::LeaderRestarted,
                    false => Reason::Relieved { by: claim.clone() },
                };
                if self.view.claim.is_some() {
                    self.lose_leader(reason);
                }
                if let Some(claim) = claim {
                    self.try_target(claim);
                }
            }
        }
    }

    /// Somebody names a leader while we hear none: a sign of life goes there.
    pub(super) fn try_target(&mut self, claim: Claim) {
        if self.view.claim.is_some() || claim.leader.address == self.me.address {
            return;
        }
        let is_news = match &self.role {
            Role::Follower(following) => {
                let is_over = claim.version < self.kept.established;
                claim != following.target && !is_over && claim.certified
            }
            Role::Init(_) | Role::Leader(_) | Role::Stopped => false,
        };
        if !is_news {
            return;
        }
        let Role::Follower(following) = &mut self.role else { return };
        following.target = claim;
        self.beat();
    }

    pub(super) fn take_update(
        &mut self,
        from: &NodeId,
        claim: Claim,
        after: u64,
        steps: Vec<Step>,
    ) {
        if matches!(self.role, Role::Init(_)) {
            return self.keep_early(from, claim, after, steps);
        }
        if self.answers_stale(from, &claim) || !matches!(self.role, Role::Follower(_)) {
            return;
        }
        let is_ours = *from == claim.leader && self.is_table_of(&claim);
        if !is_ours {
            return;
        }
        if after > self.view.table.seq {
            // Something is missing in between: ask for the whole.
            return self.beat_with(0);
        }
        let known = self.view.table.seq - after;
        for step in steps.iter().skip(usize::try_from(known).unwrap_or(usize::MAX)) {
            self.apply_step(step);
        }
        if self.view.table.row_of(&self.me).is_none() {
            self.reset(Reason::NotAMember, Some(claim));
        }
    }

    fn is_table_of(&self, claim: &Claim) -> bool {
        let name = (claim.leader.clone(), claim.version);
        self.view.of.as_ref() == Some(&name)
            && self
                .view
                .claim
                .as_ref()
                .is_none_or(|it| it.leader == claim.leader && it.version == claim.version)
    }

    /// Tells somebody who speaks for a version that is over. Returns whether it was.
    pub(super) fn answers_stale(&mut self, from: &NodeId, claim: &Claim) -> bool {
        let Some(certificate) = self.kept.certificate.clone() else { return false };
        let is_stale = claim.version < certificate.version;
        if is_stale {
            self.send(&from.address, Message::LeaderElected(Box::new(certificate)));
        }
        is_stale
    }

    /// Takes one step of the table, and tells the user, through states that may follow each other.
    pub(super) fn apply_step(&mut self, step: &Step) {
        let before = self.view.table.get(&step.row.node.address).cloned();
        self.view.table.apply(step);
        self.tell_path(before.as_ref(), step);
    }

    fn tell_path(&mut self, before: Option<&Row>, step: &Step) {
        let same = before.filter(|it| it.node == step.row.node);
        if let (Some(old), None) = (before, same) {
            self.tell_exit(old, &Reason::Restarted);
        }
        let Some(old) = same else {
            if step.row.status != Status::Removed {
                self.tell_step(None, step);
            }
            return;
        };
        let mut from = old.status;
        for next in path(old.status, step.row.status) {
            let row = Row { status: next, ..step.row.clone() };
            let begins_anew = from == Status::Removed;
            let before = (!begins_anew).then_some(from);
            self.tell_step(before, &Step { row, reason: step.reason.clone() });
            from = next;
        }
    }

    fn tell_exit(&mut self, old: &Row, reason: &Reason) {
        let mut from = old.status;
        for status in [Status::Leaving, Status::Removed] {
            if from == status {
                continue;
            }
            let row = Row { status, ..old.clone() };
            self.tell_step(Some(from), &Step { row, reason: reason.clone() });
            from = status;
        }
    }

    pub(super) fn take_alignment(&mut self, from: &NodeId, snapshot: &Snapshot) {
        let Role::Follower(following) = &self.role else { return };
        let claim = &snapshot.claim;
        if claim.leader != *from || !self.fits_cluster(snapshot.cluster) {
            return;
        }
        let has_proof = snapshot.certificate.as_ref().is_some_and(|it| {
            it.is_valid() && it.version == claim.version && it.value.candidate == claim.leader
        });
        if claim.certified && !has_proof {
            return;
        }
        let target = following.target.clone();
        let is_same = claim.leader == target.leader && claim.version == target.version;
        let is_newer = claim.certified && claim.version > self.kept.established;
        let has_moved = claim.leader == target.leader && claim.version > target.version;
        let is_over = claim.version < self.kept.established
            || (!claim.certified && claim.version == self.kept.established);
        if is_over || !(is_same || is_newer || has_moved) {
            return;
        }
        let is_older = self.is_table_of(claim) && snapshot.table.seq < self.view.table.seq;
        if is_older {
            return;
        }
        if snapshot.table.row_of(&self.me).is_none() {
            return self.reset(Reason::NotAMember, Some(claim.clone()));
        }
        let claim = claim.clone();
        self.learn_standing(snapshot);
        // Learning may have made us follow somebody else, or lead.
        let Role::Follower(following) = &mut self.role else { return };
        following.target = claim.clone();
        if !is_same {
            following.last_ack = self.now;
            following.last_healthy = self.now;
        }
        let was_lost = self.view.claim.is_none() && is_same;
        if !was_lost {
            self.set_claim(Some(claim), Reason::InSnapshot);
        }
        self.install(snapshot);
        if was_lost || !is_same {
            self.beat();
        }
    }

    /// Takes a leader's table for our own, and tells the user what is different.
    pub(super) fn install(&mut self, snapshot: &Snapshot) {
        let old = std::mem::take(&mut self.view.table);
        let Snapshot { claim, table, .. } = snapshot;
        self.view.of = Some((claim.leader.clone(), claim.version));
        self.view.table = table.clone();
        for row in old.rows() {
            if table.get(&row.node.address).is_none() {
                self.tell_exit(row, &Reason::NotInSnapshot);
            }
        }
        let rows: Vec<Row> = table.rows().cloned().collect();
        for row in rows {
            let before = old.get(&row.node.address).cloned();
            let step = Step { row, reason: Reason::InSnapshot };
            self.tell_path(before.as_ref(), &step);
        }
    }

    /// Begins to follow a leader that a quorum elected. The table stays as it is until it is
    /// aligned.
    pub(super) fn follow(&mut self, claim: Claim, announced_by_itself: bool) {
        let mut following = Following::new(self.now, claim.clone());
        if !announced_by_itself {
            let interval = self.config.timers.heartbeat_interval;
            following.assert_by = Some(self.now + interval);
        }
        self.role = Role::Follower(following);
        // Who has handed over in order to leave says goodbye to the successor at once.
        if let Some(departing) = &mut self.departing {
            departing.next = self.now;
        }
        self.poll = None;
        self.contest = None;
        self.n_failures = 0;
        self.next_try = self.now;
        self.set_claim(Some(claim), Reason::Elected);
        self.beat();
    }
}

impl Table {
    fn digest_as(&self, leader: &NodeId, version: Version) -> u64 {
        let claim = Claim { leader: leader.clone(), version, certified: true };
        self.digest(Some(&claim))
    }
}

/// The states between two that a user may see, the last included.
fn path(from: Status, to: Status) -> Vec<Status> {
    use Status::{Active, Joining, Leaving, Removed, Unreachable};
    match (from, to) {
        _ if from == to => vec![],
        _ if Status::may_follow(Some(from), to) => vec![to],
        (Joining, Unreachable) => vec![Active, Unreachable],
        (Joining | Active | Unreachable, Removed) => vec![Leaving, Removed],
        (Active | Unreachable, Joining) => vec![Leaving, Removed, Joining],
        (Leaving, _) => vec![Removed, to],
        _ => vec![to],
    }
}

pub(super) fn millis(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_is_a_legal_walk() {
        use Status::{Active, Joining, Leaving, Removed, Unreachable};
        let all = [Joining, Active, Unreachable, Leaving, Removed];
        for from in [Joining, Active, Unreachable, Leaving] {
            for to in all {
                let mut at = Some(from);
                for next in path(from, to) {
                    assert!(Status::may_follow(at, next), "{from} to {to} by {next}");
                    at = if next == Removed { None } else { Some(next) };
                }
                let end = if to == Removed { None } else { Some(to) };
                assert_eq!(at, end, "{from} to {to}");
            }
        }
    }
}
