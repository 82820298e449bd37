//! Looking for a cluster: ask all seeds at once, join the best leader that one of them names; a
//! seed that hears of none leads by itself, provisionally.

use std::collections::BTreeSet;

use super::{Member, Role, follow::Following};
use crate::{
    address::{Address, NodeId},
    change::{Change, Reason},
    claim::{Claim, ClusterId, Version},
    kept::Recovery,
    message::{JoinAnswer, Message, Snapshot, Standing},
    moment::Moment,
    mutant::{self, Mutant},
    view::Step,
};

/// How often one attempt follows "not me, but that one".
const HOPS_MAX: u32 = 4;
/// How many updates are kept that came before the answer they build on.
const EARLY_MAX: usize = 64;

#[derive(Clone, Debug)]
pub(super) struct Seeking {
    next_attempt: Moment,
    hint: Option<Claim>,
    asked: Option<Asked>,
    joining: Option<Joining>,
    n_hops: u32,
    /// Updates that overtook the answer to our request.
    early: Vec<(NodeId, Claim, u64, Vec<Step>)>,
}

#[derive(Clone, Debug)]
struct Asked {
    id: u64,
    silent: BTreeSet<Address>,
    best: Option<Claim>,
    until: Moment,
}

#[derive(Clone, Debug)]
struct Joining {
    id: u64,
    leader: NodeId,
    until: Moment,
}

impl Seeking {
    pub(super) fn new(now: Moment) -> Seeking {
        Seeking::with_hint(now, None)
    }

    pub(super) fn with_hint(now: Moment, hint: Option<Claim>) -> Seeking {
        Seeking {
            next_attempt: now,
            hint,
            asked: None,
            joining: None,
            n_hops: 0,
            early: Vec::new(),
        }
    }
}

impl Member {
    pub(super) fn init_deadlines(&self, into: &mut Vec<Moment>) {
        let Role::Init(seeking) = &self.role else { return };
        match (&seeking.joining, &seeking.asked) {
            (Some(joining), _) => into.push(joining.until),
            (None, Some(asked)) => into.push(asked.until),
            (None, None) => into.push(seeking.next_attempt),
        }
    }

    pub(super) fn tick_init(&mut self) {
        if self.departing.is_some() {
            return;
        }
        let now = self.now;
        let Role::Init(seeking) = &mut self.role else { return };
        if seeking.joining.as_ref().is_some_and(|it| now >= it.until) {
            seeking.joining = None;
        }
        if seeking.joining.is_some() {
            return;
        }
        if let Some(hint) = seeking.hint.take() {
            seeking.asked = None;
            return self.request_join(&hint);
        }
        match &seeking.asked {
            Some(asked) if asked.silent.is_empty() || now >= asked.until => self.decide(),
            Some(_) => {}
            None if now >= seeking.next_attempt => self.ask_seeds(),
            None => {}
        }
    }

    fn ask_seeds(&mut self) {
        let id = self.new_id();
        let others: BTreeSet<Address> =
            self.config.seeds.iter().filter(|it| **it != self.me.address).cloned().collect();
        for seed in &others {
            self.send(seed, Message::LeaderQuery { id });
        }
        let (now, timers) = (self.now, self.config.timers);
        let Role::Init(seeking) = &mut self.role else { return };
        seeking.next_attempt = now + timers.retry_interval;
        seeking.n_hops = 0;
        let is_alone = others.is_empty();
        let until = now + timers.query_wait();
        seeking.asked = Some(Asked { id, silent: others, best: None, until });
        if is_alone {
            self.decide();
        }
    }

    pub(super) fn answer_leader_query(&mut self, from: &NodeId, id: u64) {
        let leader = self.heard_claim().filter(|it| it.leader.address != from.address);
        let cluster = self.kept.cluster;
        self.send(&from.address, Message::LeaderQueryResponse { id, leader, cluster });
    }

    pub(super) fn take_leader_answer(
        &mut self,
        from: &NodeId,
        id: u64,
        leader: Option<Claim>,
        cluster: Option<ClusterId>,
    ) {
        if self.kept.cluster.is_none() && cluster.is_some() {
            self.elsewhere = cluster;
        }
        // A former life of ours leads nobody.
        let leader = leader.filter(|it| it.leader.address != self.me.address);
        let Role::Init(seeking) = &mut self.role else { return };
        let Some(asked) = seeking.asked.as_mut().filter(|it| it.id == id) else { return };
        asked.silent.remove(&from.address);
        if let Some(claim) = leader
            && asked.best.as_ref().is_none_or(|best| claim.outranks(best))
        {
            asked.best = Some(claim);
        }
        // One that a quorum elected is worth more than whatever the others may say.
        if asked.silent.is_empty() || asked.best.as_ref().is_some_and(|it| it.certified) {
            self.decide();
        }
    }

    fn decide(&mut self) {
        let Role::Init(seeking) = &mut self.role else { return };
        let best = seeking.asked.take().and_then(|it| it.best);
        match best {
            Some(best) => self.request_join(&best),
            None if self.config.is_seed() && !self.config.observer => self.promote_self(),
            None => {}
        }
    }

