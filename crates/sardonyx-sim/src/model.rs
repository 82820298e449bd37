//! All interleavings of a small cluster, one by one, with stateright.
//!
//! The peers are the real [`Peer`](sardonyx_core::Peer), the cluster is the real `apply`. A state is
//! everything that there is (`state`); from each, every action that could come next is tried, until
//! no new state turns up. The laws must hold *always*, rare paths must be reached *sometimes*, and
//! from every state that was reached the living must still be able to come to rest: one ring that
//! knows it, every job over. The last question finds what no run can show, a corner from which there
//! is no way out; stateright does not ask it, so the graph is kept and walked backwards (`graph`).
//!
//! What bounds it: the number of crashes, and the length of the log. States at the longest log are
//! counted as ones with a way out.
//!
//! Of actions that nobody can tell apart from their order, one order is enough (`State::quiet_play`);
//! [`Small::every_order`] tries them all.

mod graph;
mod state;

use std::{collections::HashSet, sync::Arc, thread};

use sardonyx_core::{JoinProtocol, mutant::Mutant};
use stateright::{Checker, Model, Property};

use self::{
    graph::Graph,
    state::{Action, State},
};

/// A small cluster.
#[derive(Clone, Copy, Debug)]
pub struct Small {
    /// How peers join.
    pub protocol: JoinProtocol,
    /// How many are in at the beginning.
    pub members: usize,
    /// How many want in.
    pub joiners: usize,
    /// How many may crash.
    pub crashes: u8,
    /// Who may crash, by index; `None` for anybody.
    pub may_crash: Option<usize>,
    /// How many may lose their session: the others take them for dead while they go on, until they
    /// find out.
    pub losses: u8,
    /// How many tasks the one job has; without any there is no job.
    pub tasks: usize,
    /// How long the log may become.
    pub log_max: usize,
    /// Whether orders that nobody can tell apart are tried all the same.
    pub every_order: bool,
    /// A rule that is switched off.
    pub mutant: Option<Mutant>,
}

impl Default for Small {
    /// The size that the documents' examples have.
    fn default() -> Self {
        Small {
            protocol: JoinProtocol::ThreePhase,
            members: 3,
            joiners: 1,
            crashes: 1,
            may_crash: None,
            losses: 0,
            tasks: 0,
            log_max: 6,
            every_order: false,
            mutant: None,
        }
    }
}

/// What was found about a small cluster.
#[derive(Clone, Debug, Default)]
pub struct Explored {
    /// How many different states there are.
    pub states: usize,
    /// How many steps lead from one to another.
    pub steps: usize,
    /// In how many the living are one ring, and nothing is left to do.
    pub at_rest: usize,
    /// How many have the longest log, and were not followed further.
    pub cut: usize,
    /// From how many no such state can be reached any more.
    pub stuck: usize,
    /// The shortest way to a broken law or to a corner without a way out, and what it is.
    pub witness: Option<(String, Vec<String>)>,
    /// Rare paths that were never taken.
    pub unseen: Vec<&'static str>,
}

struct Cluster {
    small: Small,
    graph: Arc<Graph>,
}

/// Explores every state of `small`, breadth first.
pub fn explore(small: Small) -> Explored {
    let graph = Arc::new(Graph::default());
    let cluster = Cluster { small, graph: graph.clone() };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let checker = cluster.checker().threads(threads).spawn_bfs().join();
    let discoveries = checker.discoveries();
    let mut explored = Explored { states: checker.unique_state_count(), ..Explored::default() };
    explored.unseen = RARE_PATHS
        .iter()
        .filter(|(name, applies, _)| applies(&small) && !discoveries.contains_key(name))
        .map(|(name, ..)| *name)
        .collect();
    if let Some(path) = discoveries.get(LAWS) {
        let broken = path.last_state().broken.clone().unwrap_or_default();
        let mut state = State::new(&small);
        let way = path.clone().into_actions().into_iter().map(|action| state.act(action, &small));
        explored.witness = Some((broken, way.collect()));
        return explored;
    }
    graph.judge(&small, &mut explored);
    explored
}

/// How many states there are, by the plainest search that there is: to check the checker.
pub fn count(small: Small) -> usize {
    let first = State::new(&small);
    let mut seen = HashSet::from([first.key]);
    let mut waiting = vec![first];
    while let Some(state) = waiting.pop() {
        let is_cut = state.log_length() >= small.log_max;
        for action in state.actions(&small).into_iter().filter(|_| !is_cut) {
            let mut next = state.clone();
            next.act(action, &small);
            if seen.insert(next.key) {
                waiting.push(next);
            }
        }
    }
    seen.len()
}

const LAWS: &str = "the laws hold";

/// A rare path: its name, for which clusters it must be taken, and how it is recognised.
type RarePath = (&'static str, fn(&Small) -> bool, fn(&Cluster, &State) -> bool);

const RARE_PATHS: [RarePath; 5] = [
    ("somebody joins", |small| small.joiners > 0, |_, state| state.has_grown()),
    (
        "a join is aborted",
        |small| small.joiners > 0 && small.crashes > 0,
        |_, state| state.has_aborted(),
    ),
    (
        "an observer leaves between notify and accept",
        |small| small.joiners > 0 && small.crashes > 0 && small.may_crash.is_none(),
        |_, state| state.has_lost_an_observer(),
    ),
    ("a job is completed", |small| small.tasks > 0, |_, state| state.has_completed()),
    (
        "a sealer leaves",
        |small| small.tasks > 0 && small.crashes > 0,
        |_, state| state.has_lost_a_sealer(),
    ),
];

impl Model for Cluster {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(&self.small)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let is_cut = state.log_length() >= self.small.log_max;
        self.graph.meet(state.key, state.is_at_rest(), is_cut);
        if !is_cut {
            actions.extend(state.actions(&self.small));
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut next = last.clone();
        next.act(action, &self.small);
        self.graph.lead(last.key, next.key);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let paths = RARE_PATHS.iter().filter(|(_, applies, _)| applies(&self.small));
        let mut properties: Vec<_> =
            paths.map(|(name, _, seen)| Property::sometimes(name, *seen)).collect();
        properties.push(Property::always(LAWS, |_, state: &State| state.broken.is_none()));
        properties
    }
}
