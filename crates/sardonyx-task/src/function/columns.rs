//! Putting columns into a batch, as functions do that keep the others.

use arrow::{
    array::{ArrayRef, RecordBatch, RecordBatchOptions},
    datatypes::{Field, Schema},
};
use std::sync::Arc;

/// The batch with this column: in the place of the one of that name, or behind the others.
pub(super) fn with(
    batch: &RecordBatch,
    name: &str,
    column: ArrayRef,
) -> Result<RecordBatch, String> {
    let schema = batch.schema();
    let field = Field::new(name, column.data_type().clone(), true);
    let mut fields: Vec<Field> = schema.fields().iter().map(|it| it.as_ref().clone()).collect();
    let mut columns = batch.columns().to_vec();
    match fields.iter().position(|it| it.name() == name) {
        Some(at) => (fields[at], columns[at]) = (field, column),
        None => {
            fields.push(field);
            columns.push(column);
        }
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
        .map_err(|why| why.to_string())
}

/// The batch without this column.
pub(super) fn without(batch: &RecordBatch, name: &str) -> Result<RecordBatch, String> {
    let schema = batch.schema();
    let places = schema.fields().iter().enumerate().filter(|(_, it)| it.name() != name);
    let places: Vec<usize> = places.map(|(at, _)| at).collect();
    batch.project(&places).map_err(|why| why.to_string())
}
