//! `collect`: all values of a column as a list, in the order in which they came, nulls included.
//!
//! Values stay in the arrays they came in; a group knows their places. Arrays are joined like the
//! digits of a binary counter, so that there are few of them and each value is moved rarely.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, ListArray, RecordBatch, new_null_array},
    buffer::OffsetBuffer,
    compute::{cast, concat, interleave},
    datatypes::{DataType, Field},
};

use super::accumulator::{Accumulator, How};
use crate::partition;

/// How many values one group can collect. A list is kept, and saved, as a whole.
pub const COLLECT_MAX: usize = 1 << 20;

pub(super) struct Collect {
    of: String,
    data_type: Option<DataType>,
    chunks: Vec<Chunk>,
    /// The places of each group's values, counted through all chunks.
    places: Vec<Vec<usize>>,
}

struct Chunk {
    /// The place of its first value.
    start: usize,
    values: ArrayRef,
}

impl Collect {
    pub(super) fn new(of: &str) -> Collect {
        Collect { of: of.into(), data_type: None, chunks: Vec::new(), places: Vec::new() }
    }

    /// Keeps the values, and says where the first of them now is.
    fn push(&mut self, values: &ArrayRef) -> Result<usize, String> {
        let values = partition::plain(values)?;
        if self.data_type == Some(DataType::Null) && !values.data_type().is_null() {
            // So far there were only nulls without a type; now there is one.
            self.data_type = Some(values.data_type().clone());
            for chunk in &mut self.chunks {
                chunk.values = new_null_array(values.data_type(), chunk.values.len());
            }
        }
        let data_type = self.data_type.get_or_insert_with(|| values.data_type().clone());
        let values = match values.data_type() == data_type {
            true => values,
            false => cast(&values, data_type).map_err(|why| {
                let of = &self.of;
                format!("collect({of}): values were {data_type} and are not any more: {why}")
            })?,
        };
        let start = self.chunks.last().map_or(0, |last| last.start + last.values.len());
        self.chunks.push(Chunk { start, values });
        while let [.., before, last] = &self.chunks[..]
            && before.values.len() <= last.values.len()
        {
            let joined = concat(&[&before.values, &last.values]).map_err(|why| why.to_string())?;
            let start = before.start;
            self.chunks.truncate(self.chunks.len() - 2);
            self.chunks.push(Chunk { start, values: joined });
        }
        Ok(start)
    }

    fn collect(
        &mut self,
        group: u32,
        places: impl IntoIterator<Item = usize>,
    ) -> Result<(), String> {
        let kept = &mut self.places[group as usize];
        kept.extend(places);
        match kept.len() > COLLECT_MAX {
            true => Err(format!("collect({}): a group has at most {COLLECT_MAX} values", self.of)),
            false => Ok(()),
        }
    }

    fn find(&self, place: usize) -> (usize, usize) {
        let chunk = self.chunks.partition_point(|chunk| chunk.start <= place) - 1;
        (chunk, place - self.chunks[chunk].start)
    }
}

impl Accumulator for Collect {
    fn add(&mut self, batch: &RecordBatch, groups: &[u32], n_groups: usize) -> Result<(), String> {
        self.places.resize(n_groups, Vec::new());
        let start = self.push(partition::column(batch, &self.of)?)?;
        for (row, group) in groups.iter().enumerate() {
            self.collect(*group, [start + row])?;
        }
        Ok(())
    }

    fn save(&self, which: &[u32]) -> Result<Vec<ArrayRef>, String> {
        self.emit(which).map(|column| vec![column])
    }

    fn load(
        &mut self,
        saved: &[ArrayRef],
        groups: &[u32],
        n_groups: usize,
        how: How,
    ) -> Result<(), String> {
        self.places.resize(n_groups, Vec::new());
        let lists = saved[0].as_list_opt::<i32>().ok_or("what was collected is no list")?;
        let start = self.push(lists.values())?;
        for (ends, group) in lists.value_offsets().windows(2).zip(groups) {
            if how == How::Replace {
                self.places[*group as usize].clear();
            }
            self.collect(*group, start + ends[0] as usize..start + ends[1] as usize)?;
        }
        Ok(())
    }

    fn can_gather(&self) -> bool {
        false
    }

    fn emit(&self, which: &[u32]) -> Result<ArrayRef, String> {
        let data_type = self.data_type.clone().unwrap_or(DataType::Null);
        let lists = || which.iter().map(|group| &self.places[*group as usize]);
        let n_values: usize = lists().map(Vec::len).sum();
        if n_values > i32::MAX as usize {
            return Err(format!("collect({}): too many values: raise partitions", self.of));
        }
        let places: Vec<_> = lists().flatten().map(|place| self.find(*place)).collect();
        let chunks: Vec<&dyn Array> = self.chunks.iter().map(|it| it.values.as_ref()).collect();
        let values = match chunks.is_empty() {
            true => arrow::array::new_empty_array(&data_type),
            false => interleave(&chunks, &places).map_err(|why| why.to_string())?,
        };
        let offsets = OffsetBuffer::from_lengths(lists().map(Vec::len));
        let field = Arc::new(Field::new_list_field(data_type, true));
        let lists = ListArray::try_new(field, offsets, values, None);
        Ok(Arc::new(lists.map_err(|why| why.to_string())?))
    }
}
