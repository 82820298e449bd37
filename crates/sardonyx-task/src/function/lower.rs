//! `lower`: a column of texts in small letters.

#![expect(clippy::wildcard_enum_match_arm, reason = "Arrow has many more types")]

use std::sync::Arc;

use arrow::{
    array::{Array, AsArray, RecordBatch, StringBuilder},
    compute::cast,
    datatypes::DataType,
};

use super::columns;
use crate::{Function, Terms, partition, sql};

/// The function of that name.
pub(super) struct Lower {
    column: String,
    name: String,
}

impl Lower {
    pub(super) fn new(terms: &Terms) -> Result<Lower, String> {
        let column = terms.text("column")?.unwrap_or("line").to_owned();
        let name = terms.text("as")?.unwrap_or(&column).to_owned();
        Ok(Lower { column, name })
    }
}

impl Function for Lower {
    fn apply(&mut self, batch: &RecordBatch) -> Result<RecordBatch, String> {
        let column = partition::column(batch, &self.column)?;
        let column = match column.data_type() {
            DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
            | DataType::Dictionary(_, _) => {
                cast(column, &DataType::Utf8).map_err(|why| why.to_string())?
            }
            other => return Err(format!("{} is {other}, not a text", self.column)),
        };
        let texts = column.as_string::<i32>();
        let mut small = StringBuilder::with_capacity(texts.len(), texts.value_data().len());
        let mut text = String::new();
        for it in texts {
            text.clear();
            it.into_iter().for_each(|it| sql::lower(it, &mut text));
            small.append_option(it.map(|_| &text));
        }
        columns::with(batch, &self.name, Arc::new(small.finish()))
    }
}
