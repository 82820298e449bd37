//! `count`: rows, or with `of` those in which a column is not null.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch},
    datatypes::Int64Type,
};

use super::accumulator::{Accumulator, How};
use crate::partition;

pub(super) struct Count {
    of: Option<String>,
    counts: Vec<i64>,
}

impl Count {
    pub(super) fn new(of: Option<String>) -> Count {
        Count { of, counts: Vec::new() }
    }
}

impl Accumulator for Count {
    fn add(&mut self, batch: &RecordBatch, groups: &[u32], n_groups: usize) -> Result<(), String> {
        self.counts.resize(n_groups, 0);
        let counts = &mut self.counts;
        let nulls = match &self.of {
            Some(of) => partition::column(batch, of)?.logical_nulls(),
            None => None,
        };
        match nulls.filter(|nulls| nulls.null_count() > 0) {
            None => groups.iter().for_each(|group| counts[*group as usize] += 1),
            Some(nulls) => {
                for (group, is_there) in groups.iter().zip(nulls.iter()) {
                    counts[*group as usize] += i64::from(is_there);
                }
            }
        }
        Ok(())
    }

    fn save(&self, which: &[u32]) -> Result<Vec<ArrayRef>, String> {
        Ok(vec![self.emit(which)?])
    }

    fn load(
        &mut self,
        saved: &[ArrayRef],
        groups: &[u32],
        n_groups: usize,
        how: How,
    ) -> Result<(), String> {
        self.counts.resize(n_groups, 0);
        let saved = saved[0].as_primitive_opt::<Int64Type>().ok_or("a saved count is no number")?;
        for (group, saved) in groups.iter().zip(saved.values()) {
            let count = &mut self.counts[*group as usize];
            *count = if how == How::Merge { *count + saved } else { *saved };
        }
        Ok(())
    }

    fn emit(&self, which: &[u32]) -> Result<ArrayRef, String> {
        let counts = which.iter().map(|group| self.counts[*group as usize]);
        Ok(Arc::new(Int64Array::from_iter_values(counts)))
    }
}
