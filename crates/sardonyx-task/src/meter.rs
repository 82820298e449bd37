//! How much went through each task, for progress bars and dashboards.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use sardonyx_queue::Place;

/// Counters of one task on this node.
#[derive(Debug, Default)]
pub struct Meter {
    /// Segments that came in and were committed.
    pub rows_in: AtomicU64,
    /// Segments that went out and were committed.
    pub rows_out: AtomicU64,
    /// Segments that its function failed on.
    pub rows_failed: AtomicU64,
    /// Transactions.
    pub commits: AtomicU64,
}

/// What a meter shows at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reading {
    /// Segments in.
    pub rows_in: u64,
    /// Segments out.
    pub rows_out: u64,
    /// Segments that failed.
    pub rows_failed: u64,
    /// Transactions.
    pub commits: u64,
}

/// How many jobs that are over still have their meters, for those who look at the end.
pub const OVER_MAX: usize = 16;

/// The meters of a node.
#[derive(Clone, Debug, Default)]
pub struct Meters {
    all: Arc<Mutex<All>>,
}

#[derive(Debug, Default)]
struct All {
    meters: BTreeMap<Place, Arc<Meter>>,
    over: VecDeque<String>,
}

impl Meters {
    /// The meter of a task.
    pub fn of(&self, place: &Place) -> Arc<Meter> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.meters.entry(place.clone()).or_default())
    }

    /// All of them, as they are now.
    pub fn read(&self) -> BTreeMap<Place, Reading> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.meters.iter().map(|(place, meter)| (place.clone(), meter.read())).collect()
    }

    /// A job is over: its meters go, once a few more are.
    pub fn forget(&self, job: &str) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.over.push_back(job.to_owned());
        if all.over.len() > OVER_MAX
            && let Some(oldest) = all.over.pop_front()
        {
            all.meters.retain(|place, _| place.job != oldest);
        }
    }
}

impl Meter {
    /// What it shows now.
    pub fn read(&self) -> Reading {
        Reading {
            rows_in: self.rows_in.load(Relaxed),
            rows_out: self.rows_out.load(Relaxed),
            rows_failed: self.rows_failed.load(Relaxed),
            commits: self.commits.load(Relaxed),
        }
    }
}
