//! Every order of events for a small cluster: breadth first, over the same lease machine,
//! generator and transactions as in production.
//!
//! Two processes want one number (the other of the layout is retired). Each has its own clock. An
//! event is: a clock moves on, or back; a process asks; the store carries a request out, and the
//! answer arrives or is lost; a request is given up and carried out later, or never; a session
//! expires, at any time; a process is replaced by a new one; an id is handed out. One id uses up
//! its millisecond, so a state need only remember which milliseconds were used.

use std::{
    collections::{HashSet, VecDeque},
    fmt::Write as _,
    hash::{BuildHasher, Hasher, RandomState},
};

use sardonyx_store::{Txn, Write};

use super::world::{FakeStore, Process, Rules, weaken};
use crate::{
    generator::{Generator, Slack},
    layout::{EPOCH, Layout, Millis},
    lease::{
        Action, Answer, Input, Now, Problem, Terms,
        record::{LAYOUT, retired_key, write},
    },
};

const SMALL: Layout = Layout { time_bits: 40, worker_bits: 1, sequence_bits: 22, epoch: EPOCH };

#[derive(Clone, Copy, Debug)]
struct Bounds {
    time_max: Millis,
    expiries: u8,
    steps_back: u8,
    lost: u8,
    crashes: u8,
}

#[derive(Clone, Debug)]
struct Node {
    process: Process,
    owner: u64,
    clock: Millis,
    boot: Millis,
    attempts: u64,
    out: Option<Action>,
}

#[derive(Clone, Debug)]
struct Model {
    store: FakeStore,
    nodes: Vec<Node>,
    /// Given up by their senders; the store may still carry them out.
    late: Vec<(Action, Option<u32>)>,
    left: Bounds,
    owners: u64,
    used: u64,
    duplicate: bool,
}

fn terms() -> Terms {
    let (window, period, ahead_max) = (2, 1, 1000);
    Terms { window, period, ahead_max, retry: 1, left_min: 0, name: String::new() }
}

fn node(owner: u64) -> Node {
    let mut process = Process::new(SMALL, &terms(), owner);
    process.generator = Generator::new(&SMALL, Slack { credit: 0, max_future: 0 });
    Node { process, owner, clock: 1, boot: 1, attempts: 0, out: None }
}

impl Model {
    fn new(left: Bounds) -> Model {
        let mut store = FakeStore::default();
        let then =
            vec![Write::Put(LAYOUT.into(), write(&SMALL)), Write::Put(retired_key(1), write(&0))];
        store.commit(&Txn { when: vec![], then }, None);
        let nodes = vec![node(1), node(2)];
        Model { store, nodes, late: vec![], left, owners: 2, used: 0, duplicate: false }
    }

    fn step(&mut self, index: usize, input: Input, rules: Rules) {
        let node = &mut self.nodes[index];
        node.attempts += 1;
        let dice = node.owner << 8 | node.attempts;
        let now = Now { clock: EPOCH + node.clock, boot: node.boot, offset: 0, dice };
        let todo = node.process.lease.step(input, now);
        let clock = now.clock;
        match node.process.perform(todo, rules) {
            Some(Action::OpenSession) => {
                // Nothing about a session is interesting before something hangs on it.
                let before = node.process.session.replace(self.store.open_session());
                before.into_iter().for_each(|before| self.store.expire(before));
                self.step(index, Input::Session(Ok(())), rules);
            }
            Some(Action::Commit { txn, in_session }) => {
                node.out = Some(Action::Commit { txn: weaken(txn, rules, clock), in_session });
            }
            request => node.out = request,
        }
        let node = &mut self.nodes[index];
        if !matches!(node.out, Some(Action::Commit { .. })) && node.attempts == dice & 0xff {
            // A step that writes nothing uses up no attempt: otherwise states would go on for ever
            // that differ in nothing else.
            node.attempts -= 1;
        }
    }

    fn carry_out(&mut self, request: Action, session: Option<u32>) -> Input {
        match request {
            Action::Commit { txn, in_session } => {
                let session = session.filter(|_| in_session);
                Input::Committed(self.store.commit(&txn, session))
            }
            _ => Input::Listed(Ok(self.store.list())),
        }
    }

