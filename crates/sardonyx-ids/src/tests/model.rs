//! Every order of events for a small cluster: over the same lease machine, generator and
//! transactions as in production.
//!
//! Up to three processes want one number (the other of the layout is retired). Each has its own clock.
//! An event is: a clock moves back; a process asks; the store carries a request out, and the answer
//! arrives or is lost; a request is given up and carried out later, or never; a session expires, at
//! any time; a process is replaced by a new one.
//!
//! What nobody can tell apart is one state. Nobody sees another's clock, so a clock moves on, by any
//! span, just before the process does something by it. Ids change nothing but what was used, and a
//! process that hands out all it can hands out a superset of what it could otherwise: one id uses up
//! its millisecond, and each is used as soon as it can be. What a process could still hand out without
//! doing anything else counts as used when it is compared. Versions, sessions and attempts go by the
//! order in which they come up.

use std::{
    collections::{HashSet, VecDeque},
    fmt::Write as _,
    hash::{BuildHasher, RandomState},
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
    processes: u64,
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
    Terms {
        window,
        period,
        ahead_max,
        doubt_min: u64::MAX,
        retry: 1,
        left_min: 0,
        name: String::new(),
    }
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
        let nodes = (1..=left.processes).map(node).collect();
        let owners = left.processes;
        Model { store, nodes, late: vec![], left, owners, used: 0, duplicate: false }
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

    /// Moves a clock on, and hands out all that it allows on the way.
    fn move_on(&mut self, index: usize, by: Millis) {
        for _ in 0..by {
            self.nodes[index].clock += 1;
            self.nodes[index].boot += 1;
            self.hand_out(index);
        }
    }

    fn hand_out(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        if let Ok(run) = node.process.generator.take(EPOCH + node.clock, u64::MAX) {
            let bit = 1 << (run.first >> SMALL.sequence_bits);
            self.duplicate |= self.used & bit != 0;
            self.used |= bit;
        }
    }

    /// Whether an id is repeated, or would be if the clocks just moved on.
    fn is_broken(&self) -> bool {
        let mut all = self.clone();
        for index in 0..all.nodes.len() {
            let left = all.left.time_max.saturating_sub(all.nodes[index].clock);
            all.move_on(index, left);
        }
        all.duplicate
    }

    /// Every state that one event leads to.
    fn successors(&self, rules: Rules) -> Vec<Model> {
        let mut next = Vec::new();
        for index in 0..self.nodes.len() {
            let left = self.left.time_max.saturating_sub(self.nodes[index].clock);
            for by in 0..=left {
                let mut later = self.clone();
                later.move_on(index, by);
                later.own_events(index, rules, &mut next);
            }
            let it = &self.nodes[index];
            if self.left.expiries > 0
                && let Some(session) = it.process.session
                && self.store.has(session)
            {
                let mut model = self.clone();
                model.left.expiries -= 1;
                model.store.expire(session);
                next.push(model);
            }
            if self.left.crashes > 0 {
                let mut model = self.clone();
                model.left.crashes -= 1;
                model.owners += 1;
                let clock = it.clock;
                model.nodes[index] = Node { clock, boot: clock, ..node(model.owners) };
                next.push(model);
            }
        }
        for index in 0..self.late.len() {
            let mut model = self.clone();
            let (request, session) = model.late.remove(index);
            model.carry_out(request, session);
            next.push(model);
        }
        next
    }

    /// What a process may do, or what may happen to it, at the time that its clock shows.
    fn own_events(&self, index: usize, rules: Rules, next: &mut Vec<Model>) {
        let mut push = |change: &dyn Fn(&mut Model)| {
            let mut model = self.clone();
            change(&mut model);
            model.hand_out(index);
            next.push(model);
        };
        let it = &self.nodes[index];
        if self.left.steps_back > 0 && it.clock > 2 {
            push(&|model| {
                model.nodes[index].clock -= 2;
                model.left.steps_back -= 1;
            });
        }
        let Some(request) = &it.out else {
            push(&|model| model.step(index, Input::Tick, rules));
            return;
        };
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

    fn fingerprint(&self, hasher: &RandomState) -> u64 {
        let session = |it: Option<u32>| match it {
            Some(it) if self.store.has(it) => format!("Session({it})"),
            Some(_) => "over".into(),
            None => "none".into(),
        };
        let mut text = format!("{:?} {}", self.left, self.used);
        // Writing to a string cannot fail.
        for (key, version, value, owner) in self.store.items() {
            let _ = write!(text, "{key} {version:?} {value:?} {}", session(owner));
        }
        for (request, owner) in &self.late {
            let _ = write!(text, "{request:?} {}", session(*owner));
        }
        let mut nodes: Vec<_> = self.nodes.iter().map(|it| node_text(it, &session)).collect();
        // Processes are alike: which one comes first is settled by what they are about to do.
        nodes.sort_by_cached_key(|text| canonical(text));
        hasher.hash_one(canonical(&(nodes.concat() + &text)))
    }
}

/// A process without what makes no difference: how far its boot clock is, beyond what it waits for,
/// and when it last turned somebody away, which is for past credit.
fn node_text(node: &Node, session: &impl Fn(Option<u32>) -> String) -> String {
    let Node { process, clock, boot, out, .. } = node;
    let Process { lease, generator, number, session: own } = process;
    let text = format!("{lease:?} {generator:?} {number} {} {clock} {out:?}\n", session(*own));
    let rests = part(&text, "rest_until: ").and_then(|it| it.parse().ok()).unwrap_or(0_u64);
    let text =
        text.replace(&format!("rest_until: {rests}"), &rests.saturating_sub(*boot).to_string());
    let turned_away = part(&text, "turned_away: ").map(str::to_owned).unwrap_or_default();
    text.replace(&format!("turned_away: {turned_away}"), "")
}

/// What stands behind `name`, up to the next comma or bracket.
fn part<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(name)?;
    rest.split([',', ' ', '}']).next()
}

