//! Voting. A yes is said only after it is on the disk.

use super::{Held, Member, Pledge, Role};
use crate::{
    kept::Recovery,
    message::{Message, Outgoing, Proposal, Release},
    vote::{Ballot, Refusal, Stage, Value},
};

/// How many versions may be open at once. Each proposal is for the version after one that is
/// established, so there are never many.
pub(crate) const OPEN_VERSIONS_MAX: usize = 64;

pub(super) type Accepted = Option<Box<(Ballot, Value)>>;

impl Member {
    pub(super) fn answer_proposal(&mut self, proposal: &Proposal) {
        self.round = self.round.max(proposal.ballot.round);
        let answer = self.vote(proposal);
        let is_yes = answer.is_ok();
        if is_yes {
            // Whoever has our word gets the time to use it, before we ask for ourselves.
            let pause = self.config.timers.retry_interval / 2;
            let pause = pause + self.rng.up_to(pause);
            self.next_try = self.next_try.max(self.now + pause);
            self.poll = None;
        }
        let message = Message::Vote {
            ballot: proposal.ballot.clone(),
            stage: proposal.stage,
            version: proposal.version,
            answer,
        };
        let to = proposal.ballot.proposer.address.clone();
        if is_yes {
            self.once_saved(Held::Message(Box::new(Outgoing { to, message })));
        } else {
            self.send(&to, message);
        }
    }

    /// The vote itself, ours or somebody else's proposal.
    pub(super) fn vote(&mut self, proposal: &Proposal) -> Result<Accepted, Refusal> {
        self.may_vote(proposal)?;
        self.is_free(proposal)?;
        let n_open = self.kept.votes.len();
        if n_open >= OPEN_VERSIONS_MAX && !self.kept.votes.contains_key(&proposal.version) {
            return Err(Refusal::NotVoting(format!("{n_open} versions are open")));
        }
        let acceptor = self.kept.votes.entry(proposal.version).or_default();
        let before = acceptor.clone();
        match (proposal.stage, &proposal.value) {
            (Stage::Formal, Some(value)) => acceptor.accept(&proposal.ballot, value),
            (Stage::Pre, _) | (Stage::Formal, None) => acceptor.promise(&proposal.ballot),
        }
        .map_err(Refusal::Promised)?;
        let accepted = acceptor.accepted.clone().map(Box::new);
        if before != *acceptor {
            self.saves.is_dirty = true;
        }
        if let Some(release) = &proposal.release {
            self.free_from(release);
        }
        self.pledge_for_vote(proposal);
        Ok(accepted)
    }

    /// Whether this member votes at all, in this cluster, on this version.
    fn may_vote(&self, proposal: &Proposal) -> Result<(), Refusal> {
        let version = proposal.version;
        if version <= self.kept.established {
            let proof = self.kept.certificate.clone().map(Box::new);
            return Err(Refusal::OldVersion(self.kept.established, proof));
        }
        let no = |why: &str| Err(Refusal::NotVoting(why.to_owned()));
        if self.kept.cluster != proposal.cluster {
            return Err(Refusal::OtherCluster(self.kept.cluster));
        }
        match self.kept.recovery {
            Recovery::Intact => {}
            Recovery::Unknown => return no("its store was lost"),
            Recovery::UpTo(lost) if version <= lost => return no("its store was lost"),
            Recovery::UpTo(_) => {}
        }
        if proposal.cluster.is_none() {
            let slots = proposal.value.as_ref().map_or(&proposal.slots, |it| &it.slots);
            if slots.slot_of(&self.me.address).is_none() {
                return no("it is not among the founders");
            }
            return if self.may_help_to_found() { Ok(()) } else { no("it may not found") };
        }
        if !self.has_slot() {
            return no("it has no slot");
        }
        if self.kept.slots.order() > proposal.slots.order() {
            return Err(Refusal::OldSlots(Box::new(self.kept.slots.clone())));
        }
        if self.now < self.votes_from {
            return no("it restarted, and may have promised something before");
        }
        Ok(())
    }

    /// Whether nobody else has this member's word.
    fn is_free(&self, proposal: &Proposal) -> Result<(), Refusal> {
        let is_released = |leader, version| {
            let release = Release { leader, version };
            proposal.release.as_ref() == Some(&release)
        };
        if let Some(pledge) = &self.pledge
            && self.now < pledge.until
            && proposal.version > pledge.version
            && !is_released(pledge.leader.clone(), pledge.version)
        {
            let left = pledge.until.since(self.now).as_micros();
            let for_micros = u64::try_from(left).unwrap_or(u64::MAX);
            return Err(Refusal::Pledged { version: pledge.version, for_micros });
        }
        if let Some(claim) = self.view.claim.clone()
            && self.is_healthy()
            && !is_released(claim.leader.clone(), claim.version)
        {
            return Err(Refusal::LeaderAlive(claim));
        }
        Ok(())
    }

    fn free_from(&mut self, release: &Release) {
        let is_it = |it: &Pledge| it.leader == release.leader && it.version == release.version;
        if self.pledge.as_ref().is_some_and(is_it) {
            self.pledge = None;
        }
        let ttl = self.config.timers.ttl_timeout;
        let follows = self.view.claim.as_ref().is_some_and(|it| it.leader == release.leader);
        if let Role::Follower(following) = &mut self.role
            && follows
        {
            following.last_healthy = following.last_healthy.min(self.now - ttl);
        }
    }

    /// Who votes for a candidate that asked for itself holds back from later versions, so that the
    /// candidate has a lease as soon as it has won.
    fn pledge_for_vote(&mut self, proposal: &Proposal) {
        let Some(value) = &proposal.value else { return };
        if proposal.stage != Stage::Formal || value.candidate != proposal.ballot.proposer {
            return;
        }
        let until = self.now + self.config.timers.ttl_timeout;
        let leader = value.candidate.clone();
        self.pledge = Some(Pledge { leader, version: proposal.version, until });
    }
}
