//! Groups: segments with equal keys become one row.
//!
//! A grouped task has partitions; each is the state of one [`Groups`], which lives where the
//! partition is worked on and is saved in the transaction that consumed the segments. Everything
//! happens for whole columns: keys become group numbers, and each aggregate takes the column and the
//! numbers.

mod accumulator;
mod avg;
mod collect;
mod count;
mod fold;
mod gather;
mod intern;
mod keys;
mod user;

use std::{mem, sync::Arc, time::Duration};

use arrow::{
    array::{ArrayRef, RecordBatch, RecordBatchOptions},
    datatypes::{Field, Schema},
};
use serde_json::{Value, json};

pub(crate) use accumulator::Accumulator;
pub use collect::COLLECT_MAX;
pub use gather::Gatherer;
pub(crate) use gather::is_gathered;
pub use user::Aggregate;
pub(crate) use user::OfRecords;

use crate::{Registry, Terms, partition};
use accumulator::How;
use keys::Keys;

/// How many groups a partition can have.
pub const GROUPS_MAX: usize = u32::MAX as usize;

/// How many partitions a grouped task can have.
pub const PARTITIONS_MAX: u16 = 1024;

/// How many it has if nothing is said: enough for as many peers, and few enough to be cheap.
const PARTITIONS: u16 = 8;

/// The keys that a grouped task may have, beside those of all tasks.
pub(crate) const KEYS: &[&str] = &["of", "as", "aggregates", "partitions", "trigger"];

/// Makes an accumulator for one partition.
pub(crate) type MakeAccumulator = Arc<dyn Fn() -> Box<dyn Accumulator> + Send + Sync>;

/// How a task groups: by which columns, and what becomes of the groups. Made from its terms once.
#[derive(Clone)]
pub struct Grouping(Arc<Plan>);

struct Plan {
    keys: Vec<String>,
    partitions: u16,
    trigger: Option<Duration>,
    aggregates: Vec<(String, MakeAccumulator)>,
}

impl Grouping {
    /// Reads the terms of a task with `group-by`. Its function need not be an aggregate: then its
    /// segments are only brought together by key.
    pub(crate) fn new(terms: &Terms, registry: &Registry) -> Result<Grouping, String> {
        let keys: Vec<String> = terms.texts("group-by")?.into_iter().map(str::to_owned).collect();
        if keys.is_empty() {
            return Err("needs group-by: write group-by = [\"word\"]".into());
        }
        let name = terms.text("fn")?.unwrap_or_default();
        let aggregates = match name {
            "aggregate" => several(terms, registry)?,
            name if registry.is_aggregate(name) => {
                let column = terms.text("as")?.unwrap_or(name).to_owned();
                vec![(column, registry.make_accumulator(name, terms)?)]
            }
            _ => Vec::new(),
        };
        let mut columns: Vec<&str> = keys.iter().map(String::as_str).collect();
        for (column, _) in &aggregates {
            if columns.contains(&column.as_str()) {
                return Err(format!("two columns would be called {column}: write as = \"…\""));
            }
            columns.push(column);
        }
        let plan = Plan {
            partitions: partitions(terms)?,
            trigger: terms.duration("trigger")?,
            keys,
            aggregates,
        };
        Ok(Grouping(Arc::new(plan)))
    }

    /// The columns by which is grouped.
    pub fn keys(&self) -> &[String] {
        &self.0.keys
    }

    /// How many partitions the task's queue has, for good.
    pub fn partitions(&self) -> u16 {
        self.0.partitions
    }

    /// How often groups that changed are emitted before the end, if they are.
    pub fn trigger(&self) -> Option<Duration> {
        self.0.trigger
    }

    /// Whether groups become rows. If not, the task runs a function on segments that come together
    /// by key.
    pub fn has_aggregates(&self) -> bool {
        !self.0.aggregates.is_empty()
    }

    /// The empty state of a partition.
    pub fn groups(&self) -> Groups {
        Groups {
            plan: self.0.clone(),
            keys: Keys::Unknown,
            accumulators: self.0.aggregates.iter().map(|(_, make)| make()).collect(),
            marks: Vec::new(),
            unsaved: Vec::new(),
            unemitted: Vec::new(),
            ids: Vec::new(),
        }
    }
}

