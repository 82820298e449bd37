//! The loop: what happens next, to whom, and what comes of it. The laws are checked after each step.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    fmt::Write as _,
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use sardonyx_mesh::{
    Address, Change, Claim, Config, FencingToken, Input, Kept, Member, Message, NodeId, Report,
    Save, Status, Version,
};

use super::{
    laws::{self, Broken, Laws},
    network::Network,
    node::{Clock, Node},
};
use crate::rng::Rng;

/// Members, what lies between them, and time. Nodes are named by their index.
#[derive(Clone, Debug)]
pub struct World {
    now: u64,
    rng: Rng,
    nodes: Vec<Node>,
    by_address: BTreeMap<Address, usize>,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    events: BTreeMap<u64, Event>,
    last_event: u64,
    /// What lies between them.
    pub network: Network,
    laws: Laws,
    broken: Option<Broken>,
    trace: Option<String>,
    trace_hash: DefaultHasher,
    n_steps: u64,
    n_messages: BTreeMap<&'static str, u64>,
    /// Messages that are taken out of the network and put aside, by name.
    pub held_back: Option<&'static str>,
    aside: Vec<(usize, NodeId, Message)>,
}

#[derive(Clone, Debug)]
enum Event {
    Deliver { to: usize, from: NodeId, message: Box<Message> },
    Wake { node: usize, life: u64, no: u64 },
    Synced { node: usize, life: u64, save: Box<Save> },
    Resume { node: usize, life: u64 },
}

impl World {
    /// A world without anybody in it.
    pub fn new(seed: u64) -> World {
        World {
            now: 0,
            rng: Rng::new(seed),
            nodes: Vec::new(),
            by_address: BTreeMap::new(),
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            last_event: 0,
            network: Network::calm(),
            laws: Laws::default(),
            broken: None,
            trace: None,
            trace_hash: DefaultHasher::new(),
            n_steps: 0,
            n_messages: BTreeMap::new(),
            held_back: None,
            aside: Vec::new(),
        }
    }

    /// Writes down everything from now on.
    pub fn record(&mut self) {
        self.trace = Some(String::new());
    }

    /// What was written down.
    pub fn trace(&self) -> &str {
        self.trace.as_deref().unwrap_or("")
    }

    /// Adds a node that is not started yet.
    pub fn add(&mut self, config: Config) -> usize {
        let index = self.nodes.len();
        self.by_address.insert(config.address.clone(), index);
        self.nodes.push(Node::new(config));
        index
    }

    /// How wrong a node's clock goes, in millionths, and from where. Before it is started.
    pub fn set_clock(&mut self, node: usize, ppm: i64, offset: u64) {
        self.nodes[node].clock = Clock { ppm, offset };
    }

    /// How long a node's disk takes to sync.
    pub fn set_sync(&mut self, node: usize, span: Duration) {
        self.nodes[node].sync_micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
    }

    /// How many nodes there are, started or not.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The true time since the beginning.
    pub fn now(&self) -> Duration {
        Duration::from_micros(self.now)
    }

    /// Starts a process on a node, with whatever is on its disk.
    pub fn start(&mut self, node: usize) {
        let random = self.rng.next();
        self.nodes[node].start(self.now, random);
        self.note(|| format!("{node} starts"));
        self.input(node, Input::Tick);
    }

    /// kill -9. Writes that were not synced are lost.
    pub fn crash(&mut self, node: usize) {
        self.note(|| format!("{node} crashes"));
        self.nodes[node].process = None;
    }

    /// The disk of a node that is not running is empty from now on.
    pub fn lose_disk(&mut self, node: usize) {
        self.note(|| format!("{node} loses its disk"));
        self.nodes[node].disk = None;
        self.nodes[node].lost_disk = true;
    }

    /// What is on a node's disk.
    pub fn disk(&self, node: usize) -> Option<&Kept> {
        self.nodes[node].disk.as_ref()
    }

