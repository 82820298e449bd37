//! Asking for votes: a round of promises, then a round of votes, for exactly one version.
//!
//! A follower asks when a quorum does not hear the leader; a leader asks for itself when it was
//! never elected, or when the voters that it hears have moved on to a later version.

use std::collections::BTreeSet;

use super::{Held, Member, Role, accept::Accepted};
use crate::{
    address::{Address, NodeId},
    claim::{ClusterId, Version},
    message::{Message, Proposal, Release},
    moment::Moment,
    mutant::{self, Mutant},
    slots::Slots,
    view::Status,
    vote::{Ballot, Certificate, Refusal, Stage, Value},
};

#[derive(Clone, Debug, Hash)]
pub(super) struct Contest {
    ballot: Ballot,
    version: Version,
    stage: Stage,
    cluster: Option<ClusterId>,
    slots: Slots,
    /// What we propose if nothing was accepted before.
    own: Value,
    best: Accepted,
    value: Option<Value>,
    yes: BTreeSet<Address>,
    no: BTreeSet<Address>,
    release: Option<Release>,
    /// When the formal proposal went out: promises made for it begin after that.
    asked: Moment,
    pub(super) until: Moment,
}

#[derive(Clone, Debug, Hash)]
pub(super) struct OwnVote {
    ballot: Ballot,
    stage: Stage,
    version: Version,
    answer: Result<Accepted, Refusal>,
}

impl Member {
    pub(super) fn open_contest(&mut self, release: Option<Release>, founders: Option<&[NodeId]>) {
        // A number that somebody else made up can be the last there is: then there is no next round.
        let Some(round) = self.round.checked_add(1) else { return self.back_off() };
        self.round = round;
        let ballot = Ballot { round: self.round, proposer: self.me.clone() };
        let cluster = self.kept.cluster;
        let slots = match founders {
            Some(founders) => Slots::founded_by(self.config.nodes, founders),
            None => self.kept.slots.clone(),
        };
        let new_id = ClusterId(u128::from(self.rng.next()) << 64 | u128::from(self.rng.next()));
        let own = Value {
            candidate: self.me.clone(),
            cluster: cluster.unwrap_or(new_id),
            slots: slots.clone(),
        };
        self.contest = Some(Contest {
            ballot,
            version: self.kept.established.next(),
            stage: Stage::Pre,
            cluster,
            slots,
            own,
            best: None,
            value: None,
            yes: BTreeSet::new(),
            no: BTreeSet::new(),
            release,
            asked: self.now,
            until: self.now + self.config.timers.retry_interval,
        });
        self.ask_for_votes();
    }

    fn ask_for_votes(&mut self) {
        let Some(contest) = &self.contest else { return };
        let proposal = Proposal {
            ballot: contest.ballot.clone(),
            stage: contest.stage,
            version: contest.version,
            cluster: contest.cluster,
            slots: contest.slots.clone(),
            value: contest.value.clone(),
            release: contest.release.clone(),
        };
        let voters: BTreeSet<Address> = contest.voting_slots().voters().cloned().collect();
        for to in &voters {
            self.send(to, Message::Proposal(Box::new(proposal.clone())));
        }
        if voters.contains(&self.me.address) {
            let answer = self.vote(&proposal);
            let Proposal { ballot, stage, version, .. } = proposal;
            let is_yes = answer.is_ok();
            let own = OwnVote { ballot, stage, version, answer };
            // Ours counts when it is kept, like any other.
            if is_yes {
                self.once_saved(Held::OwnVote(Box::new(own)));
            } else {
                self.take_own_vote(own);
            }
        }
    }

    pub(super) fn take_own_vote(&mut self, vote: OwnVote) {
        if mutant::is_on(Mutant::OwnVoteUncounted) {
            return;
        }
        let me = self.me.address.clone();
        self.take_vote(&me, &vote.ballot, vote.stage, vote.version, vote.answer);
    }

    /// Counts one vote. Votes of other rounds, and a voter's second one, do not count.
    pub(super) fn take_vote(
        &mut self,
        from: &Address,
        ballot: &Ballot,
        stage: Stage,
        version: Version,
        answer: Result<Accepted, Refusal>,
    ) {
        let Some(contest) = &mut self.contest else { return };
        if contest.ballot != *ballot || contest.stage != stage || contest.version != version {
            return;
        }
        match answer {
            Ok(accepted) => {
                let is_first = contest.yes.insert(from.clone());
                if stage == Stage::Pre && is_first {
                    contest.take_best(accepted);
                }
                if contest.voting_slots().is_quorum(&contest.yes) {
                    self.next_stage();
                }
            }
            Err(refusal) => {
                contest.no.insert(from.clone());
                self.take_refusal(refusal);
            }
        }
    }

    fn next_stage(&mut self) {
        let now = self.now;
        let Some(contest) = &mut self.contest else { return };
        match contest.stage {
            Stage::Pre => {
                contest.stage = Stage::Formal;
                contest.value = Some(contest.choose());
                contest.yes.clear();
                contest.no.clear();
                contest.asked = now;
                self.ask_for_votes();
            }
            Stage::Formal => self.won(),
        }
    }

    fn won(&mut self) {
        let Some(contest) = self.contest.take() else { return };
        let Some(value) = contest.value else { return };
        let certificate = Certificate {
            version: contest.version,
            value,
            ballot: contest.ballot,
            voters: contest.yes.clone(),
        };
        let slots = certificate.value.slots.clone();
        let mut all: BTreeSet<Address> = slots.voters().cloned().collect();
        all.extend(self.others());
        for to in all {
            self.send(&to, Message::LeaderElected(Box::new(certificate.clone())));
        }
        let is_ours = self.is_me(&certificate.value.candidate);
        self.learn(&certificate);
        if let Role::Leader(leading) = &mut self.role
            && is_ours
        {
            for voter in contest.yes {
                leading.tokens.insert(voter, contest.asked);
            }
        }
    }

