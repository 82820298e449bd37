//! Every order of events for a small cluster: over the same lease machine, generator and
//! transactions as in production.
//!
//! Up to three processes want one number (the other of the layout is retired). Each has its own clock.
//! An event is: a clock moves back; a process asks; the store carries a request out, and the answer
//! arrives or is lost; a request is given up and carried out later, or never; a session expires, at
//! any time, and its process hears of it, or does not; a process is replaced by a new one.
//!
//! What nobody can tell apart is one state. Nobody sees another's clock, so a clock moves on, by any
//! span, just before the process does something by it. Ids change nothing but what was used, and a
//! process that hands out all it can hands out a superset of what it could otherwise: one id uses up
//! its millisecond, and each is used as soon as it can be. What a process could still hand out without
//! doing anything else counts as used when it is judged. The rest is in `shape`.

mod shape;
mod state;

use std::{
    collections::{BTreeSet, HashMap, HashSet, VecDeque},
    thread,
    time::Instant,
};

use stateright::{Checker, Model as _, Property};

use super::world::Rules;
use state::{Bounds, Model};

/// What is searched: all that can come of `bounds` under `rules`.
#[derive(Clone, Copy)]
struct Search {
    bounds: Bounds,
    rules: Rules,
    /// Also orders that nobody can tell apart.
    is_plain: bool,
}

const ONCE: &str = "no id is repeated";

impl stateright::Model for Search {
    type State = Model;
    /// What an event leads to stands for the event.
    type Action = Model;

    fn init_states(&self) -> Vec<Model> {
        vec![Model::new(self.bounds, self.rules, self.is_plain)]
    }

    fn actions(&self, state: &Model, actions: &mut Vec<Model>) {
        actions.extend(state.successors(self.rules));
    }

    fn next_state(&self, _: &Model, action: Model) -> Option<Model> {
        Some(action)
    }

    fn properties(&self) -> Vec<Property<Search>> {
        vec![Property::always(ONCE, |_, state: &Model| !state.is_broken())]
    }
}

impl Search {
    fn ours(bounds: Bounds) -> Search {
        Search { bounds, rules: Rules::Ours, is_plain: false }
    }

    /// Looks at every state, and says how many there are.
    fn explore(self) -> usize {
        let started = Instant::now();
        let threads = thread::available_parallelism().map_or(1, usize::from);
        // In depth: only few states are remembered whole.
        let checker = self.checker().threads(threads).spawn_dfs().join();
        let (states, events) = (checker.unique_state_count(), checker.state_count());
        let seconds = started.elapsed().as_secs_f64();
        let bounds = self.bounds;
        println!("{bounds:?}: {states} states, {events} events, all of them, {seconds:.1} s");
        assert!(checker.discovery(ONCE).is_none(), "{bounds:?}: an id is repeated");
        states
    }

    /// After how many events an id is repeated, at least.
    fn shortest(self) -> Option<usize> {
        let checker = self.checker().spawn_bfs().join();
        checker.discovery(ONCE).map(|path| path.into_actions().len())
    }
}

/// Enough for the document's protocol to fail, and soon searched whole.
const SMALLEST: Bounds =
    Bounds { processes: 2, time_max: 3, expiries: 1, steps_back: 0, lost: 0, crashes: 0 };

/// One more fault at a time than the smallest: a clock that steps back, an answer that is lost and
/// a request that is late, a process that is replaced.
const FAULTS: [Bounds; 3] = [
    Bounds { steps_back: 1, ..SMALLEST },
    Bounds { lost: 1, ..SMALLEST },
    Bounds { crashes: 1, ..SMALLEST },
];

/// Three processes, five times, three expiries, one step back: by `cargo xtask ids`.
const LARGE: Bounds =
    Bounds { processes: 3, time_max: 5, expiries: 3, steps_back: 1, lost: 0, crashes: 0 };

#[test]
fn no_order_of_events_repeats_an_id() {
    for bounds in FAULTS.into_iter().chain([SMALLEST]) {
        let states = Search::ours(bounds).explore();
        assert!(states > 50, "{states}");
    }
}