    /// SIGSTOP for a while; what arrives meanwhile waits.
    pub fn pause(&mut self, node: usize, span: Duration) {
        let life = self.nodes[node].lives;
        let Some(process) = &mut self.nodes[node].process else { return };
        process.paused = true;
        self.note(|| format!("{node} is paused for {span:?}"));
        let at = self.now + u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        self.plan(at, Event::Resume { node, life });
    }

    /// Whether a process runs on the node and has not left.
    pub fn is_up(&self, node: usize) -> bool {
        self.nodes[node].process.as_ref().is_some_and(|it| !it.has_stopped)
    }

    /// Whether it runs and is not paused.
    pub fn is_awake(&self, node: usize) -> bool {
        self.is_up(node) && self.nodes[node].process.as_ref().is_some_and(|it| !it.paused)
    }

    /// Gives a member an operator's order; its refusal, if any.
    pub fn order(&mut self, node: usize, input: Input) -> Option<String> {
        self.input(node, input)
    }

    /// Hands a message to a member, whoever is said to have sent it.
    pub fn inject(&mut self, to: usize, from: NodeId, message: Message) {
        self.input(to, Input::Message { from, message });
    }

    /// The messages that were put aside so far.
    pub fn take_aside(&mut self) -> Vec<(usize, NodeId, Message)> {
        std::mem::take(&mut self.aside)
    }

    /// How many are aside.
    pub fn n_aside(&self) -> usize {
        self.aside.len()
    }

    /// Lets time pass, until then or until a law is broken.
    pub fn run(&mut self, span: Duration) {
        let end = self.now + u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        while self.broken.is_none() && self.step_until(end) {}
        self.now = self.now.max(end);
    }

    /// Lets time pass until `is_so`, at most for `span`; how long it took.
    pub fn until(
        &mut self,
        span: Duration,
        mut is_so: impl FnMut(&World) -> bool,
    ) -> Option<Duration> {
        let begin = self.now;
        let end = self.now + u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        loop {
            if is_so(self) {
                return Some(Duration::from_micros(self.now - begin));
            }
            if self.broken.is_some() || !self.step_until(end) {
                self.now = self.now.max(end);
                return is_so(self).then(|| Duration::from_micros(self.now - begin));
            }
        }
    }

    /// The law that was broken, if one was.
    pub fn broken(&self) -> Option<&Broken> {
        self.broken.as_ref()
    }

