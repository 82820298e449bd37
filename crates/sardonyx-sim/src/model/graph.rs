//! Every state by its key, and which leads to which: to find those without a way out.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::{Explored, Small, State};

/// Into how many parts it is cut, so that two threads seldom wait for each other.
const PARTS: usize = 64;

pub(super) struct Graph {
    parts: Vec<Mutex<Part>>,
}

#[derive(Default)]
struct Part {
    edges: Vec<(u64, u64)>,
    at_rest: Vec<u64>,
    cut: Vec<u64>,
}

impl Default for Graph {
    fn default() -> Self {
        Graph { parts: (0..PARTS).map(|_| Mutex::default()).collect() }
    }
}

impl Graph {
    fn part(&self, key: u64) -> MutexGuard<'_, Part> {
        // A thread that panicked took the run with it; what it wrote is whole.
        self.parts[key as usize % PARTS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A state is looked at for the first time.
    pub(super) fn meet(&self, key: u64, is_at_rest: bool, is_cut: bool) {
        if is_at_rest || is_cut {
            let mut part = self.part(key);
            part.at_rest.extend(is_at_rest.then_some(key));
            part.cut.extend(is_cut.then_some(key));
        }
    }

    /// One state leads to another.
    pub(super) fn lead(&self, from: u64, to: u64) {
        self.part(from).edges.push((from, to));
    }

    /// Counts, and finds the states from which the cluster cannot come to rest any more.
    pub(super) fn judge(&self, small: &Small, explored: &mut Explored) {
        let first = State::new(small);
        let mut numbers = HashMap::from([(first.key, 0)]);
        let mut edges = Vec::new();
        let mut good = VecDeque::new();
        for part in &self.parts {
            let part = part.lock().unwrap_or_else(PoisonError::into_inner);
            explored.at_rest += part.at_rest.len();
            explored.cut += part.cut.len();
            let mut number = |key: &u64| {
                let next = numbers.len() as u32;
                *numbers.entry(*key).or_insert(next)
            };
            edges.extend(part.edges.iter().map(|(from, to)| (number(from), number(to))));
            good.extend(part.at_rest.iter().chain(&part.cut).map(&mut number));
        }
        explored.steps = edges.len();
        let back = Neighbours::new(numbers.len(), edges.iter().map(|(from, to)| (*to, *from)));
        let mut has_way_out = vec![false; numbers.len()];
        while let Some(at) = good.pop_front() {
            if !std::mem::replace(&mut has_way_out[at as usize], true) {
                good.extend(back.of(at));
            }
        }
        explored.stuck = has_way_out.iter().filter(|has| !**has).count();
        if explored.stuck > 0 {
            let stuck = numbers.into_iter().filter(|(_, number)| !has_way_out[*number as usize]);
            let way = way_to(small, &stuck.map(|(key, _)| key).collect());
            explored.witness = Some(("there is no way out".into(), way));
        }
    }
}

/// The shortest way into one of these states, walked once more from the beginning.
fn way_to(small: &Small, stuck: &HashSet<u64>) -> Vec<String> {
    let first = State::new(small);
    let mut seen = HashSet::from([first.key]);
    let mut waiting = VecDeque::from([(first, Vec::new())]);
    while let Some((state, way)) = waiting.pop_front() {
        if stuck.contains(&state.key) {
            return way;
        }
        for action in state.actions(small) {
            let mut next = state.clone();
            let what = next.act(action, small);
            if next.log_length() <= small.log_max && seen.insert(next.key) {
                let mut way = way.clone();
                way.push(what);
                waiting.push_back((next, way));
            }
        }
    }
    Vec::new()
}

/// Who is next to whom, as two flat lists: one for each state would be millions.
struct Neighbours {
    begins: Vec<usize>,
    all: Vec<u32>,
}

impl Neighbours {
    fn new(n: usize, edges: impl Iterator<Item = (u32, u32)> + Clone) -> Neighbours {
        let mut begins = vec![0; n + 1];
        edges.clone().for_each(|(from, _)| begins[from as usize + 1] += 1);
        for at in 0..n {
            begins[at + 1] += begins[at];
        }
        let (mut all, mut next) = (vec![0; begins[n]], begins.clone());
        for (from, to) in edges {
            all[next[from as usize]] = to;
            next[from as usize] += 1;
        }
        Neighbours { begins, all }
    }

    fn of(&self, at: u32) -> &[u32] {
        &self.all[self.begins[at as usize]..self.begins[at as usize + 1]]
    }
}
