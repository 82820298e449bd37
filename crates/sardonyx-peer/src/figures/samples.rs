//! The last readings of a node's meters: rates are their differences over time. Pure.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use sardonyx_queue::Place;
use sardonyx_task::meter::Reading;

use super::{Figure, HISTORY_MAX};

/// Over how many readings a rate is taken.
const RATE_SAMPLES: usize = 3;

/// The last readings, the newest last.
#[derive(Debug, Default)]
pub(super) struct Samples(VecDeque<(Duration, BTreeMap<Place, Reading>)>);

impl Samples {
    /// Notes what the meters show, `at` so long after the beginning.
    pub(super) fn push(&mut self, at: Duration, readings: BTreeMap<Place, Reading>) {
        self.0.push_back((at, readings));
        while self.0.len() > HISTORY_MAX + 1 {
            self.0.pop_front();
        }
    }

    /// What the meters show now, each with how fast it went.
    pub(super) fn figures(&self, now: &BTreeMap<Place, Reading>) -> BTreeMap<Place, Figure> {
        now.iter().map(|(place, reading)| (place.clone(), self.figure(place, *reading))).collect()
    }

    fn figure(&self, place: &Place, reading: Reading) -> Figure {
        let Reading { rows_in, rows_out, rows_failed, commits } = reading;
        let mut figure = Figure { rows_in, rows_out, rows_failed, commits, ..Figure::default() };
        let Some(last) = self.0.len().checked_sub(1) else { return figure };
        let (before, now) =
            (self.read(last.saturating_sub(RATE_SAMPLES), place), self.read(last, place));
        let time = now.0 - before.0;
        figure.in_per_second = per_second(time, before.1.rows_in, now.1.rows_in);
        figure.out_per_second = per_second(time, before.1.rows_out, now.1.rows_out);
        figure.history = (1..=last).map(|at| self.step(at, place)).collect();
        figure
    }

    /// A task that was not there yet had nothing go through it.
    fn read(&self, at: usize, place: &Place) -> (Duration, Reading) {
        let (time, readings) = &self.0[at];
        (*time, readings.get(place).copied().unwrap_or_default())
    }

    /// An input has nothing coming in, an output nothing going out: what counts is the larger.
    fn step(&self, at: usize, place: &Place) -> u64 {
        let busy = |it: Reading| it.rows_in.max(it.rows_out);
        let (one, other) = (self.read(at - 1, place), self.read(at, place));
        per_second(other.0 - one.0, busy(one.1), busy(other.1))
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

    fn place() -> Place {
        Place { job: "j".into(), task: "t".into() }
    }

    fn reading(rows_in: u64) -> BTreeMap<Place, Reading> {
        BTreeMap::from([(place(), Reading { rows_in, ..Reading::default() })])
    }

    #[test]
    fn rates_are_differences_over_time_and_forget() {
        let mut samples = Samples::default();
        let first = &samples.figures(&reading(7))[&place()];
        assert_eq!((first.rows_in, first.in_per_second, first.history.len()), (7, 0, 0));
        for second in 0..100 {
            samples.push(Duration::from_secs(second), reading(second * 500));
        }
        let figure = &samples.figures(&reading(50_000))[&place()];
        assert_eq!((figure.rows_in, figure.in_per_second, figure.out_per_second), (50_000, 500, 0));
        assert_eq!(figure.history, vec![500; HISTORY_MAX]);
        samples.push(Duration::from_secs(101), reading(0));
        assert_eq!(samples.figures(&reading(0))[&place()].in_per_second, 0);
    }

    #[test]
    fn a_meter_that_is_gone_has_no_figure() {
        let mut samples = Samples::default();
        samples.push(Duration::ZERO, reading(1));
        assert!(samples.figures(&BTreeMap::new()).is_empty());
    }
}
