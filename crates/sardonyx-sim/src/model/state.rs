//! Everything that there is in a small cluster at one moment, and what may come next.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use sardonyx_core::{
    Command, Effect, Entry, Input, Outcome, Peer, PeerId, Phase, Position, Replica, apply,
    command::{CompleteTask, SealTask},
    laws,
    peer::Standing,
    replica::job::Assignment,
    wire,
};

use super::Small;

#[derive(Clone)]
pub(crate) struct State {
    /// Stands for all the rest: two states with one key are one.
    pub(super) key: u64,
    /// The law that the last entry broke, if it did.
    pub(super) broken: Option<String>,
    first: Arc<Replica>,
    log: Arc<Vec<Logged>>,
    peers: Vec<Arc<Actor>>,
    pulses: BTreeSet<PeerId>,
    crashes: u8,
    losses: u8,
}

#[derive(Clone)]
struct Logged {
    entry: Entry,
    outcome: Outcome,
    after: Replica,
    /// Stands for the log up to here.
    mark: u64,
}

#[derive(Clone)]
struct Actor {
    peer: Peer,
    is_alive: bool,
    played: usize,
    outbox: VecDeque<(u64, Command)>,
    watching: BTreeSet<PeerId>,
    gone: BTreeSet<PeerId>,
    timer_runs: bool,
    /// What it runs, and what it will say about it: that it saw the last of its input, or, once it
    /// may seal, that it is done.
    task: Option<(Assignment, Stage)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Stage {
    Working,
    Asked,
    Sealing,
    Done,
}

/// Something that may come next, to the peer of that number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    Play(usize),
    Append(usize),
    Notice(usize),
    Timer(usize),
    /// It saw the last of its task's input, or has told everybody downstream.
    Work(usize),
    Crash(usize),
    /// The store gives up its session while it is alive.
    Lose(usize),
    Expire(usize),
}

/// A number that stands for anything that can be hashed.
fn mark(what: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.key.hash(hasher);
    }
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.replica())
    }
}

impl Actor {
    fn new(id: PeerId) -> Actor {
        Actor {
            // No peer-gc: the rules under test must suffice.
            peer: Peer::new(id, None),
            is_alive: true,
            played: 0,
            outbox: VecDeque::new(),
            watching: BTreeSet::new(),
            gone: BTreeSet::new(),
            timer_runs: false,
            task: None,
        }
    }

    /// What it was in the middle of is nobody's business any more: two ways to die are one.
    fn die(&mut self) {
        *self = Actor { is_alive: false, ..Actor::new(self.peer.id().clone()) };
    }

    /// How often it failed or looked is left out: it only makes it wait longer.
    fn mark(&self) -> u64 {
        let ids = |set: &BTreeSet<PeerId>| mark(set.iter().map(PeerId::as_str).collect::<Vec<_>>());
        let outbox: Vec<_> = self.outbox.iter().map(|(mark, _)| *mark).collect();
        let task = self.task.as_ref().map(|(it, stage)| (it.task.as_str(), it.since.0, *stage));
        let standing = self.peer.standing() as u8;
        let own = (self.is_alive, self.played, standing, self.timer_runs, task);
        mark((own, outbox, ids(&self.watching), ids(&self.gone)))
    }

    fn step(&mut self, input: Input<'_>, pulses: &BTreeSet<PeerId>) {
        let output = self.peer.step(input);
        for effect in output.effects {
            match effect {
                Effect::Watch(id) => {
                    if !pulses.contains(&id) {
                        self.gone.insert(id.clone());
                    }
                    self.watching.insert(id);
                }
                Effect::Unwatch(id) => _ = self.watching.remove(&id),
                Effect::Probe(id) if pulses.contains(&id) => {}
                Effect::Probe(id) => _ = self.gone.insert(id),
                Effect::BackOff => self.timer_runs = true,
                Effect::Stop => return self.die(),
                Effect::StopTask(_) => self.task = None,
                Effect::StartTask(task) => self.task = Some((task, Stage::Working)),
                Effect::SealTask(task) => self.task = Some((task, Stage::Sealing)),
                Effect::TrimLog(_) => {}
            }
        }
        let marked = output.append.into_iter().map(|it| (mark(format!("{it:?}")), it));
        self.outbox.extend(marked);
    }
}

