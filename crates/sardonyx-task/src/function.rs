//! Functions: a batch of segments in, a batch of segments out.

use arrow::array::RecordBatch;

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
