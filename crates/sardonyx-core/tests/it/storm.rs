//! Storms: peers start, join, die and lag in any order; then it calms, and all who live must form
//! one ring.
//!
//! Every peer is the real [`Peer`], plays the log at its own pace, and appends what it says when
//! its turn comes. One seed is one run. Rates differ from seed to seed: a storm that kills often
//! never sees what happens between two rare deaths.

use std::collections::{BTreeSet, VecDeque};

use sardonyx_core::{
    Command, Effect, Entry, Input, JoinProtocol, Outcome, Peer, PeerId, Position, Replica,
    Response, apply, concerned, laws,
    mutant::{Mutant, with_mutant},
    peer::Standing,
    respond,
};

use crate::{
    rng::{Rng, number},
    text::peer,
};

const STARTERS: usize = 6;
const CRASHES_MAX: usize = 4;
/// Far more than any run needs; reaching it means that the cluster goes in circles.
const CALM_STEPS_MAX: usize = 20_000;

#[test]
fn the_ring_heals() {
    let runs = number("STORM_RUNS", 1_000);
    let first_seed = number("STORM_SEED", 1);
    let mut entries = 0;
    for seed in first_seed..first_seed + runs {
        for protocol in [JoinProtocol::ThreePhase, JoinProtocol::TwoPhase] {
            for storm in [crashes_while_joining, everybody_dies_and_three_start] {
                let world = storm(seed, protocol).unwrap_or_else(|failed| panic!("{failed}"));
                entries += world.log.len();
            }
        }
    }
    println!("{runs} seeds, both protocols, both storms: {entries} entries, every ring whole");
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in 1..20 {
        let run = || crashes_while_joining(seed, JoinProtocol::ThreePhase).unwrap().trace;
        assert_eq!(run(), run());
    }
}

#[test]
fn without_its_guards_the_ring_breaks() {
    assert_found(Mutant::NoGuards);
}

#[test]
fn without_derived_watches_a_death_goes_unseen() {
    assert_found(Mutant::EdgeWatches);
}

#[test]
fn without_the_probe_a_dead_cluster_refuses_everybody() {
    assert_found(Mutant::NoProbe);
}

/// The storm must notice that a rule is switched off.
fn assert_found(mutant: Mutant) {
    let seeds = 2_000;
    let finds = |seed: &u64| {
        let run = |storm: fn(u64, JoinProtocol) -> Result<World, String>| {
            with_mutant(Some(mutant), || storm(*seed, JoinProtocol::ThreePhase)).is_err()
        };
        run(crashes_while_joining) || run(everybody_dies_and_three_start)
    };
    let found = (1..=seeds).find(finds);
    assert!(found.is_some(), "{mutant:?} went unnoticed in {seeds} seeds");
    println!("{mutant:?} is found by seed {}", found.unwrap_or_default());
}

fn crashes_while_joining(seed: u64, protocol: JoinProtocol) -> Result<World, String> {
    let mut world = World::new(seed, protocol);
    world.run(STARTERS, CRASHES_MAX)?;
    world.calm()
}

/// The case that nobody is left to report: all die in the middle of their joins.
fn everybody_dies_and_three_start(seed: u64, protocol: JoinProtocol) -> Result<World, String> {
    let mut world = World::new(seed, protocol);
    world.run(STARTERS, 0)?;
    for node in 0..world.nodes.len() {
        world.crash(node);
    }
    world.run(3, 0)?;
    world.calm()
}

struct World {
    seed: u64,
    rng: Rng,
    crash_percent: usize,
    start_percent: usize,
    log: Vec<(Entry, Outcome)>,
    /// The replica before each entry, and after the last.
    history: Vec<Replica>,
    pulses: BTreeSet<PeerId>,
    nodes: Vec<Node>,
    trace: Vec<String>,
}

