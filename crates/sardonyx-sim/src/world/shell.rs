//! What a process does around its node: reading, sending, alarms, effects before commands.

use sardonyx_core::{
    Command, PeerId, Position,
    command::{CompleteTask, Gc, SealTask},
    mutant::{self, Mutant},
    peer::{BackOff, Standing},
    replica::job::Assignment,
};
use sardonyx_peer::{BULK_MIN, Effect, Input, LogSize, Node};

use super::{Event, SESSION_TIMEOUT, World, name, spoken::Heard};
use crate::{
    process::Letter,
    store::{Read, SessionId},
};

/// How many entries a node reads at once.
pub(crate) const READ_MAX: usize = 200;

impl World {
    pub(super) fn boot(&mut self, index: usize) -> Result<(), String> {
        if self.processes[index].node.is_some() {
            return Ok(());
        }
        let process = &mut self.processes[index];
        process.boot += 1;
        process.reads_at = 0;
        process.node = Some(Node::new(self.plan.gc_every));
        process.size = LogSize::new(self.plan.trim_after.map(u64::from));
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
        if !self.store.expired.contains(&session) {
            self.store.pulses.insert(id.clone(), session);
        }
        self.step(session, Input::Boot(id))
    }

    fn latency(&mut self, session: SessionId) -> u64 {
        1 + self.processes[session.process].rng.below(self.plan.latency)
    }

    pub(super) fn read(&mut self, session: SessionId) -> Result<(), String> {
        self.nothing_keeps_it_from_reading(session)?;
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
                    self.processes[session.process].size.begin_again();
                    self.step(session, Input::Origin(position, replica))?;
                }
            }
            Read::Entries(entries) => {
                self.probes.bulk_reads += u64::from(entries.len() >= BULK_MIN);
                let size = &mut self.processes[session.process].size;
                entries.iter().for_each(|entry| size.note(entry));
                self.step(session, Input::Entries(entries))?;
                self.trim_if_it_is_our_turn(session)?;
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
            process.reads_by = self.now + delay;
            self.at(delay, Event::Read(session));
        }
    }

    /// The first in the outbox reaches the store, unless it gets lost; its answer may be lost as
    /// well. Either way the process does not know, and sends it again.
    pub(super) fn land(&mut self, session: SessionId) -> Result<(), String> {
        let (percent, until) = self.lost_answers;
        let process = &mut self.processes[session.process];
        process.is_sending = false;
        let Some(letter) = process.outbox.pop_front() else { return Ok(()) };
        let is_unheard = until > self.now && process.rng.chance(percent);
        let is_lost = is_unheard && process.rng.chance(50);
        if is_unheard {
            process.outbox.push_front(letter.clone());
        }
        if !is_lost {
            self.only_the_present_run_speaks(&letter)?;
            self.append(&name(session), letter.token, letter.command)?;
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
        self.step_for(session, input, None)
    }

    /// The same, for the run of a task.
    fn step_for(
        &mut self,
        session: SessionId,
        input: Input,
        run: Option<Position>,
    ) -> Result<(), String> {
        let Some(node) = self.processes[session.process].node.as_mut() else { return Ok(()) };
        let heard = Heard::of(&input, node.replica());
        let is_outside = |peer: &PeerId| {
            node.peers().any(|it| it.id() == peer && it.standing() != Standing::Member)
        };
        let outsider = if let Input::Say(peer, _) = &input {
            is_outside(peer).then(|| peer.clone())
        } else {
            None
        };
        let output = node.step(input);
        self.joiners_do_as_they_must(session, &heard, &output.append)?;
        let early = output.append.iter().find(|command| !command.is_about_joining());
        if let (Some(peer), Some(command)) = (outsider, early) {
            let what = command.name();
            return Err(format!("outsiders only speak of joining: {peer} says {what}"));
        }
        if matches!(heard, Heard::One(..)) {
            self.what_is_said_makes_sense(session, &output.append)?;
        }
        if mutant::is_on(Mutant::CommandsFirst) {
            self.say(session, &heard, output.append, run)?;
            return output.effects.into_iter().try_for_each(|it| self.perform(session, it));
        }
        for effect in output.effects {
            self.perform(session, effect)?;
        }
        self.say(session, &heard, output.append, run)
    }

    /// What a node wants said is on its way from here on.
    fn say(
        &mut self,
        session: SessionId,
        heard: &Heard,
        commands: Vec<Command>,
        run: Option<Position>,
    ) -> Result<(), String> {
        if self.processes[session.process].node.is_none() {
            // The last of its peers is out: what it had to say dies with it.
            return Ok(());
        }
        if !matches!(heard, Heard::Several) {
            self.what_is_claimed_was_done(session, &commands)?;
        }
        for command in commands {
            let token = self.token();
            self.processes[session.process].outbox.push_back(Letter { token, command, run });
        }
        self.send(session);
        Ok(())
    }

    /// When the log has grown, the node of the oldest member trims it.
    fn trim_if_it_is_our_turn(&mut self, session: SessionId) -> Result<(), String> {
        let process = &mut self.processes[session.process];
        let Some(node) = &process.node else { return Ok(()) };
        let Some(peer) = process.size.whose_turn(node.replica()) else { return Ok(()) };
        self.step(session, Input::Say(peer.clone(), Gc { caller: peer }.into()))
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
                if mutant::is_on(Mutant::WaitsInLoop) {
                    process.held_until = self.now + wait;
                }
                self.at(wait, Event::Alarm(session));
            }
            Effect::StopTask(peer, _) => {
                process.tasks.remove(&peer);
            }
            Effect::StartTask(peer, task) => {
                let done = process.rng.between(50, 1_500);
                process.tasks.insert(peer.clone(), task.clone());
                self.whoever_runs_a_task_knows_its_job(session, &task)?;
                self.at(done, Event::TaskDone(session, peer, task, false));
            }
            Effect::SealTask(peer, task) => {
                let done = process.rng.between(5, 300);
                self.at(done, Event::TaskDone(session, peer, task, true));
            }
            Effect::TrimLog(_) => self.trim_as(session),
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
        run: &Assignment,
        is_sealed: bool,
    ) -> Result<(), String> {
        let is_on = self.processes[session.process].tasks.get(peer) == Some(run);
        if !is_on && !mutant::is_on(Mutant::StaleReports) {
            return Ok(());
        }
        let (job, task, own) = (run.job.clone(), run.task.clone(), peer.clone());
        let command: Command = match is_sealed {
            false => SealTask { peer: own, job, task }.into(),
            true => CompleteTask { peer: own, job, task }.into(),
        };
        self.step_for(session, Input::Say(peer.clone(), command), Some(run.since))
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