    fn request_join(&mut self, claim: &Claim) {
        if claim.leader.address == self.me.address {
            return;
        }
        let id = self.new_id();
        let (now, timers) = (self.now, self.config.timers);
        let Role::Init(seeking) = &mut self.role else { return };
        let until = now + timers.join_deadline();
        seeking.joining = Some(Joining { id, leader: claim.leader.clone(), until });
        seeking.asked = None;
        let request = Message::JoinClusterRequest {
            id,
            name: self.config.name.clone(),
            is_seed: self.config.is_seed(),
            is_observer: self.config.observer,
            standing: self.standing(),
        };
        self.send(&claim.leader.address, request);
    }

    fn standing(&self) -> Standing {
        Standing {
            cluster: self.kept.cluster,
            established: self.kept.established,
            certificate: self.kept.certificate.clone().map(Box::new),
            slots: self.kept.slots.clone(),
            may_found: self.may_help_to_found(),
        }
    }

    /// Whether this member may vote in the election that founds a cluster.
    pub(super) fn may_help_to_found(&self) -> bool {
        let is_listed = self.config.voters.as_ref().is_none_or(|it| it.contains(&self.me.address));
        self.kept.cluster.is_none()
            && self.kept.recovery == Recovery::Intact
            && self.elsewhere.is_none()
            && !self.config.observer
            && is_listed
    }

    pub(super) fn take_join_answer(&mut self, from: &NodeId, id: u64, answer: JoinAnswer) {
        let Role::Init(seeking) = &mut self.role else { return };
        let asked = seeking.joining.as_ref();
        if asked.is_none_or(|it| it.id != id || it.leader.address != from.address) {
            return;
        }
        seeking.joining = None;
        match answer {
            JoinAnswer::Accepted(snapshot) => self.enter(from, *snapshot),
            JoinAnswer::NotLeader(Some(claim)) if claim.leader.address != from.address => {
                seeking.n_hops += 1;
                if seeking.n_hops <= HOPS_MAX {
                    self.request_join(&claim);
                }
            }
            JoinAnswer::NotLeader(_) => {}
            JoinAnswer::Refused(why) => {
                self.warn(format!("{} does not let us in: {why}", from.address));
            }
        }
    }

    fn enter(&mut self, from: &NodeId, mut snapshot: Snapshot) {
        // The one that let us in may have been elected since, and we know already.
        let elected = self.kept.certificate.as_ref().filter(|it| {
            it.value.candidate == snapshot.claim.leader && it.version == snapshot.claim.version
        });
        if let Some(certificate) = elected {
            snapshot.claim.certified = true;
            snapshot.cluster = Some(certificate.value.cluster);
        }
        let is_over = snapshot.claim.version <= self.kept.established
            && !(snapshot.claim.certified && snapshot.claim.version == self.kept.established);
        if snapshot.claim.leader != *from || is_over || !self.fits_cluster(snapshot.cluster) {
            return;
        }
        if snapshot.table.row_of(&self.me).is_none() {
            return;
        }
        let Role::Init(seeking) = &mut self.role else { return };
        let early = std::mem::take(&mut seeking.early);
        let claim = snapshot.claim.clone();
        self.role = Role::Follower(Following::new(self.now, claim.clone()));
        self.next_try = self.now;
        self.n_failures = 0;
        self.learn_standing(&snapshot);
        self.set_claim(Some(claim.clone()), Reason::Joined);
        self.install(&snapshot);
        for (from, claim, after, steps) in early {
            self.take_update(&from, claim, after, steps);
        }
        self.beat();
    }

    /// Keeps an update until the snapshot that it builds on is here.
    pub(super) fn keep_early(&mut self, from: &NodeId, claim: Claim, after: u64, steps: Vec<Step>) {
        let Role::Init(seeking) = &mut self.role else { return };
        let is_from_ours = seeking.joining.as_ref().is_some_and(|it| it.leader == claim.leader);
        if is_from_ours && seeking.early.len() < EARLY_MAX {
            seeking.early.push((from.clone(), claim, after, steps));
        }
    }

    /// A leader that we did not ask makes itself known.
    pub(super) fn hear_of(&mut self, claim: &Claim) {
        let Role::Init(seeking) = &mut self.role else { return };
        if seeking.joining.is_none() && claim.leader.address != self.me.address {
            seeking.hint = Some(claim.clone());
        }
    }

    /// The leader that we are about to join gave up; the winner is asked instead.
    pub(super) fn abandon_join(&mut self, loser: &Claim, winner: Option<Claim>) {
        let Role::Init(seeking) = &mut self.role else { return };
        if seeking.joining.as_ref().is_some_and(|it| it.leader == loser.leader) {
            seeking.joining = None;
            seeking.hint = winner;
        }
    }

    pub(super) fn fits_cluster(&self, cluster: Option<ClusterId>) -> bool {
        match (self.kept.cluster, cluster) {
            (Some(ours), Some(theirs)) => ours == theirs,
            (Some(_), None) => false,
            (None, _) => true,
        }
    }

    /// Leads without having been elected: the table is kept, nothing is promised.
    fn promote_self(&mut self) {
        let version = match mutant::is_on(Mutant::VersionReset) {
            true => Version(1),
            false => self.kept.established.next(),
        };
        let claim = Claim { leader: self.me.clone(), version, certified: false };
        self.view.table = crate::view::Table::default();
        self.take_office(claim, Reason::NobodyLeads);
    }

    pub(super) fn stop(&mut self) {
        self.set_claim(None, Reason::Stopping);
        self.role = Role::Stopped;
        self.departing = None;
        self.tell(Change::Stopped);
    }
}
