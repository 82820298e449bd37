//! What a process does around its node: reading, sending, alarms, effects before commands.

use sardonyx_core::{
    Command, Entry, PeerId, Position,
    command::{CompleteTask, SealTask},
    mutant::{self, Mutant},
    peer::{BackOff, Standing},
};
use sardonyx_peer::{BULK_MIN, Effect, Input, Node};

use super::{Event, SESSION_TIMEOUT, World, name};
use crate::store::{Read, SessionId};

/// How many entries a node reads at once.
const READ_MAX: usize = 200;

impl World {
    pub(super) fn boot(&mut self, index: usize) -> Result<(), String> {
        if self.processes[index].node.is_some() {
            return Ok(());
        }
        let process = &mut self.processes[index];
        process.boot += 1;
        process.reads_at = 0;
        process.node = Some(Node::new(self.plan.gc_every));
        let session = process.session(index);
        self.note(&name(session), "boots");
        for _ in 0..self.plan.peers {
            self.boot_peer(session)?;
        }
        self.wake_reader(session);
        Ok(())
    }

    fn boot_peer(&mut self, session: SessionId) -> Result<(), String> {
        self.n_boots += 1;
        let id = PeerId::new(&format!("p{}", self.n_boots)).map_err(|why| why.to_string())?;
        self.store.pulses.insert(id.clone(), session);
        self.step(session, Input::Boot(id))
    }

    fn latency(&mut self, session: SessionId) -> u64 {
        1 + self.processes[session.process].rng.below(self.plan.latency)
    }

    pub(super) fn read(&mut self, session: SessionId) -> Result<(), String> {
        let process = &mut self.processes[session.process];
        process.is_reading = false;
        let (read, next) = self.store.read(process.reads_at, READ_MAX);
        process.reads_at = next;
        match read {
            Read::Origin(position, replica) => {
                self.probes.readers_overtaken_by_gc += 1;
                let node = self.processes[session.process].node.as_ref();
                let joins = |node: &Node| {
                    node.peers().any(|it| it.standing() != Standing::Member)
                        && node.position().is_some()
                };
                self.probes.joiners_overtaken_by_gc += u64::from(node.is_some_and(joins));
                if !mutant::is_on(Mutant::SkippedGap) {
                    self.note(&name(session), &format!("takes the origin at {position}"));
                    self.step(session, Input::Origin(position, replica))?;
                }
            }
            Read::Entries(entries) => {
                self.probes.bulk_reads += u64::from(entries.len() >= BULK_MIN);
                self.step(session, Input::Entries(entries))?;
            }
        }
        self.equal_position_equal_replica(session)?;
        if self.processes[session.process].reads_at < self.store.len() {
            self.wake_reader(session);
        }
        Ok(())
    }

    fn equal_position_equal_replica(&self, session: SessionId) -> Result<(), String> {
        let Some(node) = &self.processes[session.process].node else { return Ok(()) };
        let Some(position) = node.position() else { return Ok(()) };
        match self.store.history.get(&position) {
            Some(replica) if replica == node.replica() => Ok(()),
            None if self.store.check_every > 1 => Ok(()),
            Some(_) | None => {
                let who = name(session);
                Err(format!("equal position, equal replica: {who} differs at {position}"))
            }
        }
    }

    pub(super) fn wake_reader(&mut self, session: SessionId) {
        let process = &mut self.processes[session.process];
        if process.node.is_some() && !process.is_reading {
            process.is_reading = true;
            let (slowness, until) = process.slow;
            let delay = if until > self.now { slowness } else { 5 };
            let delay = 1 + process.rng.below(delay);
            self.at(delay, Event::Read(session));
        }
    }

    /// The first in the outbox reaches the store, unless it gets lost; its answer may be lost as
    /// well. Either way the process does not know, and sends it again.
    pub(super) fn land(&mut self, session: SessionId) -> Result<(), String> {
        let (percent, until) = self.lost_answers;
        let process = &mut self.processes[session.process];
        process.is_sending = false;
        let Some((token, command)) = process.outbox.pop_front() else { return Ok(()) };
        let is_unheard = until > self.now && process.rng.chance(percent);
        let is_lost = is_unheard && process.rng.chance(50);
        if is_unheard {
            process.outbox.push_front((token, command.clone()));
        }
        if !is_lost {
            self.append(&name(session), token, command)?;
        }
        self.send(session);
        Ok(())
    }