/// With `IDS_MODEL_FULL=1` the large one, and a smaller one in every order, which takes minutes.
#[test]
fn no_order_of_events_of_three_processes_repeats_an_id() {
    let small = Bounds { time_max: 4, expiries: 2, ..LARGE };
    if std::env::var("IDS_MODEL_FULL").is_ok_and(|it| it == "1") {
        Search::ours(LARGE).explore();
        Search { is_plain: true, ..Search::ours(small) }.explore();
    } else {
        Search::ours(small).explore();
    }
}

#[test]
fn the_documents_rule_repeats_an_id_in_a_few_events() {
    let rules = Rules::Document;
    let events = Search { bounds: SMALLEST, rules, is_plain: false }.shortest();
    println!("after {events:?} events");
    assert!(events.is_some_and(|events| events < 16), "{events:?}");
}

/// What is found when also orders are tried that nobody can tell apart is found without them, and
/// the other way round: for our rules, for the document's, and with each rule left out.
#[test]
fn orders_that_are_left_out_hide_nothing() {
    let weaker = [Rules::Document, Rules::MarkIgnored, Rules::WriteForgetsAll];
    let weaker = weaker.into_iter().chain([Rules::ClaimForgetsFresh, Rules::WriteForgetsFresh]);
    let two = Bounds { steps_back: 1, expiries: 2, ..SMALLEST };
    let mut n_found = 0;
    for rules in weaker.chain([Rules::Ours]) {
        for bounds in FAULTS.into_iter().chain([SMALLEST, two]) {
            let search = Search { bounds, rules, is_plain: false };
            let found = search.shortest();
            let plain = Search { is_plain: true, ..search }.shortest();
            println!("{rules:?}, {bounds:?}: after {found:?} events, and of all orders {plain:?}");
            assert_eq!(found.is_some(), plain.is_some());
            n_found += usize::from(found.is_some());
        }
    }
    assert!(n_found >= 10, "{n_found}");
}

/// Two states of one shape can be told apart by nobody: what follows the one has the same shapes as
/// what follows the other, and both are broken or neither is. Here states are told apart by all
/// that they are; of each bound as many as are soon looked at.
#[test]
fn equal_shapes_lead_to_equal_shapes() {
    const STATES_MAX: usize = 500;
    let three = Bounds { processes: 3, expiries: 2, ..FAULTS[0] };
    let both = Bounds { lost: 2, crashes: 1, ..three };
    let (mut n_compared, mut seen) = (0, HashMap::new());
    let kinds = [
        (Rules::Ours, false),
        (Rules::Ours, true),
        (Rules::MarkIgnored, false),
        (Rules::Document, false),
        (Rules::WriteForgetsAll, false),
    ];
    for bounds in FAULTS.into_iter().chain([SMALLEST, three, both]) {
        for (rules, is_plain) in kinds {
            seen.clear();
            let first = Model::new(bounds, rules, is_plain);
            let mut known = HashSet::from([format!("{first:?}")]);
            let mut queue = VecDeque::from([first]);
            while let Some(model) = queue.pop_front() {
                // What follows a broken state is nobody's concern.
                let is_broken = model.is_broken();
                let next = if is_broken { Vec::new() } else { model.successors(rules) };
                let mut shapes: BTreeSet<_> = next.iter().map(Model::shape).collect();
                // What leads back to where it was leads nowhere.
                shapes.remove(&model.shape());
                let is = (is_broken, shapes);
                if let Some((before, other)) = seen.get(&model.shape()) {
                    n_compared += 1;
                    let message = format!("{bounds:?}, {rules:?}: {model:#?}\n{other:#?}");
                    assert_eq!(*before, is, "{message}");
                } else {
                    seen.insert(model.shape(), (is, model));
                }
                for next in next {
                    if known.len() < STATES_MAX && known.insert(format!("{next:?}")) {
                        queue.push_back(next);
                    }
                }
            }
        }
    }
    println!("{n_compared} states had the shape of another");
    assert!(n_compared > 1000, "{n_compared}: nothing was compared");
}
