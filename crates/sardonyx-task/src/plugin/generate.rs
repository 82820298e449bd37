//! The input `generate`: rows out of nothing, for measuring, demonstrations and tests.
//!
//! Exactly once: a row follows from its number and the seed, so the position is how many of a split
//! were made. With a `rate` the clock says how many rows are due, whether anybody took the last ones or
//! not (an open loop): after a pause they come all at once.

mod shape;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;

use super::{Clock, number_of, system_clock};
use crate::{
    Input, Terms,
    input::{Read, Reader, Splits},
};
use shape::Shape;

/// What it reads of a task.
pub(crate) const KEYS: &[&str] = &["count", "rate", "splits", "shape", "seed"];

/// How many splits if nobody says: work for as many peers.
const SPLITS: u64 = 8;

/// More than this is a slip.
const SPLITS_MAX: u64 = 65_536;

/// The least that is waited for rows that are due. Timers count in whole milliseconds and round up: asked
/// for this they ring at the next one, asked for a millisecond at the one after it.
const PAUSE_MIN: Duration = Duration::from_micros(100);

pub(crate) fn input(terms: &Terms) -> Result<Arc<dyn Input>, String> {
    Ok(Arc::new(Generate::new(terms, system_clock())?))
}

/// Rows that are made up.
pub(crate) struct Generate {
    count: Option<u64>,
    rate: Option<u64>,
    n_splits: u64,
    shape: Shape,
    clock: Clock,
}

/// Some of the rows: those with the numbers `first`, `first + step` and so on.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
struct Split {
    first: u64,
    step: u64,
    /// `None` is endless.
    count: Option<u64>,
    pace: Option<Pace>,
}

/// When rows are due.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
struct Pace {
    /// When row 0 is, in microseconds since 1970.
    begin_micros: u64,
    /// How many of all splits are due in a second.
    rate: u64,
}

impl Pace {
    /// When a row is due, in microseconds since 1970.
    fn due_micros(self, row: u64) -> u64 {
        let after = u128::from(row) * 1_000_000 / u128::from(self.rate);
        self.begin_micros.saturating_add(u64::try_from(after).unwrap_or(u64::MAX))
    }

    /// The number of the first row that is not due at `now`.
    fn rows_due(self, now_micros: u64) -> u64 {
        let Some(since) = now_micros.checked_sub(self.begin_micros) else { return 0 };
        // Row n is due at n / rate.
        let due = u128::from(since) * u128::from(self.rate) / 1_000_000 + 1;
        u64::try_from(due).unwrap_or(u64::MAX)
    }
}

impl Generate {
    pub(crate) fn new(terms: &Terms, clock: Clock) -> Result<Generate, String> {
        let rate = terms.number("rate")?;
        if rate == Some(0) {
            return Err("rate is rows per second, at least 1: write rate = 50000".into());
        }
        let n_splits = terms.number("splits")?.unwrap_or(SPLITS);
        if !(1..=SPLITS_MAX).contains(&n_splits) {
            return Err(format!("splits is between 1 and {SPLITS_MAX}: write splits = {SPLITS}"));
        }
        let seed = terms.number("seed")?.unwrap_or_default();
        let shape = Shape::read(terms.keys.get("shape"), seed)?;
        Ok(Generate { count: terms.number("count")?, rate, n_splits, shape, clock })
    }
}

impl Input for Generate {
    fn is_endless(&self) -> bool {
        // Rows that are due at the same time belong to different splits.
        self.count.is_none() || self.rate.is_some()
    }

    fn can_be_tried(&self) -> bool {
        self.rate.is_none()
    }

    fn rows_about(&self) -> Option<u64> {
        self.count
    }

    fn splits(&self, _memory: Option<&[u8]>) -> Result<Splits, String> {
        let begin_micros = micros((self.clock)());
        let pace = self.rate.map(|rate| Pace { begin_micros, rate });
        let mut splits = Vec::new();
        for number in 0..self.n_splits {
            let split = match (self.count, pace) {
                // Neighbours stay together.
                (Some(count), None) => {
                    let first = share(count, number, self.n_splits);
                    let next = share(count, number + 1, self.n_splits);
                    Split { first, step: 1, count: Some(next - first), pace }
                }
                // All splits go on at the same time.
                (count, pace) => Split {
                    first: number,
                    step: self.n_splits,
                    count: count.map(|count| count.saturating_sub(number).div_ceil(self.n_splits)),
                    pace,
                },
            };
            if split.count != Some(0) {
                let split = serde_json::to_vec(&split).map_err(|why| why.to_string())?;
                splits.push(Bytes::from(split));
            }
        }
        Ok(Splits { splits, ..Splits::default() })
    }

    fn open(&self, split: &[u8], position: Option<&[u8]>) -> Result<Box<dyn Reader>, String> {
        let split: Split = serde_json::from_slice(split)
            .map_err(|why| format!("this is no split of generated rows: {why}"))?;
        let position = position.map(|at| number_of(at, "generate")).transpose()?;
        let done = position.unwrap_or_default();
        let (shape, clock) = (self.shape.clone(), self.clock.clone());
        Ok(Box::new(Generator { split, done, shape, clock }))
    }
}

