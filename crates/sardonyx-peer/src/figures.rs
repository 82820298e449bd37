//! How much goes through tasks, on all nodes: what each tells the others, and what they make of it.
//!
//! ```text
//!   meters ── every second ──► Samples ──► figures of this node ──► Teller ──► leased item in the store
//!                                                 │                                    │
//!   whoever is asked                              └────────► Summed ◄── Others ◄───────┘
//! ```
//!
//! A node computes its rates itself, from its own meters and its own clock that only goes forward, so
//! nobody has to compare clocks, and one look at the store is enough to know the rate of everybody.
//! What it tells hangs on the session of its life and goes with it. It tells only while something
//! changes: a cluster in which nothing flows writes nothing.

#[cfg(test)]
mod fuzz;
mod others;
mod samples;
mod teller;
mod told;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use sardonyx_queue::Place;
use sardonyx_store::{Result, Store};
use sardonyx_task::meter::Meters;
use serde::{Deserialize, Serialize};
use tokio::task::AbortHandle;

pub use others::{Others, Summed, TaskFigure};
pub(crate) use teller::tell;
pub use told::{FIGURES_TASKS_MAX, Told};

use self::samples::Samples;

/// How often meters are read.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);

/// How many steps of history there are: a minute of seconds.
pub const HISTORY_MAX: usize = 60;

/// Where nodes leave what they tell.
const PREFIX: &str = "figures/";

/// What went through a task, on one node or on several.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Figure {
    /// Segments that came in.
    pub rows_in: u64,
    /// Segments that went out.
    pub rows_out: u64,
    /// Segments that its function failed on.
    pub rows_failed: u64,
    /// Transactions.
    pub commits: u64,
    /// Segments in a second, lately.
    pub in_per_second: u64,
    /// Segments out a second, lately.
    pub out_per_second: u64,
    /// Segments in each of the last seconds, the newest last.
    pub history: Vec<u64>,
}

impl Figure {
    /// Both together. Histories meet at their newest end.
    pub fn add(&mut self, other: &Figure) {
        for (ours, theirs) in [
            (&mut self.rows_in, other.rows_in),
            (&mut self.rows_out, other.rows_out),
            (&mut self.rows_failed, other.rows_failed),
            (&mut self.commits, other.commits),
            (&mut self.in_per_second, other.in_per_second),
            (&mut self.out_per_second, other.out_per_second),
        ] {
            *ours = ours.saturating_add(theirs);
        }
        let n_missing = other.history.len().saturating_sub(self.history.len());
        self.history.splice(0..0, std::iter::repeat_n(0, n_missing));
        let pairs = self.history.iter_mut().rev().zip(other.history.iter().rev());
        pairs.for_each(|(ours, theirs)| *ours = ours.saturating_add(*theirs));
    }

    /// Whether nothing goes through it now.
    fn is_quiet(&self) -> bool {
        self.in_per_second == 0 && self.out_per_second == 0
    }

    /// Whether nothing went through it in all of its history.
    fn has_faded(&self) -> bool {
        self.is_quiet() && self.history.iter().all(|it| *it == 0)
    }
}

/// The figures of this node. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Figures(Arc<Inner>);

struct Inner {
    /// Which process this is: its lives come and go, and its figures count once.
    origin: u64,
    meters: Meters,
    begun: Instant,
    samples: Arc<Mutex<Samples>>,
    sampling: AbortHandle,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.sampling.abort();
    }
}

impl fmt::Debug for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Figures").field(&self.0.origin).finish()
    }
}

impl Figures {
    /// Reads `meters` every second from now on, until the last clone is gone. Needs a tokio runtime.
    pub fn of(meters: Meters) -> Figures {
        let (begun, samples) = (Instant::now(), Arc::<Mutex<Samples>>::default());
        let sampling = tokio::spawn(sample(begun, meters.clone(), Arc::clone(&samples)));
        // Without randomness the process id has to do.
        let origin = crate::driver::random_u64().unwrap_or(u64::from(std::process::id()));
        let sampling = sampling.abort_handle();
        Figures(Arc::new(Inner { origin, meters, begun, samples, sampling }))
    }

    /// The meters that are read.
    pub fn meters(&self) -> &Meters {
        &self.0.meters
    }

    /// What went through each task on this node.
    pub fn own(&self) -> BTreeMap<Place, Figure> {
        lock(&self.0.samples).figures(&self.0.meters.read())
    }

    /// Which process this is, for [`Others::note`].
    pub fn origin(&self) -> u64 {
        self.0.origin
    }

    /// How long it has counted.
    fn now(&self) -> Duration {
        self.0.begun.elapsed()
    }
}

/// What all nodes tell, as the store has it now.
pub async fn heard(store: &Store) -> Result<Vec<Told>> {
    let items = store.items(PREFIX).await?;
    // What cannot be read was written by another version; its figures are missing here.
    Ok(items.iter().filter_map(|item| Told::from_bytes(&item.value)).collect())
}

async fn sample(begun: Instant, meters: Meters, samples: Arc<Mutex<Samples>>) {
    let mut every = tokio::time::interval(SAMPLE_EVERY);
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        every.tick().await;
        lock(&samples).push(begun.elapsed(), &meters.read());
    }
}

/// Nobody panics while holding one of these, and what they hold is whole at any time.
fn lock<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_add_up_and_histories_meet_at_the_newest_end() {
        let mut sum = Figure { rows_in: 5, history: vec![7], ..Figure::default() };
        sum.add(&Figure { rows_in: u64::MAX, history: vec![1, 2, 3], ..Figure::default() });
        sum.add(&Figure { in_per_second: 4, history: vec![10, 10], ..Figure::default() });
        assert_eq!((sum.rows_in, sum.in_per_second), (u64::MAX, 4));
        assert_eq!(sum.history, [1, 12, 20]);
    }
}
