//! What a node makes of what the others tell. Pure: what they told and the time come in.
//!
//! Times are those of arrival here, by a clock that only goes forward; nobody's wall clock matters.

use std::{collections::BTreeMap, time::Duration};

use sardonyx_queue::Place;

use super::{Figure, HISTORY_MAX, Told};

/// After so many times the time in which it promised to tell again, a node is not believed any more
/// to be as fast as it said.
const PATIENCE: u32 = 3;

/// What the other nodes told last.
#[derive(Debug, Default)]
pub struct Others {
    kept: BTreeMap<u64, (Duration, Told)>,
}

/// What went through a task on all nodes that tell of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TaskFigure {
    /// All of them together.
    pub figure: Figure,
    /// How many nodes it went through.
    pub n_nodes: usize,
}

/// What went through all tasks on all nodes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Summed {
    /// By task.
    pub tasks: BTreeMap<Place, TaskFigure>,
    /// How many nodes told something.
    pub n_nodes: usize,
    /// How many tasks some node left out, because it had too many to tell of all.
    pub left_out: u64,
}

impl Others {
    /// These were in the store at `now`. Whoever is not among them is gone. `own` is our own origin,
    /// of whose figures the store has an older edition.
    pub fn note(&mut self, told: Vec<Told>, own: Option<u64>, now: Duration) {
        let mut newest: BTreeMap<u64, Told> = BTreeMap::new();
        for told in told.into_iter().filter(|it| Some(it.origin) != own) {
            // Two with one origin: a life that has ended, whose session has not yet.
            match newest.get(&told.origin) {
                Some(other) if other.at_ms >= told.at_ms => {}
                Some(_) | None => drop(newest.insert(told.origin, told)),
            }
        }
        let before = std::mem::take(&mut self.kept);
        for (origin, told) in newest {
            let same = before.get(&origin).filter(|(_, it)| it.at_ms == told.at_ms);
            let arrived = same.map_or(now, |(arrived, _)| *arrived);
            self.kept.insert(origin, (arrived, told));
        }
    }

    /// Ours and theirs.
    pub fn sum(&self, own: BTreeMap<Place, Figure>, now: Duration) -> Summed {
        let mut summed = Summed::default();
        let is_known = |tasks: usize| usize::from(tasks > 0);
        summed.n_nodes = is_known(own.len());
        own.into_iter().for_each(|(place, figure)| summed.add(place, &figure));
        for (arrived, told) in self.kept.values() {
            summed.n_nodes += is_known(told.tasks.len());
            summed.left_out = summed.left_out.saturating_add(told.left_out);
            let age = now.saturating_sub(*arrived);
            for (place, figure) in &told.tasks {
                summed.add(place.clone(), &aged(figure, age, told.again_ms));
            }
        }
        summed
    }
}

impl Summed {
    fn add(&mut self, place: Place, figure: &Figure) {
        let task = self.tasks.entry(place).or_default();
        task.figure.add(figure);
        task.n_nodes += 1;
    }

    /// What went through all tasks together.
    pub fn total(&self) -> Figure {
        sum(self.tasks.values())
    }

    /// What went through all tasks of a job together.
    pub fn of_job(&self, job: &str) -> Figure {
        sum(self.tasks.iter().filter(|(place, _)| place.job == job).map(|(_, it)| it))
    }
}

fn sum<'a>(tasks: impl Iterator<Item = &'a TaskFigure>) -> Figure {
    let mut sum = Figure::default();
    tasks.for_each(|it| sum.add(&it.figure));
    sum
}

