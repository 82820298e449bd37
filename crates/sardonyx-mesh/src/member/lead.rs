//! Leading: one table, its steps in order to everybody, and an ear for every follower.

use std::{collections::BTreeMap, time::Duration};

use super::{Member, Role, follow::millis, voters::SlotsRun};
use crate::{
    address::{Address, NodeId},
    change::Reason,
    claim::{Claim, Version},
    message::{Message, NackReason, Snapshot},
    moment::Moment,
    slots::Slots,
    view::{Row, Status, Step},
};

/// Steps that follow each other within this time go out together.
const BUNDLE: Duration = Duration::from_millis(10);

#[derive(Clone, Debug)]
pub(super) struct Leading {
    pub(super) peers: BTreeMap<Address, Peer>,
    /// The newest token that each voter echoed.
    pub(super) tokens: BTreeMap<Address, Moment>,
    /// Who votes, as far as enough voters have kept it.
    pub(super) committed: Slots,
    pub(super) slots_run: Option<SlotsRun>,
    /// Whether the lease was given up for good.
    pub(super) released: bool,
    pub(super) held_lease: bool,
    next_seed_beat: Moment,
    unsent: Vec<Step>,
    flushed: Moment,
}

/// What the leader remembers of a follower, beside its row.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    pub(super) heard: Moment,
    /// The newest version that it promised to somebody.
    pub(super) promised: Version,
    /// Whether it may help to found a cluster.
    pub(super) may_found: bool,
    /// When it must have shown that it knows that it is in.
    join_by: Moment,
}

impl Peer {
    pub(super) fn new(now: Moment, join_by: Moment, may_found: bool) -> Peer {
        Peer { heard: now, promised: Version(0), may_found, join_by }
    }
}

/// What a sign of life says.
pub(super) struct Beat {
    pub(super) leader: NodeId,
    pub(super) version: Version,
    pub(super) digest: u64,
    pub(super) seq: u64,
    pub(super) echo: Option<Moment>,
    pub(super) promised: Version,
    pub(super) established: Version,
    pub(super) slots: (Version, u64),
}

impl Member {
    pub(super) fn leader_deadlines(&self, into: &mut Vec<Moment>) {
        let Role::Leader(leading) = &self.role else { return };
        let timers = self.config.timers;
        into.push(leading.next_seed_beat);
        into.extend(self.lease_end());
        if !leading.unsent.is_empty() {
            into.push(leading.flushed + BUNDLE);
        }
        into.extend(leading.slots_run.as_ref().map(|it| it.resend));
        for (address, peer) in &leading.peers {
            let status = self.view.table.get(address).map(|row| row.status);
            into.push(match status {
                Some(Status::Joining) => peer.join_by,
                Some(Status::Active) => peer.heard + timers.heartbeat_timeout,
                Some(Status::Unreachable) => peer.heard + timers.ttl_timeout,
                Some(Status::Leaving | Status::Removed) | None => continue,
            });
        }
    }

    /// Leads from now on, with the table as it is.
    pub(super) fn take_office(&mut self, claim: Claim, reason: Reason) {
        let (now, timers) = (self.now, self.config.timers);
        self.view.of = Some((self.me.clone(), claim.version));
        self.last_step += 1;
        self.view.table.seq = self.last_step;
        let others = self.view.table.rows().filter(|row| row.node.address != self.me.address);
        let join_by = now + timers.join_deadline();
        let peer = |row: &Row| (row.node.address.clone(), Peer::new(now, join_by, false));
        let leading = Leading {
            peers: others.map(peer).collect(),
            tokens: BTreeMap::new(),
            committed: self.kept.slots.clone(),
            slots_run: None,
            released: false,
            held_lease: false,
            next_seed_beat: now,
            unsent: Vec::new(),
            flushed: now - BUNDLE,
        };
        self.role = Role::Leader(Box::new(leading));
        self.poll = None;
        self.contest = None;
        self.n_failures = 0;
        self.next_try = now;
        self.set_claim(Some(claim), reason);
        self.tidy_table();
        self.align_everybody();
    }

