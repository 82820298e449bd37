//! `explode`: one row for each element of a list; the other columns are repeated.
//!
//! A list without elements, or none at all, gives no rows.

#![expect(clippy::wildcard_enum_match_arm, reason = "Arrow has many more types")]

use std::sync::Arc;

use arrow::{
    array::{Array, AsArray, RecordBatch, UInt32Array},
    compute::{cast, take, take_record_batch},
    datatypes::DataType,
};

use super::columns;
use crate::{Function, Terms, partition};

/// The function of that name.
pub(super) struct Explode {
    column: String,
    name: String,
}

impl Explode {
    pub(super) fn new(terms: &Terms) -> Result<Explode, String> {
        let column = terms.required_text("column", "tags")?.to_owned();
        let name = terms.text("as")?.unwrap_or(&column).to_owned();
        Ok(Explode { column, name })
    }
}

impl Function for Explode {
    fn apply(&mut self, batch: &RecordBatch) -> Result<RecordBatch, String> {
        let column = partition::column(batch, &self.column)?;
        let lists = match column.data_type() {
            DataType::List(_) => column.clone(),
            DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
                cast(column, &DataType::List(field.clone())).map_err(|why| why.to_string())?
            }
            other => return Err(format!("{} is {other}, not a list", self.column)),
        };
        let lists = lists.as_list::<i32>();
        let mut rows = Vec::new();
        let mut elements = Vec::new();
        for (row, ends) in lists.value_offsets().windows(2).enumerate() {
            if lists.is_valid(row) {
                rows.extend((ends[0]..ends[1]).map(|_| row as u32));
                elements.extend(ends[0] as u32..ends[1] as u32);
            }
        }
        let elements = take(lists.values(), &UInt32Array::from(elements), None);
        let elements = elements.map_err(|why| why.to_string())?;
        let others = columns::without(batch, &self.column)?;
        let n_rows = rows.len();
        let others = match others.num_columns() {
            // Taking from no columns forgets how many rows there are.
            0 => {
                let fields = vec![arrow::datatypes::Field::new(
                    &self.name,
                    elements.data_type().clone(),
                    true,
                )];
                let schema = Arc::new(arrow::datatypes::Schema::new(fields));
                return RecordBatch::try_new(schema, vec![elements]).map_err(|why| why.to_string());
            }
            _ => take_record_batch(&others, &UInt32Array::from(rows)),
        };
        let others = others.map_err(|why| why.to_string())?;
        debug_assert_eq!(others.num_rows(), n_rows);
        columns::with(&others, &self.name, elements)
    }
}
