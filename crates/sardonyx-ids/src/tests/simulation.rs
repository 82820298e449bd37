//! Simulation: one seed, one run; pauses, crashes, partitions, lost and late answers, early and
//! late expiry, clock steps, clean stops, backups that are restored. `IDS_SEEDS=100000` runs more than the usual few.

use super::world::{FakeStore, Process, Rules, Seen, weaken};
use crate::{
    generator::Run,
    layout::{EPOCH, Layout, Millis},
    lease::{Action, Answer, Input, Now, Problem, Terms, write::raise_floor},
};

/// xorshift: the same seed is the same run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: u64) -> u64 {
        (self.roll() >> 16) % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

const LAYOUT: Layout = Layout { time_bits: 41, worker_bits: 1, sequence_bits: 21, epoch: EPOCH };
const TTL: Millis = 1000;
const TIMEOUT: Millis = 300;
const START: Millis = EPOCH + 100_000_000;

struct Node {
    process: Process,
    skew: i64,
    paused_until: Millis,
    cut_until: Millis,
    heard: Millis,
    /// The request that is out: when its answer is given up, and which it is.
    out: Option<(Millis, u64)>,
    inbox: Vec<(Millis, u64, Input)>,
    /// Whether the lease was its own when it last asked.
    is_checked: bool,
}

struct Sent {
    at: Millis,
    from: usize,
    request: u64,
    session: Option<u32>,
    owner: u64,
    action: Action,
}

/// What a run came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Outcome {
    ids: usize,
    duplicates: usize,
    above_mark: usize,
    claims: usize,
    unknowns: usize,
    restores: usize,
}

struct Simulation {
    dice: Dice,
    rules: Rules,
    now: Millis,
    store: FakeStore,
    backup: Option<FakeStore>,
    /// The highest time that any clock has shown.
    highest: Millis,
    nodes: Vec<Node>,
    owners: Vec<u64>,
    wire: Vec<Sent>,
    seen: Seen,
    n_requests: u64,
    n_owners: u64,
    outcome: Outcome,
}

fn terms() -> Terms {
    let (window, period) = (1500, 300);
    Terms {
        window,
        period,
        ahead_max: 10_000_000,
        doubt_min: u64::MAX,
        retry: 100,
        left_min: 0,
        name: String::new(),
    }
}

impl Simulation {
    fn new(seed: u64, rules: Rules) -> Simulation {
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        for _ in 0..8 {
            dice.roll();
        }
        let mut it = Simulation {
            dice,
            rules,
            now: START,
            store: FakeStore::default(),
            backup: None,
            highest: START,
            nodes: Vec::new(),
            owners: Vec::new(),
            wire: Vec::new(),
            seen: Seen::default(),
            n_requests: 0,
            n_owners: 0,
            outcome: Outcome::default(),
        };
        for _ in 0..3 {
            let node = it.fresh_node();
            it.nodes.push(node);
            it.owners.push(it.n_owners);
        }
        it
    }

    fn fresh_node(&mut self) -> Node {
        self.n_owners += 1;
        Node {
            process: Process::new(LAYOUT, &terms(), self.n_owners),
            skew: self.dice.below(4000) as i64 - 2000,
            paused_until: 0,
            cut_until: 0,
            heard: self.now,
            out: None,
            inbox: Vec::new(),
            is_checked: false,
        }
    }

    fn run(mut self, n_steps: usize) -> Outcome {
        for _ in 0..n_steps {
            self.now += 1 + self.dice.below(60);
            self.weather();
            self.serve_store();
            for index in 0..self.nodes.len() {
                self.highest = self.highest.max(self.clock(index));
                if self.nodes[index].paused_until > self.now {
                    continue;
                }
                // Callers may come before or after the control loop, also right after a pause.
                if self.dice.one_in(2) {
                    self.emit(index);
                }
                self.control(index);
                self.check_lease(index);
                self.emit(index);
            }
        }
        self.outcome.ids = self.seen.len();
        self.outcome
    }

