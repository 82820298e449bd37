//! The output `null`: counts rows and forgets them. For measuring, and for tasks with effects of
//! their own.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use arrow::array::RecordBatch;
use bytes::Bytes;

use super::lock;
use crate::{Output, Terms, output::Writer};

/// It reads nothing.
pub(crate) const KEYS: &[&str] = &[];

type Counts = BTreeMap<(String, String), Arc<AtomicU64>>;

static COUNTS: Mutex<Counts> = Mutex::new(BTreeMap::new());

/// How many rows a task of a job has committed to `null`, in this process.
pub fn rows(job: &str, task: &str) -> u64 {
    let count = lock(&COUNTS).get(&(job.to_owned(), task.to_owned())).cloned();
    count.map_or(0, |count| count.load(Ordering::Relaxed))
}

/// Forgets the count of a task.
pub fn forget(job: &str, task: &str) {
    lock(&COUNTS).remove(&(job.to_owned(), task.to_owned()));
}

pub(crate) fn output(terms: &Terms) -> Result<Arc<dyn Output>, String> {
    let key = (terms.job.clone(), terms.task.clone());
    Ok(Arc::new(Null { count: lock(&COUNTS).entry(key).or_default().clone() }))
}

struct Null {
    count: Arc<AtomicU64>,
}

impl Output for Null {
    fn open(&self, _part: &str) -> Result<Box<dyn Writer>, String> {
        Ok(Box::new(NullWriter { count: self.count.clone(), written: 0, prepared: 0 }))
    }

    fn finish(&self, _parts: &[(String, Bytes)]) -> Result<(), String> {
        Ok(())
    }
}

struct NullWriter {
    count: Arc<AtomicU64>,
    written: u64,
    prepared: u64,
}

impl Writer for NullWriter {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), String> {
        self.written += batch.num_rows() as u64;
        Ok(())
    }

    fn prepare(&mut self, _is_durable: bool) -> Result<Option<Bytes>, String> {
        self.prepared += std::mem::take(&mut self.written);
        Ok(None)
    }

    fn committed(&mut self) -> Result<(), String> {
        self.count.fetch_add(std::mem::take(&mut self.prepared), Ordering::Relaxed);
        Ok(())
    }
}
