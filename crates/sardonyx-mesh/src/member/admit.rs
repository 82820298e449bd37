//! Letting others in. Only a leader does; everybody else names the leader that it hears.

use super::{Member, Role, lead::Peer};
use crate::{
    address::NodeId,
    change::Reason,
    claim::Claim,
    kept::Recovery,
    message::{JoinAnswer, Message, Standing},
    view::{MEMBERS_MAX, Row, Status},
};

/// Who asks.
pub(super) struct Applicant {
    pub(super) name: String,
    pub(super) is_seed: bool,
    pub(super) is_observer: bool,
    pub(super) standing: Standing,
}

impl Member {
    pub(super) fn admit(&mut self, from: &NodeId, id: u64, applicant: Applicant) {
        let Role::Leader(_) = &self.role else {
            let named = self.heard_claim().filter(|it| it.leader.address != from.address);
            return self.answer_join(from, id, JoinAnswer::NotLeader(named));
        };
        if let Some(why) = self.why_refuse(from, &applicant) {
            return self.answer_join(from, id, JoinAnswer::Refused(why));
        }
        self.learn_from_applicant(&applicant.standing);
        let Role::Leader(_) = &self.role else {
            return self.answer_join(from, id, JoinAnswer::NotLeader(None));
        };
        self.let_in(from, applicant);
        if let Some(snapshot) = self.snapshot() {
            self.answer_join(from, id, JoinAnswer::Accepted(Box::new(snapshot)));
        }
    }

    fn answer_join(&mut self, from: &NodeId, id: u64, answer: JoinAnswer) {
        self.send(&from.address, Message::JoinClusterResponse { id, answer });
    }

    fn why_refuse(&self, from: &NodeId, applicant: &Applicant) -> Option<String> {
        if let (Some(ours), Some(theirs)) = (self.kept.cluster, applicant.standing.cluster)
            && ours != theirs
        {
            return Some(format!(
                "its store is of the cluster {theirs}, this is {ours}: check its seeds, or give it \
                 an empty store"
            ));
        }
        let known = self.view.table.get(&from.address);
        if let Some(row) = known
            && row.node.incarnation > from.incarnation
        {
            return Some("a newer process has its address".to_owned());
        }
        if known.is_none() && self.view.table.len() >= MEMBERS_MAX {
            return Some(format!("there are {MEMBERS_MAX} members, and there can be no more"));
        }
        None
    }

    /// A joiner may know more than we do: a cluster where we know none, a version after ours.
    fn learn_from_applicant(&mut self, standing: &Standing) {
        let Some(cluster) = standing.cluster else { return };
        let is_news = self.kept.cluster.is_none() || standing.established > self.kept.established;
        if !is_news {
            if standing.slots.order() > self.kept.slots.order() && !self.is_certified() {
                self.kept.slots = standing.slots.clone();
                self.saves.is_dirty = true;
                self.recommit();
            }
            return;
        }
        if self.is_certified() {
            // A quorum has elected somebody after us.
            return self.resign(None);
        }
        self.adopt_cluster(cluster, &standing.slots);
        if standing.slots.order() > self.kept.slots.order() {
            self.kept.slots = standing.slots.clone();
        }
        if let Some(certificate) = &standing.certificate {
            self.kept.certificate = Some((**certificate).clone());
        }
        self.kept.establish(standing.established);
        self.saves.is_dirty = true;
        self.contest = None;
        self.recommit();
        let version = self.kept.established.next();
        let claim = Claim { leader: self.me.clone(), version, certified: false };
        if self.view.claim.as_ref() != Some(&claim) {
            self.take_office(claim, Reason::NobodyLeads);
        }
    }

    fn recommit(&mut self) {
        let slots = self.kept.slots.clone();
        if let Role::Leader(leading) = &mut self.role {
            leading.committed = slots;
        }
    }

    pub(super) fn is_certified(&self) -> bool {
        let is_leader = matches!(self.role, Role::Leader(_));
        is_leader && self.view.claim.as_ref().is_some_and(|it| it.certified)
    }

    fn let_in(&mut self, from: &NodeId, applicant: Applicant) {
        let join_by = self.now + self.config.timers.join_deadline();
        let peer = Peer::new(self.now, join_by, applicant.standing.may_found);
        let known = self.view.table.get(&from.address).cloned();
        if let Some(old) = known.as_ref().filter(|row| row.node != *from) {
            self.remove(old, &Reason::Restarted);
        }
        if known.is_none_or(|row| row.node != *from) {
            let row = Row {
                node: from.clone(),
                name: applicant.name,
                is_seed: applicant.is_seed,
                is_observer: applicant.is_observer,
                status: Status::Joining,
            };
            self.change(row, Reason::Joined);
        }
        if let Role::Leader(leading) = &mut self.role {
            leading.peers.insert(from.address.clone(), peer);
        }
    }

    /// Belongs to a cluster from now on. If a former life of ours had a slot in it and our store is
    /// empty, its votes are lost.
    pub(super) fn adopt_cluster(
        &mut self,
        cluster: crate::claim::ClusterId,
        slots: &crate::slots::Slots,
    ) {
        if self.kept.cluster.is_some() {
            return;
        }
        let was_another_life = slots
            .slot_of(&self.me.address)
            .is_some_and(|slot| slot.bound_as != self.me.incarnation || !slot.is_first);
        if was_another_life && self.kept.is_pristine() {
            self.kept.recovery = Recovery::Unknown;
        }
        self.kept.cluster = Some(cluster);
        self.saves.is_dirty = true;
    }
}
