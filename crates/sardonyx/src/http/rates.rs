//! How fast tasks are: the difference of meters over time.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use sardonyx_queue::Place;
use sardonyx_task::meter::Reading;

/// How often meters are read.
pub(crate) const SAMPLE_EVERY: Duration = Duration::from_secs(1);

/// How many readings are kept: one minute of rates.
const SAMPLES_MAX: usize = 61;

/// Over how many readings a rate is taken.
const RATE_SAMPLES: usize = 3;

type Sample = (Duration, BTreeMap<Place, Reading>);

/// The last readings.
#[derive(Debug, Default)]
pub(crate) struct Rates(Mutex<VecDeque<Sample>>);

/// How fast a task is on this node.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Rate {
    /// Segments a second, lately.
    pub(crate) rows_in: u64,
    /// Segments a second, lately.
    pub(crate) rows_out: u64,
    /// Segments in, for each of the last seconds, the newest last.
    pub(crate) history: Vec<u64>,
}

impl Rates {
    /// Notes what the meters show, `at` so long after the beginning.
    pub(crate) fn push(&self, at: Duration, readings: BTreeMap<Place, Reading>) {
        let mut samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        samples.push_back((at, readings));
        while samples.len() > SAMPLES_MAX {
            samples.pop_front();
        }
    }

    /// How fast a task is.
    pub(crate) fn of(&self, place: &Place) -> Rate {
        let samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let read = |at: usize| {
            let (time, readings) = &samples[at];
            (*time, readings.get(place).copied().unwrap_or_default())
        };
        let Some(last) = samples.len().checked_sub(1) else { return Rate::default() };
        let before = read(last.saturating_sub(RATE_SAMPLES));
        let now = read(last);
        let busy = |it: Reading| it.rows_in.max(it.rows_out);
        let step = |at: usize| {
            let (one, other) = (read(at - 1), read(at));
            per_second(other.0 - one.0, busy(one.1), busy(other.1))
        };
        Rate {
            rows_in: per_second(now.0 - before.0, before.1.rows_in, now.1.rows_in),
            rows_out: per_second(now.0 - before.0, before.1.rows_out, now.1.rows_out),
            history: (1..=last).map(step).collect(),
        }
    }

    /// How fast all tasks of this node are together.
    pub(crate) fn total(&self) -> Rate {
        let places: Vec<Place> = {
            let samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            samples.back().map(|(_, it)| it.keys().cloned().collect()).unwrap_or_default()
        };
        let mut total = Rate::default();
        for rate in places.iter().map(|place| self.of(place)) {
            total.rows_in += rate.rows_in;
            total.rows_out += rate.rows_out;
            total.history.resize(rate.history.len(), 0);
            total.history.iter_mut().zip(rate.history).for_each(|(sum, n)| *sum += n);
        }
        total
    }
}

/// A meter that went back belongs to a job that began again: that is no negative rate.
fn per_second(time: Duration, before: u64, now: u64) -> u64 {
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1);
    now.saturating_sub(before).saturating_mul(1_000) / millis
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(rows_in: u64) -> BTreeMap<Place, Reading> {
        let place = Place { job: "j".into(), task: "t".into() };
        BTreeMap::from([(place, Reading { rows_in, ..Reading::default() })])
    }

    #[test]
    fn rates_are_differences_over_time_and_forget() {
        let (rates, place) = (Rates::default(), Place { job: "j".into(), task: "t".into() });
        assert_eq!(rates.of(&place), Rate::default());
        for second in 0..100 {
            rates.push(Duration::from_secs(second), reading(second * 500));
        }
        let rate = rates.of(&place);
        assert_eq!((rate.rows_in, rate.rows_out), (500, 0));
        assert_eq!(rate.history, vec![500; SAMPLES_MAX - 1]);
        assert_eq!(rates.total(), rate);
        rates.push(Duration::from_secs(101), reading(0));
        assert_eq!(rates.of(&place).rows_in, 0);
    }
}
