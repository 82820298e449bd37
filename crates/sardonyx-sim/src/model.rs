//! All interleavings of a small cluster, one by one.
//!
//! The peers are the real [`Peer`], the cluster is the real `apply`. A state is everything that
//! there is; from each, every action that could come next is tried, until no new state turns up.
//! Two things are asked: whether a law is ever broken, and whether from every state that was
//! reached the living can still come to be one ring. The second finds what no run can show: a
//! corner from which there is no way out.
//!
//! What bounds it: the number of crashes, and the length of the log. States at the longest log are
//! counted but not judged.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque, hash_map::Entry as Slot},
    hash::{DefaultHasher, Hash, Hasher},
};

use sardonyx_core::{
    Command, Effect, Entry, Input, JoinProtocol, Outcome, Peer, PeerId, Position, Replica, apply,
    laws, peer::Standing, wire,
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
    /// How long the log may become.
    pub log_max: usize,
}

/// What was found about a small cluster.
#[derive(Clone, Debug, Default)]
pub struct Explored {
    /// How many different states there are.
    pub states: usize,
    /// How many steps lead from one to another.
    pub steps: usize,
    /// In how many the living are one ring and nothing is left to do.
    pub at_rest: usize,
    /// How many have the longest log, and were not followed further.
    pub cut: usize,
    /// From how many no such state can be reached any more.
    pub stuck: usize,
    /// The shortest way to a broken law or to a corner without a way out, and what it is.
    pub witness: Option<(String, Vec<String>)>,
}

#[derive(Clone)]
struct State {
    log: Vec<(Entry, Outcome)>,
    /// Stands for the log in the key; grown with it.
    log_mark: u128,
    /// The cluster before each entry, and after the last.
    history: Vec<Replica>,
    peers: Vec<Actor>,
    pulses: BTreeSet<PeerId>,
    crashes: u8,
    may_crash: Option<usize>,
}

#[derive(Clone)]
struct Actor {
    peer: Peer,
    is_alive: bool,
    played: usize,
    outbox: VecDeque<Command>,
    watching: BTreeSet<PeerId>,
    gone: BTreeSet<PeerId>,
    timer_runs: bool,
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Play(usize),
    Append(usize),
    Notice(usize),
    Timer(usize),
    Crash(usize),
    Expire(usize),
}

/// Explores every state of `small`, breadth first.
pub fn explore(small: Small) -> Explored {
    let mut explored = Explored::default();
    let mut ids: HashMap<u128, usize> = HashMap::new();
    let mut parents: Vec<(usize, String)> = Vec::new();
    let mut back: Vec<Vec<usize>> = Vec::new();
    let mut good: VecDeque<usize> = VecDeque::new();
    let mut waiting: VecDeque<(usize, State)> = VecDeque::new();
    let first = State::new(small);
    ids.insert(first.key(), 0);
    parents.push((0, "it begins".into()));
    back.push(Vec::new());
    waiting.push_back((0, first));
    while let Some((id, state)) = waiting.pop_front() {
        if state.is_at_rest() {
            explored.at_rest += 1;
            good.push_back(id);
        }
        if state.log.len() >= small.log_max {
            explored.cut += 1;
            good.push_back(id);
            continue;
        }
        for action in state.actions() {
            let mut next = state.clone();
            let what = next.act(action);
            explored.steps += 1;
            let broken = laws::check(next.replica());
            let next_id = match ids.entry(next.key()) {
                Slot::Occupied(known) => *known.get(),
                Slot::Vacant(new) => {
                    let next_id = parents.len();
                    new.insert(next_id);
                    parents.push((id, what));
                    back.push(Vec::new());
                    waiting.push_back((next_id, next));
                    next_id
                }
            };
            back[next_id].push(id);
            if let Err(broken) = broken {
                explored.states = parents.len();
                explored.witness = Some((broken.to_string(), way_to(&parents, next_id)));
                return explored;
            }
        }
    }
    explored.states = parents.len();
    let mut has_way_out = vec![false; parents.len()];
    while let Some(id) = good.pop_front() {
        if !std::mem::replace(&mut has_way_out[id], true) {
            good.extend(&back[id]);
        }
    }
    explored.stuck = has_way_out.iter().filter(|has| !**has).count();
    if let Some(id) = has_way_out.iter().position(|has| !has) {
        explored.witness = Some(("there is no way out".into(), way_to(&parents, id)));
    }
    explored
}

/// A number that stands for a text.
fn mark(text: &str) -> u128 {
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, text).hash(&mut hasher);
        u128::from(hasher.finish())
    };
    half(1) << 64 | half(2)
}

fn way_to(parents: &[(usize, String)], mut id: usize) -> Vec<String> {
    let mut way = Vec::new();
    while id != 0 {
        way.push(parents[id].1.clone());
        id = parents[id].0;
    }
    way.reverse();
    way
}