/// Where the share with this number begins.
fn share(count: u64, number: u64, of: u64) -> u64 {
    let begin = u128::from(count) * u128::from(number) / u128::from(of);
    u64::try_from(begin).unwrap_or(u64::MAX)
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

struct Generator {
    split: Split,
    done: u64,
    shape: Shape,
    clock: Clock,
}

impl Reader for Generator {
    fn read(&mut self, rows_max: usize) -> Result<Read, String> {
        let Split { first, step, count, pace } = self.split;
        let left = count.map_or(u64::MAX, |count| count.saturating_sub(self.done));
        if left == 0 {
            return Ok(Read::End);
        }
        let mut n_rows = left.min(rows_max.max(1) as u64);
        let next = first + self.done * step;
        if let Some(pace) = pace {
            let now = micros((self.clock)());
            let n_due = pace.rows_due(now).saturating_sub(next).div_ceil(step);
            if n_due == 0 {
                let pause = Duration::from_micros(pace.due_micros(next).saturating_sub(now));
                return Ok(Read::Wait(pause.max(PAUSE_MIN), None));
            }
            n_rows = n_rows.min(n_due);
        }
        let rows = (0..n_rows).map(|row| next + row * step);
        let due = |row| pace.map(|pace| pace.due_micros(row)).unwrap_or_default();
        let batch = self.shape.batch(&rows, n_rows as usize, due)?;
        self.done += n_rows;
        Ok(Read::Batch(batch, Bytes::from(self.done.to_string())))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    };

    use arrow::{array::AsArray, datatypes::TimestampMicrosecondType};
    use serde_json::json;

    use super::*;

    /// A clock that shows what the test says, in microseconds.
    fn clock() -> (Arc<AtomicU64>, Clock) {
        let now = Arc::new(AtomicU64::new(5_000_000));
        let shown = now.clone();
        (now, Arc::new(move || Duration::from_micros(shown.load(Ordering::Relaxed))))
    }

    #[test]
    fn rows_come_when_they_are_due_whoever_took_the_last_ones() {
        let (now, clock) = clock();
        let keys = json!({"rate": 1000, "splits": 2, "count": 10, "shape": {"n": "sequence", "due": "due"}});
        let input = Generate::new(&Terms::new("j", "t", &keys), clock).unwrap();
        let splits = input.splits(None).unwrap().splits;
        let mut readers: Vec<_> =
            splits.iter().map(|split| input.open(split, None).unwrap()).collect();
        let seen = Mutex::new(Vec::new());
        let mut read = |reader: usize| match readers[reader].read(100).unwrap() {
            Read::Batch(batch, _) => {
                let due = batch.column(0).as_primitive::<TimestampMicrosecondType>().values();
                seen.lock().unwrap().extend(due.iter().copied());
                batch.num_rows()
            }
            Read::Wait(pause, _) => {
                assert!(pause >= PAUSE_MIN && pause <= Duration::from_millis(2), "{pause:?}");
                0
            }
            Read::End => usize::MAX,
        };
        assert_eq!((read(0), read(1)), (1, 0), "row 0 is due at once, row 1 is not");
        now.fetch_add(1_000, Ordering::Relaxed);
        assert_eq!((read(0), read(1)), (0, 1));
        now.fetch_add(5_000, Ordering::Relaxed);
        assert_eq!((read(0), read(1)), (3, 2), "rows 2, 4, 6 and 3, 5");
        now.fetch_add(60_000_000, Ordering::Relaxed);
        assert_eq!((read(0), read(1)), (1, 2), "after a pause all at once");
        assert_eq!((read(0), read(1)), (usize::MAX, usize::MAX));
        let mut seen = seen.into_inner().unwrap();
        seen.sort_unstable();
        let expected: Vec<i64> = (0..10).map(|row| 5_000_000 + row * 1_000).collect();
        assert_eq!(seen, expected);
    }

    #[test]
    fn words_are_common_or_rare() {
        let keys = json!({"count": 1000, "splits": 1, "shape": {"line": {"words": 10, "vocabulary": 1000}}});
        let input = Generate::new(&Terms::new("j", "t", &keys), system_clock()).unwrap();
        let split = input.splits(None).unwrap().splits.remove(0);
        let Read::Batch(batch, _) = input.open(&split, None).unwrap().read(1000).unwrap() else {
            panic!("no rows")
        };
        let text: Vec<&str> = batch.column(0).as_string::<i32>().iter().flatten().collect();
        let words: Vec<&str> = text.iter().flat_map(|line| line.split(' ')).collect();
        assert_eq!(words.len(), 10_000);
        let count = |word: &str| words.iter().filter(|other| **other == word).count();
        // The first of 1000 has about log(2) / log(1000) of them: a tenth.
        assert!((900..1100).contains(&count("w00000")), "{}", count("w00000"));
        assert!(count("w00000") > 3 * count("w00009"));
        assert!(words.iter().all(|word| word.len() == 6 && *word < "w01000"));
    }
}
