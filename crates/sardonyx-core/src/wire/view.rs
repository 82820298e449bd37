//! Replicas, differences and effects as JSON objects, for reading only.

use alloc::collections::BTreeMap;

use serde::{Serialize, Serializer, ser::SerializeMap};

use super::terms::LimitsForm;
use crate::{
    diff::{Change, Diff},
    effect::Effect,
    id::{JobId, PeerId, TaskId},
    replica::{
        Limits, Phase, Replica,
        job::{Assignment, Job, TaskLimits},
    },
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
        let state = |peer| if self.slot(peer).is_some() { "active" } else { "idle" };
        map.serialize_entry(
            "peer-state",
            &Map(|| self.peers_by_id().map(|peer| (peer, state(peer)))),
        )?;
        map.serialize_entry("jobs", &List(|| self.jobs().map(|job| JobIn(self, job))))?;
        map.serialize_entry("outcomes", &Map(|| self.outcomes()))?;
        if let Some(origin) = &self.origin {
            map.serialize_entry("origin", origin)?;
        }
        map.end()
    }
}

/// A job with what only its replica knows: since when its peers run it, and why it waits.
struct JobIn<'a>(&'a Replica, &'a Job);

impl Serialize for JobIn<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let JobIn(replica, job) = self;
        let terms = job.terms();
        let has_limits = |limits: &TaskLimits| *limits != TaskLimits::default();
        let limited = || {
            let tasks = terms.tasks.iter().filter(|(_, limits)| has_limits(limits));
            tasks.map(|(task, limits)| (task, LimitsForm::from(*limits)))
        };
        let peers = || job.tasks.iter().flat_map(|task| task.peers.values());
        let epochs: BTreeMap<_, _> =
            peers().filter_map(|peer| Some((peer, replica.slot(peer)?.since))).collect();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", job.id())?;
        map.serialize_entry("state", &job.state())?;
        map.serialize_entry("task-scheduler", &terms.task_scheduler)?;
        map.serialize_entry("percentage", &terms.percentage)?;
        map.serialize_entry("partial-coverage-protection", &terms.partial_coverage_protection)?;
        map.serialize_entry("tasks", &List(|| terms.tasks.iter().map(|(task, _)| task)))?;
        map.serialize_entry("limits", &Map(limited))?;
        map.serialize_entry(
            "allocations",
            &Map(|| {
                let tasks = terms.tasks.iter().zip(&job.tasks);
                tasks.map(|((id, _), task)| (id, List(|| task.peers.values())))
            }),
        )?;
        map.serialize_entry("epochs", &epochs)?;
        map.serialize_entry("completions", &List(|| job.completions()))?;
        map.serialize_entry("sealing", &Map(|| job.sealing()))?;
        map.serialize_entry("waiting", &replica.waiting(job))?;
        map.end()
    }
}

impl Serialize for Assignment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("job", &self.job)?;
        map.serialize_entry("task", &self.task)?;
        map.serialize_entry("epoch", &self.since)?;
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
        self.serialize_jobs(&mut map)?;
        if let Some(change) = &self.origin {
            map.serialize_entry("origin", change)?;
        }
        map.end()
    }
}

impl Diff {
    fn serialize_jobs<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        if !self.jobs.is_empty() {
            map.serialize_entry("jobs", &self.jobs)?;
        }
        if !self.assignments.is_empty() {
            map.serialize_entry("assignments", &self.assignments)?;
        }
        if !self.completions.is_empty() {
            let tasks = || self.completions.iter().map(|(job, task)| JobTask { job, task });
            map.serialize_entry("completions", &List(tasks))?;
        }
        if !self.sealing.is_empty() {
            let marks = || {
                let marks = self.sealing.iter();
                marks.map(|((job, task), change)| SealChange { job, task, change })
            };
            map.serialize_entry("sealing", &List(marks))?;
        }
        if !self.outcomes.is_empty() {
            map.serialize_entry("outcomes", &self.outcomes)?;
        }
        Ok(())
    }
}

#[derive(Serialize)]
struct JobTask<'a> {
    job: &'a JobId,
    task: &'a TaskId,
}

#[derive(Serialize)]
struct SealChange<'a> {
    job: &'a JobId,
    task: &'a TaskId,
    #[serde(flatten)]
    change: &'a Change<Option<PeerId>>,
}

impl Serialize for Effect {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let (name, peer, task) = match self {
            Effect::Watch(peer) => ("watch", Some(peer), None),
            Effect::Unwatch(peer) => ("unwatch", Some(peer), None),
            Effect::Probe(peer) => ("probe", Some(peer), None),
            Effect::BackOff => ("back-off", None, None),
            Effect::StopTask(task) => ("stop-task", None, Some(task)),
            Effect::StartTask(task) => ("start-task", None, Some(task)),
            Effect::SealTask(task) => ("seal-task", None, Some(task)),
            Effect::TrimLog(_) => ("trim-log", None, None),
            Effect::Stop => ("stop", None, None),
        };
        map.serialize_entry("effect", name)?;
        if let Some(peer) = peer {
            map.serialize_entry("peer", peer)?;
        }
        if let Some(task) = task {
            map.serialize_entry("job", &task.job)?;
            map.serialize_entry("task", &task.task)?;
            map.serialize_entry("epoch", &task.since)?;
        }
        if let Effect::TrimLog(position) = self {
            map.serialize_entry("position", position)?;
        }
        map.end()
    }
}