/// A figure that was told so long ago. Until its node has to tell again, it is as fast as it was.
fn aged(figure: &Figure, age: Duration, again_ms: Option<u64>) -> Figure {
    let is_fresh = again_ms.is_some_and(|ms| age <= Duration::from_millis(ms) * PATIENCE);
    let mut figure = figure.clone();
    if !is_fresh {
        (figure.in_per_second, figure.out_per_second) = (0, 0);
    }
    let since = if is_fresh { figure.history.last().copied().unwrap_or(0) } else { 0 };
    let n_passed = usize::try_from(age.as_secs()).unwrap_or(usize::MAX).min(HISTORY_MAX);
    figure.history.extend(std::iter::repeat_n(since, n_passed));
    let n_old = figure.history.len().saturating_sub(HISTORY_MAX);
    figure.history.drain(..n_old);
    figure
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(task: &str) -> Place {
        Place { job: "j".into(), task: task.into() }
    }

    fn figure(rows_in: u64, in_per_second: u64) -> Figure {
        let history = vec![1, 2, in_per_second];
        Figure { rows_in, in_per_second, history, ..Figure::default() }
    }

    fn told(origin: u64, at_ms: u64, rows_in: u64) -> Told {
        let tasks = vec![(place("t"), figure(rows_in, 10))];
        Told { origin, at_ms, again_ms: Some(2_000), left_out: 1, tasks }
    }

    const NOW: Duration = Duration::from_secs(100);

    #[test]
    fn figures_of_all_nodes_are_added_and_ours_are_not_added_twice() {
        let mut others = Others::default();
        others.note(vec![told(1, 5, 100), told(2, 5, 200), told(9, 5, 7)], Some(9), NOW);
        let own = BTreeMap::from([(place("t"), figure(8, 1)), (place("u"), figure(3, 2))]);
        let summed = others.sum(own, NOW);
        assert_eq!((summed.n_nodes, summed.left_out), (3, 2));
        let task = &summed.tasks[&place("t")];
        assert_eq!((task.n_nodes, task.figure.rows_in, task.figure.in_per_second), (3, 308, 21));
        assert_eq!(task.figure.history, [3, 6, 21]);
        assert_eq!(summed.tasks[&place("u")].n_nodes, 1);
        assert_eq!(summed.total().in_per_second, 23);
        assert_eq!(summed.of_job("j"), summed.total());
        assert_eq!(summed.of_job("other"), Figure::default());
    }

    #[test]
    fn a_process_counts_once_however_many_lives_of_it_are_in_the_store() {
        for order in [[3, 8], [8, 3]] {
            let mut others = Others::default();
            others.note(order.iter().map(|at| told(1, *at, *at)).collect(), None, NOW);
            let summed = others.sum(BTreeMap::new(), NOW);
            assert_eq!((summed.n_nodes, summed.total().rows_in), (1, 8));
        }
    }

    #[test]
    fn who_is_gone_is_forgotten() {
        let mut others = Others::default();
        others.note(vec![told(1, 5, 100)], None, NOW);
        others.note(Vec::new(), None, NOW);
        assert_eq!(others.sum(BTreeMap::new(), NOW), Summed::default());
    }

    #[test]
    fn a_process_that_was_started_again_begins_at_zero_and_has_no_negative_rate() {
        let mut others = Others::default();
        others.note(vec![told(1, 90_000, 5_000)], None, NOW);
        others.note(vec![told(2, 10, 3)], None, NOW);
        let total = others.sum(BTreeMap::new(), NOW).total();
        assert_eq!((total.rows_in, total.in_per_second), (3, 10));
    }

    #[test]
    fn a_rate_holds_until_its_node_has_failed_to_tell_again() {
        let mut others = Others::default();
        let at = |seconds: u64| NOW + Duration::from_secs(seconds);
        others.note(vec![told(1, 5, 100)], None, NOW);
        // The same again is no news: its age goes on from when it arrived.
        others.note(vec![told(1, 5, 100)], None, at(2));
        let total = others.sum(BTreeMap::new(), at(2)).total();
        assert_eq!((total.in_per_second, total.history), (10, vec![1, 2, 10, 10, 10]));
        assert_eq!(others.sum(BTreeMap::new(), at(6)).total().in_per_second, 10);
        let late = others.sum(BTreeMap::new(), at(7)).total();
        assert_eq!((late.rows_in, late.in_per_second), (100, 0), "what has gone through stays");
        let long = others.sum(BTreeMap::new(), at(1_000)).total();
        assert_eq!(long.history, vec![0; HISTORY_MAX]);
        others.note(vec![told(1, 6, 110)], None, at(1_000));
        assert_eq!(others.sum(BTreeMap::new(), at(1_000)).total().in_per_second, 10);
    }

    #[test]
    fn the_history_of_a_node_that_rests_moves_on_with_nothing() {
        let mut others = Others::default();
        others.note(vec![Told { again_ms: None, ..told(1, 5, 100) }], None, NOW);
        let total = others.sum(BTreeMap::new(), NOW + Duration::from_secs(2)).total();
        assert_eq!((total.in_per_second, total.history), (0, vec![1, 2, 10, 0, 0]));
    }
}
