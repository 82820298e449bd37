//! Many seeds at once: each is one thread's business, and which thread's makes no difference.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

/// Runs `n` seeds from `first` on, on all cores. Each thread gathers what it saw; the answer is what all
/// of them have.
///
/// # Panics
///
/// If a run does, after the others have ended.
pub fn spread<T: Default + Send>(first: u64, n: u64, run: impl Fn(&mut T, u64) + Sync) -> Vec<T> {
    let next = AtomicU64::new(first);
    let work = || {
        let mut seen = T::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + n {
                return seen;
            }
            run(&mut seen, seed);
        }
    };
    let n_threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..n_threads).map(|_| scope.spawn(work)).collect();
        let ended = threads.into_iter().map(thread::ScopedJoinHandle::join);
        ended.map(|it| it.unwrap_or_else(|why| std::panic::resume_unwind(why))).collect()
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_seed_is_run_once() {
        let seen = super::spread(5, 1_000, |seen: &mut Vec<u64>, seed| seen.push(seed));
        let mut all = seen.concat();
        all.sort_unstable();
        assert_eq!(all, (5..1_005).collect::<Vec<_>>());
    }
}
