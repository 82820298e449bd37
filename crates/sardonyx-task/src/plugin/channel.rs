//! A bounded channel of batches that can be read again from a position.
//!
//! Who pushes waits while too many rows are there that nobody has taken. Batches that were taken are
//! kept for a while, because a session may die before it commits, and another asks for them again.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex},
    time::{Duration, Instant},
};

use arrow::array::RecordBatch;
use bytes::Bytes;
use tokio::sync::Notify;

use super::lock;
use crate::input::{Read, Reader};

/// How many rows wait in a channel if nobody says. As many are kept behind those that were taken.
pub const CAPACITY_ROWS: usize = 1_000_000;

/// A reader looks this often even if nobody wakes it.
const LOOK_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
struct State {
    /// From the oldest that is kept on.
    batches: VecDeque<RecordBatch>,
    /// The number of the first of them.
    first: u64,
    /// The number of the next that nobody has taken.
    next: u64,
    rows_waiting: usize,
    rows_kept: usize,
    is_closed: bool,
    failure: Option<String>,
}

/// Batches on their way from one side to the other.
#[derive(Debug)]
pub struct Channel {
    state: Mutex<State>,
    has_room: Condvar,
    has_rows: Condvar,
    notify: Arc<Notify>,
    capacity_rows: usize,
}

impl Channel {
    /// An empty one in which at most about `capacity_rows` wait.
    pub fn new(capacity_rows: usize) -> Channel {
        Channel {
            state: Mutex::default(),
            has_room: Condvar::new(),
            has_rows: Condvar::new(),
            notify: Arc::new(Notify::new()),
            capacity_rows: capacity_rows.max(1),
        }
    }

    /// Puts a batch in, and waits for room. Gives it back if the channel is closed.
    pub fn push(&self, batch: RecordBatch) -> Result<(), RecordBatch> {
        let mut state = lock(&self.state);
        while state.rows_waiting >= self.capacity_rows && !state.is_closed {
            state = self.has_room.wait(state).unwrap_or_else(|poison| poison.into_inner());
        }
        self.put(&mut state, batch)
    }

    /// Puts a batch in if there is room now; gives it back if there is none, or if it is closed.
    pub fn try_push(&self, batch: RecordBatch) -> Result<(), RecordBatch> {
        let mut state = lock(&self.state);
        if state.rows_waiting >= self.capacity_rows {
            return Err(batch);
        }
        self.put(&mut state, batch)
    }

    fn put(&self, state: &mut State, batch: RecordBatch) -> Result<(), RecordBatch> {
        if state.is_closed {
            return Err(batch);
        }
        state.rows_waiting += batch.num_rows();
        state.batches.push_back(batch);
        self.has_rows.notify_all();
        self.notify.notify_waiters();
        self.notify.notify_one();
        Ok(())
    }

    /// Waits until there is room, at most so long. False if there still is none.
    pub(super) fn wait_for_room(&self, at_most: Duration) -> bool {
        let until = Instant::now() + at_most;
        let mut state = lock(&self.state);
        while state.rows_waiting >= self.capacity_rows && !state.is_closed {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.has_room.wait_timeout(state, left);
            state = waited.unwrap_or_else(|poison| poison.into_inner()).0;
        }
        true
    }

    /// Nothing comes any more: a reader ends when it has read what is there.
    pub fn close(&self) {
        self.end(None);
    }

    /// Nothing comes any more, because of this: a reader fails when it has read what is there.
    pub(super) fn fail(&self, why: String) {
        self.end(Some(why));
    }

    fn end(&self, failure: Option<String>) {
        let mut state = lock(&self.state);
        state.is_closed = true;
        state.failure = state.failure.take().or(failure);
        self.has_rows.notify_all();
        self.has_room.notify_all();
        self.notify.notify_waiters();
        self.notify.notify_one();
    }

    /// Whether nothing comes any more.
    pub fn is_closed(&self) -> bool {
        lock(&self.state).is_closed
    }

    /// Takes the next batch for good, if there is one now.
    pub fn take(&self) -> Option<RecordBatch> {
        let mut state = lock(&self.state);
        self.take_from(&mut state)
    }

    /// Takes the next batch for good, and waits for it. `None` when it is closed and empty.
    pub fn wait(&self) -> Option<RecordBatch> {
        let mut state = lock(&self.state);
        loop {
            if let Some(batch) = self.take_from(&mut state) {
                return Some(batch);
            }
            if state.is_closed {
                return None;
            }
            state = self.has_rows.wait(state).unwrap_or_else(|poison| poison.into_inner());
        }
    }

    fn take_from(&self, state: &mut State) -> Option<RecordBatch> {
        let batch = state.at(state.next)?.clone();
        self.taken(state, &batch);
        let next = state.next;
        state.forget_before(next);
        Some(batch)
    }

    fn taken(&self, state: &mut State, batch: &RecordBatch) {
        state.next += 1;
        state.rows_waiting -= batch.num_rows();
        state.rows_kept += batch.num_rows();
        while state.rows_kept > self.capacity_rows && state.first + 1 < state.next {
            state.forget_first();
        }
        self.has_room.notify_all();
    }

    /// A reader from `position` on, or from the oldest batch that is kept.
    pub(super) fn reader(
        self: &Arc<Self>,
        position: Option<&[u8]>,
        what: &str,
    ) -> Result<ChannelReader, String> {
        let state = lock(&self.state);
        let Some(position) = position else {
            if state.first > 0 {
                return Err(gone(what));
            }
            return Ok(ChannelReader {
                channel: self.clone(),
                what: what.into(),
                batch: 0,
                row: 0,
            });
        };
        let text = std::str::from_utf8(position).unwrap_or_default();
        let parsed = text.split_once('.').and_then(|(batch, row)| {
            Some((batch.parse::<u64>().ok()?, row.parse::<usize>().ok()?))
        });
        let (batch, row) = parsed.ok_or_else(|| format!("{what} has no position {text:?}"))?;
        let is_there = batch >= state.first && batch <= state.first + state.batches.len() as u64;
        if !is_there {
            return Err(gone(what));
        }
        Ok(ChannelReader { channel: self.clone(), what: what.into(), batch, row })
    }
}

