//! Inputs: where segments come from.
//!
//! An input cuts its work into **splits**, which become messages in a queue of its own task: a peer
//! receives a split, reads it batch by batch, and commits the position behind each batch with the
//! batch itself. If the peer dies, the split is ready again, and another goes on from there.

use std::{sync::Arc, time::Duration};

use arrow::array::RecordBatch;
use bytes::Bytes;
use tokio::sync::Notify;

/// A source of segments, made from the terms of one task. One for all peers of a node.
pub trait Input: Send + Sync {
    /// Whether it can be read, as far as can be known before a job runs.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// Cuts the work into splits. Asked once for a job, by one peer, and committed before any split
    /// is read. For a source that grows, asked again every [`Splits::again`], with what it said
    /// to remember last time.
    fn splits(&self, memory: Option<&[u8]>) -> Result<Splits, String>;

    /// Reads a split, from its beginning or from behind a batch that was committed.
    fn open(&self, split: &[u8], position: Option<&[u8]>) -> Result<Box<dyn Reader>, String>;

    /// Whether a split may go on for ever. A peer then reads all its splits in turns, and they are
    /// dealt out anew when peers come and go; otherwise it reads one after the other.
    fn is_endless(&self) -> bool {
        false
    }

    /// About how many rows there are in all, if that is cheap to find out: for progress bars. `None`
    /// if it is not, or if there is no end.
    fn rows_about(&self) -> Option<u64> {
        None
    }

    /// Whether a few rows may be read before a job runs, to see whether its functions know what to
    /// do with them. Not so for sources from which reading takes something away.
    fn can_be_tried(&self) -> bool {
        false
    }
}

/// How the work is cut.
#[derive(Clone, Debug, Default)]
pub struct Splits {
    /// What is new. Each is handed to [`Input::open`] as it is.
    pub splits: Vec<Bytes>,
    /// For a source that grows: when to ask again. `None` means that this is all.
    pub again: Option<Duration>,
    /// Handed back when asked again, here or on another node.
    pub memory: Bytes,
}

/// A split that is being read.
pub trait Reader: Send {
    /// The next rows, at most about `rows_max` of them. May block on a disk, not on a network or a
    /// person: then [`Read::Wait`].
    fn read(&mut self, rows_max: usize) -> Result<Read, String>;

    /// Everything before `position` is committed and is never asked for again. For sources that
    /// must let go of it; the others can do without being told.
    fn committed(&mut self, position: &[u8]) -> Result<(), String> {
        let _ = position;
        Ok(())
    }
}

/// What reading gives.
#[derive(Clone, Debug)]
pub enum Read {
    /// Rows, and the position behind them.
    Batch(RecordBatch, Bytes),
    /// Nothing now: ask again after this long, or when notified.
    Wait(Duration, Option<Arc<Notify>>),
    /// The split is over.
    End,
}

impl Read {
    pub(crate) fn n_rows(&self) -> usize {
        match self {
            Read::Batch(batch, _) => batch.num_rows(),
            Read::Wait(..) | Read::End => 0,
        }
    }
}