    /// What a predecessor left half done, and our own row.
    fn tidy_table(&mut self) {
        let me = Row {
            node: self.me.clone(),
            name: self.config.name.clone(),
            is_seed: self.config.is_seed(),
            is_observer: self.config.observer,
            status: Status::Joining,
        };
        let own = self.view.table.row_of(&self.me).map(|row| row.status);
        if own.is_none() {
            self.change(me.clone(), Reason::Joined);
        }
        if own != Some(Status::Active) {
            self.change(Row { status: Status::Active, ..me }, Reason::Initialised);
        }
        let leaving: Vec<Row> =
            self.view.table.rows().filter(|row| row.status == Status::Leaving).cloned().collect();
        for row in leaving {
            self.change(Row { status: Status::Removed, ..row }, Reason::Left);
        }
    }

    /// Hands the whole table to every member, because its name is new.
    pub(super) fn align_everybody(&mut self) {
        if let Role::Leader(leading) = &mut self.role {
            leading.unsent.clear();
        }
        let Some(snapshot) = self.snapshot() else { return };
        let others: Vec<Address> = self.others();
        for to in others {
            self.send(&to, Message::ClusterAlignment(Box::new(snapshot.clone())));
        }
    }

    pub(super) fn others(&self) -> Vec<Address> {
        let rows = self.view.table.rows().map(|row| &row.node.address);
        rows.filter(|it| **it != self.me.address).cloned().collect()
    }

    pub(super) fn snapshot(&self) -> Option<Snapshot> {
        let Role::Leader(leading) = &self.role else { return None };
        let claim = self.view.claim.clone()?;
        let certificate = self.kept.certificate.clone().filter(|_| claim.certified);
        Some(Snapshot {
            cluster: self.kept.cluster,
            certificate,
            established: self.kept.established,
            slots: leading.committed.clone(),
            table: self.view.table.clone(),
            claim,
        })
    }

    /// The leader's own step of the table.
    pub(super) fn change(&mut self, row: Row, reason: Reason) {
        let step = Step { row, reason };
        self.apply_step(&step);
        if let Role::Leader(leading) = &mut self.role {
            if step.row.status == Status::Removed {
                leading.peers.remove(&step.row.node.address);
            }
            leading.unsent.push(step);
            self.last_step = self.view.table.seq;
        }
    }

    /// Sends the steps that wait, unless some went out a moment ago.
    pub(super) fn flush_steps(&mut self) {
        let now = self.now;
        let seq = self.view.table.seq;
        let Some(claim) = self.view.claim.clone() else { return };
        let Role::Leader(leading) = &mut self.role else { return };
        if leading.unsent.is_empty() || now < leading.flushed + BUNDLE {
            return;
        }
        leading.flushed = now;
        let steps = std::mem::take(&mut leading.unsent);
        let after = seq - steps.len() as u64;
        for to in self.others() {
            let update =
                Message::MemberStatusUpdate { claim: claim.clone(), after, steps: steps.clone() };
            self.send(&to, update);
        }
    }

    pub(super) fn tick_leader(&mut self) {
        let now = self.now;
        let interval = self.config.timers.heartbeat_interval;
        let Role::Leader(leading) = &mut self.role else { return };
        if now >= leading.next_seed_beat {
            leading.next_seed_beat = now + interval;
            self.beat_seeds();
        }
        if now >= self.judges_from {
            self.judge_silence();
        }
        self.tick_voters();
        self.run_for_office();
    }

    fn beat_seeds(&mut self) {
        let Some(claim) = self.view.claim.clone() else { return };
        let cluster = self.kept.cluster;
        for seed in self.config.seeds.clone() {
            self.send(&seed, Message::SeedKeepAlive { claim: claim.clone(), cluster });
        }
    }

    fn judge_silence(&mut self) {
        let (now, timers) = (self.now, self.config.timers);
        let Role::Leader(leading) = &self.role else { return };
        let mut due = Vec::new();
        for (address, peer) in &leading.peers {
            let Some(row) = self.view.table.get(address) else { continue };
            let silence = now.since(peer.heard);
            let silent = Reason::Silent { millis: millis(silence) };
            match row.status {
                Status::Joining if now >= peer.join_by => {
                    due.push((row.clone(), Status::Removed, Reason::JoinTimedOut));
                }
                Status::Active if silence >= timers.heartbeat_timeout => {
                    due.push((row.clone(), Status::Unreachable, silent));
                }
                Status::Unreachable if silence >= timers.ttl_timeout => {
                    due.push((row.clone(), Status::Removed, silent));
                }
                Status::Joining
                | Status::Active
                | Status::Unreachable
                | Status::Leaving
                | Status::Removed => {}
            }
        }
        for (row, status, reason) in due {
            match status {
                Status::Removed => self.remove(&row, &reason),
                Status::Joining | Status::Active | Status::Unreachable | Status::Leaving => {
                    self.change(Row { status, ..row }, reason);
                }
            }
        }
    }