fn partitions(terms: &Terms) -> Result<u16, String> {
    let Some(number) = terms.number("partitions")? else { return Ok(PARTITIONS) };
    match u16::try_from(number) {
        Ok(number @ 1..=PARTITIONS_MAX) => Ok(number),
        _ => Err(format!("partitions is a number from 1 to {PARTITIONS_MAX}, not {number}")),
    }
}

/// `aggregates = { total = "sum(bytes)", n = "count" }`.
fn several(terms: &Terms, registry: &Registry) -> Result<Vec<(String, MakeAccumulator)>, String> {
    let example = "write aggregates = { n = \"count\", total = \"sum(bytes)\" }";
    let table = match terms.keys.get("aggregates") {
        Some(Value::Object(table)) if !table.is_empty() => table,
        _ => return Err(format!("needs aggregates: {example}")),
    };
    let mut aggregates = Vec::new();
    for (column, call) in table {
        let at = |why: &str| format!("aggregates.{column}: {why}");
        let call = call.as_str().ok_or_else(|| at(example))?.trim();
        let (name, of) = match call.split_once('(') {
            None => (call, None),
            Some((name, rest)) => {
                let of = rest.strip_suffix(')').ok_or_else(|| at("there is no ) at the end"))?;
                (name.trim(), Some(of.trim()).filter(|of| !of.is_empty() && *of != "*"))
            }
        };
        let mut one = terms.clone();
        one.keys.remove("of");
        one.keys.extend(of.map(|of| ("of".to_owned(), json!(of))));
        let make = registry.make_accumulator(name, &one).map_err(|why| at(&why))?;
        aggregates.push((column.clone(), make));
    }
    Ok(aggregates)
}

/// Adds the aggregates that come with Sardonyx.
pub(crate) fn register(registry: &mut Registry) {
    use fold::{Fold, Op};
    registry.accumulator("count", |terms| {
        let of = terms.text("of")?.map(str::to_owned);
        Ok(Arc::new(move || Box::new(count::Count::new(of.clone()))))
    });
    registry.accumulator("sum", |terms| of_column(terms, |of| Fold::new(Op::Sum, of)));
    registry.accumulator("min", |terms| of_column(terms, |of| Fold::new(Op::Min, of)));
    registry.accumulator("max", |terms| of_column(terms, |of| Fold::new(Op::Max, of)));
    registry.accumulator("avg", |terms| of_column(terms, avg::Avg::new));
    registry.accumulator("collect", |terms| of_column(terms, collect::Collect::new));
}

fn of_column<A: Accumulator + 'static>(
    terms: &Terms,
    make: impl Fn(&str) -> A + Send + Sync + 'static,
) -> Result<MakeAccumulator, String> {
    let of = terms.required_text("of", "bytes")?.to_owned();
    Ok(Arc::new(move || Box::new(make(&of))))
}

const UNSAVED: u8 = 1;
const UNEMITTED: u8 = 2;

/// The groups of one partition. After an error it is no longer of use: make a new one and load what
/// was saved.
pub struct Groups {
    plan: Arc<Plan>,
    keys: Keys,
    accumulators: Vec<Box<dyn Accumulator>>,
    /// For each group, whether it is in `unsaved` and `unemitted`.
    marks: Vec<u8>,
    unsaved: Vec<u32>,
    unemitted: Vec<u32>,
    /// The group of each row at hand; kept for its memory.
    ids: Vec<u32>,
}