struct Node {
    peer: Peer,
    is_alive: bool,
    /// How many entries it has played.
    played: usize,
    outbox: VecDeque<Command>,
    watching: BTreeSet<PeerId>,
    /// Pulses whose end it has not been told of yet.
    gone: VecDeque<PeerId>,
    timer_runs: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Action {
    Play(usize),
    Append(usize),
    Notice(usize),
    Timer(usize),
    Expire(usize),
}

impl World {
    fn new(seed: u64, protocol: JoinProtocol) -> World {
        let mut rng = Rng::new(seed);
        World {
            seed,
            crash_percent: *rng.pick(&[1, 3, 5, 10, 25]),
            start_percent: *rng.pick(&[5, 20, 50]),
            rng,
            log: Vec::new(),
            history: vec![Replica::configured(Some(protocol), None)],
            pulses: BTreeSet::new(),
            nodes: Vec::new(),
            trace: Vec::new(),
        }
    }

    /// Starts `starters` peers and crashes up to `crashes`, at any moments, while the others go on
    /// for a random while.
    fn run(&mut self, starters: usize, crashes: usize) -> Result<(), String> {
        let (mut starters, mut crashes) = (starters, crashes);
        let mut steps_left = 20 + self.rng.below(200);
        while steps_left > 0 || starters > 0 {
            steps_left = steps_left.saturating_sub(1);
            let actions = self.actions();
            if starters > 0 && (actions.is_empty() || self.rng.chance(self.start_percent)) {
                starters -= 1;
                self.start();
            } else if crashes > 0 && self.rng.chance(self.crash_percent) {
                crashes -= 1;
                let node = self.rng.below(self.nodes.len().max(1));
                self.crash(node);
            } else if let Some(action) = self.pick(&actions) {
                self.act(action)?;
            }
        }
        Ok(())
    }

    /// Nobody dies any more. Runs until nothing is left to do, then judges.
    fn calm(mut self) -> Result<World, String> {
        self.trace.push("calm".into());
        if self.nodes.iter().all(|node| !node.is_alive) {
            self.start();
        }
        for _ in 0..CALM_STEPS_MAX {
            let actions = self.actions();
            let Some(action) = self.pick(&actions) else {
                return self.judge().map(|()| self);
            };
            self.act(action)?;
        }
        Err(self.failed("it never comes to rest"))
    }

    fn judge(&self) -> Result<(), String> {
        let replica = self.replica();
        let members: BTreeSet<_> = replica.peers().collect();
        let living: Vec<_> = self.nodes.iter().filter(|node| node.is_alive).collect();
        if members != living.iter().map(|node| node.peer.id()).collect() {
            return Err(self.failed("members are not the living"));
        }
        for node in living {
            if node.peer.standing() != Standing::Member {
                return Err(self.failed(&format!("{} does not know it is in", node.peer.id())));
            }
            if !replica.watches(node.peer.id()).is_subset(&node.watching) {
                return Err(self.failed(&format!("{} misses a watch", node.peer.id())));
            }
        }
        Ok(())
    }

    fn actions(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        for (index, node) in self.nodes.iter().enumerate() {
            if !node.is_alive {
                actions
                    .extend(self.pulses.contains(node.peer.id()).then_some(Action::Expire(index)));
                continue;
            }
            actions.extend((node.played < self.log.len()).then_some(Action::Play(index)));
            actions.extend((!node.outbox.is_empty()).then_some(Action::Append(index)));
            actions.extend((!node.gone.is_empty()).then_some(Action::Notice(index)));
            actions.extend(node.timer_runs.then_some(Action::Timer(index)));
        }
        actions
    }

    fn pick(&mut self, actions: &[Action]) -> Option<Action> {
        (!actions.is_empty()).then(|| *self.rng.pick(actions))
    }

    fn act(&mut self, action: Action) -> Result<(), String> {
        match action {
            Action::Play(index) => self.play(index),
            Action::Append(index) => {
                let command = self.nodes[index].outbox.pop_front();
                return command.map_or(Ok(()), |command| self.append(command));
            }
            Action::Notice(index) => {
                if let Some(gone) = self.nodes[index].gone.pop_front() {
                    let replica = self.history[self.nodes[index].played].clone();
                    self.step(index, Input::PulseGone { peer: &gone, replica: &replica });
                }
            }
            Action::Timer(index) => {
                self.nodes[index].timer_runs = false;
                let replica = self.history[self.nodes[index].played].clone();
                self.step(index, Input::TimerFired { replica: &replica });
            }
            Action::Expire(index) => self.expire(index),
        }
        Ok(())
    }

