//! The machine of one node.

use std::collections::{BTreeMap, BTreeSet};

use sardonyx_core::{
    Command, Entry, JobId, Outcome, Peer, PeerId, Position, Replica, apply,
    command::{JobText, VolunteerForTask},
    concerned, effect,
    peer::{self, Standing},
    replica::job::Assignment,
};

/// From how many entries on a node plays them at once and acts only on the last: catching up must
/// not start tasks that are long over.
pub const BULK_MIN: usize = 64;

/// How many peers of one node ask to be stitched into a ring of `n_ring` at a time. A member takes
/// one joiner at a time; a sixth of the ring leaves room for other nodes that do the same.
pub(crate) fn n_may_ask(n_ring: usize) -> usize {
    (n_ring / 6).max(1)
}

/// A node's virtual peers on one replica.
#[derive(Clone, Debug)]
pub struct Node {
    peers: BTreeMap<PeerId, Peer>,
    gc_every: Option<u32>,
    replica: Replica,
    position: Option<Position>,
    /// Who of ours watches whom. The store is asked once, however many of ours want to know.
    watching: BTreeMap<PeerId, BTreeSet<PeerId>>,
    /// What the unfinished jobs are, as far as they were submitted since we began to read. Those
    /// of before are kept beside the origin.
    jobs: BTreeMap<JobId, JobText>,
}

/// Something that happened to a node.
#[derive(Clone, Debug)]
pub enum Input {
    /// A new virtual peer, whose pulse is there.
    Boot(PeerId),
    /// What the log holds next.
    Entries(Vec<Entry>),
    /// The entries after ours are gone; this is the cluster where the log now begins.
    Origin(Position, Replica),
    /// A pulse that somebody of ours watched or probed is not there.
    PulseGone(PeerId),
    /// The back-off of one of ours is over.
    TimerFired(PeerId),
    /// One of ours has something to say.
    Say(PeerId, Command),
    /// The node is to be stopped on purpose.
    Leave,
}

/// Something that a node must do, once or several times.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Watch this pulse; if it is not there, say so at once.
    Watch(PeerId),
    /// None of ours is concerned with this pulse any more.
    Unwatch(PeerId),
    /// Look once whether this pulse is there, and say so if not.
    Probe(PeerId),
    /// Wake this peer of ours after a while that grows with its failed attempts.
    BackOff(PeerId, u32),
    /// Stop this task of this peer of ours.
    StopTask(PeerId, Assignment),
    /// Start this task for this peer of ours.
    StartTask(PeerId, Assignment),
    /// This peer of ours may seal its task.
    SealTask(PeerId, Assignment),
    /// Store the replica at this position as the origin, then trim the log up to it.
    TrimLog(Position),
    /// This id of ours is over: stop its task and end its pulse. Another may be booted.
    Stop(PeerId),
}

/// What has to be done, effects first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Output {
    /// To be done.
    pub effects: Vec<Effect>,
    /// To be appended to the log, in this order.
    pub append: Vec<Command>,
    /// Not taken; to be said again later.
    pub refused: Vec<Command>,
}

impl Node {
    /// A node without peers, at the beginning of the log. `gc_every` as in [`Peer::new`].
    pub fn new(gc_every: Option<u32>) -> Node {
        Node {
            peers: BTreeMap::new(),
            gc_every,
            replica: Replica::new(),
            position: None,
            watching: BTreeMap::new(),
            jobs: BTreeMap::new(),
        }
    }

    /// The unfinished jobs that were submitted since this node began to read, as they were
    /// written. The replica keeps only what sharing out peers needs.
    pub fn jobs(&self) -> &BTreeMap<JobId, JobText> {
        &self.jobs
    }

    /// The cluster as this node knows it.
    pub fn replica(&self) -> &Replica {
        &self.replica
    }

    /// The last position that it played.
    pub fn position(&self) -> Option<Position> {
        self.position
    }

    /// Its virtual peers.
    pub fn peers(&self) -> impl Iterator<Item = &Peer> {
        self.peers.values()
    }

    /// Whether `peer` is one of its own.
    pub fn has(&self, peer: &PeerId) -> bool {
        self.peers.contains_key(peer)
    }

    /// Whom it watches.
    pub fn watching(&self) -> impl Iterator<Item = &PeerId> {
        self.watching.keys()
    }

    /// What the node does and says because of `input`.
    pub fn step(&mut self, input: Input) -> Output {
        let mut output = Output::default();
        match input {
            Input::Boot(id) => {
                // If all of ours asked at once, most would be refused, and each refusal is two
                // entries.
                let asks =
                    |it: &&Peer| matches!(it.standing(), Standing::Joining | Standing::Aborting);
                let n_asking = self.peers.values().filter(asks).count();
                let peer = Peer::new(id.clone(), self.gc_every);
                self.peers.insert(id.clone(), peer);
                let start = match n_asking < n_may_ask(self.replica.n_peers()) {
                    true => peer::Input::Start,
                    false => peer::Input::StartLater,
                };
                self.step_one(&id, start, &mut output);
            }
            Input::Entries(entries) if entries.len() >= BULK_MIN => {
                let old = self.replica.clone();
                for entry in &entries {
                    let outcome = self.replica.play(entry);
                    self.position = Some(entry.position);
                    self.keep_job(entry, &outcome);
                }
                let heard = entries.iter().filter_map(|entry| entry.command.joiner()).collect();
                self.jumped(&old, Some(&heard), &mut output);
            }
            Input::Entries(entries) => {
                entries.iter().for_each(|entry| self.play(entry, &mut output));
            }
            Input::Origin(position, replica) => {
                let old = std::mem::replace(&mut self.replica, replica);
                self.position = Some(position);
                let replica = &self.replica;
                self.jobs.retain(|job, _| replica.job(job).is_some_and(|job| job.is_live()));
                self.jumped(&old, None, &mut output);
            }
            Input::PulseGone(gone) => {
                let replica = self.replica.clone();
                let mut ours: Vec<_> = self.watching.get(&gone).into_iter().flatten().collect();
                // A probe was for somebody who is not in yet; any of those may report.
                let outside = self.peers.iter().find(|(_, it)| it.standing() != Standing::Member);
                ours.extend(outside.map(|(id, _)| id).filter(|_| ours.is_empty()));
                if let Some(reporter) = ours.first().cloned().cloned() {
                    let gone = peer::Input::PulseGone { peer: &gone, replica: &replica };
                    self.step_one(&reporter, gone, &mut output);
                }
            }
            Input::TimerFired(id) => {
                let replica = self.replica.clone();
                let timer = peer::Input::TimerFired { replica: &replica };
                self.step_one(&id, timer, &mut output);
            }
            Input::Say(id, command) => {
                self.step_one(&id, peer::Input::Say(command), &mut output);
            }
            Input::Leave => {
                for id in self.ids() {
                    self.step_one(&id, peer::Input::Leave, &mut output);
                }
            }
        }
        output.append = VolunteerForTask::gather(output.append);
        output
    }

