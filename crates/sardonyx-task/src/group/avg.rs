//! `avg`: the mean as a float; null if there was no value.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch},
    compute::cast,
    datatypes::{DataType, Float64Type, Int64Type},
};

use super::accumulator::{Accumulator, How};
use crate::partition;

pub(super) struct Avg {
    of: String,
    sums: Vec<f64>,
    counts: Vec<i64>,
}

impl Avg {
    pub(super) fn new(of: &str) -> Avg {
        Avg { of: of.into(), sums: Vec::new(), counts: Vec::new() }
    }

    fn resize(&mut self, n_groups: usize) {
        self.sums.resize(n_groups, 0.0);
        self.counts.resize(n_groups, 0);
    }
}

impl Accumulator for Avg {
    fn add(&mut self, batch: &RecordBatch, groups: &[u32], n_groups: usize) -> Result<(), String> {
        self.resize(n_groups);
        let column = partition::plain(partition::column(batch, &self.of)?)?;
        let data_type = column.data_type();
        if !data_type.is_numeric() && !data_type.is_null() {
            let of = &self.of;
            return Err(format!("avg({of}): {data_type} has no mean: cast it to a number before"));
        }
        let column = cast(&column, &DataType::Float64).map_err(|why| why.to_string())?;
        let column = column.as_primitive::<Float64Type>();
        let has_nulls = column.null_count() > 0;
        for (row, (value, group)) in column.values().iter().zip(groups).enumerate() {
            if has_nulls && column.is_null(row) {
                continue;
            }
            self.sums[*group as usize] += value;
            self.counts[*group as usize] += 1;
        }
        Ok(())
    }

    fn save(&self, which: &[u32]) -> Result<Vec<ArrayRef>, String> {
        let sums = which.iter().map(|group| self.sums[*group as usize]);
        let counts = which.iter().map(|group| self.counts[*group as usize]);
        Ok(vec![
            Arc::new(Float64Array::from_iter_values(sums)),
            Arc::new(Int64Array::from_iter_values(counts)),
        ])
    }

    fn load(
        &mut self,
        saved: &[ArrayRef],
        groups: &[u32],
        n_groups: usize,
        how: How,
    ) -> Result<(), String> {
        self.resize(n_groups);
        let sums = saved[0].as_primitive_opt::<Float64Type>().ok_or("a saved sum is no float")?;
        let counts =
            saved[1].as_primitive_opt::<Int64Type>().ok_or("a saved count is no number")?;
        for ((group, sum), count) in groups.iter().zip(sums.values()).zip(counts.values()) {
            let group = *group as usize;
            if how == How::Replace {
                (self.sums[group], self.counts[group]) = (0.0, 0);
            }
            self.sums[group] += sum;
            self.counts[group] += count;
        }
        Ok(())
    }

    fn emit(&self, which: &[u32]) -> Result<ArrayRef, String> {
        let mean = |group: &u32| {
            let group = *group as usize;
            let count = self.counts[group];
            (count > 0).then(|| self.sums[group] / count as f64)
        };
        Ok(Arc::new(which.iter().map(mean).collect::<Float64Array>()))
    }

    fn n_columns(&self) -> usize {
        2
    }
}
