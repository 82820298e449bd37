//! The world: virtual time, one event after the other.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    fmt,
};

use sardonyx_core::{
    Command, Entry, PeerId, Replica,
    command::{CompleteTask, Gc, SealTask},
    peer::BackOff,
    replica::job::Assignment,
};
use sardonyx_peer::{Effect, Input, Node};

use crate::{
    checks,
    probes::Probes,
    process::Process,
    rng::Rng,
    store::{Read, SessionId, Store, Token},
    weather::{Fault, Weather},
    workload::{self, Workload},
};

/// How long a session lives without a sign of life, in milliseconds.
const SESSION_TIMEOUT: u64 = 1_000;
/// How long the storm lasts.
const STORM: u64 = 15_000;
/// How long the calm may last before the cluster must be at rest.
const CALM_MAX: u64 = 240_000;
/// How many entries a node reads at once.
const READ_MAX: usize = 200;

/// A run that held.
#[derive(Debug)]
pub struct Passed {
    /// A number that any difference between two runs would change.
    pub trace_hash: u64,
    /// Which rare paths it saw.
    pub probes: Probes,
    /// How many entries the log has.
    pub entries: usize,
}

/// A run that did not hold.
#[derive(Debug)]
pub struct Failed {
    /// The run.
    pub seed: u64,
    /// What went wrong.
    pub why: String,
    /// What happened before.
    pub trace: Vec<String>,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}: {}", self.seed, self.why)?;
        writeln!(f, "{:>8}  {:<10} what", "ms", "who")?;
        self.trace.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    /// A process starts under a new boot.
    Boot(usize),
    /// A process looks for new entries.
    Read(SessionId),
    /// What a process sent arrives at the store.
    Land(SessionId),
    /// A back-off is over.
    Timer(SessionId, PeerId),
    /// A process is told that a pulse is gone.
    Gone(SessionId, PeerId),
    /// A session has been silent for too long.
    Expire(SessionId),
    /// A task has seen the last of its input, or has told everybody downstream.
    TaskDone(SessionId, PeerId, u64, bool),
    /// A client says something.
    Client(usize),
    Weather,
}

/// Everything there is in a run.
pub struct World {
    rng: Rng,
    now: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    n_events: u64,
    store: Store,
    processes: Vec<Process>,
    workload: Workload,
    weather: Weather,
    is_calm: bool,
    gc_every: Option<u32>,
    n_tokens: u64,
    n_boots: usize,
    n_named: u64,
    probes: Probes,
    trace: Vec<String>,
    trace_hash: u64,
}

impl World {
    /// Runs a seed from beginning to end.
    pub fn run(seed: u64) -> Result<Passed, Failed> {
        World::run_with(seed, Some(4))
    }

    /// The same with `peer-gc` after so many failed attempts, or never: it is a second way to find
    /// the dead, and hides whether the first one works.
    pub fn run_with(seed: u64, gc_every: Option<u32>) -> Result<Passed, Failed> {
        let mut world = World::new(seed);
        world.gc_every = gc_every;
        let held = world.storm_and_calm().and_then(|()| checks::judge(&world));
        match held {
            Ok(()) => Ok(Passed {
                trace_hash: world.trace_hash,
                probes: world.probes,
                entries: world.store.len(),
            }),
            Err(why) => Err(Failed { seed, why, trace: world.trace }),
        }
    }

    fn new(seed: u64) -> World {
        let mut rng = Rng::new(seed);
        let workload = Workload::draw(&mut rng);
        let weather = Weather::draw(&mut rng);
        let processes = (0..workload.processes).map(|_| Process::new()).collect();
        World {
            rng,
            now: 0,
            events: BinaryHeap::new(),
            n_events: 0,
            store: Store::new(),
            processes,
            workload,
            weather,
            is_calm: false,
            gc_every: None,
            n_tokens: 0,
            n_boots: 0,
            n_named: 0,
            probes: Probes::default(),
            trace: Vec::new(),
            trace_hash: 0xcbf2_9ce4_8422_2325,
        }
    }