    fn weather(&mut self) {
        let index = self.dice.below(self.nodes.len() as u64) as usize;
        let (kind, long) = (self.dice.below(400), self.dice.below(4000));
        let now = self.now;
        match kind {
            0..=5 => self.nodes[index].paused_until = now + long,
            6..=9 => self.nodes[index].cut_until = now + long,
            10..=13 => {
                self.nodes[index] = self.fresh_node();
                self.owners[index] = self.n_owners;
            }
            14..=18 => self.nodes[index].skew += self.dice.below(4000) as i64 - 2000,
            19 => self.nodes[index].skew -= 3_600_000,
            20..=22 => {
                // Ended early, by a leader that was stuck.
                if let Some(session) = self.nodes[index].process.session {
                    self.store.expire(session);
                }
            }
            23..=26 => {
                let used = self.nodes[index].process.generator.seal();
                let now = self.now_of(index);
                let node = &mut self.nodes[index];
                let todo = node.process.lease.step(Input::Stop(used), now);
                self.send(index, todo);
            }
            27..=30 => self.backup = Some(self.store.clone()),
            31 | 32 => self.restore(),
            _ => {}
        }
        for index in 0..self.nodes.len() {
            let node = &mut self.nodes[index];
            if node.paused_until <= now && node.cut_until <= now {
                node.heard = now;
            } else if let Some(session) = node.process.session
                && now - node.heard > TTL + self.dice.below(500)
            {
                self.store.expire(session);
            }
        }
    }

    /// As an operator should: everybody is stopped, the store goes back to its backup, and before
    /// anybody starts a floor is set behind whatever may have been used.
    fn restore(&mut self) {
        let Some(backup) = self.backup.take() else { return };
        self.outcome.restores += 1;
        self.wire.clear();
        self.store.restore(&backup);
        for index in 0..self.nodes.len() {
            self.nodes[index] = self.fresh_node();
            self.owners[index] = self.n_owners;
        }
        if self.rules != Rules::FloorForgotten {
            let read = self.store.list().floor.map(|floor| floor.version);
            let txn = raise_floor(read, self.highest + terms().window);
            assert!(
                matches!(self.store.commit(&txn, None), Answer::Done(_)),
                "nobody else is there"
            );
        }
    }

    /// Asks the store whether the number is still this node's. Between the answer and the next id
    /// anything may happen.
    fn check_lease(&mut self, index: usize) {
        let process = &self.nodes[index].process;
        let (live, session) = (super::world::keys(process.number).0, process.session);
        let is_held = session.is_some() && self.store.session_of(&live) == session;
        self.nodes[index].is_checked = is_held && self.nodes[index].cut_until <= self.now;
    }

    fn clock(&self, index: usize) -> Millis {
        self.now.saturating_add_signed(self.nodes[index].skew)
    }

    fn now_of(&mut self, index: usize) -> Now {
        let (clock, dice) = (self.clock(index), self.dice.roll());
        Now { clock, boot: self.now, offset: 0, dice }
    }

    fn control(&mut self, index: usize) {
        let (now, request) = (self.now, self.nodes[index].out);
        let mut inputs = Vec::new();
        self.nodes[index].inbox.retain(|(at, id, input)| {
            if *at > now {
                return true;
            }
            if request.is_some_and(|(_, out)| out == *id) {
                inputs.push(input.clone());
            }
            false
        });
        if let Some(input) = inputs.pop() {
            return self.take_in(index, input);
        }
        match request {
            Some((give_up, _)) if give_up <= now => {
                self.outcome.unknowns += 1;
                let input = self.silence(index);
                self.take_in(index, input);
            }
            Some(_) => {}
            None => {
                let now = self.now_of(index);
                let todo = self.nodes[index].process.lease.step(Input::Tick, now);
                self.send(index, todo);
            }
        }
    }

    /// What a node makes of an answer that does not come.
    fn silence(&self, index: usize) -> Input {
        let id = self.nodes[index].out.map_or(0, |(_, id)| id);
        let problem = Problem::Store("silent".into());
        match self.wire.iter().find(|sent| sent.request == id).map(|sent| &sent.action) {
            Some(Action::OpenSession) => Input::Session(Err(problem)),
            Some(Action::List) => Input::Listed(Err(problem)),
            Some(_) | None => Input::Committed(Answer::Unknown("silent".into())),
        }
    }

    fn take_in(&mut self, index: usize, input: Input) {
        self.nodes[index].out = None;
        let now = self.now_of(index);
        let todo = self.nodes[index].process.lease.step(input, now);
        self.send(index, todo);
    }

