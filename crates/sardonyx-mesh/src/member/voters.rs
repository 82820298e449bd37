//! Changing who votes: one slot at a time, by an established leader, and only counted once enough
//! voters have kept it.

use std::collections::BTreeSet;

use super::{Held, Member, Role};
use crate::{
    address::{Address, NodeId},
    claim::{Claim, ClusterId, Version},
    kept::Recovery,
    message::{Message, Outgoing},
    moment::Moment,
    slots::Slots,
    view::{Row, Status},
};

#[derive(Clone, Debug)]
pub(super) struct SlotsRun {
    slots: Slots,
    acks: BTreeSet<Address>,
    pub(super) resend: Moment,
}

impl Member {
    pub(super) fn tick_voters(&mut self) {
        if !self.has_lease() {
            return;
        }
        let now = self.now;
        let Role::Leader(leading) = &self.role else { return };
        match &leading.slots_run {
            Some(run) if now >= run.resend => self.send_slots(),
            Some(_) => {}
            None => {
                if let Some(next) = self.next_slots() {
                    self.run_slots(next);
                }
            }
        }
    }

    /// The next change that is due: the end of a replacement, or a slot for a member without one.
    fn next_slots(&self) -> Option<Slots> {
        let Role::Leader(leading) = &self.role else { return None };
        let version = self.view.claim.as_ref()?.version;
        let slots = &leading.committed;
        if self.kept.slots.order() > slots.order() {
            // A predecessor left a change half done: it goes on as ours.
            let mut again = self.kept.slots.clone();
            (again.version, again.epoch) = (version, again.epoch.saturating_add(1));
            return Some(again);
        }
        if slots.replacing.is_some() {
            return slots.replaced(version);
        }
        let wants = |row: &&Row| {
            let address = &row.node.address;
            let is_listed = self.config.voters.as_ref().is_none_or(|it| it.contains(address));
            let is_here = row.status == Status::Active;
            is_here && !row.is_observer && is_listed && slots.slot_of(address).is_none()
        };
        let row = self.view.table.rows().find(wants)?;
        slots.with(version, &row.node)
    }

    fn run_slots(&mut self, slots: Slots) {
        let order = slots.order();
        self.kept.slots = slots.clone();
        self.saves.is_dirty = true;
        let resend = self.now;
        if let Role::Leader(leading) = &mut self.role {
            leading.slots_run = Some(SlotsRun { slots, acks: BTreeSet::new(), resend });
        }
        self.send_slots();
        let version = self.view.claim.as_ref().map_or(Version(0), |it| it.version);
        if self.may_pledge(version) {
            self.once_saved(Held::OwnSlots(order));
        }
    }

    fn send_slots(&mut self) {
        let resend = self.now + self.config.timers.heartbeat_interval;
        let (Some(claim), Some(cluster)) = (self.view.claim.clone(), self.kept.cluster) else {
            return;
        };
        let Role::Leader(leading) = &mut self.role else { return };
        let Some(run) = &mut leading.slots_run else { return };
        run.resend = resend;
        let slots = run.slots.clone();
        let voters: Vec<Address> = leading.committed.voters().cloned().collect();
        for to in voters {
            let (claim, slots) = (claim.clone(), slots.clone());
            self.send(&to, Message::SlotsChange { claim, cluster, slots, committed: false });
        }
    }

    pub(super) fn take_slots(
        &mut self,
        from: &NodeId,
        claim: &Claim,
        cluster: ClusterId,
        slots: Slots,
        committed: bool,
    ) {
        let is_ours = claim.leader == *from
            && self.kept.cluster == Some(cluster)
            && self
                .view
                .claim
                .as_ref()
                .is_some_and(|it| it.leader == claim.leader && it.version == claim.version);
        let Role::Follower(_) = &self.role else { return };
        if !is_ours {
            return;
        }
        let order = slots.order();
        if committed {
            if order > self.kept.slots.order() {
                self.note_own_slot(&slots);
                self.kept.slots = slots;
                self.saves.is_dirty = true;
            }
            return;
        }
        // Who has promised a later version has said so with the slots that it knew then.
        if !self.may_pledge(claim.version) || order < self.kept.slots.order() {
            return;
        }
        if order > self.kept.slots.order() {
            self.kept.slots = slots;
            self.saves.is_dirty = true;
        }
        let message = Message::SlotsChangeAck { version: claim.version, order };
        let (to, message) = self.wrapped(&from.address, message);
        self.once_saved(Held::Message(Box::new(Outgoing { to, message })));
    }

    /// Who takes another's slot may have voted in this cluster long ago, and not know.
    fn note_own_slot(&mut self, slots: &Slots) {
        let me = &self.me.address;
        let is_new = self.kept.slots.slot_of(me).is_none();
        let is_first = slots.slot_of(me).is_none_or(|slot| slot.is_first);
        if is_new && !is_first {
            self.kept.recovery = Recovery::Unknown;
        }
    }

    pub(super) fn take_slots_ack(
        &mut self,
        from: &Address,
        version: Version,
        order: (Version, u64),
    ) {
        let is_ours = self.view.claim.as_ref().is_some_and(|it| it.version == version);
        let (Some(claim), Some(cluster)) = (self.view.claim.clone(), self.kept.cluster) else {
            return;
        };
        let Role::Leader(leading) = &mut self.role else { return };
        let Some(run) = &mut leading.slots_run else { return };
        if !is_ours || run.slots.order() != order {
            return;
        }
        run.acks.insert(from.clone());
        if !leading.committed.is_quorum(&run.acks) {
            return;
        }
        let slots = run.slots.clone();
        leading.committed = slots.clone();
        leading.slots_run = None;
        for to in self.others() {
            let (claim, slots) = (claim.clone(), slots.clone());
            self.send(&to, Message::SlotsChange { claim, cluster, slots, committed: true });
        }
    }

    pub(super) fn replace_voter(&mut self, old: &Address, new: &Address) {
        let refused = self.why_not_replace(old, new);
        if refused.is_some() {
            self.out.refused = refused;
        }
    }

    fn why_not_replace(&mut self, old: &Address, new: &Address) -> Option<String> {
        let Role::Leader(leading) = &self.role else {
            let leader = self.view.claim.as_ref().map(|it| it.leader.address.to_string());
            let leader = leader.unwrap_or_else(|| "nobody".to_owned());
            return Some(format!("only the leader can do that, and that is {leader}"));
        };
        if !self.has_lease() {
            return Some("the leader is provisional: wait until it is established".to_owned());
        }
        if leading.slots_run.is_some() || leading.committed.replacing.is_some() {
            return Some("another change of voters is under way: try again".to_owned());
        }
        let row = self.view.table.get(new);
        let Some(row) = row.filter(|it| it.status == Status::Active && !it.is_observer) else {
            return Some(format!("{new} is not an active member that may vote"));
        };
        if old == &self.me.address {
            return Some("a leader cannot replace itself: transfer first".to_owned());
        }
        let version = self.view.claim.as_ref().map_or(Version(0), |it| it.version);
        let Some(next) = leading.committed.replace(version, old, &row.node) else {
            return Some(format!("{old} has no slot, or {new} has one already"));
        };
        // Who takes another's slot does not vote before the next version. Those who are left must be
        // enough to elect it.
        let faithful = self.faithful(&self.heard_voters(), version);
        if !next.replaced(version).is_some_and(|after| after.is_quorum(&faithful)) {
            let why = "too few voters would be left that may vote before the next election";
            return Some(format!("{why}: hand over first, or wait for one to come back"));
        }
        self.run_slots(next);
        None
    }
}