/// The text with the names of versions, sessions, attempts and processes by the order in which they come up.
fn canonical(text: &str) -> String {
    let (mut out, mut names, mut rest) = (String::with_capacity(text.len()), Vec::new(), text);
    while !rest.is_empty() {
        let word = rest.find(|it: char| !it.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let (token, behind) = rest.split_at(word);
        let bracket = behind.strip_prefix('(').filter(|_| matches!(token, "Version" | "Session"));
        let is_attempt = token.len() == 16 && token.bytes().all(|it| it.is_ascii_hexdigit());
        let (name, behind) = match bracket.and_then(|it| it.split_once(')')) {
            Some((number, behind)) => (Some((token, number)), behind),
            None if is_attempt => (Some(("attempt", token)), behind),
            None if is_process(token) => (Some(("process", token)), behind),
            None => (None, behind),
        };
        match name {
            Some(name) => {
                let known = names.iter().position(|known| *known == name);
                let index = known.unwrap_or_else(|| {
                    names.push(name);
                    names.len() - 1
                });
                let _ = write!(out, "#{index}");
            }
            None => out.push_str(token),
        }
        // One more character, which is no part of a name.
        let one = behind.chars().next().map_or(0, char::len_utf8);
        out.push_str(&behind[..one]);
        rest = &behind[one..];
    }
    out
}
fn is_process(token: &str) -> bool {
    let number = token.strip_prefix('p').filter(|it| !it.is_empty());
    number.is_some_and(|it| it.bytes().all(|it| it.is_ascii_digit()))
}

/// In which order states are looked at. All of them are, either way.
#[derive(Clone, Copy)]
enum Order {
    /// Finds the shortest way to what is wrong.
    ShortestFirst,
    /// Remembers few that were not looked at yet.
    NewestFirst,
}

/// How many states there are, and after how many events an id is repeated, if ever. Stops at
/// `states_max`: then all orders of as many events were seen as fit.
fn explore(
    bounds: Bounds,
    rules: Rules,
    order: Order,
    states_max: usize,
) -> (usize, Option<usize>) {
    let hasher = RandomState::new();
    let first = Model::new(bounds);
    let mut known = HashSet::from([first.fingerprint(&hasher)]);
    let mut queue = VecDeque::from([(first, 0)]);
    let take = |queue: &mut VecDeque<_>| match order {
        Order::ShortestFirst => queue.pop_front(),
        Order::NewestFirst => queue.pop_back(),
    };
    while let Some((model, depth)) = take(&mut queue) {
        for next in model.successors(rules) {
            if known.insert(next.fingerprint(&hasher)) {
                if next.is_broken() {
                    return (known.len(), Some(depth + 1));
                }
                queue.push_back((next, depth + 1));
            }
        }
        if known.len() >= states_max {
            break;
        }
    }
    (known.len(), None)
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
        let (states, duplicate) = explore(bounds, Rules::Ours, Order::NewestFirst, usize::MAX);
        println!("{bounds:?}: {states} states, all of them");
        assert_eq!(duplicate, None);
        assert!(states > 100, "{states}");
    }
}

/// With `IDS_STATES`, which says after how many states to give up: then it must not come to that.
#[test]
fn no_order_of_events_of_three_processes_repeats_an_id() {
    let states_max = std::env::var("IDS_STATES").ok().and_then(|it| it.parse().ok());
    let (bounds, states_max) = match states_max {
        Some(states_max) => (LARGE, states_max),
        None => (Bounds { time_max: 2, expiries: 1, steps_back: 0, ..LARGE }, usize::MAX),
    };
    let (states, duplicate) = explore(bounds, Rules::Ours, Order::NewestFirst, states_max);
    println!("{bounds:?}: {states} states, of at most {states_max}");
    assert_eq!(duplicate, None);
    assert!(states < states_max, "not all of them were seen: raise IDS_STATES");
}

#[test]
fn the_documents_rule_repeats_an_id_in_a_few_events() {
    let (states, duplicate) = explore(SMALLEST, Rules::Document, Order::ShortestFirst, usize::MAX);
    println!("{states} states, {duplicate:?} events");
    assert!(duplicate.is_some_and(|events| events < 16), "{duplicate:?}");
}
