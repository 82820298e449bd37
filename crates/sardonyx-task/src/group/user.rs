//! Aggregates that users write in Rust, over serde types.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, AsArray, RecordBatch, StringArray},
    datatypes::FieldRef,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_arrow::{schema::SchemaLike, utils::Item};

use super::accumulator::{Accumulator, How};
use crate::record;

/// A user's aggregate: how the records of one group become one result.
///
/// A state is saved as JSON in the transaction that consumed the records, so it must come back
/// from JSON as it was.
pub trait Aggregate: Send + Sync + 'static {
    /// What is read of a record: any of its columns.
    type Record: DeserializeOwned;
    /// What is kept for each group.
    type State: Serialize + DeserializeOwned + Send;
    /// What comes out: a value, or a struct, in one column.
    type Result: Serialize + DeserializeOwned;

    /// The state of a group without records.
    fn init(&self) -> Self::State;

    /// Takes one more record in.
    fn add(&self, state: &mut Self::State, record: Self::Record) -> Result<(), String>;

    /// Takes in what another place gathered of the same group.
    fn merge(&self, state: &mut Self::State, other: Self::State) -> Result<(), String>;

    /// The result so far.
    fn emit(&self, state: &Self::State) -> Self::Result;
}

pub(crate) struct OfRecords<A: Aggregate> {
    aggregate: Arc<A>,
    states: Vec<A::State>,
    result: Option<Vec<FieldRef>>,
}

impl<A: Aggregate> OfRecords<A> {
    pub(crate) fn new(aggregate: Arc<A>) -> OfRecords<A> {
        let options = record::tracing_options();
        let result = Vec::<FieldRef>::from_type::<Item<A::Result>>(options).ok();
        OfRecords { aggregate, states: Vec::new(), result }
    }

    fn resize(&mut self, n_groups: usize) {
        let aggregate = &self.aggregate;
        self.states.resize_with(n_groups, || aggregate.init());
    }
}

impl<A: Aggregate> Accumulator for OfRecords<A> {
    fn add(&mut self, batch: &RecordBatch, groups: &[u32], n_groups: usize) -> Result<(), String> {
        self.resize(n_groups);
        for (record, group) in record::records(batch)?.into_iter().zip(groups) {
            self.aggregate.add(&mut self.states[*group as usize], record)?;
        }
        Ok(())
    }

    fn save(&self, which: &[u32]) -> Result<Vec<ArrayRef>, String> {
        let json = |group: &u32| serde_json::to_string(&self.states[*group as usize]);
        let states = which.iter().map(json).collect::<Result<Vec<_>, _>>();
        let states = states.map_err(|why| format!("the state has no JSON form: {why}"))?;
        Ok(vec![Arc::new(StringArray::from(states))])
    }

    fn load(
        &mut self,
        saved: &[ArrayRef],
        groups: &[u32],
        n_groups: usize,
        how: How,
    ) -> Result<(), String> {
        self.resize(n_groups);
        let saved = saved[0].as_string_opt::<i32>().ok_or("a saved state is no text")?;
        for (saved, group) in saved.iter().zip(groups) {
            let saved = serde_json::from_str(saved.unwrap_or("null"));
            let saved = saved.map_err(|why| format!("a saved state cannot be read: {why}"))?;
            let state = &mut self.states[*group as usize];
            match how {
                How::Replace => *state = saved,
                How::Merge => self.aggregate.merge(state, saved)?,
            }
        }
        Ok(())
    }

    fn can_gather(&self) -> bool {
        false
    }

    fn emit(&self, which: &[u32]) -> Result<ArrayRef, String> {
        let result = |group: &u32| Item(self.aggregate.emit(&self.states[*group as usize]));
        let results: Vec<_> = which.iter().map(result).collect();
        let wrong = |why: serde_arrow::Error| format!("the result has no column: {why}");
        let fields = match &self.result {
            Some(fields) => fields.clone(),
            None => {
                let options = record::tracing_options();
                Vec::<FieldRef>::from_samples(&results, options).map_err(wrong)?
            }
        };
        let columns = serde_arrow::to_arrow(&fields, &results).map_err(wrong)?;
        columns.into_iter().next().ok_or_else(|| "the result has no column".into())
    }
}
