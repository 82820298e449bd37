//! An input and an output for simulation: rows by their number, and a shelf on which committed rows lie.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use bytes::Bytes;
use sardonyx_task::{
    Input, Output, Registry, Terms,
    input::{Read, Reader, Splits},
    output::Writer,
};

/// Rows by what they belong to.
type Written<K> = Arc<Mutex<BTreeMap<K, Vec<RecordBatch>>>>;

/// Where outputs put their parts: task, part, and how far it was written. What was not committed is
/// there as well, as it would be in a file.
#[derive(Clone, Debug, Default)]
pub(super) struct Shelf {
    parts: Written<(String, String)>,
    finished: Written<String>,
}

impl Shelf {
    /// What an output has in the end.
    pub(super) fn finished(&self, task: &str) -> Option<Vec<RecordBatch>> {
        lock(&self.finished).get(task).cloned()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn register(registry: &mut Registry, shelf: &Shelf) {
    registry.input("rows", &["count", "salt", "splits"], |terms| {
        let number = |key| terms.number(key).map(Option::unwrap_or_default);
        let rows =
            Rows { count: number("count")?, salt: number("salt")?, splits: number("splits")? };
        Ok(Arc::new(rows))
    });
    let shelf = shelf.clone();
    registry.output("kept", &[], move |terms: &Terms| {
        Ok(Arc::new(Kept { shelf: shelf.clone(), task: terms.task.clone() }))
    });
}

struct Rows {
    count: u64,
    salt: u64,
    splits: u64,
}

/// Row number `at` of an input: few keys, so that groups meet.
fn row(at: u64, salt: u64) -> (String, i64) {
    let mixed = (at + salt * 1_000_003).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    (format!("k{}", mixed % 17), i64::try_from(at + salt).unwrap_or_default())
}

impl Input for Rows {
    fn splits(&self, _: Option<&[u8]>) -> Result<Splits, String> {
        let n = self.splits.max(1);
        let cut = |at: u64| self.count * at / n;
        let split = |at: u64| Bytes::from(format!("{} {}", cut(at), cut(at + 1)));
        Ok(Splits { splits: (0..n).map(split).collect(), ..Splits::default() })
    }

    fn open(&self, split: &[u8], position: Option<&[u8]>) -> Result<Box<dyn Reader>, String> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let split = text(split);
        let (from, to) = split.split_once(' ').ok_or("a split is two numbers")?;
        let number = |text: &str| text.parse::<u64>().map_err(|why| why.to_string());
        let at = match position {
            Some(position) => number(&text(position))?,
            None => number(from)?,
        };
        Ok(Box::new(RowsReader { at, to: number(to)?, salt: self.salt, has_rested: false }))
    }
}

struct RowsReader {
    at: u64,
    to: u64,
    salt: u64,
    has_rested: bool,
}

impl Reader for RowsReader {
    fn read(&mut self, rows_max: usize) -> Result<Read, String> {
        if self.at >= self.to {
            return Ok(Read::End);
        }
        // Rows come little by little, so that what goes wrong does so while data is on its way.
        if !std::mem::replace(&mut self.has_rested, true) {
            let micros = (self.at + self.salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50;
            return Ok(Read::Wait(Duration::from_micros(micros), None));
        }
        self.has_rested = false;
        let to = self.to.min(self.at + rows_max as u64);
        let rows: Vec<_> = (self.at..to).map(|at| row(at, self.salt)).collect();
        let keys: ArrayRef =
            Arc::new(rows.iter().map(|(key, _)| Some(key.as_str())).collect::<StringArray>());
        let numbers: ArrayRef = Arc::new(rows.iter().map(|(_, n)| *n).collect::<Int64Array>());
        let batch = RecordBatch::try_from_iter([("key", keys), ("n", numbers)]);
        self.at = to;
        Ok(Read::Batch(batch.map_err(|why| why.to_string())?, Bytes::from(to.to_string())))
    }
}

struct Kept {
    shelf: Shelf,
    task: String,
}

impl Output for Kept {
    fn open(&self, part: &str) -> Result<Box<dyn Writer>, String> {
        let key = (self.task.clone(), part.to_owned());
        if lock(&self.shelf.parts).insert(key.clone(), Vec::new()).is_some() {
            return Err(format!("part {part} was opened twice"));
        }
        Ok(Box::new(KeptWriter { shelf: self.shelf.clone(), key, written: 0 }))
    }

    fn finish(&self, parts: &[(String, Bytes)]) -> Result<(), String> {
        let mut whole = Vec::new();
        for (part, length) in parts {
            let length: usize =
                String::from_utf8_lossy(length).parse().map_err(|_| "a length is a number")?;
            let key = (self.task.clone(), part.clone());
            let all = lock(&self.shelf.parts);
            let batches = all.get(&key).ok_or("a part that nobody opened")?;
            whole.extend(batches.get(..length).ok_or("a part is shorter than committed")?.to_vec());
        }
        lock(&self.shelf.finished).insert(self.task.clone(), whole);
        Ok(())
    }
}

struct KeptWriter {
    shelf: Shelf,
    key: (String, String),
    written: usize,
}

impl Writer for KeptWriter {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), String> {
        lock(&self.shelf.parts).entry(self.key.clone()).or_default().push(batch.clone());
        self.written += 1;
        Ok(())
    }

    fn prepare(&mut self, _: bool) -> Result<Option<Bytes>, String> {
        Ok(Some(Bytes::from(self.written.to_string())))
    }

    fn committed(&mut self) -> Result<(), String> {
        Ok(())
    }
}
