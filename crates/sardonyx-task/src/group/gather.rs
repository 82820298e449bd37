//! Gathering: segments of one key become one row before they travel to the grouped task.
//!
//! A batch of words has few different ones. Its sender groups it already, and sends what
//! [`Groups`](super::Groups) would save of it, which the receiver merges. Whoever receives segments
//! need not know: [`Groups::add`](super::Groups::add) and [`split`](crate::partition::split) see it by a mark
//! in the schema.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use arrow::array::RecordBatch;

use super::Grouping;

/// The mark of a batch that was gathered.
const MARK: &str = "sardonyx.gathered";

/// Smaller batches are not worth a table.
const ROWS_MIN: usize = 256;

/// After a batch whose keys were mostly different, so many go as they are before the next try.
const PAUSE: u32 = 32;

/// Gathers what one session sends to one grouped task, as long as that pays.
pub struct Gatherer {
    grouping: Grouping,
    can_gather: bool,
    pause: u32,
}

impl Gatherer {
    /// For a task that groups so. Where gathering would save nothing (lists, a user's states as
    /// JSON, functions that only want their segments together), it does nothing.
    pub fn new(grouping: &Grouping) -> Gatherer {
        let groups = grouping.groups();
        let can_gather =
            grouping.has_aggregates() && groups.accumulators.iter().all(|it| it.can_gather());
        Gatherer { grouping: grouping.clone(), can_gather, pause: 0 }
    }

    /// What to send instead of this batch: itself, or fewer rows that come to the same. If it cannot
    /// be grouped it goes as it is, and the grouped task says why.
    pub fn gather<'a>(&mut self, batch: &'a RecordBatch) -> Cow<'a, RecordBatch> {
        let n_rows = batch.num_rows();
        if !self.can_gather || n_rows < ROWS_MIN || is_gathered(batch) {
            return Cow::Borrowed(batch);
        }
        if self.pause > 0 {
            self.pause -= 1;
            return Cow::Borrowed(batch);
        }
        let mut groups = self.grouping.groups();
        let gathered = groups.add(batch).ok().and_then(|()| groups.snapshot().ok().flatten());
        match gathered.and_then(marked) {
            Some(gathered) if gathered.num_rows() <= n_rows / 2 => Cow::Owned(gathered),
            _ => {
                self.pause = PAUSE;
                Cow::Borrowed(batch)
            }
        }
    }
}

fn marked(batch: RecordBatch) -> Option<RecordBatch> {
    let mark = HashMap::from([(MARK.to_owned(), String::new())]);
    let schema = batch.schema().as_ref().clone().with_metadata(mark);
    batch.with_schema(Arc::new(schema)).ok()
}

/// Whether the batch has gathered groups and not segments.
pub(crate) fn is_gathered(batch: &RecordBatch) -> bool {
    batch.schema_ref().metadata().contains_key(MARK)
}