    fn start(&mut self) {
        let id = peer(&format!("p{}", self.nodes.len()));
        self.trace.push(format!("{id} starts"));
        self.pulses.insert(id.clone());
        self.nodes.push(Node {
            // No peer-gc: the rules under test must suffice.
            peer: Peer::new(id, None),
            is_alive: true,
            played: 0,
            outbox: VecDeque::new(),
            watching: BTreeSet::new(),
            gone: VecDeque::new(),
            timer_runs: false,
        });
        self.step(self.nodes.len() - 1, Input::Start);
    }

    fn crash(&mut self, index: usize) {
        if let Some(node) = self.nodes.get_mut(index).filter(|node| node.is_alive) {
            node.is_alive = false;
            self.trace.push(format!("{} crashes", node.peer.id()));
        }
    }

    fn expire(&mut self, index: usize) {
        let id = self.nodes[index].peer.id().clone();
        self.trace.push(format!("{id}'s pulse ends"));
        self.pulses.remove(&id);
        for node in self.nodes.iter_mut().filter(|node| node.watching.contains(&id)) {
            node.gone.push_back(id.clone());
        }
    }

    fn append(&mut self, command: Command) -> Result<(), String> {
        let entry = Entry { position: Position(self.log.len() as u64), command };
        let (next, outcome) = apply(self.replica(), &entry);
        let word = if outcome.is_ok() { "applied" } else { "rejected" };
        self.trace.push(format!("{entry} {word}: {next}"));
        self.only_the_concerned_answer(&entry, &outcome, &next)?;
        self.log.push((entry, outcome));
        let lawful = laws::check(&next);
        self.history.push(next);
        lawful.map_err(|broken| self.failed(&broken.to_string()))
    }

    /// A node asks only those whom an entry concerns; nobody else may have an answer.
    fn only_the_concerned_answer(
        &self,
        entry: &Entry,
        outcome: &Outcome,
        next: &Replica,
    ) -> Result<(), String> {
        let Some(concerned) = concerned(entry, self.replica(), next) else { return Ok(()) };
        for node in self.nodes.iter().filter(|node| !concerned.contains(node.peer.id())) {
            let response = respond(entry, outcome, self.replica(), next, node.peer.id());
            if response != Response::default() {
                let id = node.peer.id();
                return Err(self.failed(&format!("{entry} concerns {id}: {response:?}")));
            }
        }
        Ok(())
    }

    fn play(&mut self, index: usize) {
        let at = self.nodes[index].played;
        self.nodes[index].played += 1;
        let (entry, outcome) = self.log[at].clone();
        let (old, new) = (self.history[at].clone(), self.history[at + 1].clone());
        self.step(index, Input::Played { entry: &entry, outcome: &outcome, old: &old, new: &new });
    }

    fn step(&mut self, index: usize, input: Input<'_>) {
        let node = &mut self.nodes[index];
        let output = node.peer.step(input);
        for effect in output.effects {
            match effect {
                Effect::Watch(id) => {
                    if !self.pulses.contains(&id) {
                        node.gone.push_back(id.clone());
                    }
                    node.watching.insert(id);
                }
                Effect::Unwatch(id) => _ = node.watching.remove(&id),
                Effect::Probe(id) if self.pulses.contains(&id) => {}
                Effect::Probe(id) => node.gone.push_back(id),
                Effect::BackOff => node.timer_runs = true,
                Effect::StopTask(_)
                | Effect::StartTask(_)
                | Effect::SealTask(_)
                | Effect::TrimLog(_) => {}
                Effect::Stop => node.is_alive = false,
            }
        }
        node.outbox.extend(output.append);
    }

    fn replica(&self) -> &Replica {
        self.history.last().unwrap()
    }

    fn failed(&self, why: &str) -> String {
        let trace = self.trace.join("\n");
        format!("seed {}: {why}\n{}\n{trace}", self.seed, self.replica())
    }
}