impl State {
    pub(super) fn new(small: &Small) -> State {
        let name = |index: usize| char::from(b'a' + index as u8).to_string();
        let ids: Vec<_> = (0..small.members).map(name).collect();
        let tasks: Vec<_> = (0..small.tasks).map(|at| format!("t{at}")).collect();
        let jobs = match tasks.is_empty() {
            true => String::new(),
            false => format!(r#","jobs":[{{"id":"j","tasks":{tasks:?}}}]"#),
        };
        let origin = format!(r#"{{"join-protocol":"{}","peers":{ids:?}{jobs}}}"#, small.protocol);
        let replica = wire::replica_from_json(&origin).unwrap_or_default();
        let all =
            (0..small.members + small.joiners).filter_map(|index| PeerId::new(&name(index)).ok());
        let mut state = State {
            key: 0,
            broken: None,
            first: Arc::new(replica),
            log: Arc::default(),
            pulses: all.clone().collect(),
            peers: all.map(|id| Arc::new(Actor::new(id))).collect(),
            crashes: small.crashes,
            losses: small.losses,
        };
        let replica = state.first.clone();
        for index in 0..state.peers.len() {
            let input = match index < small.members {
                true => Input::Jumped { heard: false, old: &replica, new: &replica },
                false => Input::Start,
            };
            with(small, || Arc::make_mut(&mut state.peers[index]).step(input, &state.pulses));
        }
        state.key = state.mark();
        state
    }

    pub(super) fn log_length(&self) -> usize {
        self.log.len()
    }

    /// The cluster after so many entries.
    fn after(&self, n: usize) -> &Replica {
        n.checked_sub(1).and_then(|at| self.log.get(at)).map_or(&self.first, |it| &it.after)
    }

    pub(super) fn replica(&self) -> &Replica {
        self.after(self.log.len())
    }

    /// Everything that tells this state from another. The cluster follows from the log.
    fn mark(&self) -> u64 {
        let peers: Vec<_> = self.peers.iter().map(|it| it.mark()).collect();
        let pulses: Vec<_> = self.pulses.iter().map(PeerId::as_str).collect();
        mark((self.log.last().map(|it| it.mark), peers, pulses, self.crashes, self.losses))
    }

    pub(super) fn actions(&self, small: &Small) -> Vec<Action> {
        let quiet = (0..self.peers.len()).find(|&index| self.quiet_play(index, small));
        if let Some(index) = quiet.filter(|_| !small.every_order) {
            return vec![Action::Play(index)];
        }
        let mut actions = Vec::new();
        for (index, actor) in self.peers.iter().enumerate() {
            if !actor.is_alive {
                let has_pulse = self.pulses.contains(actor.peer.id());
                actions.extend(has_pulse.then_some(Action::Expire(index)));
                continue;
            }
            let works =
                |(_, stage): &(Assignment, Stage)| matches!(stage, Stage::Working | Stage::Sealing);
            actions.extend((actor.played < self.log.len()).then_some(Action::Play(index)));
            actions.extend((!actor.outbox.is_empty()).then_some(Action::Append(index)));
            actions.extend((!actor.gone.is_empty()).then_some(Action::Notice(index)));
            actions.extend(actor.timer_runs.then_some(Action::Timer(index)));
            actions.extend(actor.task.as_ref().is_some_and(works).then_some(Action::Work(index)));
            let is_named = small.may_crash.is_none_or(|it| it == index);
            let has_pulse = self.pulses.contains(actor.peer.id());
            // Whoever has lost its session finds out sooner or later, and ends.
            let may_crash = self.crashes > 0 && is_named || !has_pulse;
            actions.extend(may_crash.then_some(Action::Crash(index)));
            let may_lose = self.losses > 0 && is_named && has_pulse;
            actions.extend(may_lose.then_some(Action::Lose(index)));
        }
        actions
    }

    /// Whether the peer's next entry means nothing to it: it says nothing, watches at most one more,
    /// and whatever else it may meet before that entry, it would answer the same after it.
    ///
    /// Then it makes no difference when it plays that entry, and one order of all is enough: such
    /// a step is taken at once, alone. It commutes with everything that anybody else does, and with
    /// all that this peer may do: sending touches the other end of its outbox; a pulse that ends
    /// later is noticed in the same way (what it watches stays watched, and is known before if and
    /// only if it is known after); its timer fires to the same end; and dying forgets it.
    fn quiet_play(&self, index: usize, small: &Small) -> bool {
        let actor = &self.peers[index];
        if !actor.is_alive || actor.played >= self.log.len() {
            return false;
        }
        let (old, new) = (self.after(actor.played), self.after(actor.played + 1));
        let mut after = Actor::clone(actor);
        with(small, || self.play(&mut after));
        let me = actor.peer.id();
        let is_known = |replica: &Replica, id| replica.is_member(id) || replica.is_joining(id);
        after.is_alive
            && after.outbox.len() == actor.outbox.len()
            && after.timer_runs == actor.timer_runs
            && after.peer.standing() == actor.peer.standing()
            && (!actor.timer_runs
                || old.is_joining(me) == new.is_joining(me)
                    && old.has_candidate() == new.has_candidate()
                    && old.peers_by_id().eq(new.peers_by_id()))
            && after.task == actor.task
            && after.gone == actor.gone
            && after.watching.is_superset(&actor.watching)
            && actor.watching.union(&actor.gone).all(|id| is_known(old, id) == is_known(new, id))
    }

    /// The actor plays its next entry.
    fn play(&self, actor: &mut Actor) -> String {
        let at = actor.played;
        actor.played += 1;
        let Logged { entry, outcome, after, .. } = &self.log[at];
        let played = Input::Played { entry, outcome, old: self.after(at), new: after };
        actor.step(played, &self.pulses);
        format!("{} plays {entry}", actor.peer.id())
    }

    /// Takes the step and says what it was.
    pub(super) fn act(&mut self, action: Action, small: &Small) -> String {
        let what = with(small, || self.take(action));
        self.key = self.mark();
        what
    }

    fn take(&mut self, action: Action) -> String {
        let (Action::Play(index)
        | Action::Append(index)
        | Action::Notice(index)
        | Action::Timer(index)
        | Action::Work(index)
        | Action::Crash(index)
        | Action::Lose(index)
        | Action::Expire(index)) = action;
        let mut actor = Actor::clone(&self.peers[index]);
        let id = actor.peer.id().clone();
        let now = self.after(actor.played);
        let what = match action {
            Action::Play(_) => self.play(&mut actor),
            Action::Append(_) => {
                let command = actor.outbox.pop_front().map(|(_, command)| command);
                command.map_or(String::new(), |command| self.append(&id, command))
            }
            Action::Notice(_) => {
                let gone = actor.gone.pop_first().unwrap_or_else(|| id.clone());
                actor.step(Input::PulseGone { peer: &gone, replica: now }, &self.pulses);
                format!("{id} sees that {gone} is gone")
            }
            Action::Timer(_) => {
                actor.timer_runs = false;
                actor.step(Input::TimerFired { replica: now }, &self.pulses);
                format!("{id}'s wait is over")
            }
            Action::Work(_) => {
                let Some((task, stage)) = actor.task.clone() else { return String::new() };
                let (job, name, peer) = (task.job.clone(), task.task.clone(), id.clone());
                let (command, next): (Command, _) = match stage {
                    Stage::Working | Stage::Asked => {
                        (SealTask { peer, job, task: name }.into(), Stage::Asked)
                    }
                    Stage::Sealing | Stage::Done => {
                        (CompleteTask { peer, job, task: name }.into(), Stage::Done)
                    }
                };
                let what = format!("{id} wants to {}", command.name());
                actor.task = Some((task, next));
                actor.step(Input::Say(command), &self.pulses);
                what
            }
            Action::Crash(_) => {
                if self.pulses.contains(&id) {
                    self.crashes -= 1;
                }
                actor.die();
                format!("{id} crashes")
            }
            Action::Lose(_) => {
                self.losses -= 1;
                self.end_pulse(&id);
                format!("{id} loses its session")
            }
            Action::Expire(_) => {
                self.end_pulse(&id);
                format!("{id}'s pulse ends")
            }
        };
        self.peers[index] = Arc::new(actor);
        what
    }

    fn end_pulse(&mut self, id: &PeerId) {
        self.pulses.remove(id);
        for other in &mut self.peers {
            if other.is_alive && other.watching.contains(id) {
                Arc::make_mut(other).gone.insert(id.clone());
            }
        }
    }

    fn append(&mut self, who: &PeerId, command: Command) -> String {
        let entry = Entry { position: Position(self.log.len() as u64), command };
        let (after, outcome) = apply(self.replica(), &entry);
        self.broken = laws::check(&after).err().map(|broken| broken.to_string());
        let what = format!("{who} appends {entry}: {after}");
        let before = self.log.last().map(|it| it.mark);
        let mark = mark((before, format!("{:?}", entry.command)));
        Arc::make_mut(&mut self.log).push(Logged { entry, outcome, after, mark });
        what
    }

    /// Whether the living are one ring, know it, would see each other die, are silent, and have
    /// finished every job.
    pub(super) fn is_at_rest(&self) -> bool {
        let living: BTreeMap<_, _> =
            self.peers.iter().filter(|it| it.is_alive).map(|it| (it.peer.id(), it)).collect();
        let replica = self.replica();
        replica.n_peers() == living.len()
            && replica.peers().all(|peer| living.contains_key(peer))
            && replica.jobs().all(|job| !job.is_live())
            && living.values().all(|actor| {
                actor.peer.standing() == Standing::Member
                    && self.pulses.contains(actor.peer.id())
                    && actor.outbox.is_empty()
                    && actor.gone.is_empty()
                    && actor.task.is_none()
                    && actor.played == self.log.len()
                    && replica.watches(actor.peer.id()).is_subset(&actor.watching)
            })
    }

    /// The last entry and the cluster before it, if it was applied.
    fn last(&self) -> Option<(&Command, &Replica)> {
        let last = self.log.last().filter(|it| it.outcome.is_ok())?;
        Some((&last.entry.command, self.after(self.log.len() - 1)))
    }

    pub(super) fn has_grown(&self) -> bool {
        matches!(self.last(), Some((Command::AcceptJoinCluster(_), _)))
    }

    pub(super) fn has_aborted(&self) -> bool {
        self.log.last().is_some_and(|it| matches!(it.entry.command, Command::AbortJoinCluster(_)))
    }

    pub(super) fn has_completed(&self) -> bool {
        let completes = matches!(self.last(), Some((Command::CompleteTask(_), _)));
        completes && self.replica().jobs().all(|job| !job.is_live())
    }

    pub(super) fn has_lost_an_observer(&self) -> bool {
        let Some((Command::LeaveCluster(it), before)) = self.last() else { return false };
        let accepted = before.joins_in(Phase::Accepted);
        accepted.iter().any(|(from, to)| **from == it.peer || **to == it.peer)
            && before.is_member(&it.peer)
    }

    pub(super) fn has_lost_a_sealer(&self) -> bool {
        let Some((Command::LeaveCluster(it), before)) = self.last() else { return false };
        before.jobs().any(|job| job.sealing().any(|(_, sealer)| *sealer == it.peer))
    }
}

/// Switches the rule off, if one is to be: threads that check are not the one that asked.
#[cfg(feature = "mutants")]
fn with<T>(small: &Small, body: impl FnOnce() -> T) -> T {
    sardonyx_core::mutant::with_mutant(small.mutant, body)
}

#[cfg(not(feature = "mutants"))]
fn with<T>(_small: &Small, body: impl FnOnce() -> T) -> T {
    body()
}
