//! What a built-in or a user's aggregate must do, for all groups at once.

use arrow::array::{ArrayRef, RecordBatch};

/// What becomes of saved values when they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// They are the groups' values now.
    Replace,
    /// They are more of the same.
    Merge,
}

/// One aggregate over all groups of a partition. Groups are numbers below `n_groups`, which grows.
pub(crate) trait Accumulator: Send {
    /// Row `i` of the batch belongs to group `groups[i]`.
    fn add(&mut self, batch: &RecordBatch, groups: &[u32], n_groups: usize) -> Result<(), String>;

    /// What must be kept of these groups, as [`Accumulator::n_columns`] columns.
    fn save(&self, which: &[u32]) -> Result<Vec<ArrayRef>, String>;

    /// Row `i` is what was saved of group `groups[i]`.
    fn load(
        &mut self,
        saved: &[ArrayRef],
        groups: &[u32],
        n_groups: usize,
        how: How,
    ) -> Result<(), String>;

    /// The results of these groups.
    fn emit(&self, which: &[u32]) -> Result<ArrayRef, String>;

    /// Whether what it saves of many rows is less than the rows, and quickly merged.
    fn can_gather(&self) -> bool {
        true
    }

    /// How many columns are saved.
    fn n_columns(&self) -> usize {
        1
    }
}
