//! The workflow as a graph: order, cycles, who reaches whom.

use std::collections::{BTreeMap, BTreeSet};

/// Edges between tasks, by name.
#[derive(Debug, Default)]
pub(super) struct Graph<'a> {
    /// In the order in which the workflow names them first.
    pub(super) tasks: Vec<&'a str>,
    next: BTreeMap<&'a str, BTreeSet<&'a str>>,
    before: BTreeMap<&'a str, BTreeSet<&'a str>>,
}

impl<'a> Graph<'a> {
    pub(super) fn new(edges: &[(&'a str, &'a str)]) -> Graph<'a> {
        let mut graph = Graph::default();
        for &(from, to) in edges {
            for task in [from, to] {
                graph.add(task);
            }
            graph.next.entry(from).or_default().insert(to);
            graph.before.entry(to).or_default().insert(from);
        }
        graph
    }

    pub(super) fn add(&mut self, task: &'a str) {
        if !self.tasks.contains(&task) {
            self.tasks.push(task);
        }
    }

    pub(super) fn next(&self, task: &str) -> impl Iterator<Item = &'a str> {
        self.next.get(task).into_iter().flatten().copied()
    }

    pub(super) fn before(&self, task: &str) -> impl Iterator<Item = &'a str> {
        self.before.get(task).into_iter().flatten().copied()
    }

    /// Everything that can be reached from `from`, itself included.
    pub(super) fn reach(&self, from: impl IntoIterator<Item = &'a str>) -> BTreeSet<&'a str> {
        let mut reached = BTreeSet::new();
        let mut left: Vec<_> = from.into_iter().collect();
        while let Some(task) = left.pop() {
            if reached.insert(task) {
                left.extend(self.next(task));
            }
        }
        reached
    }

    /// The tasks so that every edge goes forwards; among those that could come next, the one that
    /// the workflow names first. `Err` is a cycle.
    pub(super) fn order(&self) -> Result<Vec<&'a str>, Vec<&'a str>> {
        let mut waiting: BTreeMap<_, _> =
            self.tasks.iter().map(|task| (*task, self.before(task).count())).collect();
        let mut order = Vec::with_capacity(self.tasks.len());
        while let Some(&task) =
            self.tasks.iter().find(|task| waiting.get(**task).is_some_and(|n| *n == 0))
        {
            waiting.remove(task);
            order.push(task);
            for next in self.next(task) {
                if let Some(n) = waiting.get_mut(next) {
                    *n -= 1;
                }
            }
        }
        if waiting.is_empty() { Ok(order) } else { Err(self.cycle(&waiting)) }
    }

    /// Every task that is left waits for another that is left: walking back must come round.
    fn cycle(&self, left: &BTreeMap<&'a str, usize>) -> Vec<&'a str> {
        let mut walked: Vec<&str> = left.keys().take(1).copied().collect();
        while let Some(task) = walked.last() {
            let Some(before) = self.before(task).find(|task| left.contains_key(task)) else {
                break;
            };
            if let Some(at) = walked.iter().position(|it| *it == before) {
                let mut cycle = walked.split_off(at);
                cycle.reverse();
                cycle.push(cycle[0]);
                return cycle;
            }
            walked.push(before);
        }
        walked
    }
}
