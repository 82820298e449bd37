//! What a node tells the others, and its bytes. Pure.

use std::{cmp::Reverse, collections::BTreeMap, time::Duration};

use bytes::Bytes;
use sardonyx_core::id::ID_BYTES_MAX;
use sardonyx_queue::Place;
use sardonyx_store::VALUE_BYTES_MAX;
use serde::{Deserialize, Serialize};

use super::{Figure, HISTORY_MAX};

/// Of how many tasks a node tells figures. It says how many it left out; its own dashboard has all.
pub const FIGURES_TASKS_MAX: usize = 200;

/// The first byte of what is told.
const VERSION: u8 = 1;

/// A number takes at most ten bytes: two ids with their lengths, six numbers, a history.
const TASK_BYTES_MAX: usize = 2 * (ID_BYTES_MAX + 2) + (6 + 1 + HISTORY_MAX) * 10;

const _: () = assert!(FIGURES_TASKS_MAX * TASK_BYTES_MAX + 64 <= VALUE_BYTES_MAX);

/// What a node tells the others of its tasks.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Told {
    /// Which process tells it.
    pub origin: u64,
    /// When, by its own clock since it began: of two with one origin, the later one counts.
    pub at_ms: u64,
    /// In how long it will tell again; `None`: when something changes.
    pub again_ms: Option<u64>,
    /// How many tasks were one too many.
    pub left_out: u64,
    /// What went through each task.
    pub tasks: Vec<(Place, Figure)>,
}

impl Told {
    /// What a node with these figures tells at `now`. Tasks through which something went lately come
    /// first, and the last are left out if there are too many.
    pub(super) fn new(origin: u64, now: Duration, figures: BTreeMap<Place, Figure>) -> Told {
        let mut tasks: Vec<_> = figures.into_iter().collect();
        tasks.sort_by_cached_key(|(place, figure)| (Reverse(!figure.has_faded()), place.clone()));
        let left_out = tasks.len().saturating_sub(FIGURES_TASKS_MAX) as u64;
        tasks.truncate(FIGURES_TASKS_MAX);
        let at_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        Told { origin, at_ms, again_ms: None, left_out, tasks }
    }

    /// As it lies in the store: a version, and postcard.
    pub fn to_bytes(&self) -> Option<Bytes> {
        postcard::to_extend(self, vec![VERSION]).ok().map(Bytes::from)
    }

    /// Reads it back, within its limits: what others wrote is not to be trusted with our memory.
    /// `None`: this build cannot read it.
    pub fn from_bytes(bytes: &[u8]) -> Option<Told> {
        let (&VERSION, rest) = bytes.split_first()? else { return None };
        let mut told: Told = postcard::from_bytes(rest).ok()?;
        told.tasks.truncate(FIGURES_TASKS_MAX);
        for (_, figure) in &mut told.tasks {
            let n_old = figure.history.len().saturating_sub(HISTORY_MAX);
            figure.history.drain(..n_old);
        }
        Some(told)
    }

    /// Whether nothing goes through any task now.
    pub(super) fn is_quiet(&self) -> bool {
        self.tasks.iter().all(|(_, figure)| figure.is_quiet())
    }

    /// Whether nothing went through any task in all of their histories.
    pub(super) fn has_faded(&self) -> bool {
        self.tasks.iter().all(|(_, figure)| figure.has_faded())
    }

    /// Whether the meters stand where they stood when the other was told.
    pub(super) fn has_same_meters(&self, other: &Told) -> bool {
        let meters = |(place, it): &(Place, Figure)| {
            (place.clone(), it.rows_in, it.rows_out, it.rows_failed, it.commits)
        };
        let sorted = |told: &Told| {
            let mut all: Vec<_> = told.tasks.iter().map(meters).collect();
            all.sort();
            all
        };
        self.left_out == other.left_out && sorted(self) == sorted(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn place(task: &str) -> Place {
        Place { job: "j".into(), task: task.into() }
    }

    fn busy(rows_in: u64) -> Figure {
        Figure { rows_in, in_per_second: 3, history: vec![3], ..Figure::default() }
    }

    #[test]
    fn one_task_too_many_is_left_out_and_said_and_it_is_a_quiet_one() {
        let named = |n: usize| place(&format!("{n:04}"));
        let mut figures: BTreeMap<_, _> =
            (0..FIGURES_TASKS_MAX).map(|n| (named(n), Figure::default())).collect();
        let all = Told::new(1, Duration::from_secs(2), figures.clone());
        assert_eq!((all.tasks.len(), all.left_out, all.at_ms), (FIGURES_TASKS_MAX, 0, 2_000));
        figures.insert(place("last"), busy(9));
        let cut = Told::new(1, Duration::from_secs(2), figures);
        assert_eq!((cut.tasks.len(), cut.left_out), (FIGURES_TASKS_MAX, 1));
        assert_eq!(cut.tasks[0], (place("last"), busy(9)), "it is the only busy one");
    }

    #[test]
    fn the_largest_that_can_be_told_fits_into_an_item() {
        let long = "é".repeat(ID_BYTES_MAX / 2) + "x";
        let most = Figure {
            rows_in: u64::MAX,
            rows_out: u64::MAX,
            rows_failed: u64::MAX,
            commits: u64::MAX,
            in_per_second: u64::MAX,
            out_per_second: u64::MAX,
            history: vec![u64::MAX; HISTORY_MAX],
        };
        let place = Place { job: long.clone(), task: long };
        let tasks = vec![(place, most); FIGURES_TASKS_MAX];
        let told = Told { origin: u64::MAX, at_ms: u64::MAX, again_ms: None, left_out: 1, tasks };
        let bytes = told.to_bytes().unwrap();
        assert!(bytes.len() <= VALUE_BYTES_MAX, "{} bytes", bytes.len());
        assert_eq!(Told::from_bytes(&bytes), Some(told));
    }

    #[test]
    fn the_bytes_stay_as_they_are() {
        let tasks = vec![(place("t"), busy(300))];
        let told = Told { origin: 1, at_ms: 2, again_ms: Some(2_000), left_out: 0, tasks };
        let bytes = told.to_bytes().unwrap();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "01010201d00f0001016a0174ac0200000003000103");
        assert_eq!(Told::from_bytes(&bytes), Some(told));
    }

    #[test]
    fn what_is_none_of_ours_is_not_read() {
        let tasks = vec![(place("t"), busy(300))];
        let bytes = Told { tasks, ..Told::default() }.to_bytes().unwrap();
        for end in 0..bytes.len() {
            assert_eq!(Told::from_bytes(&bytes[..end]), None, "{end} bytes");
        }
        assert_eq!(Told::from_bytes(&[2, 0, 0, 0, 0, 0]), None, "another version");
        assert_eq!(Told::from_bytes(&[1, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f]), None);
        let long = Figure { history: (0..100).collect(), ..Figure::default() };
        let tasks = vec![(place("t"), long); FIGURES_TASKS_MAX + 1];
        let read = Told::from_bytes(&Told { tasks, ..Told::default() }.to_bytes().unwrap());
        let read = read.unwrap();
        assert_eq!(read.tasks.len(), FIGURES_TASKS_MAX);
        assert_eq!(read.tasks[0].1.history, (40..100).collect::<Vec<u64>>());
    }
}