    /// Every state that one event leads to.
    fn successors(&self, rules: Rules) -> Vec<Model> {
        let mut next = Vec::new();
        let mut push = |change: &dyn Fn(&mut Model)| {
            let mut model = self.clone();
            change(&mut model);
            next.push(model);
        };
        for index in 0..self.nodes.len() {
            let it = &self.nodes[index];
            if it.clock < self.left.time_max {
                push(&|model| {
                    model.nodes[index].clock += 1;
                    model.nodes[index].boot += 1;
                });
            }
            if self.left.steps_back > 0 && it.clock > 2 {
                push(&|model| {
                    model.nodes[index].clock -= 2;
                    model.left.steps_back -= 1;
                });
            }
            match &it.out {
                None => push(&|model| model.step(index, Input::Tick, rules)),
                Some(request) => {
                    let session = it.process.session;
                    push(&|model| {
                        model.nodes[index].out = None;
                        let answer = model.carry_out(request.clone(), session);
                        model.step(index, answer, rules);
                    });
                    if self.left.lost > 0 {
                        let silence = match request {
                            Action::List => Input::Listed(Err(Problem::Store(String::new()))),
                            _ => Input::Committed(Answer::Unknown(String::new())),
                        };
                        push(&|model| {
                            model.left.lost -= 1;
                            let request = model.nodes[index].out.take();
                            if let Some(request @ Action::Commit { .. }) = request {
                                model.late.push((request, session));
                            }
                            model.step(index, silence.clone(), rules);
                        });
                    }
                }
            }
            if self.left.expiries > 0
                && let Some(session) = it.process.session
            {
                push(&|model| {
                    model.left.expiries -= 1;
                    model.store.expire(session);
                });
            }
            if self.left.crashes > 0 {
                push(&|model| {
                    model.left.crashes -= 1;
                    model.owners += 1;
                    let clock = model.nodes[index].clock;
                    model.nodes[index] = Node { clock, boot: clock, ..node(model.owners) };
                });
            }
            let mut generator = it.process.generator.clone();
            if let Ok(run) = generator.take(EPOCH + it.clock, u64::MAX) {
                push(&|model| {
                    model.nodes[index].process.generator = generator.clone();
                    let bit = 1 << (run.first >> SMALL.sequence_bits);
                    model.duplicate |= model.used & bit != 0;
                    model.used |= bit;
                });
            }
        }
        for index in 0..self.late.len() {
            push(&|model| {
                let (request, session) = model.late.remove(index);
                model.carry_out(request, session);
            });
        }
        next
    }

    fn fingerprint(&self, hasher: &RandomState) -> u64 {
        let mut text = Text(hasher.build_hasher());
        // Writing to a hasher cannot fail.
        let _ = write!(text, "{self:?}");
        text.0.finish()
    }
}

struct Text<H>(H);

impl<H: Hasher> std::fmt::Write for Text<H> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

/// How many states there are, and after how many events an id is repeated, if ever. Stops at
/// `states_max`: then all orders of as many events were seen as fit.
fn explore(bounds: Bounds, rules: Rules, states_max: usize) -> (usize, Option<usize>) {
    let hasher = RandomState::new();
    let first = Model::new(bounds);
    let mut known = HashSet::from([first.fingerprint(&hasher)]);
    let mut queue = VecDeque::from([(first, 0)]);
    while let Some((model, depth)) = queue.pop_front() {
        for next in model.successors(rules) {
            if next.duplicate {
                return (known.len(), Some(depth + 1));
            }
            if known.insert(next.fingerprint(&hasher)) {
                queue.push_back((next, depth + 1));
            }
        }
        if known.len() >= states_max {
            break;
        }
    }
    (known.len(), None)
}

/// Enough for the document's protocol to fail, and soon enough searched whole.
const SMALLEST: Bounds = Bounds { time_max: 3, expiries: 1, steps_back: 0, lost: 0, crashes: 0 };

/// One more fault at a time than the smallest: a clock that steps back, an answer that is lost and
/// a request that is late, a process that is replaced. Searched up to a number of states.
const FAULTS: [Bounds; 3] = [
    Bounds { steps_back: 1, expiries: 1, ..SMALLEST },
    Bounds { lost: 1, expiries: 1, ..SMALLEST },
    Bounds { crashes: 1, expiries: 0, ..SMALLEST },
];

/// `IDS_STATES=10000000` searches further.
fn states_max(usual: usize) -> usize {
    std::env::var("IDS_STATES").ok().and_then(|it| it.parse().ok()).unwrap_or(usual)
}

#[test]
fn no_order_of_events_repeats_an_id() {
    let (states, duplicate) = explore(SMALLEST, Rules::Ours, usize::MAX);
    println!("{states} states, all of them");
    assert_eq!(duplicate, None);
    assert!(states > 10_000, "{states}");
}

#[test]
fn no_order_of_events_with_one_more_fault_repeats_an_id() {
    for bounds in FAULTS {
        let (states, duplicate) = explore(bounds, Rules::Ours, states_max(60_000));
        println!("{bounds:?}: {states} states");
        assert_eq!(duplicate, None, "{bounds:?}");
    }
}

#[test]
fn the_documents_rule_repeats_an_id_in_a_few_events() {
    let (states, duplicate) = explore(SMALLEST, Rules::Document, usize::MAX);
    println!("{states} states, {duplicate:?} events");
    assert!(duplicate.is_some_and(|events| events < 16), "{duplicate:?}");
}
