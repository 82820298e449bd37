//! What changed between two replicas, for people and programs that follow a cluster.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use crate::{
    id::{JobId, PeerId, TaskId},
    replica::{
        JobScheduler, JoinProtocol, Limits, Origin, Phase, Replica,
        job::{Assignment, JobOutcome, JobState},
    },
};

/// A value before and after.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change<T> {
    /// Before.
    pub from: T,
    /// After.
    pub to: T,
}

impl<T: PartialEq> Change<T> {
    fn between(from: T, to: T) -> Option<Change<T>> {
        (from != to).then_some(Change { from, to })
    }
}

/// The changes of a map, by key. `None` stands for a key that is not there.
pub type Changes<K, V> = BTreeMap<K, Change<Option<V>>>;

/// What changed. What did not is empty.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Diff {
    /// The join protocol, once it is settled.
    pub join_protocol: Option<Change<Option<JoinProtocol>>>,
    /// How peers are shared out among jobs.
    pub job_scheduler: Option<Change<JobScheduler>>,
    /// What an operator bounds.
    pub limits: Option<Change<Limits>>,
    /// Who is a member now and was not, in join order.
    pub joined: Vec<PeerId>,
    /// Who was a member and is not now, in join order.
    pub left: Vec<PeerId>,
    /// Who watches whom.
    pub pairs: Changes<PeerId, PeerId>,
    /// Joins in their first phase.
    pub prepared: Changes<PeerId, PeerId>,
    /// Joins in their last phase.
    pub accepted: Changes<PeerId, PeerId>,
    /// Where jobs stand; `None` before they are submitted and after they are collected.
    pub jobs: Changes<JobId, JobState>,
    /// Who runs what.
    pub assignments: Changes<PeerId, Assignment>,
    /// Which tasks are done now and were not, as `(job, task)`.
    pub completions: Vec<(JobId, TaskId)>,
    /// Who may seal what, by job and task.
    pub sealing: Changes<(JobId, TaskId), PeerId>,
    /// How collected jobs ended.
    pub outcomes: Changes<JobId, JobOutcome>,
    /// Up to where the log is superfluous.
    pub origin: Option<Change<Option<Origin>>>,
}

impl Diff {
    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        *self == Diff::default()
    }
}

/// What changed from `old` to `new`.
pub fn diff(old: &Replica, new: &Replica) -> Diff {
    let mut diff = Diff {
        join_protocol: Change::between(old.join_protocol, new.join_protocol),
        job_scheduler: Change::between(old.job_scheduler, new.job_scheduler),
        limits: Change::between(old.limits, new.limits),
        origin: Change::between(old.origin.clone(), new.origin.clone()),
        ..Diff::default()
    };
    // Replicas that follow each other share most of their trees; what is shared did not change.
    if !old.members.same(&new.members) {
        diff.joined = new.peers().filter(|peer| !old.is_member(peer)).cloned().collect();
        diff.left = old.peers().filter(|peer| !new.is_member(peer)).cloned().collect();
        diff.pairs = changes(&old.pairs().collect(), &new.pairs().collect());
    }
    if !old.joins.same(&new.joins) {
        let joins = |phase| changes(&old.joins_in(phase), &new.joins_in(phase));
        diff.prepared = joins(Phase::Prepared);
        diff.accepted = joins(Phase::Accepted);
    }
    if !old.jobs.same(&new.jobs) {
        job_changes(old, new, &mut diff);
    }
    if !old.outcomes.same(&new.outcomes) {
        let outcomes = |replica: &Replica| {
            replica.outcomes().map(|(job, outcome)| (job.clone(), outcome)).collect()
        };
        diff.outcomes = owned_changes(&outcomes(old), &outcomes(new));
    }
    diff
}

fn job_changes(old: &Replica, new: &Replica, diff: &mut Diff) {
    let states = |replica: &Replica| {
        replica.jobs().map(|job| (job.id().clone(), job.state())).collect::<BTreeMap<_, _>>()
    };
    diff.jobs = owned_changes(&states(old), &states(new));
    let assignments = |replica: &Replica| {
        let peers = replica.peers_by_id();
        peers.filter_map(|peer| Some((peer.clone(), replica.assignment(peer)?))).collect()
    };
    diff.assignments = owned_changes(&assignments(old), &assignments(new));
    let completions = |replica: &Replica| {
        let jobs = replica.jobs();
        let tasks =
            jobs.flat_map(|job| job.completions().map(|task| (job.id().clone(), task.clone())));
        tasks.collect::<BTreeSet<_>>()
    };
    diff.completions = completions(new).difference(&completions(old)).cloned().collect();
    let sealing = |replica: &Replica| {
        let jobs = replica.jobs();
        let marks = jobs.flat_map(|job| {
            job.sealing().map(|(task, peer)| ((job.id().clone(), task.clone()), peer.clone()))
        });
        marks.collect::<BTreeMap<_, _>>()
    };
    diff.sealing = owned_changes(&sealing(old), &sealing(new));
}

fn owned_changes<K: Ord + Clone, V: Clone + PartialEq>(
    old: &BTreeMap<K, V>,
    new: &BTreeMap<K, V>,
) -> Changes<K, V> {
    changes(&old.iter().collect(), &new.iter().collect())
}

fn changes<K: Ord + Clone, V: Clone + PartialEq>(
    old: &BTreeMap<&K, &V>,
    new: &BTreeMap<&K, &V>,
) -> Changes<K, V> {
    let keys: BTreeSet<_> = old.keys().chain(new.keys()).copied().collect();
    let change = |key: &K| {
        let value = |map: &BTreeMap<&K, &V>| map.get(key).map(|value| (*value).clone());
        Some((key.clone(), Change::between(value(old), value(new))?))
    };
    keys.into_iter().filter_map(change).collect()
}
