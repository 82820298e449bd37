//! The test kit: a job in one thread, without queues or peers, in milliseconds.
//!
//! The same functions, routes, groups and errors as in a cluster; segments go through the tasks in
//! the order of the workflow, so one input gives one output, always.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use arrow::array::RecordBatch;
use sardonyx_queue::{Body, Outgoing, Place, Segments};
use serde_json::Value;

use crate::{
    Registry,
    blueprint::{Blueprint, edges},
    input::Read,
    registry::Kind,
    spy::{NoSpy, Spy},
    worker::{Carriage, Worker},
};

/// How many rows are tried before a job runs.
pub const TRY_ROWS: usize = 64;

/// A task that fails, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Which.
    pub task: String,
    /// Why.
    pub what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {:?}: {}", self.task, self.what)
    }
}

impl std::error::Error for Fault {}

/// Segments by the name of a task.
pub type ByTask = BTreeMap<String, Vec<RecordBatch>>;

/// A job on the bench.
pub struct Kit<'a> {
    job: &'a Value,
    registry: &'a Registry,
    spy: Arc<dyn Spy>,
}

impl<'a> Kit<'a> {
    /// This job, with these functions.
    pub fn new(job: &'a Value, registry: &'a Registry) -> Kit<'a> {
        Kit { job, registry, spy: Arc::new(NoSpy) }
    }

    /// Watched by `spy`.
    pub fn spied(self, spy: Arc<dyn Spy>) -> Kit<'a> {
        Kit { spy, ..self }
    }

    /// What reaches each output if the inputs give these segments.
    pub fn run(&self, given: ByTask) -> Result<ByTask, Fault> {
        let mut waiting: BTreeMap<String, Vec<(Option<u16>, Segments)>> = given
            .into_iter()
            .map(|(task, batches)| {
                let plain = batches.into_iter().map(|batch| (None, Segments::Batch(batch)));
                (task, plain.collect())
            })
            .collect();
        let mut reached = ByTask::new();
        for task in self.order() {
            let fault = |what: String| Fault { task: task.clone(), what };
            let blueprint = Blueprint::read("kit", self.job, &task, self.registry);
            let blueprint = Arc::new(blueprint.map_err(fault)?);
            let arrived = waiting.remove(&task).unwrap_or_default();
            if blueprint.kind == Kind::Output {
                let batches = arrived.into_iter().map(|(_, batch)| batch.decode());
                let batches: Result<Vec<_>, _> = batches.collect();
                reached.insert(task.clone(), batches.map_err(|why| fault(why.to_string()))?);
                continue;
            }
            let place = Place { job: "kit".into(), task: task.clone() };
            let plain = Carriage {
                is_encoded: false,
                message_bytes_max: usize::MAX,
                value_bytes_max: usize::MAX,
            };
            let worker = Worker::new(&place, &blueprint, self.registry, &self.spy, plain, "kit");
            let mut worker = worker.map_err(fault)?;
            let (mut sends, _) = worker.process(arrived).map_err(fault)?;
            sends.extend(worker.emit_all().map_err(fault)?.0);
            for Outgoing { queue, partition, body } in sends {
                if let Body::Segments(segments) = body {
                    waiting.entry(queue.task).or_default().push((partition, segments));
                }
            }
        }
        Ok(reached)
    }

    /// The tasks, each behind those that lead to it.
    fn order(&self) -> Vec<String> {
        let edges = edges(self.job);
        let catalog = self.job["catalog"].as_object();
        let mut left: BTreeSet<String> =
            catalog.into_iter().flat_map(|all| all.keys().cloned()).collect();
        let mut order = Vec::new();
        loop {
            let is_free =
                |task: &&String| !edges.iter().any(|(from, to)| to == *task && left.contains(from));
            let Some(next) = left.iter().find(is_free).cloned() else { return order };
            left.remove(&next);
            order.push(next);
        }
    }
}

/// Sends a few rows of those inputs through the job that can be read twice. What the others would
/// give is not known before it runs.
pub fn try_out(job: &Value, registry: &Registry) -> Result<(), Fault> {
    let mut given = ByTask::new();
    for task in Kit::new(job, registry).order() {
        let fault = |what: String| Fault { task: task.clone(), what };
        let blueprint = Blueprint::read("try", job, &task, registry).map_err(fault)?;
        if blueprint.kind != Kind::Input {
            continue;
        }
        let input = registry.make_input(&blueprint.terms).map_err(fault)?;
        if !input.can_be_tried() {
            continue;
        }
        let splits = input.splits(None).map_err(fault)?;
        let mut rows = Vec::new();
        if let Some(first) = splits.splits.first() {
            let mut reader = input.open(first, None).map_err(fault)?;
            if let Read::Batch(batch, _) = reader.read(TRY_ROWS).map_err(fault)? {
                rows.push(batch.slice(0, batch.num_rows().min(TRY_ROWS)));
            }
        }
        given.insert(task.clone(), rows);
    }
    Kit::new(job, registry).run(given).map(drop)
}
