//! What changed between two replicas, for people and programs that follow a cluster.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use crate::{
    id::PeerId,
    replica::{JobScheduler, JoinProtocol, Limits, Phase, Replica},
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
    diff
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
