//! Flow conditions: which of the next tasks a segment goes to.
//!
//! The conditions of a task are asked in order. What a true one says is added to what those before it
//! said: more tasks, more columns to leave out; one that short-circuits is the last that is asked. A
//! segment for which none is true goes nowhere. A task without conditions sends everything to all.
//!
//! Conditions marked `exception` are not asked about segments, but about those on which the task's
//! function failed: rows with `error`, `task` and `record`.

mod entry;

use std::{collections::BTreeMap, sync::Arc};

use arrow::{
    array::{Array, BooleanArray, RecordBatch, UInt32Array},
    compute::take,
};
use serde_json::Value;

use crate::{
    Registry,
    on_error::{self, Failed},
    registry::Predicate,
    sql::{self, Condition},
};
use entry::Entry;
pub use entry::{CONDITIONS_MAX, complaints};

/// The conditions of one task; peers share them.
#[derive(Clone)]
pub struct Flow {
    task: String,
    routes: Vec<Route>,
    exceptions: Vec<Route>,
}

#[derive(Clone)]
struct Route {
    test: Test,
    to: Vec<String>,
    short_circuit: bool,
    exclude: Vec<String>,
}

#[derive(Clone)]
enum Test {
    Always,
    Sql(Arc<Condition>),
    Named(Predicate),
}

impl Test {
    fn holds(&self, batch: &RecordBatch) -> Result<BooleanArray, String> {
        match self {
            Test::Always => Ok(BooleanArray::from(vec![true; batch.num_rows()])),
            Test::Sql(condition) => condition.holds(batch),
            Test::Named(predicate) => {
                let holds = predicate(batch)?;
                match holds.len() == batch.num_rows() {
                    true => Ok(holds),
                    false => Err("the predicate did not answer for every row".into()),
                }
            }
        }
    }
}

impl Flow {
    /// The conditions of `task` in a job, if it has any. `downstream` are the tasks that follow it.
    pub fn of(
        job: &Value,
        task: &str,
        downstream: &[String],
        registry: &Registry,
    ) -> Result<Option<Flow>, String> {
        let entries = Entry::of_task(job, task)?;
        entry::check_order(&entries).map_err(|(at, why)| format!("flow[{at}]: {why}"))?;
        let mut flow = Flow { task: task.into(), routes: Vec::new(), exceptions: Vec::new() };
        for entry in entries {
            let at = |why: String| format!("flow[{}]: {why}", entry.at);
            let route = Route {
                test: entry.test(registry).map_err(at)?,
                to: entry.targets(downstream).map_err(at)?,
                short_circuit: entry.short_circuit,
                exclude: entry.exclude.clone(),
            };
            match entry.exception {
                true => flow.exceptions.push(route),
                false => flow.routes.push(route),
            }
        }
        let has_any = !flow.routes.is_empty() || !flow.exceptions.is_empty();
        // Only what fails is routed: the rest goes to all, as without conditions.
        if has_any && flow.routes.is_empty() {
            flow.routes.push(Route {
                test: Test::Always,
                to: downstream.to_vec(),
                short_circuit: true,
                exclude: Vec::new(),
            });
        }
        Ok(has_any.then_some(flow))
    }

    /// What goes where. A task can get several batches, if segments for it lose different columns;
    /// within each, segments keep their order. Empty batches are left out.
    pub fn route(&self, batch: &RecordBatch) -> Result<Vec<(String, RecordBatch)>, String> {
        Ok(route(&self.routes, batch)?.0)
    }

    /// Whether segments that fail are routed.
    pub fn has_exceptions(&self) -> bool {
        !self.exceptions.is_empty()
    }

    /// Routes segments that failed, as rows with `error`, `task` and `record`, and returns those for
    /// which no condition was true.
    pub fn route_failed(&self, failed: &[Failed]) -> Result<Routed, String> {
        let letters = on_error::letters(&self.task, failed)?;
        let (batches, is_routed) = route(&self.exceptions, &letters)?;
        let left = failed.iter().zip(is_routed).filter(|(_, is_routed)| !is_routed);
        Ok(Routed { batches, left: left.map(|(failed, _)| failed.clone()).collect() })
    }
}

