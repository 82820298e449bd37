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

/// What the last readings say, task by task: a name is held once and not once a second, for there are
/// a minute of readings of every task.
#[derive(Debug, Default)]
pub(super) struct Samples {
    /// When the last were taken, the newest last.
    times: VecDeque<Duration>,
    /// How many steps of history there are, of every task.
    n_steps: usize,
    tasks: BTreeMap<Place, Recent>,
}

/// What was read of a task lately, the newest last.
#[derive(Debug)]
struct Recent {
    /// As many as there are times.
    readings: VecDeque<Reading>,
    /// How much went through it from each reading to the next.
    steps: VecDeque<u64>,
}

impl Samples {
    /// Notes what the meters show, `at` so long after the beginning. Whoever has no meter any more is
    /// forgotten.
    pub(super) fn push(&mut self, at: Duration, now: &BTreeMap<Place, Reading>) {
        let time = self.times.back().map(|before| at - *before);
        self.tasks.retain(|place, _| now.contains_key(place));
        for (place, reading) in now {
            if let Some(task) = self.tasks.get_mut(place) {
                task.push(time, *reading);
                continue;
            }
            let mut task = Recent::silent(self.times.len(), self.n_steps);
            task.push(time, *reading);
            self.tasks.insert(place.clone(), task);
        }
        push_within(&mut self.times, RATE_SAMPLES + 1, at);
        self.n_steps = HISTORY_MAX.min(self.n_steps + usize::from(time.is_some()));
    }

    /// What the meters show now, each with how fast it went.
    pub(super) fn figures(&self, now: &BTreeMap<Place, Reading>) -> BTreeMap<Place, Figure> {
        now.iter().map(|(place, reading)| (place.clone(), self.figure(place, *reading))).collect()
    }

    fn figure(&self, place: &Place, reading: Reading) -> Figure {
        let Reading { rows_in, rows_out, rows_failed, commits } = reading;
        let mut figure = Figure { rows_in, rows_out, rows_failed, commits, ..Figure::default() };
        let (Some(begin), Some(end)) = (self.times.front(), self.times.back()) else {
            return figure;
        };
        let Some(task) = self.tasks.get(place) else {
            figure.history = vec![0; self.n_steps];
            return figure;
        };
        if let (Some(before), Some(now)) = (task.readings.front(), task.readings.back()) {
            figure.in_per_second = per_second(*end - *begin, before.rows_in, now.rows_in);
            figure.out_per_second = per_second(*end - *begin, before.rows_out, now.rows_out);
        }
        figure.history = task.steps.iter().copied().collect();
        figure
    }
}

impl Recent {
    /// A task that was not there yet had nothing go through it.
    fn silent(n_readings: usize, n_steps: usize) -> Recent {
        Recent {
            readings: std::iter::repeat_n(Reading::default(), n_readings).collect(),
            steps: std::iter::repeat_n(0, n_steps).collect(),
        }
    }

    /// Notes what the meter shows, `time` after the reading before; `None`: it is the very first.
    fn push(&mut self, time: Option<Duration>, reading: Reading) {
        if let (Some(time), Some(before)) = (time, self.readings.back()) {
            let step = per_second(time, busy(*before), busy(reading));
            push_within(&mut self.steps, HISTORY_MAX, step);
        }
        push_within(&mut self.readings, RATE_SAMPLES + 1, reading);
    }
}

/// The oldest go when there are more than `max`.
fn push_within<T>(all: &mut VecDeque<T>, max: usize, new: T) {
    while all.len() >= max {
        all.pop_front();
    }
    all.push_back(new);
}

/// An input has nothing coming in, an output nothing going out: what counts is the larger.
fn busy(it: Reading) -> u64 {
    it.rows_in.max(it.rows_out)
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
            samples.push(Duration::from_secs(second), &reading(second * 500));
        }
        let figure = &samples.figures(&reading(50_000))[&place()];
        assert_eq!((figure.rows_in, figure.in_per_second, figure.out_per_second), (50_000, 500, 0));
        assert_eq!(figure.history, vec![500; HISTORY_MAX]);
        samples.push(Duration::from_secs(101), &reading(0));
        assert_eq!(samples.figures(&reading(0))[&place()].in_per_second, 0);
    }

    #[test]
    fn a_task_that_came_later_has_nothing_before() {
        let mut samples = Samples::default();
        for second in 0..5 {
            samples.push(Duration::from_secs(second), &BTreeMap::new());
        }
        let unread = &samples.figures(&reading(9))[&place()];
        assert_eq!((unread.in_per_second, &unread.history), (0, &vec![0; 4]));
        samples.push(Duration::from_secs(5), &reading(30));
        samples.push(Duration::from_secs(6), &reading(90));
        let figure = &samples.figures(&reading(90))[&place()];
        assert_eq!((figure.in_per_second, &figure.history), (30, &vec![0, 0, 0, 0, 30, 60]));
        for second in 7..100 {
            samples.push(Duration::from_secs(second), &reading(90));
        }
        assert_eq!(samples.figures(&reading(90))[&place()].history, vec![0; HISTORY_MAX]);
    }

    #[test]
    fn only_those_who_have_a_meter_are_remembered() {
        let mut samples = Samples::default();
        for second in 0..1_000 {
            let place = Place { job: second.to_string(), task: "t".into() };
            let now = BTreeMap::from([(place, Reading::default())]);
            samples.push(Duration::from_secs(second), &now);
            assert_eq!(samples.tasks.len(), 1);
            let task = samples.tasks.values().next().expect("the task");
            assert!(task.readings.len() <= RATE_SAMPLES + 1 && task.steps.len() <= HISTORY_MAX);
        }
    }

    #[test]
    fn a_meter_that_is_gone_has_no_figure() {
        let mut samples = Samples::default();
        samples.push(Duration::ZERO, &reading(1));
        assert!(samples.figures(&BTreeMap::new()).is_empty());
    }
}