    fn send(&mut self, index: usize, todo: Vec<Action>) {
        let rules = self.rules;
        if todo.iter().any(|it| matches!(it, Action::Open { .. })) {
            self.outcome.claims += 1;
        }
        let Some(request) = self.nodes[index].process.perform(todo, rules) else { return };
        if request == Action::Close {
            if let Some(session) = self.nodes[index].process.session {
                self.store.expire(session);
            }
            self.nodes[index] = self.fresh_node();
            self.owners[index] = self.n_owners;
            return;
        }
        self.n_requests += 1;
        let late = if self.dice.one_in(20) { self.dice.below(3000) } else { 0 };
        let at = self.now.max(self.nodes[index].cut_until) + 1 + self.dice.below(6) + late;
        let clock = self.clock(index);
        let request = match request {
            Action::Commit { txn, in_session } => {
                let in_session = in_session || rules == Rules::MarkUnderLease;
                Action::Commit { txn: weaken(txn, rules, clock), in_session }
            }
            other => other,
        };
        let id = self.n_requests;
        self.nodes[index].out = Some((self.now + TIMEOUT, id));
        let session = self.nodes[index].process.session;
        let owner = self.owners[index];
        self.wire.push(Sent { at, from: index, request: id, session, owner, action: request });
    }

    fn serve_store(&mut self) {
        let now = self.now;
        let (mut due, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.wire).into_iter().partition(|sent| sent.at <= now);
        self.wire = rest;
        due.sort_by_key(|sent| (sent.at, sent.request));
        for sent in due {
            let is_same = self.owners[sent.from] == sent.owner;
            let input = match sent.action {
                Action::OpenSession => {
                    let session = self.store.open_session();
                    if is_same {
                        let before = self.nodes[sent.from].process.session.replace(session);
                        before.into_iter().for_each(|before| self.store.expire(before));
                    }
                    Input::Session(Ok(()))
                }
                Action::List => Input::Listed(Ok(self.store.list())),
                Action::Commit { txn, in_session } => {
                    let session = if in_session { sent.session } else { None };
                    Input::Committed(self.store.commit(&txn, session))
                }
                _ => continue,
            };
            let is_lost = self.dice.one_in(30);
            if is_same && !is_lost {
                let at = now.max(self.nodes[sent.from].cut_until) + self.dice.below(6);
                self.nodes[sent.from].inbox.push((at, sent.request, input));
            }
        }
    }

    fn emit(&mut self, index: usize) {
        if self.rules == Rules::LeaseChecked && !self.nodes[index].is_checked {
            return;
        }
        let clock = self.clock(index);
        let process = &mut self.nodes[index].process;
        let number = process.number;
        for _ in 0..1 + self.dice.below(3) {
            let Ok(Run { first, n }) = process.generator.take(clock, 2) else { return };
            let mark = self.store.mark(number);
            for tick in first..first + n {
                self.outcome.above_mark += usize::from(LAYOUT.time(tick) >= mark);
                self.outcome.duplicates += usize::from(!self.seen.insert(number, tick));
            }
        }
    }
}

fn n_seeds(usual: u64) -> u64 {
    std::env::var("IDS_SEEDS").ok().and_then(|it| it.parse().ok()).unwrap_or(usual)
}

#[test]
fn no_id_twice_whatever_the_weather() {
    let mut total = Outcome::default();
    for seed in 1..=n_seeds(1500) {
        let it = Simulation::new(seed, Rules::Ours).run(250);
        assert_eq!((it.duplicates, it.above_mark), (0, 0), "seed {seed}: {it:?}");
        total.ids += it.ids;
        total.claims += it.claims;
        total.unknowns += it.unknowns;
        total.restores += it.restores;
    }
    println!("{} seeds: {total:?}", n_seeds(1500));
    // The weather was bad and the cluster worked in it.
    assert!(total.ids > 100_000 && total.claims > 3000 && total.unknowns > 1000, "{total:?}");
    assert!(total.restores > 100, "{total:?}");
}

#[test]
fn the_same_seed_is_the_same_run() {
    let run = || Simulation::new(7, Rules::Ours).run(500);
    assert_eq!(run(), run());
}

/// The first seed that repeats an id under other rules.
pub(super) fn first_duplicate(rules: Rules, seeds_max: u64) -> Option<u64> {
    (1..=seeds_max).find(|seed| Simulation::new(*seed, rules).run(250).duplicates > 0)
}

#[test]
fn without_a_rule_ids_are_repeated() {
    let rules = [
        Rules::ClaimForgetsFresh,
        Rules::WriteForgetsFresh,
        Rules::WriteForgetsAll,
        Rules::MarkIgnored,
        Rules::FloorForgotten,
    ];
    for rules in rules {
        let seed = first_duplicate(rules, 10_000);
        println!("{rules:?}: seed {seed:?}");
        assert!(seed.is_some(), "{rules:?} is not noticed");
    }
}
