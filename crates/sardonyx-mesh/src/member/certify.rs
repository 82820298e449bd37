//! The outcome of an election: who was elected takes office, everybody else follows.

use super::{Member, Role};
use crate::{
    address::NodeId,
    change::Reason,
    kept::Recovery,
    message::Snapshot,
    mutant::{self, Mutant},
    vote::Certificate,
};

impl Member {
    /// Takes a certificate that is newer than what we know.
    pub(super) fn learn(&mut self, certificate: &Certificate) {
        if !certificate.is_valid() || certificate.version <= self.kept.established {
            return;
        }
        let cluster = certificate.value.cluster;
        match self.kept.cluster {
            Some(ours) if ours != cluster => return,
            Some(_) => {}
            None if self.concerns_us(certificate) => {
                self.adopt_cluster(cluster, &certificate.value.slots);
            }
            None => return,
        }
        let claim = certificate.claim();
        let by_itself = certificate.ballot.proposer == certificate.value.candidate;
        self.note(certificate);
        if self.is_me(&claim.leader) {
            return self.elected(certificate);
        }
        match &self.role {
            Role::Init(_) => self.hear_of(&claim),
            // The hole: the old leader hears of its successor and goes on.
            Role::Leader(_) if mutant::is_on(Mutant::H7) => {}
            Role::Leader(_) | Role::Follower(_) if claim.leader.address == self.me.address => {
                // A former life of ours was elected, and is not there to lead.
                self.reset(Reason::LeaderRestarted, None);
            }
            Role::Leader(_) | Role::Follower(_) => self.follow(claim, by_itself),
            Role::Stopped => {}
        }
    }

    /// Whether a cluster that was just founded is ours: we are one of its voters, or we follow the
    /// one that was elected or the one that asked for the votes, or are one of them. The two differ
    /// if a founder finds that an earlier one may have won.
    fn concerns_us(&self, certificate: &Certificate) -> bool {
        let has_slot = certificate.value.slots.slot_of(&self.me.address).is_some();
        let claim = self.view.claim.as_ref();
        let (candidate, proposer) = (&certificate.value.candidate, &certificate.ballot.proposer);
        let follows =
            |node: &NodeId| claim.is_some_and(|it| it.leader == *node) || self.is_me(node);
        has_slot || follows(candidate) || follows(proposer)
    }

    /// Keeps what a certificate proves.
    fn note(&mut self, certificate: &Certificate) {
        self.kept.establish(certificate.version);
        if certificate.value.slots.order() > self.kept.slots.order() {
            self.kept.slots = certificate.value.slots.clone();
        }
        self.kept.certificate = Some(certificate.clone());
        self.recover();
        self.saves.is_dirty = true;
        self.contest = None;
    }

    /// Lost votes no longer matter once a later version is established.
    fn recover(&mut self) {
        if let Recovery::UpTo(lost) = self.kept.recovery
            && self.kept.established >= lost
        {
            self.kept.recovery = Recovery::Intact;
        }
    }

    /// Keeps what a leader's snapshot says about the cluster.
    pub(super) fn learn_standing(&mut self, snapshot: &Snapshot) {
        let Some(cluster) = snapshot.cluster else { return };
        self.adopt_cluster(cluster, &snapshot.slots);
        let proof = snapshot.certificate.as_ref();
        if let Some(certificate) =
            proof.filter(|it| it.is_valid() && it.version > self.kept.established)
        {
            self.note(&certificate.clone());
        }
        if snapshot.established > self.kept.established {
            self.kept.establish(snapshot.established);
            self.recover();
            self.saves.is_dirty = true;
        }
        if snapshot.slots.order() > self.kept.slots.order() {
            self.kept.slots = snapshot.slots.clone();
            self.saves.is_dirty = true;
        }
    }

    fn elected(&mut self, certificate: &Certificate) {
        let claim = certificate.claim();
        let slots = certificate.value.slots.clone();
        let reason = Reason::Elected;
        let declines = self.declines(&slots);
        match &mut self.role {
            Role::Leader(leading)
                if self.view.of.as_ref().is_some_and(|(_, version)| *version == claim.version) =>
            {
                // The seed that led by itself was elected for what it claimed: the table goes on.
                leading.committed = slots;
                self.n_failures = 0;
                self.set_claim(Some(claim), reason);
            }
            Role::Leader(_) | Role::Follower(_) if declines => self.decline(&claim, &slots),
            Role::Leader(_) | Role::Follower(_) => {
                self.take_office(claim, reason);
                if let Role::Leader(leading) = &mut self.role {
                    leading.committed = slots;
                }
            }
            // Elected, but it has begun anew since: the next version is for somebody else.
            Role::Init(_) | Role::Stopped => {}
        }
    }
}