    /// The cluster at the end of the log.
    pub fn replica(&self) -> &Replica {
        &self.store.replica
    }

    /// The nodes that are up.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.processes.iter().filter_map(|process| process.node.as_ref())
    }

    /// What really runs, whatever the log says.
    pub fn running(&self) -> impl Iterator<Item = (&PeerId, &Assignment)> {
        self.processes.iter().flat_map(|process| process.tasks.iter())
    }

    /// How many entries were appended.
    pub fn log_length(&self) -> usize {
        self.store.len()
    }

    /// How many virtual peers were ever started.
    pub fn boots(&self) -> usize {
        self.n_boots
    }

    fn storm_and_calm(&mut self) -> Result<(), String> {
        self.note("world", &format!("{:?} {:?}", self.workload.clone(), self.weather.clone()));
        self.append_now(workload::configure(self.workload.protocol))?;
        for process in 0..self.processes.len() {
            let at = self.rng.below(3_000);
            self.at(at, Event::Boot(process));
        }
        for number in 0..3 * self.workload.jobs {
            let at = self.rng.below(STORM);
            self.at(at, Event::Client(number));
        }
        let first = self.rng.below(2 * self.weather.every);
        self.at(first, Event::Weather);
        self.play_until(STORM)?;
        self.calm_down();
        // Under shares a job may rightly wait for ever; this way every job can be finished.
        self.append_now(workload::schedule_greedily())?;
        self.play_until(STORM + CALM_MAX)
    }

    /// Plays events up to a time, or until there are none.
    fn play_until(&mut self, end: u64) -> Result<(), String> {
        while let Some(Reverse((time, _, _))) = self.events.peek() {
            if *time > end {
                return if self.is_calm { Err("it never comes to rest".into()) } else { Ok(()) };
            }
            if let Some(Reverse((time, _, event))) = self.events.pop() {
                self.now = time;
                self.handle(&event)?;
            }
        }
        Ok(())
    }

    fn calm_down(&mut self) {
        self.is_calm = true;
        self.now = STORM;
        self.note("world", "calm");
        for index in 0..self.processes.len() {
            let process = &mut self.processes[index];
            process.paused_until = process.paused_until.min(STORM);
            process.cut_off_until = process.cut_off_until.min(STORM);
            process.read_delay = 5;
            if self.processes[index].node.is_none() {
                let after = self.rng.below(3_000);
                self.at(after, Event::Boot(index));
            }
        }
    }

    fn at(&mut self, delay: u64, event: Event) {
        self.n_events += 1;
        self.events.push(Reverse((self.now + delay, self.n_events, event)));
    }

    fn latency(&mut self) -> u64 {
        1 + self.rng.below(self.weather.latency)
    }

    fn note(&mut self, who: &str, what: &str) {
        let line = format!("{:>8}  {who:<10} {what}", self.now);
        for byte in line.bytes() {
            self.trace_hash = (self.trace_hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.trace.push(line);
    }

    /// Whether the event is for a life of the process that is still going on; puts it off while
    /// the process is stopped.
    fn reaches(&mut self, session: SessionId, event: &Event) -> bool {
        let process = &self.processes[session.process];
        if process.boot != session.boot || process.node.is_none() {
            return false;
        }
        let needs_store = matches!(event, Event::Read(_) | Event::Land(_) | Event::Gone(..));
        let cut_off_until = if needs_store { process.cut_off_until } else { 0 };
        let until = process.paused_until.max(cut_off_until);
        if until > self.now {
            self.at(until - self.now, event.clone());
            return false;
        }
        if self.store.expired.contains(&session) {
            self.lose_session(session);
            return false;
        }
        true
    }

    fn handle(&mut self, event: &Event) -> Result<(), String> {
        match event {
            Event::Boot(process) => self.boot(*process),
            Event::Weather => self.blow()?,
            Event::Client(number) => self.client(*number)?,
            Event::Expire(session) => self.expire(*session),
            Event::Read(session) if self.reaches(*session, event) => self.read(*session),
            Event::Land(session) if self.reaches(*session, event) => self.land(*session)?,
            Event::Timer(session, peer) if self.reaches(*session, event) => {
                self.step(*session, Input::TimerFired(peer.clone()));
            }
            Event::Gone(session, peer) if self.reaches(*session, event) => {
                self.note(&name(*session), &format!("sees that {peer} is gone"));
                self.step(*session, Input::PulseGone(peer.clone()));
            }
            Event::TaskDone(session, peer, epoch, is_sealed) if self.reaches(*session, event) => {
                self.task_done(*session, peer, *epoch, *is_sealed);
            }
            Event::Read(_)
            | Event::Land(_)
            | Event::Timer(..)
            | Event::Gone(..)
            | Event::TaskDone(..) => {}
        }
        Ok(())
    }

    fn boot(&mut self, index: usize) {
        if self.processes[index].node.is_some() {
            return;
        }
        let node = Node::new(self.gc_every);
        let process = &mut self.processes[index];
        process.boot += 1;
        process.reads_at = 0;
        process.node = Some(node);
        let session = process.session(index);
        self.note(&name(session), "boots");
        for _ in 0..self.workload.peers {
            self.boot_peer(session);
        }
        self.wake_reader(session);
    }

    fn boot_peer(&mut self, session: SessionId) {
        self.n_named += 1;
        self.n_boots += 1;
        let Ok(id) = PeerId::new(&format!("p{}", self.n_named)) else { return };
        self.store.pulses.insert(id.clone(), session);
        self.step(session, Input::Boot(id));
    }

    fn read(&mut self, session: SessionId) {
        let process = &mut self.processes[session.process];
        process.is_reading = false;
        let (read, next) = self.store.read(process.reads_at, READ_MAX);
        process.reads_at = next;
        match read {
            Read::Origin(position, replica) => {
                self.probes.readers_overtaken_by_gc += 1;
                self.note(&name(session), &format!("takes the origin at {position}"));
                self.step(session, Input::Origin(position, replica));
            }
            Read::Entries(entries) => {
                self.probes.bulk_reads += u64::from(entries.len() >= sardonyx_peer::BULK_MIN);
                self.step(session, Input::Entries(entries));
            }
        }
        if self.processes[session.process].reads_at < self.store.len() {
            self.wake_reader(session);
        }
    }

    fn wake_reader(&mut self, session: SessionId) {
        let process = &mut self.processes[session.process];
        if process.node.is_some() && !process.is_reading {
            process.is_reading = true;
            let delay = 1 + self.rng.below(process.read_delay);
            self.at(delay, Event::Read(session));
        }
    }

    /// The first in the outbox reaches the store; its answer may be lost, and then it is sent again.
    fn land(&mut self, session: SessionId) -> Result<(), String> {
        let process = &mut self.processes[session.process];
        process.is_sending = false;
        let Some((token, command)) = process.outbox.pop_front() else { return Ok(()) };
        if !self.is_calm && self.rng.chance(self.weather.lost_answers) {
            self.processes[session.process].outbox.push_front((token, command.clone()));
        }
        self.append(&name(session), token, command)?;
        self.send(session);
        Ok(())
    }

    fn send(&mut self, session: SessionId) {
        let process = &mut self.processes[session.process];
        if !process.is_sending && !process.outbox.is_empty() {
            process.is_sending = true;
            let latency = self.latency();
            self.at(latency, Event::Land(session));
        }
    }

    fn append_now(&mut self, command: Command) -> Result<Entry, String> {
        let token = self.token();
        self.append("client", token, command)
    }

    fn token(&mut self) -> Token {
        self.n_tokens += 1;
        Token(self.n_tokens)
    }

    fn append(&mut self, who: &str, token: Token, command: Command) -> Result<Entry, String> {
        let old = self.store.replica.clone();
        let appended = self.store.append(token, command);
        let (entry, is_new) = appended.map_err(|broken| broken.to_string())?;
        match is_new {
            true => {
                let (n, joining) = (self.replica().n_peers(), self.replica().n_present());
                self.note(who, &format!("{entry}: {n} in, {} joining", joining - n));
                self.probes.see(&entry, &old, &self.store.replica);
            }
            false => self.probes.copies_dropped += 1,
        }
        for process in 0..self.processes.len() {
            let session = self.processes[process].session(process);
            self.wake_reader(session);
        }
        Ok(entry)
    }

    /// Steps a node and carries out what it wants, effects first.
    fn step(&mut self, session: SessionId, input: Input) {
        let Some(node) = self.processes[session.process].node.as_mut() else { return };
        let output = node.step(input);
        for effect in output.effects {
            self.perform(session, effect);
        }
        for command in output.append {
            let token = self.token();
            self.processes[session.process].outbox.push_back((token, command));
        }
        self.send(session);
    }

    fn perform(&mut self, session: SessionId, effect: Effect) {
        match effect {
            Effect::Watch(peer) if self.store.pulses.contains_key(&peer) => {
                self.store.watches.entry(peer).or_default().insert(session);
            }
            Effect::Probe(peer) if self.store.pulses.contains_key(&peer) => {}
            Effect::Watch(peer) | Effect::Probe(peer) => {
                let latency = self.latency();
                self.at(latency, Event::Gone(session, peer));
            }
            Effect::Unwatch(peer) => {
                if let Some(watchers) = self.store.watches.get_mut(&peer) {
                    watchers.remove(&session);
                }
            }
            Effect::BackOff(peer, attempts) => {
                let random = self.rng.next() as u32;
                let wait = BackOff::default().wait(attempts, random).as_millis() as u64;
                self.at(wait, Event::Timer(session, peer));
            }
            Effect::StopTask(peer, _) => {
                self.processes[session.process].tasks.remove(&peer);
            }
            Effect::StartTask(peer, task) => {
                let done = self.rng.between(50, 1_500);
                self.at(done, Event::TaskDone(session, peer.clone(), task.since.0, false));
                self.processes[session.process].tasks.insert(peer, task);
            }
            Effect::SealTask(peer, task) => {
                let done = self.rng.between(5, 300);
                self.at(done, Event::TaskDone(session, peer, task.since.0, true));
            }
            Effect::TrimLog(position) => self.store.trim(position),
            Effect::Stop(peer) => {
                self.probes.ids_given_up += 1;
                self.processes[session.process].tasks.remove(&peer);
                let told = self.store.end_pulse(&peer);
                self.tell(told);
                self.boot_peer(session);
            }
        }
    }

    fn task_done(&mut self, session: SessionId, peer: &PeerId, epoch: u64, is_sealed: bool) {
        let Some(task) = self.processes[session.process].tasks.get(peer) else { return };
        if task.since.0 != epoch {
            return;
        }
        let (job, task, own) = (task.job.clone(), task.task.clone(), peer.clone());
        let command: Command = match is_sealed {
            false => SealTask { peer: own, job, task }.into(),
            true => CompleteTask { peer: own, job, task }.into(),
        };
        self.step(session, Input::Say(peer.clone(), command));
    }

    fn client(&mut self, number: usize) -> Result<(), String> {
        let (job, turn) = (number / 3, number % 3);
        let command = match turn {
            0 => workload::submit(&mut self.rng, job),
            1 => Some(workload::change_scheduler(&mut self.rng)),
            _ if self.rng.chance(20) => workload::kill(job),
            _ => None,
        };
        command.map_or(Ok(()), |command| self.append_now(command).map(|_| ()))
    }

    fn tell(&mut self, told: Vec<(SessionId, PeerId)>) {
        for (watcher, peer) in told {
            let latency = self.latency();
            self.at(latency, Event::Gone(watcher, peer));
        }
    }

    /// The store has not heard of a session for too long, unless it has come back in time.
    fn expire(&mut self, session: SessionId) {
        let process = &self.processes[session.process];
        let is_silent = process.boot != session.boot
            || process.node.is_none()
            || process.paused_until.max(process.cut_off_until) > self.now;
        if is_silent {
            self.end_session(session);
        }
    }

    fn end_session(&mut self, session: SessionId) {
        self.note(&name(session), "its session ends");
        let told = self.store.expire(session);
        self.tell(told);
    }

    /// A process that finds its session gone starts again under new ids.
    fn lose_session(&mut self, session: SessionId) {
        self.note(&name(session), "finds its session gone");
        self.probes.ids_given_up += 1;
        self.processes[session.process].crash();
        let after = self.rng.below(500);
        self.at(after, Event::Boot(session.process));
    }

    fn crash(&mut self, index: usize) {
        if self.processes[index].node.is_none() {
            return;
        }
        let session = self.processes[index].session(index);
        self.note(&name(session), "crashes");
        self.processes[index].crash();
        self.at(SESSION_TIMEOUT, Event::Expire(session));
        let after = self.rng.below(6_000);
        self.at(after, Event::Boot(index));
    }

    fn blow(&mut self) -> Result<(), String> {
        if self.is_calm {
            return Ok(());
        }
        let next = self.rng.below(2 * self.weather.every);
        self.at(next, Event::Weather);
        let index = self.rng.below(self.processes.len() as u64) as usize;
        let session = self.processes[index].session(index);
        let Some(&fault) = self.rng.pick(&self.weather.faults) else { return Ok(()) };
        match fault {
            Fault::Crash => self.crash(index),
            Fault::MassDeath if self.rng.chance(20) => {
                (0..self.processes.len()).for_each(|index| self.crash(index));
            }
            Fault::MassDeath => {}
            Fault::Pause => {
                let until = self.now + self.rng.between(10, 3 * SESSION_TIMEOUT);
                self.note(&name(session), &format!("is stopped until {until}"));
                self.processes[index].paused_until = until;
                self.at(SESSION_TIMEOUT, Event::Expire(session));
            }
            Fault::CutOff => {
                let until = self.now + self.rng.between(10, 3 * SESSION_TIMEOUT);
                self.note(&name(session), &format!("is cut off until {until}"));
                self.processes[index].cut_off_until = until;
                self.at(SESSION_TIMEOUT, Event::Expire(session));
            }
            Fault::SessionLost if self.processes[index].node.is_some() => {
                self.end_session(session);
                // The next request would tell it; make sure that there is one.
                self.at(1, Event::Timer(session, self.any_peer()));
            }
            Fault::SessionLost => {}
            Fault::SlowReader => {
                let delay = *self.rng.pick(&[5, 200, 3_000]).unwrap_or(&5);
                self.processes[index].read_delay = delay;
            }
            Fault::Gc => {
                let Ok(caller) = PeerId::new("client") else { return Ok(()) };
                let entry = self.append_now(Gc { caller }.into())?;
                self.store.trim(entry.position);
            }
            Fault::Start => {
                self.processes.push(Process::new());
                self.at(0, Event::Boot(self.processes.len() - 1));
            }
        }
        Ok(())
    }

    fn any_peer(&self) -> PeerId {
        let peers: BTreeMap<_, _> = self.store.pulses.iter().collect();
        let first = peers.keys().next().map(|peer| (*peer).clone());
        first.unwrap_or_else(|| match PeerId::new("nobody") {
            Ok(id) => id,
            Err(_) => unreachable!("nobody is an id"),
        })
    }
}

fn name(session: SessionId) -> String {
    format!("n{}.{}", session.process, session.boot)
}