    fn send(&mut self, session: SessionId) {
        let process = &mut self.processes[session.process];
        if !process.is_sending && !process.outbox.is_empty() {
            process.is_sending = true;
            let latency = self.latency(session);
            self.at(latency, Event::Land(session));
        }
    }

    /// Steps a node and carries out what it wants, effects first.
    pub(super) fn step(&mut self, session: SessionId, input: Input) -> Result<(), String> {
        let Some(node) = self.processes[session.process].node.as_mut() else { return Ok(()) };
        let is_one_entry = matches!(&input, Input::Entries(entries) if entries.len() == 1);
        let is_outside = |peer: &PeerId| {
            node.peers().any(|it| it.id() == peer && it.standing() != Standing::Member)
        };
        let outsider = if let Input::Say(peer, _) = &input {
            is_outside(peer).then(|| peer.clone())
        } else {
            None
        };
        let output = node.step(input);
        let early = output.append.iter().find(|command| !command.is_about_joining());
        if let (Some(peer), Some(command)) = (outsider, early) {
            let what = command.name();
            return Err(format!("outsiders only speak of joining: {peer} says {what}"));
        }
        if is_one_entry {
            self.what_is_said_makes_sense(session, &output.append)?;
        }
        for effect in output.effects {
            self.perform(session, effect)?;
        }
        if self.processes[session.process].node.is_none() {
            // The last of its peers is out: what it had to say dies with it.
            return Ok(());
        }
        for command in output.append {
            let token = self.token();
            self.processes[session.process].outbox.push_back((token, command));
        }
        self.send(session);
        Ok(())
    }

    /// Of what a node says about jobs, its own replica must take every word: what does not make
    /// sense any more is not to be let out.
    fn what_is_said_makes_sense(
        &self,
        session: SessionId,
        commands: &[Command],
    ) -> Result<(), String> {
        let Some(node) = &self.processes[session.process].node else { return Ok(()) };
        for command in commands.iter().filter(|command| !command.is_about_joining()) {
            let position = Position(node.position().map_or(0, |it| it.0 + 1));
            let entry = Entry { position, command: command.clone() };
            // Each for itself: what comes first may well settle what comes after it.
            node.replica().clone().play(&entry).map_err(|why| {
                format!("what is said makes sense: {} says {entry}: {why}", name(session))
            })?;
        }
        Ok(())
    }

    fn perform(&mut self, session: SessionId, effect: Effect) -> Result<(), String> {
        let process = &mut self.processes[session.process];
        match effect {
            Effect::Watch(peer) if self.store.pulses.contains_key(&peer) => {
                self.store.watches.entry(peer).or_default().insert(session);
            }
            Effect::Probe(peer) if self.store.pulses.contains_key(&peer) => {}
            Effect::Watch(_) if mutant::is_on(Mutant::BlindWatches) => {}
            Effect::Watch(peer) | Effect::Probe(peer) => {
                let latency = self.latency(session);
                self.at(latency, Event::Gone(session, peer));
            }
            Effect::Unwatch(peer) => {
                if let Some(watchers) = self.store.watches.get_mut(&peer) {
                    watchers.remove(&session);
                }
            }
            Effect::BackOff(peer, attempts) => {
                let random = process.rng.next() as u32;
                let wait = BackOff::default().wait(attempts, random).as_millis() as u64;
                let due = self.now as i64 + process.clock + wait as i64;
                process.n_alarms += 1;
                process.alarms.insert((due, process.n_alarms), peer);
                self.at(wait, Event::Alarm(session));
            }
            Effect::StopTask(peer, _) => {
                process.tasks.remove(&peer);
            }
            Effect::StartTask(peer, task) => {
                let done = process.rng.between(50, 1_500);
                let epoch = task.since.0;
                process.tasks.insert(peer.clone(), task);
                self.at(done, Event::TaskDone(session, peer, epoch, false));
            }
            Effect::SealTask(peer, task) => {
                let done = process.rng.between(5, 300);
                self.at(done, Event::TaskDone(session, peer, task.since.0, true));
            }
            Effect::TrimLog(position) => self.store.trim(position),
            Effect::Stop(peer) => return self.give_up(session, &peer),
        }
        Ok(())
    }