/// What became of segments that failed.
#[derive(Clone, Debug)]
pub struct Routed {
    /// What goes where.
    pub batches: Vec<(String, RecordBatch)>,
    /// Those that no condition was for.
    pub left: Vec<Failed>,
}

type Routes = (Vec<(String, RecordBatch)>, Vec<bool>);

fn route(routes: &[Route], batch: &RecordBatch) -> Result<Routes, String> {
    let n_rows = batch.num_rows();
    if n_rows == 0 {
        return Ok((Vec::new(), Vec::new()));
    }
    // Bit i of a row: condition i was asked about it, and true.
    let mut truths = vec![0u64; n_rows];
    let mut open = vec![true; n_rows];
    for (at, route) in routes.iter().enumerate() {
        let holds = ask(&route.test, batch, &open)?;
        for (row, holds) in holds.iter().enumerate() {
            if open[row] && holds == Some(true) {
                truths[row] |= 1 << at;
                open[row] = !route.short_circuit;
            }
        }
    }
    let mut kinds: Vec<u64> = truths.clone();
    kinds.sort_unstable();
    kinds.dedup();
    // Who gets which rows, by what they lose: in the order of the conditions' targets.
    let mut edges: BTreeMap<(&str, Vec<&str>), Vec<u64>> = BTreeMap::new();
    for kind in &kinds {
        let held = || routes.iter().enumerate().filter(|(at, _)| kind & (1 << at) != 0);
        let mut exclude: Vec<&str> =
            held().flat_map(|(_, route)| &route.exclude).map(String::as_str).collect();
        exclude.sort_unstable();
        exclude.dedup();
        for to in held().flat_map(|(_, route)| &route.to) {
            let kinds = edges.entry((to, exclude.clone())).or_default();
            if !kinds.contains(kind) {
                kinds.push(*kind);
            }
        }
    }
    let mut routed = Vec::new();
    for ((to, exclude), of) in edges {
        let mask: BooleanArray = truths.iter().map(|it| Some(of.contains(it))).collect();
        routed.push((to.to_owned(), without(&sql::keep(batch, &mask)?, &exclude)?));
    }
    Ok((routed, truths.iter().map(|it| *it != 0).collect()))
}

/// Asks about all rows, which is fastest; if that fails, about those that are still open, which
/// decides: a condition before may have taken the rows on which it cannot be asked.
fn ask(test: &Test, batch: &RecordBatch, open: &[bool]) -> Result<BooleanArray, String> {
    let holds = match test.holds(batch) {
        Ok(holds) => return Ok(holds),
        Err(why) if open.iter().all(|it| *it) => return Err(why),
        Err(_) => test.holds(&sql::keep(batch, &BooleanArray::from(open.to_vec()))?)?,
    };
    let mut next = 0u32;
    let place = |is_open: &bool| {
        is_open.then(|| {
            next += 1;
            next - 1
        })
    };
    let places: UInt32Array = open.iter().map(place).collect();
    let spread = take(&holds, &places, None).map_err(|why| why.to_string())?;
    let spread = spread.as_any().downcast_ref::<BooleanArray>().cloned();
    spread.ok_or_else(|| "a condition gave no truths".into())
}

fn without(batch: &RecordBatch, names: &[&str]) -> Result<RecordBatch, String> {
    if names.is_empty() {
        return Ok(batch.clone());
    }
    let schema = batch.schema();
    let fields = schema.fields().iter().enumerate();
    let kept = fields.filter(|(_, field)| !names.contains(&field.name().as_str()));
    let kept: Vec<usize> = kept.map(|(at, _)| at).collect();
    batch.project(&kept).map_err(|why| why.to_string())
}

impl std::fmt::Debug for Flow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let targets = |routes: &[Route]| -> Arc<[Vec<String>]> {
            routes.iter().map(|route| route.to.clone()).collect()
        };
        f.debug_struct("Flow")
            .field("task", &self.task)
            .field("routes", &targets(&self.routes))
            .field("exceptions", &targets(&self.exceptions))
            .finish()
    }
}

#[cfg(test)]
mod tests;
