//! One election of three voters, in every order in which it can happen.
//!
//! The members are the real machine, taken from a mesh that has just lost its leader: all three
//! are voters, two of them have asked the others and are about to propose themselves. From there
//! every message may arrive next, every write may reach the disk next, and one member may crash and
//! come back at any time with what its disk has. A message that never arrives is covered too: what
//! holds after every order of all of them holds after every part of one. Time stands still, so each
//! proposer has one round; the storms try many.

use std::{
    collections::{BTreeMap, HashSet},
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use sardonyx_mesh::{
    Address, Config, Input, Kept, Member, Message, Moment, NodeId, Profile, Save,
    address::Incarnation,
};

use super::world::World;

/// What to explore.
#[derive(Clone, Copy, Debug)]
pub struct Small {
    /// How many crashes there may be.
    pub crashes: u8,
    /// Whether a message may arrive twice.
    pub doubled: bool,
    /// Whether a write takes time. If not, it is on the disk at once; a crash before it is then
    /// the same as a crash before the message that caused it arrived.
    pub slow_disks: bool,
    /// Where to stop, if it does not end before.
    pub states_max: usize,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Explored {
    /// How many different states there are.
    pub states: usize,
    /// How many steps lead from one to another.
    pub steps: usize,
    /// In how many somebody knows a leader of the new version.
    pub elected: usize,
    /// Whether all of them were seen.
    pub is_complete: bool,
    /// A way to two leaders, if there is one.
    pub witness: Option<(String, Vec<String>)>,
}

#[derive(Clone, Debug)]
struct State {
    members: Vec<Actor>,
    network: Vec<Letter>,
    crashes: u8,
    /// The time at which everything happens, on every clock.
    now: Moment,
}

#[derive(Clone, Debug)]
struct Actor {
    member: Member,
    disk: Kept,
    saves: Vec<Save>,
}

#[derive(Clone, Debug)]
struct Letter {
    /// Stands for all of it.
    mark: u64,
    to: usize,
    from: NodeId,
    message: Message,
    was_seen: bool,
}

impl Letter {
    fn new(to: usize, from: NodeId, message: Message) -> Letter {
        let mut hasher = DefaultHasher::new();
        // Once somebody is elected, it does not matter who voted for it.
        if let Message::LeaderElected(certificate) = &message {
            (to, &from, "elected", certificate.name()).hash(&mut hasher);
        } else {
            (to, &from, &message).hash(&mut hasher);
        }
        Letter { mark: hasher.finish(), to, from, message, was_seen: false }
    }
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Deliver(usize),
    Sync(usize),
    Crash(usize),
}

/// Looks at every state that can be reached.
pub fn explore(small: Small) -> Explored {
    let mut explored = Explored::default();
    let mut known: HashSet<u128> = HashSet::new();
    let Some(first) = State::new(small.crashes) else { return explored };
    known.insert(first.key());
    let mut waiting: Vec<(State, usize)> = vec![(first.clone(), 0)];
    let mut ways: Vec<(usize, Action)> = vec![(0, Action::Deliver(0))];
    while let Some((state, at)) = waiting.pop() {
        for action in state.actions() {
            let mut next = state.clone();
            next.act(action, &small);
            explored.steps += 1;
            if !known.insert(next.key()) {
                continue;
            }
            ways.push((at, action));
            let id = ways.len() - 1;
            if let Err(broken) = next.check(&mut explored.elected) {
                explored.states = known.len();
                explored.witness = Some((broken, way_to(&ways, id, first, &small)));
                return explored;
            }
            if known.len() >= small.states_max {
                explored.states = known.len();
                return explored;
            }
            waiting.push((next, id));
        }
    }
    explored.states = known.len();
    explored.is_complete = true;
    explored
}

/// What happened on the way to a state, by going there again.
fn way_to(ways: &[(usize, Action)], mut id: usize, mut at: State, small: &Small) -> Vec<String> {
    let mut actions = Vec::new();
    while id != 0 {
        actions.push(ways[id].1);
        id = ways[id].0;
    }
    let shown = |action: Action, state: &State| match action {
        Action::Deliver(index) => {
            let Letter { to, from, message, .. } = &state.network[index];
            format!("{to} <- {from} {message:?}")
        }
        Action::Sync(node) => format!("{node} has written"),
        Action::Crash(node) => format!("{node} crashes and comes back"),
    };
    let step = |action: Action| {
        let what = shown(action, &at);
        at.act(action, small);
        what
    };
    actions.into_iter().rev().map(step).collect()
}

fn address(node: usize) -> Option<Address> {
    Address::new("127.0.0.1", 10_001 + u16::try_from(node).ok()?).ok()
}

/// The messages of an election. What else members say has no part in it.
fn is_about_it(message: &Message) -> bool {
    matches!(message, Message::Proposal(_) | Message::Vote { .. } | Message::LeaderElected(_))
}

/// Whether a message can still do anything. A vote that nobody waits for is dropped without a look,
/// and so is the news of a leader that is known; leaving them out makes fewer states of the same.
fn can_matter(letter: &Letter, to: &Member) -> bool {
    if let Message::Vote { ballot, stage, .. } = &letter.message {
        return to.asks_for() == Some((ballot, *stage));
    }
    if let Message::LeaderElected(certificate) = &letter.message {
        return certificate.version > to.kept().established;
    }
    true
}

impl State {
    /// A mesh that has settled, lost all its links for long enough, and got them back.
    fn new(crashes: u8) -> Option<State> {
        let mut world = World::new(1);
        for node in 0..3 {
            world.add(Config {
                nodes: 3,
                address: address(node)?,
                name: format!("n{node}"),
                cluster: "model".to_owned(),
                seeds: vec![address(0)?],
                voters: None,
                observer: false,
                found_by_itself: true,
                timers: Profile::Test.timers(),
            });
        }
        (0..3).for_each(|node| world.start(node));
        world.run(Duration::from_secs(3));
        world.network.split(3, &[]);
        world.run(Duration::from_millis(1_500));
        let mut members = Vec::new();
        for node in 0..3 {
            let member = world.member(node)?.clone();
            members.push(Actor { member, disk: world.disk(node)?.clone(), saves: Vec::new() });
        }
        let now = world.local(0);
        let mut state = State { members, network: Vec::new(), crashes, now };
        // The two followers ask whether anybody hears the leader; nobody does.
        state.open(&[1, 2]).then_some(state)
    }

    /// Waits until these members have asked the others, both of them, and neither has given up;
    /// then hands round what is said until they propose.
    fn open(&mut self, proposers: &[usize]) -> bool {
        let retry = Profile::Test.timers().retry_interval;
        let mut asked: BTreeMap<usize, (Moment, Vec<Letter>)> = BTreeMap::new();
        let is_open = |asked: &BTreeMap<usize, (Moment, Vec<Letter>)>, now: Moment| {
            proposers.iter().all(|it| asked.get(it).is_some_and(|(at, _)| now.since(*at) < retry))
        };
        for _ in 0..10_000 {
            if is_open(&asked, self.now) {
                break;
            }
            self.now = self.now + Duration::from_millis(5);
            for node in 0..self.members.len() {
                let mut letters = self.input(node, Input::Tick);
                letters.retain(|it| matches!(it.message, Message::LeaderStatusQuery { .. }));
                if !letters.is_empty() {
                    asked.insert(node, (self.now, letters));
                }
            }
        }
        for actor in &mut self.members {
            if let Some(save) = actor.saves.pop() {
                actor.disk = save.kept;
                actor.saves.clear();
            }
        }
        let mut letters: Vec<Letter> = asked.into_values().flat_map(|(_, it)| it).collect();
        // Questions and answers; answers last, so that both have asked before either proposes.
        for _ in 0..2 {
            let mut next = Vec::new();
            for letter in letters {
                if is_about_it(&letter.message) {
                    self.network.push(letter);
                } else {
                    let input = Input::Message { from: letter.from, message: letter.message };
                    next.extend(self.input(letter.to, input));
                }
            }
            letters = next;
        }
        self.network.extend(letters.into_iter().filter(|it| is_about_it(&it.message)));
        let n_proposals = |it: &&Letter| matches!(it.message, Message::Proposal(_));
        self.network.iter().filter(n_proposals).count() == 2 * proposers.len()
    }

    fn input(&mut self, node: usize, input: Input) -> Vec<Letter> {
        let actor = &mut self.members[node];
        let from = actor.member.node().clone();
        let output = actor.member.step(self.now, input);
        actor.saves.extend(output.save);
        let index = |to: &Address| (0..3).find(|it| address(*it).as_ref() == Some(to));
        let letter = |it: sardonyx_mesh::Outgoing| {
            let to = index(&it.to)?;
            Some(Letter::new(to, from.clone(), it.message))
        };
        output.messages.into_iter().filter_map(letter).collect()
    }

    fn actions(&self) -> Vec<Action> {
        let mut actions: Vec<Action> = (0..self.network.len()).map(Action::Deliver).collect();
        for (node, actor) in self.members.iter().enumerate() {
            if !actor.saves.is_empty() {
                actions.push(Action::Sync(node));
            }
            if self.crashes > 0 {
                actions.push(Action::Crash(node));
            }
        }
        actions
    }

    fn act(&mut self, action: Action, small: &Small) {
        let sent = match action {
            Action::Deliver(index) => {
                let letter = match small.doubled && !self.network[index].was_seen {
                    true => {
                        self.network[index].was_seen = true;
                        self.network[index].clone()
                    }
                    false => self.network.swap_remove(index),
                };
                let input = Input::Message { from: letter.from, message: letter.message };
                self.input(letter.to, input)
            }
            Action::Sync(node) => {
                let save = self.members[node].saves.remove(0);
                self.members[node].disk = save.kept;
                self.input(node, Input::Saved(save.id))
            }
            Action::Crash(node) => self.crash(node),
        };
        self.network.extend(sent.into_iter().filter(|it| is_about_it(&it.message)));
        while !small.slow_disks && self.members.iter().any(|it| !it.saves.is_empty()) {
            self.write_all();
        }
        let members = &self.members;
        self.network.retain(|it| can_matter(it, &members[it.to].member));
        self.network.sort_by_key(|it| (it.mark, it.was_seen));
        // The same news twice is news once.
        let is_news = |it: &Letter| matches!(it.message, Message::LeaderElected(_));
        self.network.dedup_by(|one, other| is_news(one) && one.mark == other.mark);
    }

    fn write_all(&mut self) {
        for node in 0..self.members.len() {
            let Some(save) = self.members[node].saves.pop() else { continue };
            self.members[node].saves.clear();
            self.members[node].disk = save.kept;
            let sent = self.input(node, Input::Saved(save.id));
            self.network.extend(sent.into_iter().filter(|it| is_about_it(&it.message)));
        }
    }

    /// Dies with what was not written, and comes back late enough to vote.
    fn crash(&mut self, node: usize) -> Vec<Letter> {
        self.crashes -= 1;
        let now = self.now;
        let actor = &mut self.members[node];
        let config = actor.member.config().clone();
        let incarnation = Incarnation(actor.member.node().incarnation.0 + 1);
        let begin = now - config.timers.ttl_timeout * 2;
        actor.saves.clear();
        let kept = actor.disk.clone();
        actor.member = Member::new(config, kept, incarnation, 7, begin);
        self.input(node, Input::Tick)
    }

    /// At most one leader of the version, and at most one token.
    fn check(&self, n_elected: &mut usize) -> Result<(), String> {
        let mut leaders = BTreeMap::new();
        for actor in &self.members {
            if let Some(certificate) = &actor.member.kept().certificate {
                let leader = &certificate.value.candidate;
                let known = leaders.entry(certificate.version).or_insert(leader);
                if *known != leader {
                    let version = certificate.version;
                    return Err(format!("{known} and {leader} both lead {version}"));
                }
            }
        }
        *n_elected += usize::from(leaders.keys().any(|it| it.0 > 1));
        let n_tokens = self.members.iter().filter(|it| it.member.token(self.now).is_some()).count();
        match n_tokens {
            0 | 1 => Ok(()),
            _ => Err("two members hold a token".to_owned()),
        }
    }

    /// A number for everything that tells this state from another.
    fn key(&self) -> u128 {
        let half = |salt: u8| {
            let mut hasher = DefaultHasher::new();
            (salt, self.crashes).hash(&mut hasher);
            for letter in &self.network {
                (letter.mark, letter.was_seen).hash(&mut hasher);
            }
            for actor in &self.members {
                actor.member.hash_election(&mut hasher);
                actor.disk.hash_election(&mut hasher);
                actor.saves.len().hash(&mut hasher);
                for save in &actor.saves {
                    save.kept.hash_election(&mut hasher);
                }
            }
            u128::from(hasher.finish())
        };
        half(1) << 64 | half(2)
    }
}