fn gone(what: &str) -> String {
    format!("{what} cannot be read again from there: what came first is no longer kept")
}

impl State {
    fn at(&self, number: u64) -> Option<&RecordBatch> {
        self.batches.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    fn forget_first(&mut self) {
        if let Some(batch) = self.batches.pop_front() {
            self.first += 1;
            self.rows_kept = self.rows_kept.saturating_sub(batch.num_rows());
        }
    }

    fn forget_before(&mut self, number: u64) {
        while self.first < number.min(self.next) {
            self.forget_first();
        }
    }
}

/// A channel that is being read as a split.
pub(super) struct ChannelReader {
    channel: Arc<Channel>,
    what: String,
    batch: u64,
    row: usize,
}

impl Reader for ChannelReader {
    fn read(&mut self, rows_max: usize) -> Result<Read, String> {
        let rows_max = rows_max.max(1);
        let mut state = lock(&self.channel.state);
        loop {
            if self.batch < state.first {
                return Err(gone(&self.what));
            }
            let Some(batch) = state.at(self.batch).cloned() else {
                return match (&state.failure, state.is_closed) {
                    (Some(why), _) => Err(why.clone()),
                    (None, true) => Ok(Read::End),
                    (None, false) => Ok(Read::Wait(LOOK_EVERY, Some(self.channel.notify.clone()))),
                };
            };
            if self.batch == state.next {
                self.channel.taken(&mut state, &batch);
            }
            let left = batch.num_rows().saturating_sub(self.row);
            if left == 0 {
                (self.batch, self.row) = (self.batch + 1, 0);
                continue;
            }
            let n_rows = left.min(rows_max);
            let rows = batch.slice(self.row, n_rows);
            self.row += n_rows;
            if self.row == batch.num_rows() {
                (self.batch, self.row) = (self.batch + 1, 0);
            }
            let position = Bytes::from(format!("{}.{}", self.batch, self.row));
            return Ok(Read::Batch(rows, position));
        }
    }

    fn committed(&mut self, position: &[u8]) -> Result<(), String> {
        let text = std::str::from_utf8(position).unwrap_or_default();
        if let Some(batch) = text.split_once('.').and_then(|(batch, _)| batch.parse().ok()) {
            lock(&self.channel.state).forget_before(batch);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array};

    use super::*;

    fn rows(n_rows: i64) -> RecordBatch {
        let column: ArrayRef = Arc::new(Int64Array::from((0..n_rows).collect::<Vec<_>>()));
        RecordBatch::try_from_iter([("n", column)]).unwrap()
    }

    #[test]
    fn a_full_channel_takes_nothing_until_somebody_takes_something() {
        let channel = Channel::new(5);
        channel.try_push(rows(3)).unwrap();
        channel.try_push(rows(2)).unwrap();
        assert_eq!(channel.try_push(rows(1)), Err(rows(1)));
        assert!(!channel.wait_for_room(Duration::from_millis(1)));
        assert_eq!(channel.take(), Some(rows(3)));
        assert!(channel.wait_for_room(Duration::ZERO));
        channel.try_push(rows(1)).unwrap();
        channel.close();
        assert_eq!(channel.push(rows(1)), Err(rows(1)));
        assert_eq!(
            (channel.wait(), channel.wait(), channel.wait()),
            (Some(rows(2)), Some(rows(1)), None)
        );
    }

    #[test]
    fn who_pushes_waits_for_who_takes() {
        let channel = Arc::new(Channel::new(1));
        let pushing = channel.clone();
        let thread = std::thread::spawn(move || {
            (0..100).for_each(|_| pushing.push(rows(1)).unwrap());
            pushing.close();
        });
        let mut n_batches = 0;
        while channel.wait().is_some() {
            n_batches += 1;
        }
        thread.join().unwrap();
        assert_eq!(n_batches, 100);
    }

    #[test]
    fn what_was_taken_is_kept_as_far_as_the_capacity_goes_or_until_it_is_committed() {
        let channel = Arc::new(Channel::new(4));
        let mut reader = channel.reader(None, "c").unwrap();
        for _ in 0..3 {
            channel.push(rows(2)).unwrap();
            assert!(matches!(reader.read(10), Ok(Read::Batch(..))));
        }
        assert!(channel.reader(Some(b"1.0"), "c").is_ok(), "four rows are kept");
        let why = channel.reader(Some(b"0.0"), "c").err().unwrap();
        assert!(why.contains("no longer kept"), "{why}");
        assert!(channel.reader(None, "c").is_err());
        reader.committed(b"2.1").unwrap();
        assert!(channel.reader(Some(b"1.0"), "c").is_err());
        assert!(channel.reader(Some(b"2.1"), "c").is_ok());
        assert!(channel.reader(Some(b"nonsense"), "c").is_err());
    }

    #[test]
    fn a_reader_that_waits_is_woken() {
        let channel = Arc::new(Channel::new(4));
        let mut reader = channel.reader(None, "c").unwrap();
        let Ok(Read::Wait(_, Some(notify))) = reader.read(1) else { panic!("it does not wait") };
        channel.push(rows(1)).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let woken = runtime.block_on(async {
            tokio::time::timeout(Duration::from_secs(60), notify.notified()).await
        });
        assert!(woken.is_ok(), "what is pushed before one waits counts as well");
    }
}
