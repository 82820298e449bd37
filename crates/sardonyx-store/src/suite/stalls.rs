//! How long this machine stood still: what a test about time has to know before it blames a store.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// How often the meter looks.
const PERIOD: Duration = Duration::from_millis(10);

/// Measures for how long a thread that wants to run does not, as long as it lives.
#[derive(Debug)]
pub(super) struct Stalls {
    longest: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
}

impl Stalls {
    pub(super) fn measure() -> Stalls {
        let stalls = Stalls { longest: Arc::default(), is_over: Arc::default() };
        let (longest, is_over) = (Arc::clone(&stalls.longest), Arc::clone(&stalls.is_over));
        std::thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                let begun = Instant::now();
                std::thread::sleep(PERIOD);
                let late = begun.elapsed().saturating_sub(PERIOD);
                longest.fetch_max(late.as_micros() as u64, Ordering::Relaxed);
            }
        });
        stalls
    }

    /// The longest so far.
    pub(super) fn longest(&self) -> Duration {
        Duration::from_micros(self.longest.load(Ordering::Relaxed))
    }
}

impl Drop for Stalls {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}
