//! Functions that see one record: any serde type in, none, one or many out.
//!
//! Rows become values of the user's type and its results become columns again (serde_arrow). This
//! costs more than a function of batches, and saves the user from knowing Arrow.

use std::{marker::PhantomData, sync::Arc};

use arrow::{
    array::{BooleanArray, RecordBatch},
    datatypes::{FieldRef, Schema},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_arrow::schema::{SchemaLike, TracingOptions};

use crate::Function;

/// A function of batches out of one of records.
pub struct EachRecord<In, Out, F> {
    function: F,
    /// Learned from the type, or from the first records if the type does not say enough.
    columns: Option<Vec<FieldRef>>,
    types: PhantomData<fn(In) -> Out>,
}

impl<In, Out, Many, F> EachRecord<In, Out, F>
where
    In: DeserializeOwned,
    Out: Serialize + DeserializeOwned,
    Many: IntoIterator<Item = Out>,
    F: FnMut(In) -> Result<Many, String>,
{
    /// Calls `function` for every record.
    pub fn new(function: F) -> EachRecord<In, Out, F> {
        EachRecord { function, columns: columns_of_type::<Out>(), types: PhantomData }
    }
}

impl<In, Out, Many, F> Function for EachRecord<In, Out, F>
where
    In: DeserializeOwned,
    Out: Serialize + DeserializeOwned,
    Many: IntoIterator<Item = Out>,
    F: FnMut(In) -> Result<Many, String> + Send,
{
    fn apply(&mut self, batch: &RecordBatch) -> Result<RecordBatch, String> {
        let mut out = Vec::with_capacity(batch.num_rows());
        for record in records::<In>(batch)? {
            out.extend((self.function)(record)?);
        }
        match &self.columns {
            Some(columns) => batch_of(columns, &out),
            None if out.is_empty() => Ok(RecordBatch::new_empty(Arc::new(Schema::empty()))),
            None => {
                let columns = columns_of_records(&out)?;
                let batch = batch_of(&columns, &out)?;
                self.columns = Some(columns);
                Ok(batch)
            }
        }
    }
}

/// The rows of a batch as values.
pub fn records<T: DeserializeOwned>(batch: &RecordBatch) -> Result<Vec<T>, String> {
    if batch.num_rows() == 0 {
        return Ok(Vec::new());
    }
    if batch.num_columns() == 0 {
        // Nothing tells serde_arrow how many rows there are then.
        let empty = || serde_json::from_value(serde_json::Value::Object(Default::default()));
        let read = (0..batch.num_rows()).map(|_| empty()).collect::<Result<_, _>>();
        return read.map_err(|why| format!("a record without columns does not fit: {why}"));
    }
    serde_arrow::from_record_batch(batch).map_err(|why| {
        let schema = batch.schema();
        let columns: Vec<&str> = schema.fields().iter().map(|it| it.name().as_str()).collect();
        format!("the record does not fit the function: {why}; its columns are {columns:?}")
    })
}

/// Values as the rows of a batch; the columns are learned from the values.
pub fn batch<T: Serialize>(records: &[T]) -> Result<RecordBatch, String> {
    batch_of(&columns_of_records(records)?, records)
}

/// The predicate over batches out of one over records.
pub(crate) fn predicate<In: DeserializeOwned>(
    test: impl Fn(&In) -> bool,
    batch: &RecordBatch,
) -> Result<BooleanArray, String> {
    let records = records::<In>(batch)?;
    Ok(BooleanArray::from(records.iter().map(test).collect::<Vec<bool>>()))
}

/// One row as a JSON object, for whoever looks at a record that failed.
pub(crate) fn json_of_row(batch: &RecordBatch, row: usize) -> String {
    let row = batch.slice(row, 1);
    let value: Result<Vec<serde_json::Value>, String> = records(&row);
    match value.as_deref() {
        Ok([value]) => value.to_string(),
        // Not every column has a serde form (intervals, say): then as it is shown.
        _ => format!("{:?}", row.columns()),
    }
}

pub(crate) fn tracing_options() -> TracingOptions {
    TracingOptions::default()
        .allow_null_fields(true)
        .map_as_struct(true)
        .strings_as_large_utf8(false)
        .sequence_as_large_list(false)
}

fn columns_of_type<T: DeserializeOwned>() -> Option<Vec<FieldRef>> {
    Vec::<FieldRef>::from_type::<T>(tracing_options()).ok()
}

fn columns_of_records<T: Serialize>(records: &[T]) -> Result<Vec<FieldRef>, String> {
    Vec::<FieldRef>::from_samples(records, tracing_options())
        .map_err(|why| format!("the records have no columns: {why}"))
}

fn batch_of<T: Serialize>(columns: &[FieldRef], records: &[T]) -> Result<RecordBatch, String> {
    serde_arrow::to_record_batch(columns, &records)
        .map_err(|why| format!("a result does not fit the columns: {why}"))
}