    fn take_refusal(&mut self, refusal: Refusal) {
        match refusal {
            Refusal::Promised(ballot) => self.round = self.round.max(ballot.round),
            Refusal::OldVersion(_, Some(certificate)) => self.learn(&certificate),
            Refusal::OldVersion(_, None) => {}
            Refusal::OldSlots(slots) => {
                if slots.order() > self.kept.slots.order() {
                    self.kept.slots = *slots;
                    self.saves.is_dirty = true;
                    self.contest = None;
                    self.next_try = self.now;
                    return;
                }
            }
            Refusal::LeaderAlive(claim) => self.try_target(claim),
            Refusal::OtherCluster(Some(cluster)) if self.kept.cluster.is_none() => {
                self.elsewhere = Some(cluster);
            }
            Refusal::OtherCluster(_) | Refusal::Pledged { .. } | Refusal::NotVoting(_) => {}
        }
        let Some(contest) = &self.contest else { return };
        let slots = contest.voting_slots();
        let open = slots.voters().filter(|it| !contest.no.contains(*it)).cloned().collect();
        if !slots.is_quorum(&open) {
            self.contest = None;
            self.back_off();
        }
    }

    pub(super) fn tick_contest(&mut self) {
        let Some(contest) = &self.contest else { return };
        if self.now >= contest.until || contest.version != self.kept.established.next() {
            self.contest = None;
            self.back_off();
        }
    }

    /// A leader without a lease asks to be elected, if enough voters are there to do it.
    pub(super) fn run_for_office(&mut self) {
        let is_busy = self.contest.is_some() || self.now < self.next_try;
        if is_busy || self.has_lease() {
            return;
        }
        let Some(claim) = self.view.claim.clone() else { return };
        if self.kept.cluster.is_none() {
            return self.found();
        }
        let heard = self.heard_voters();
        if !self.kept.slots.is_quorum(&heard) {
            return;
        }
        if !claim.certified {
            return self.open_contest(None, None);
        }
        if self.can_regain(&heard, claim.version) {
            return;
        }
        // Too many have moved on: this version's lease will not come back. Giving it up for good
        // frees those who still hold back for it.
        let release = Release { leader: self.me.clone(), version: claim.version };
        if let Role::Leader(leading) = &mut self.role {
            leading.released = true;
        }
        self.open_contest(Some(release), None);
    }

    /// Whether the voters that are heard could still hold back for this version.
    fn can_regain(&self, heard: &BTreeSet<Address>, version: Version) -> bool {
        let Role::Leader(leading) = &self.role else { return false };
        !leading.released && self.kept.slots.is_quorum(&self.faithful(heard, version))
    }

    /// Those of the voters that are heard whose word to hold back for this version is worth something.
    pub(super) fn faithful(
        &self,
        heard: &BTreeSet<Address>,
        version: Version,
    ) -> BTreeSet<Address> {
        let Role::Leader(leading) = &self.role else { return BTreeSet::new() };
        let may = |it: &&Address| match leading.peers.get(*it) {
            Some(peer) => peer.promised <= version,
            None => **it == self.me.address && self.may_pledge(version),
        };
        heard.iter().filter(may).cloned().collect()
    }

    /// Founds a cluster, if it is allowed and enough members are there that never had one.
    fn found(&mut self) {
        if !self.may_found || self.elsewhere.is_some() {
            return;
        }
        let Role::Leader(leading) = &self.role else { return };
        let heard = self.heard_voters();
        let is_listed =
            |it: &Address| self.config.voters.as_ref().is_none_or(|list| list.contains(it));
        let mut founders = Vec::new();
        if self.may_help_to_found() {
            founders.push(self.me.clone());
        }
        for row in self.view.table.rows() {
            let address = &row.node.address;
            let may = leading.peers.get(address).is_some_and(|peer| peer.may_found);
            let is_here = matches!(row.status, Status::Joining | Status::Active);
            if may && is_here && is_listed(address) && heard.contains(address) {
                founders.push(row.node.clone());
            }
        }
        founders.truncate(self.config.nodes as usize);
        if founders.len() >= self.config.quorum() {
            self.open_contest(None, Some(&founders));
        }
    }
}

impl Contest {
    pub(super) fn name(&self) -> (&Ballot, Stage) {
        (&self.ballot, self.stage)
    }

    /// The voters that decide this stage: in a founding that repeats another's value, that one's.
    fn voting_slots(&self) -> &Slots {
        self.value.as_ref().map_or(&self.slots, |value| &value.slots)
    }

    /// Remembers what was accepted under the highest ballot.
    fn take_best(&mut self, accepted: Accepted) {
        if mutant::is_on(Mutant::H1) {
            // The hole: the last answer decides, whatever it says.
            self.best = accepted;
            return;
        }
        let ballot = |it: &Accepted| it.as_ref().map(|accepted| accepted.0.clone());
        if ballot(&accepted) > ballot(&self.best) {
            self.best = accepted;
        }
    }

    /// What may have been chosen already, or ourselves.
    fn choose(&self) -> Value {
        let Some(best) = &self.best else { return self.own.clone() };
        let value = &best.1;
        match self.cluster {
            // The voters are what the newest of those who promised say, not what they once were.
            Some(_) => Value { slots: self.slots.clone(), ..value.clone() },
            None => value.clone(),
        }
    }
}