impl Groups {
    /// Takes segments in, gathered ones included. An empty batch changes nothing.
    pub fn add(&mut self, batch: &RecordBatch) -> Result<(), String> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        if is_gathered(batch) {
            return self.merge(batch);
        }
        let columns = partition::columns(batch, &self.plan.keys)?;
        self.keys.intern(&columns, &mut self.ids)?;
        let n_groups = self.keys.len();
        for accumulator in &mut self.accumulators {
            accumulator.add(batch, &self.ids, n_groups)?;
        }
        self.mark(UNSAVED | UNEMITTED);
        Ok(())
    }

    /// What must be saved of the groups that changed since this was last asked, one row for each.
    pub fn changed(&mut self) -> Result<Option<RecordBatch>, String> {
        let which = mem::take(&mut self.unsaved);
        which.iter().for_each(|group| self.marks[*group as usize] &= !UNSAVED);
        self.saved(&which)
    }

    /// What must be saved of all groups: [`Groups::load`] of it into empty groups makes them equal.
    pub fn snapshot(&self) -> Result<Option<RecordBatch>, String> {
        self.saved(&self.all())
    }

    /// Takes back what was saved. Load in the order of saving: later rows of a group win. What is
    /// loaded counts as saved, and as not emitted.
    pub fn load(&mut self, saved: &RecordBatch) -> Result<(), String> {
        self.take_in(saved, How::Replace)?;
        self.mark(UNEMITTED);
        Ok(())
    }

    /// Takes in what another place gathered, in the saved form: segments that were aggregated where
    /// they arose, before they travelled. The groups are changed by it.
    pub fn merge(&mut self, saved: &RecordBatch) -> Result<(), String> {
        self.take_in(saved, How::Merge)?;
        self.mark(UNSAVED | UNEMITTED);
        Ok(())
    }

    /// The results, a row for each group: all of them, or those that changed since this was last
    /// asked. The columns are the keys and then the aggregates.
    pub fn emit(
        &mut self,
        only_changed_since_last_emit: bool,
    ) -> Result<Option<RecordBatch>, String> {
        let changed = mem::take(&mut self.unemitted);
        changed.iter().for_each(|group| self.marks[*group as usize] &= !UNEMITTED);
        let which = if only_changed_since_last_emit { changed } else { self.all() };
        if which.is_empty() {
            return Ok(None);
        }
        let mut columns = Vec::new();
        for (name, column) in self.plan.keys.iter().zip(self.keys.columns(&which)?) {
            columns.push((name.clone(), column));
        }
        for ((name, _), accumulator) in self.plan.aggregates.iter().zip(&self.accumulators) {
            columns.push((name.clone(), accumulator.emit(&which)?));
        }
        batch(columns, which.len()).map(Some)
    }

    /// How many groups there are.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn all(&self) -> Vec<u32> {
        (0..self.keys.len() as u32).collect()
    }

    fn mark(&mut self, mark: u8) {
        self.marks.resize(self.keys.len(), 0);
        for group in &self.ids {
            let marks = &mut self.marks[*group as usize];
            let new = mark & !*marks;
            if new != 0 {
                *marks |= new;
                self.unsaved.extend((new & UNSAVED != 0).then_some(*group));
                self.unemitted.extend((new & UNEMITTED != 0).then_some(*group));
            }
        }
    }

    fn saved(&self, which: &[u32]) -> Result<Option<RecordBatch>, String> {
        if which.is_empty() {
            return Ok(None);
        }
        let keys = self.keys.columns(which)?;
        let mut columns: Vec<(String, ArrayRef)> =
            keys.into_iter().enumerate().map(|(at, key)| (key_name(at), key)).collect();
        for (at, accumulator) in self.accumulators.iter().enumerate() {
            for (part, column) in accumulator.save(which)?.into_iter().enumerate() {
                columns.push((format!("state.{at}.{part}"), column));
            }
        }
        batch(columns, which.len()).map(Some)
    }

    fn take_in(&mut self, saved: &RecordBatch, how: How) -> Result<(), String> {
        let n_keys = self.plan.keys.len();
        let n_states: usize = self.accumulators.iter().map(|it| it.n_columns()).sum();
        if saved.num_columns() != n_keys + n_states {
            return Err(format!(
                "saved groups have {} columns, not {}: they are of another task",
                saved.num_columns(),
                n_keys + n_states
            ));
        }
        let (keys, mut states) = saved.columns().split_at(n_keys);
        self.keys.intern(keys, &mut self.ids)?;
        let n_groups = self.keys.len();
        for accumulator in &mut self.accumulators {
            let (own, rest) = states.split_at(accumulator.n_columns());
            if saved.num_rows() > 0 {
                accumulator.load(own, &self.ids, n_groups, how)?;
            }
            states = rest;
        }
        Ok(())
    }
}

/// What the saved column of a key is called.
pub(crate) fn key_name(at: usize) -> String {
    format!("key.{at}")
}

fn batch(columns: Vec<(String, ArrayRef)>, n_rows: usize) -> Result<RecordBatch, String> {
    let field =
        |(name, column): &(String, ArrayRef)| Field::new(name, column.data_type().clone(), true);
    let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
    let columns = columns.into_iter().map(|(_, column)| column).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(n_rows));
    RecordBatch::try_new_with_options(Arc::new(schema), columns, &options)
        .map_err(|why| why.to_string())
}

#[cfg(test)]
mod tests;
