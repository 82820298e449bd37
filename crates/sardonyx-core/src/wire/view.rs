//! Replicas, differences and effects as JSON objects, for reading only.

use serde::{Serialize, Serializer, ser::SerializeMap};

use crate::{
    diff::{Change, Diff},
    effect::Effect,
    id::PeerId,
    replica::{Limits, Phase, Replica},
};

impl Serialize for Replica {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("join-protocol", &self.join_protocol)?;
        map.serialize_entry("job-scheduler", &self.job_scheduler)?;
        if self.limits != Limits::default() {
            map.serialize_entry("limits", &self.limits)?;
        }
        map.serialize_entry("peers", &List(|| self.peers()))?;
        map.serialize_entry("pairs", &Map(|| self.pairs()))?;
        map.serialize_entry("prepared", &self.joins_in(Phase::Prepared))?;
        map.serialize_entry("accepted", &self.joins_in(Phase::Accepted))?;
        map.serialize_entry("peer-state", &Map(|| self.peers_by_id().map(|peer| (peer, "idle"))))?;
        map.end()
    }
}

/// Writes what an iterator yields without collecting it first.
struct List<F>(F);

impl<F: Fn() -> I, I: Iterator<Item: Serialize>> Serialize for List<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((self.0)())
    }
}

struct Map<F>(F);

impl<F: Fn() -> I, I: Iterator<Item = (K, V)>, K: Serialize, V: Serialize> Serialize for Map<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map((self.0)())
    }
}

impl<T: Serialize> Serialize for Change<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("from", &self.from)?;
        map.serialize_entry("to", &self.to)?;
        map.end()
    }
}

/// Only what changed is there.
impl Serialize for Diff {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if let Some(change) = &self.join_protocol {
            map.serialize_entry("join-protocol", change)?;
        }
        if let Some(change) = &self.job_scheduler {
            map.serialize_entry("job-scheduler", change)?;
        }
        if let Some(change) = &self.limits {
            map.serialize_entry("limits", change)?;
        }
        if !self.joined.is_empty() || !self.left.is_empty() {
            let lists = [("joined", &self.joined), ("left", &self.left)];
            map.serialize_entry("peers", &Map(|| lists.into_iter()))?;
        }
        let maps =
            [("pairs", &self.pairs), ("prepared", &self.prepared), ("accepted", &self.accepted)];
        for (name, changes) in maps {
            if !changes.is_empty() {
                map.serialize_entry(name, changes)?;
            }
        }
        map.end()
    }
}

impl Serialize for Effect {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (name, peer): (_, Option<&PeerId>) = match self {
            Effect::Watch(peer) => ("watch", Some(peer)),
            Effect::Unwatch(peer) => ("unwatch", Some(peer)),
            Effect::Probe(peer) => ("probe", Some(peer)),
            Effect::BackOff => ("back-off", None),
            Effect::Stop => ("stop", None),
        };
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("effect", name)?;
        if let Some(peer) = peer {
            map.serialize_entry("peer", peer)?;
        }
        map.end()
    }
}
