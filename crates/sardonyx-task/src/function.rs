//! Functions: a batch of segments in, a batch of segments out.

mod columns;
mod explode;
mod lower;
mod parse_json;
mod split_words;

use std::sync::Arc;

use arrow::array::RecordBatch;

use crate::{Registry, sql::Sql};

/// What a task does to segments.
pub trait Function: Send {
    /// Makes a batch of a batch: as many rows as it likes, none included, of any columns. An error
    /// is about the batch as a whole; the pipeline finds out which row is at fault by halving it, so
    /// the same rows may be seen several times ([`Function::is_bulk`] says that they must not be).
    ///
    /// An empty batch is how columns are asked for before there is data.
    fn apply(&mut self, batch: &RecordBatch) -> Result<RecordBatch, String>;

    /// Whether it has effects of its own, so that a batch is handed to it whole and its result is
    /// dropped: segments go on as they came.
    fn is_bulk(&self) -> bool {
        false
    }
}

/// Adds the functions that come with Sardonyx.
pub(crate) fn register(registry: &mut Registry) {
    registry.function("pass", &[], |_| Ok(Box::new(Pass)));
    registry.function("split-words", &["column", "as"], |terms| {
        Ok(Box::new(split_words::SplitWords::new(terms)?))
    });
    registry.function("lower", &["column", "as"], |terms| Ok(Box::new(lower::Lower::new(terms)?)));
    registry.function("parse-json", &["column", "columns"], |terms| {
        Ok(Box::new(parse_json::ParseJson::new(terms)?))
    });
    registry.function("explode", &["column", "as"], |terms| {
        Ok(Box::new(explode::Explode::new(terms)?))
    });
    registry.function("sql", &["query"], |terms| {
        let example = "select user, bytes from segments where status >= 500";
        Ok(Box::new(Sql::new(terms.required_text("query", example)?)?))
    });
}

/// `pass`: segments go on as they came.
pub(crate) struct Pass;

impl Function for Pass {
    fn apply(&mut self, batch: &RecordBatch) -> Result<RecordBatch, String> {
        Ok(batch.clone())
    }
}

/// A user's function of batches.
pub(crate) struct OfBatches<F>(pub(crate) Arc<F>);

impl<F> Function for OfBatches<F>
where
    F: Fn(&RecordBatch) -> Result<RecordBatch, String> + Send + Sync,
{
    fn apply(&mut self, batch: &RecordBatch) -> Result<RecordBatch, String> {
        (self.0)(batch)
    }
}

/// A user's function with effects.
pub(crate) struct Bulk<F>(pub(crate) Arc<F>);

impl<F> Function for Bulk<F>
where
    F: Fn(&RecordBatch) -> Result<(), String> + Send + Sync,
{
    fn apply(&mut self, batch: &RecordBatch) -> Result<RecordBatch, String> {
        // The question for columns has no rows, and must have no effects.
        if batch.num_rows() > 0 {
            (self.0)(batch)?;
        }
        Ok(batch.clone())
    }

    fn is_bulk(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