    fn ids(&self) -> Vec<PeerId> {
        self.peers.keys().cloned().collect()
    }

    fn play(&mut self, entry: &Entry, output: &mut Output) {
        let (new, outcome) = apply(&self.replica, entry);
        let old = std::mem::replace(&mut self.replica, new.clone());
        self.position = Some(entry.position);
        self.keep_job(entry, &outcome);
        let ids = match concerned(entry, &old, &new) {
            Some(few) => few.into_iter().filter(|id| self.peers.contains_key(id)).collect(),
            None => self.ids(),
        };
        for id in ids {
            let played = peer::Input::Played { entry, outcome: &outcome, old: &old, new: &new };
            self.step_one(&id, played, output);
        }
    }

    /// Keeps what a new job is, and forgets it when the job is over.
    fn keep_job(&mut self, entry: &Entry, outcome: &Outcome) {
        if outcome.is_err() {
            return;
        }
        let ended = match &entry.command {
            Command::SubmitJob(it) => {
                self.jobs.insert(it.id.clone(), it.job.clone());
                return;
            }
            Command::KillJob(it) => &it.job,
            Command::CompleteTask(it) => &it.job,
            Command::ConfigureCluster(_)
            | Command::PrepareJoinCluster(_)
            | Command::NotifyJoinCluster(_)
            | Command::NotifyWatchers(_)
            | Command::AcceptJoinCluster(_)
            | Command::AbortJoinCluster(_)
            | Command::LeaveCluster(_)
            | Command::PeerGc(_)
            | Command::VolunteerForTask(_)
            | Command::SealTask(_)
            | Command::Gc(_) => return,
        };
        if !self.replica.job(ended).is_some_and(|job| job.is_live()) {
            self.jobs.remove(ended);
        }
    }

    /// Everybody of ours acts on the difference. `heard` are those of whose joins the entries spoke,
    /// or `None` if nobody knows.
    fn jumped(&mut self, old: &Replica, heard: Option<&BTreeSet<&PeerId>>, output: &mut Output) {
        let new = self.replica.clone();
        for id in self.ids() {
            let heard = heard.is_none_or(|them| them.contains(&id));
            self.step_one(&id, peer::Input::Jumped { heard, old, new: &new }, output);
        }
    }

    fn step_one(&mut self, id: &PeerId, input: peer::Input<'_>, output: &mut Output) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        let stepped = peer.step(input);
        let attempts = peer.attempts();
        for effect in stepped.effects {
            self.translate(id, attempts, effect, &mut output.effects);
        }
        for command in stepped.append {
            // Two of ours may have seen the same; once is enough.
            if !output.append.contains(&command) {
                output.append.push(command);
            }
        }
        output.refused.extend(stepped.refused);
    }

    /// A peer's effect as the node's.
    fn translate(
        &mut self,
        id: &PeerId,
        attempts: u32,
        effect: effect::Effect,
        effects: &mut Vec<Effect>,
    ) {
        let own = id.clone();
        match effect {
            effect::Effect::Watch(whom) => {
                self.watching.entry(whom.clone()).or_default().insert(own);
                effects.push(Effect::Watch(whom));
            }
            effect::Effect::Unwatch(whom) => self.unwatch(&own, &whom, effects),
            effect::Effect::Probe(whom) => effects.push(Effect::Probe(whom)),
            effect::Effect::BackOff => effects.push(Effect::BackOff(own, attempts)),
            effect::Effect::StopTask(task) => effects.push(Effect::StopTask(own, task)),
            effect::Effect::StartTask(task) => effects.push(Effect::StartTask(own, task)),
            effect::Effect::SealTask(task) => effects.push(Effect::SealTask(own, task)),
            effect::Effect::TrimLog(position) => effects.push(Effect::TrimLog(position)),
            effect::Effect::Stop => {
                self.peers.remove(&own);
                let watched: Vec<_> = self.watching.keys().cloned().collect();
                watched.iter().for_each(|whom| self.unwatch(&own, whom, effects));
                effects.push(Effect::Stop(own));
            }
        }
    }

    fn unwatch(&mut self, own: &PeerId, whom: &PeerId, effects: &mut Vec<Effect>) {
        let Some(watchers) = self.watching.get_mut(whom) else { return };
        if watchers.remove(own) && watchers.is_empty() {
            self.watching.remove(whom);
            effects.push(Effect::Unwatch(whom.clone()));
        }
    }
}
