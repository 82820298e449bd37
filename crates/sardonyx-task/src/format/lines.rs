//! Text lines: one column, `line`, without the line's end.

use std::sync::Arc;

use arrow::{
    array::RecordBatch,
    datatypes::{DataType, Field, Schema, SchemaRef},
};

use super::{Fault, Records, Unfit, bare_line, column::Text, line_end};

/// The name of the column.
pub(crate) const COLUMN: &str = "line";

/// The one column of a file of lines.
pub(crate) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new(COLUMN, DataType::Utf8, false)]))
}

/// Lines that are being read.
pub(crate) struct Lines {
    schema: SchemaRef,
    text: Text,
}

impl Lines {
    pub(crate) fn new() -> Lines {
        Lines { schema: schema(), text: Text::default() }
    }
}

impl Records for Lines {
    fn take(&mut self, bytes: &[u8], is_last: bool, rows_max: usize) -> Result<usize, Fault> {
        let mut at = 0;
        let room = rows_max.saturating_sub(self.text.len());
        for end in memchr::memchr_iter(b'\n', bytes).take(room) {
            self.text.push(bare_line(&bytes[at..end]));
            at = end + 1;
            if self.text.is_full() {
                return Ok(at);
            }
        }
        if self.text.len() < rows_max
            && let Some(end) = line_end(&bytes[at..], is_last)
        {
            // Only the last line can be left, and it has no end.
            self.text.push(bare_line(&bytes[at..at + end]));
            at += end;
        }
        Ok(at)
    }

    fn n_rows(&self) -> usize {
        self.text.len()
    }

    fn is_full(&self) -> bool {
        self.text.is_full()
    }

    fn finish(&mut self) -> Result<RecordBatch, Unfit> {
        let lines = self.text.finish(None)?;
        RecordBatch::try_new(self.schema.clone(), vec![lines])
            .map_err(|why| Unfit::Other(why.to_string()))
    }
}