impl State {
    fn new(small: Small) -> State {
        let name = |index: usize| char::from(b'a' + index as u8).to_string();
        let ids: Vec<_> = (0..small.members).map(name).collect();
        let origin = format!(r#"{{"join-protocol":"{}","peers":{ids:?}}}"#, small.protocol);
        let replica = wire::replica_from_json(&origin).unwrap_or_default();
        let mut state = State {
            log: Vec::new(),
            log_mark: 0,
            history: vec![replica.clone()],
            peers: Vec::new(),
            pulses: BTreeSet::new(),
            crashes: small.crashes,
            may_crash: small.may_crash,
        };
        let all =
            (0..small.members + small.joiners).filter_map(|index| PeerId::new(&name(index)).ok());
        for (index, id) in all.enumerate() {
            state.pulses.insert(id.clone());
            state.peers.push(Actor {
                peer: Peer::new(id, None),
                is_alive: true,
                played: 0,
                outbox: VecDeque::new(),
                watching: BTreeSet::new(),
                gone: BTreeSet::new(),
                timer_runs: false,
            });
            let input = match index < small.members {
                true => Input::Jumped { heard: false, old: &replica, new: &replica },
                false => Input::Start,
            };
            state.step(index, input);
        }
        state
    }

    fn replica(&self) -> &Replica {
        &self.history[self.log.len()]
    }

    /// Everything that tells this state from another. The cluster follows from the log.
    fn key(&self) -> u128 {
        let mut text = format!("{}", self.log_mark);
        for actor in &self.peers {
            let Actor { peer, is_alive, played, outbox, watching, gone, timer_runs } = actor;
            // How often it failed only makes it wait longer.
            let standing = peer.standing();
            text += &format!(
                "{is_alive}{played}{standing:?}{outbox:?}{watching:?}{gone:?}{timer_runs}\n"
            );
        }
        text += &format!("{:?}{}", self.pulses, self.crashes);
        mark(&text)
    }

    fn actions(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        for (index, actor) in self.peers.iter().enumerate() {
            if !actor.is_alive {
                let has_pulse = self.pulses.contains(actor.peer.id());
                actions.extend(has_pulse.then_some(Action::Expire(index)));
                continue;
            }
            actions.extend((actor.played < self.log.len()).then_some(Action::Play(index)));
            actions.extend((!actor.outbox.is_empty()).then_some(Action::Append(index)));
            actions.extend((!actor.gone.is_empty()).then_some(Action::Notice(index)));
            actions.extend(actor.timer_runs.then_some(Action::Timer(index)));
            let may_crash = self.crashes > 0 && self.may_crash.is_none_or(|it| it == index);
            actions.extend(may_crash.then_some(Action::Crash(index)));
        }
        actions
    }

    fn act(&mut self, action: Action) -> String {
        match action {
            Action::Play(index) => {
                let at = self.peers[index].played;
                self.peers[index].played += 1;
                let (entry, outcome) = self.log[at].clone();
                let (old, new) = (self.history[at].clone(), self.history[at + 1].clone());
                let played =
                    Input::Played { entry: &entry, outcome: &outcome, old: &old, new: &new };
                self.step(index, played);
                format!("{} plays {entry}", self.peers[index].peer.id())
            }
            Action::Append(index) => {
                let Some(command) = self.peers[index].outbox.pop_front() else {
                    return String::new();
                };
                let entry = Entry { position: Position(self.log.len() as u64), command };
                let (next, outcome) = apply(self.replica(), &entry);
                let what = format!("{} appends {entry}: {next}", self.peers[index].peer.id());
                self.log_mark = mark(&format!("{}{entry}", self.log_mark));
                self.log.push((entry, outcome));
                self.history.push(next);
                what
            }
            Action::Notice(index) => {
                let Some(gone) = self.peers[index].gone.pop_first() else { return String::new() };
                let replica = self.history[self.peers[index].played].clone();
                self.step(index, Input::PulseGone { peer: &gone, replica: &replica });
                format!("{} sees that {gone} is gone", self.peers[index].peer.id())
            }
            Action::Timer(index) => {
                self.peers[index].timer_runs = false;
                let replica = self.history[self.peers[index].played].clone();
                self.step(index, Input::TimerFired { replica: &replica });
                format!("{} tries again", self.peers[index].peer.id())
            }
            Action::Crash(index) => {
                self.crashes -= 1;
                let actor = &mut self.peers[index];
                actor.is_alive = false;
                actor.outbox.clear();
                actor.gone.clear();
                format!("{} crashes", actor.peer.id())
            }
            Action::Expire(index) => {
                let id = self.peers[index].peer.id().clone();
                self.pulses.remove(&id);
                for actor in self.peers.iter_mut().filter(|it| it.is_alive) {
                    if actor.watching.contains(&id) {
                        actor.gone.insert(id.clone());
                    }
                }
                format!("{id}'s pulse ends")
            }
        }
    }

    fn step(&mut self, index: usize, input: Input<'_>) {
        let actor = &mut self.peers[index];
        let output = actor.peer.step(input);
        for effect in output.effects {
            match effect {
                Effect::Watch(id) => {
                    if !self.pulses.contains(&id) {
                        actor.gone.insert(id.clone());
                    }
                    actor.watching.insert(id);
                }
                Effect::Unwatch(id) => _ = actor.watching.remove(&id),
                Effect::Probe(id) if self.pulses.contains(&id) => {}
                Effect::Probe(id) => _ = actor.gone.insert(id),
                Effect::BackOff => actor.timer_runs = true,
                Effect::Stop => actor.is_alive = false,
                Effect::StopTask(_)
                | Effect::StartTask(_)
                | Effect::SealTask(_)
                | Effect::TrimLog(_) => {}
            }
        }
        actor.outbox.extend(output.append);
    }

    /// Whether the living are one ring, know it, would see each other die, and are silent.
    fn is_at_rest(&self) -> bool {
        let living: BTreeMap<_, _> =
            self.peers.iter().filter(|it| it.is_alive).map(|it| (it.peer.id(), it)).collect();
        let replica = self.replica();
        replica.n_peers() == living.len()
            && replica.peers().all(|peer| living.contains_key(peer))
            && living.values().all(|actor| {
                actor.peer.standing() == Standing::Member
                    && actor.outbox.is_empty()
                    && actor.gone.is_empty()
                    && actor.played == self.log.len()
                    && replica.watches(actor.peer.id()).is_subset(&actor.watching)
            })
    }
}