    /// An id is over. Another takes its place, unless the whole process is stopping.
    fn give_up(&mut self, session: SessionId, peer: &PeerId) -> Result<(), String> {
        self.probes.ids_given_up += 1;
        self.processes[session.process].tasks.remove(peer);
        let told = self.store.end_pulse(peer);
        self.tell(told);
        let process = &self.processes[session.process];
        let Some(down) = process.stops_for else { return self.boot_peer(session) };
        if process.node.as_ref().is_some_and(|node| node.peers().next().is_none()) {
            self.note(&name(session), "has left and stops");
            self.processes[session.process].crash();
            self.end_session(session);
            self.at(down, Event::Boot(session.process));
        }
        Ok(())
    }

    /// Wakes those whose time has come by the process's clock, which may have jumped.
    pub(super) fn ring(&mut self, session: SessionId) -> Result<(), String> {
        let process = &mut self.processes[session.process];
        let now = self.now as i64 + process.clock;
        let later = process.alarms.split_off(&(now + 1, 0));
        let due = std::mem::replace(&mut process.alarms, later);
        let mut due: Vec<_> = due.into_iter().map(|((_, set), peer)| (set, peer)).collect();
        due.sort_unstable();
        let next = process.alarms.keys().next().map(|(at, _)| at - now);
        if let Some(wait) = next.filter(|_| due.is_empty()) {
            // The clock went back; every other alarm has its own event.
            self.at(wait.unsigned_abs(), Event::Alarm(session));
        }
        for (_, peer) in due {
            self.step(session, Input::TimerFired(peer))?;
        }
        Ok(())
    }

    pub(super) fn task_done(
        &mut self,
        session: SessionId,
        peer: &PeerId,
        epoch: u64,
        is_sealed: bool,
    ) -> Result<(), String> {
        let tasks = &self.processes[session.process].tasks;
        let Some(task) = tasks.get(peer).filter(|task| task.since.0 == epoch) else {
            return Ok(());
        };
        let (job, task, own) = (task.job.clone(), task.task.clone(), peer.clone());
        let command: Command = match is_sealed {
            false => SealTask { peer: own, job, task }.into(),
            true => CompleteTask { peer: own, job, task }.into(),
        };
        self.step(session, Input::Say(peer.clone(), command))
    }

    pub(super) fn tell(&mut self, told: Vec<(SessionId, PeerId)>) {
        for (watcher, peer) in told {
            let latency = self.latency(watcher);
            self.at(latency, Event::Gone(watcher, peer));
        }
    }

    /// The store has not heard of a session for too long, unless it has come back in time.
    pub(super) fn expire(&mut self, session: SessionId) {
        let process = &self.processes[session.process];
        let is_silent = process.boot != session.boot
            || process.node.is_none()
            || process.paused_until.max(process.cut_off_until) > self.now;
        if is_silent {
            self.end_session(session);
        }
    }

    pub(super) fn end_session(&mut self, session: SessionId) {
        if self.store.expired.contains(&session) {
            return;
        }
        self.note(&name(session), "its session ends");
        let told = self.store.expire(session);
        self.tell(told);
    }

    /// A process that finds its session gone starts again under new ids.
    pub(super) fn lose_session(&mut self, session: SessionId) {
        self.note(&name(session), "finds its session gone");
        self.probes.sessions_lost += 1;
        let process = &mut self.processes[session.process];
        process.crash();
        let after = process.rng.below(500);
        self.at(after, Event::Boot(session.process));
    }

    pub(super) fn crash(&mut self, index: usize, down: u64) {
        if self.processes[index].node.is_none() {
            return;
        }
        let session = self.processes[index].session(index);
        self.note(&name(session), "crashes");
        self.processes[index].crash();
        self.at(SESSION_TIMEOUT, Event::Expire(session));
        self.at(down, Event::Boot(index));
    }
}