    /// Leaving and removed, in one go.
    pub(super) fn remove(&mut self, row: &Row, reason: &Reason) {
        for status in [Status::Leaving, Status::Removed] {
            self.change(Row { status, ..row.clone() }, reason.clone());
        }
    }

    pub(super) fn take_beat(&mut self, from: &NodeId, beat: &Beat) {
        let incarnation = from.incarnation;
        let Role::Leader(_) = &self.role else {
            let claim = self.heard_claim();
            let why = NackReason::NotLeader { claim };
            return self.send(&from.address, Message::LeaderKeepAliveNack { incarnation, why });
        };
        let Some(claim) = self.view.claim.clone() else { return };
        if beat.leader != self.me {
            let why = NackReason::NotLeader { claim: Some(claim) };
            return self.send(&from.address, Message::LeaderKeepAliveNack { incarnation, why });
        }
        if beat.established > self.kept.established {
            // It knows of a leader after us. Whoever that is, it is not us.
            return self.resign(None);
        }
        let Some(row) = self.view.table.row_of(from).cloned() else {
            let why = NackReason::NotAMember { claim };
            return self.send(&from.address, Message::LeaderKeepAliveNack { incarnation, why });
        };
        self.hear(from, beat, &claim);
        match row.status {
            Status::Joining => {
                self.change(Row { status: Status::Active, ..row }, Reason::Initialised);
            }
            Status::Unreachable => {
                self.change(Row { status: Status::Active, ..row }, Reason::HeardAgain);
            }
            Status::Active | Status::Leaving | Status::Removed => {}
        }
        self.answer_beat(from, beat, claim);
    }

    fn hear(&mut self, from: &NodeId, beat: &Beat, claim: &Claim) {
        let now = self.now;
        let Role::Leader(leading) = &mut self.role else { return };
        if let Some(peer) = leading.peers.get_mut(&from.address) {
            peer.heard = now;
            peer.promised = beat.promised;
        }
        if let Some(echo) = beat.echo.filter(|it| beat.version == claim.version && *it <= now) {
            let token = leading.tokens.entry(from.address.clone()).or_insert(echo);
            *token = (*token).max(echo);
        }
    }

    fn answer_beat(&mut self, from: &NodeId, beat: &Beat, claim: Claim) {
        let lease = self.lease_to_ask();
        let (token, incarnation) = (self.now, from.incarnation);
        let is_same =
            beat.version == claim.version && beat.digest == self.view.table.digest(Some(&claim));
        let Role::Leader(leading) = &self.role else { return };
        // What was sent a moment ago may be on its way, and would make it the same.
        let may_catch_up = beat.version == claim.version
            && beat.digest != 0
            && beat.seq < self.view.table.seq
            && self.now.since(leading.flushed) < self.config.timers.heartbeat_interval / 2;
        let is_behind = !is_same && !may_catch_up;
        let slots = leading.committed.clone();
        if is_behind && let Some(snapshot) = self.snapshot() {
            self.send(&from.address, Message::ClusterAlignment(Box::new(snapshot)));
        }
        if beat.established < self.kept.established
            && let Some(certificate) = self.kept.certificate.clone()
        {
            self.send(&from.address, Message::LeaderElected(Box::new(certificate)));
        }
        if let Some(cluster) = self.kept.cluster
            && beat.slots < slots.order()
            && claim.certified
        {
            let claim = claim.clone();
            let change = Message::SlotsChange { claim, cluster, slots, committed: true };
            self.send(&from.address, change);
        }
        let ack = Message::LeaderKeepAliveAck { claim, incarnation, token, lease };
        self.send(&from.address, ack);
    }
}