    fn step_until(&mut self, end: u64) -> bool {
        let Some(Reverse((at, id))) = self.queue.peek().copied() else { return false };
        if at > end {
            return false;
        }
        self.queue.pop();
        self.now = self.now.max(at);
        if let Some(event) = self.events.remove(&id) {
            self.happen(event);
        }
        true
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Deliver { to, from, message } => {
                self.input(to, Input::Message { from, message: *message });
            }
            Event::Wake { node, life, no } => {
                let is_current = self.nodes[node].lives == life;
                let process = self.nodes[node].process.as_ref();
                if is_current && process.is_some_and(|it| it.wake_no == no && !it.paused) {
                    self.input(node, Input::Tick);
                }
            }
            Event::Synced { node, life, save } => {
                // A process that died before its write was synced has lost it.
                if self.nodes[node].lives == life && self.nodes[node].process.is_some() {
                    self.synced(node, *save);
                }
            }
            Event::Resume { node, life } => {
                if self.nodes[node].lives == life {
                    self.resume(node);
                }
            }
        }
    }

    fn synced(&mut self, node: usize, save: Save) {
        if let Some(before) = &self.nodes[node].disk
            && let Err(broken) = laws::never_goes_back(before, &save.kept)
        {
            self.broken.get_or_insert(broken);
        }
        self.nodes[node].disk = Some(save.kept);
        self.input(node, Input::Saved(save.id));
    }

    fn resume(&mut self, node: usize) {
        let Some(process) = &mut self.nodes[node].process else { return };
        process.paused = false;
        let inbox = std::mem::take(&mut process.inbox);
        self.note(|| format!("{node} goes on"));
        for input in inbox {
            self.input(node, input);
        }
        self.input(node, Input::Tick);
    }

    fn input(&mut self, node: usize, input: Input) -> Option<String> {
        let now = self.now;
        let clock = self.nodes[node].clock;
        let process = self.nodes[node].process.as_mut()?;
        if process.paused {
            process.inbox.push_back(input);
            return None;
        }
        let text = (self.trace.is_some()).then(|| format!("{input:?}"));
        let shown = match &input {
            Input::Message { message, .. } => message.name(),
            Input::Tick => "tick",
            Input::Saved(_) => "saved",
            Input::Leave | Input::Transfer { .. } | Input::ReplaceVoter { .. } | Input::Found => {
                "order"
            }
        };
        (now, node, shown).hash(&mut self.trace_hash);
        let output = process.member.step(clock.local(now), input);
        process.wake_no += 1;
        let (no, from) = (process.wake_no, process.node.clone());
        self.n_steps += 1;
        if let Some(text) = text {
            let changes = &output.changes;
            self.note(|| format!("{node} <- {text}\n        {changes:?}"));
        }
        self.check(node, &output.changes);
        let life = self.nodes[node].lives;
        let wake = clock.global(output.wake).max(now + 1);
        self.plan(wake, Event::Wake { node, life, no });
        if let Some(save) = output.save {
            let takes = self.rng.between(1, self.nodes[node].sync_micros.max(1) + 1);
            let at = now.max(self.nodes[node].busy_until) + takes;
            self.nodes[node].busy_until = at;
            self.plan(at, Event::Synced { node, life, save: Box::new(save) });
        }
        for outgoing in output.messages {
            self.post(node, &from, &outgoing.to, outgoing.message);
        }
        output.refused
    }

    fn post(&mut self, sender: usize, from: &NodeId, to: &Address, message: Message) {
        *self.n_messages.entry(message.name()).or_default() += 1;
        let Some(to) = self.by_address.get(to).copied() else { return };
        if self.held_back == Some(message.name()) {
            self.aside.push((to, from.clone(), message));
            return;
        }
        for way in self.network.ways(sender, to, &mut self.rng) {
            let (from, message) = (from.clone(), Box::new(message.clone()));
            self.plan(self.now + way, Event::Deliver { to, from, message });
        }
    }

    fn plan(&mut self, at: u64, event: Event) {
        self.last_event += 1;
        self.queue.push(Reverse((at, self.last_event)));
        self.events.insert(self.last_event, event);
    }

    fn check(&mut self, node: usize, changes: &[Change]) {
        let Some(process) = &mut self.nodes[node].process else { return };
        let mut found = self.laws.check(&process.member, changes).err();
        if let Err(broken) = laws::yields_only_to_better(process.claim.as_ref(), changes) {
            found.get_or_insert(broken);
        }
        process.claim = process.member.claim().cloned();
        for change in changes {
            if let Err(broken) = laws::walk(&mut process.walks, change) {
                found.get_or_insert(broken);
            }
            if let Change::Member { row, .. } = change {
                *process.counts.entry(row.status).or_default() += 1;
            }
            process.has_stopped |= *change == Change::Stopped;
        }
        process.changes.extend(changes.iter().cloned());
        let holders: Vec<(usize, FencingToken)> =
            (0..self.nodes.len()).filter_map(|it| Some((it, self.token(it)?))).collect();
        for (at, one) in holders.iter().enumerate() {
            let other = holders[at + 1..].iter().find(|it| it.1.cluster == one.1.cluster);
            if let Some(other) = other {
                let what = format!("{one:?} and {other:?} hold a token at once");
                found.get_or_insert(Broken { law: "I3", what });
            }
        }
        if let Some(broken) = found {
            self.note(|| format!("BROKEN {}: {}", broken.law, broken.what));
            self.broken.get_or_insert(broken);
        }
    }

    fn note(&mut self, text: impl FnOnce() -> String) {
        let now = self.now;
        if let Some(trace) = &mut self.trace {
            _ = writeln!(trace, "{:>10.3} ms  {}", now as f64 / 1_000.0, text());
        }
    }

    /// What a node's clock shows.
    pub fn local(&self, node: usize) -> sardonyx_mesh::Moment {
        self.nodes[node].clock.local(self.now)
    }

    /// The token that a node would show right now, also a paused one.
    pub fn token(&self, node: usize) -> Option<FencingToken> {
        let local = self.nodes[node].clock.local(self.now);
        let process = self.nodes[node].process.as_ref()?;
        process.member.token(local).filter(|_| !process.has_stopped)
    }

    /// The machine on a node.
    pub fn member(&self, node: usize) -> Option<&Member> {
        self.nodes[node].process.as_ref().map(|it| &it.member)
    }

    /// What a node says about itself.
    pub fn status(&self, node: usize) -> Option<Report> {
        let local = self.nodes[node].clock.local(self.now);
        self.member(node).map(|it| it.status(local))
    }

    /// Whom a node takes for the leader.
    pub fn claim(&self, node: usize) -> Option<&Claim> {
        self.member(node).and_then(Member::claim)
    }

    /// The node that a node takes for the leader.
    pub fn leader_of(&self, node: usize) -> Option<usize> {
        let claim = self.claim(node)?;
        self.by_address.get(&claim.leader.address).copied()
    }

    /// How often a node's user was told of each status, in the order of the states.
    pub fn counts(&self, node: usize) -> [usize; 5] {
        let all = [
            Status::Joining,
            Status::Active,
            Status::Unreachable,
            Status::Leaving,
            Status::Removed,
        ];
        let process = self.nodes[node].process.as_ref();
        all.map(|it| process.and_then(|process| process.counts.get(&it).copied()).unwrap_or(0))
    }

    /// Everything that a node's user was told.
    pub fn changes(&self, node: usize) -> &[Change] {
        self.nodes[node].process.as_ref().map_or(&[], |it| &it.changes)
    }

    /// Which process runs on a node.
    pub fn process(&self, node: usize) -> Option<NodeId> {
        self.nodes[node].process.as_ref().map(|it| it.node.clone())
    }

    /// Whether the nodes have the same leader and version, equal tables, and `n_active` active
    /// members. The version is returned.
    pub fn agree(&self, nodes: &[usize], n_active: usize) -> Option<Version> {
        let first = self.member(*nodes.first()?)?;
        let claim = first.claim()?;
        let digest = first.table().digest(Some(claim));
        let is_same = |it: &usize| {
            self.member(*it).is_some_and(|member| {
                let name = member.claim().map(|it| (&it.leader, it.version));
                name == Some((&claim.leader, claim.version))
                    && member.table().digest(member.claim()) == digest
                    && member.table().n_active() == n_active
            })
        };
        nodes.iter().all(is_same).then_some(claim.version)
    }

    /// The nodes that run.
    pub fn up(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|it| self.is_up(*it)).collect()
    }

    /// How many steps were taken, and a number that is the same for the same run.
    pub fn fingerprint(&self) -> (u64, u64) {
        (self.n_steps, self.trace_hash.finish())
    }

    /// How often each message was sent.
    pub fn n_messages(&self) -> &BTreeMap<&'static str, u64> {
        &self.n_messages
    }

    /// How many elections there were.
    pub fn n_elections(&self) -> usize {
        self.laws.n_elected()
    }

    pub(super) fn has_lost_disk(&self, node: usize) -> bool {
        self.nodes[node].lost_disk
    }

    pub(super) fn config(&self, node: usize) -> &Config {
        &self.nodes[node].config
    }

    pub(super) fn address(&self, node: usize) -> &Address {
        self.nodes[node].address()
    }
}
