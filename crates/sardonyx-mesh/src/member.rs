//! One member as a machine: [`Member::step`] takes what happened and says what to do.
//!
//! What the driver must keep to:
//!
//! - Messages of an output may be sent at once. Whatever depends on a write is held back inside
//!   until [`Input::Saved`] says that the write is on the disk.
//! - A [`Save`] is the whole of what is kept; of several that wait, only the newest need be written,
//!   and its id then stands for all before it.
//! - `step` is called again at `wake` at the latest, with [`Input::Tick`] if nothing else happened;
//!   messages that are there are handed over before a tick.
//! - `now` never goes back. After a restart it may begin anywhere.
//!
//! A file below `member/` for each thing a member does: `init` looks for a cluster, `follow` and
//! `lead` live in one, `admit` lets others in, `poll`, `propose` and `accept` elect, `certify` takes
//! the outcome, `relay` goes around a cut line, `lease` says what a leadership is worth, `conflict` settles two of them, `voters`
//! changes who votes, `depart` leaves and hands over, `describe` answers questions.

mod accept;
mod admit;
mod certify;
mod conflict;
mod depart;
mod describe;
mod follow;
mod init;
mod lead;
mod lease;
mod poll;
mod propose;
mod relay;
mod voters;

use std::{collections::BTreeMap, time::Duration};

use self::{
    depart::Departing, follow::Following, init::Seeking, lead::Leading, poll::Poll,
    propose::Contest,
};
use crate::{
    address::{Address, Incarnation, NodeId},
    change::{Change, Reason},
    claim::{Claim, ClusterId, Version},
    config::Config,
    kept::Kept,
    message::{Message, Outgoing},
    moment::Moment,
    mutant::{self, Mutant},
    rng::Rng,
    view::{Status, Step, Table},
};

/// What can happen to a member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Input {
    /// Time has passed.
    Tick,
    /// A message came. The transport vouches for the sender.
    Message {
        /// Who sent it.
        from: NodeId,
        /// What it says.
        message: Message,
    },
    /// The write with this id, and all before it, are on the disk.
    Saved(u64),
    /// The operator wants this member to leave; [`Change::Stopped`] says when it may be ended.
    Leave,
    /// The operator wants this leader to hand its office to another member.
    Transfer {
        /// To whom.
        to: Address,
    },
    /// The operator gives the slot of a voter that will not come back to another member.
    ReplaceVoter {
        /// Who votes no more.
        old: Address,
        /// Who votes instead: an active member.
        new: Address,
    },
    /// The operator allows a new cluster to be founded, where that is not automatic.
    Found,
}

/// What a member wants done.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Output {
    /// To be sent at once, in order.
    pub messages: Vec<Outgoing>,
    /// To be written and synced; then [`Input::Saved`].
    pub save: Option<Save>,
    /// For the user, in order.
    pub changes: Vec<Change>,
    /// Why the operator's wish in the input was not granted.
    pub refused: Option<String>,
    /// When to call again at the latest.
    pub wake: Moment,
}

/// A write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Save {
    /// Grows from write to write.
    pub id: u64,
    /// All of it.
    pub kept: Kept,
}

/// A member of a mesh, or one that wants to be.
#[derive(Clone, Debug)]
pub struct Member {
    config: Config,
    me: NodeId,
    rng: Rng,
    now: Moment,
    /// When the last output asked to be called again.
    wake: Moment,
    /// Before this nobody's silence is judged: we were not there to hear.
    judges_from: Moment,
    /// Before this a voter does not vote: promises of its last life may still run.
    votes_from: Moment,
    kept: Kept,
    saves: Saves,
    /// A cluster that somebody else has in its store: where one exists, none is founded.
    elsewhere: Option<ClusterId>,
    may_found: bool,
    view: View,
    role: Role,
    pledge: Option<Pledge>,
    poll: Option<Poll>,
    contest: Option<Contest>,
    /// When the next question or round may begin, and after how many failures.
    next_try: Moment,
    n_failures: u32,
    round: u64,
    last_id: u64,
    /// The last step of any table of ours. It goes on from office to office, so that a table's name
    /// never comes twice, even if we claim a version, lose it, and are elected for it.
    last_step: u64,
    departing: Option<Departing>,
    /// Whose message is being answered, and who carried it.
    via: Option<(Address, Address)>,
    /// Who else said that it does not hear a leader, and since when we know.
    suspects: BTreeMap<Address, (NodeId, Claim, Moment)>,
    out: Output,
}

/// What this member takes for the cluster.
#[derive(Clone, Debug, Default)]
struct View {
    claim: Option<Claim>,
    /// Whose table it is, and of which version.
    of: Option<(NodeId, Version)>,
    table: Table,
    /// Why a member is what it is, where we were told.
    why: BTreeMap<Address, Reason>,
}

#[derive(Clone, Debug)]
enum Role {
    Init(Seeking),
    Follower(Following),
    Leader(Box<Leading>),
    Stopped,
}

/// A voter's word not to elect anybody of a later version for a while.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
struct Pledge {
    leader: NodeId,
    version: Version,
    until: Moment,
}

/// Writes on their way to the disk, and what waits for them.
#[derive(Clone, Debug, Default)]
struct Saves {
    is_dirty: bool,
    asked: u64,
    done: u64,
    held: Vec<(u64, Held)>,
}

#[derive(Clone, Debug, Hash)]
enum Held {
    Message(Box<Outgoing>),
    OwnVote(Box<propose::OwnVote>),
    OwnSlots((Version, u64)),
}

impl Member {
    /// A member that begins a new life. `incarnation` must be larger than that in `kept`; `random`
    /// is any number that others do not have. Nothing happens before the first step.
    pub fn new(
        config: Config,
        kept: Kept,
        incarnation: Incarnation,
        random: u64,
        now: Moment,
    ) -> Member {
        let me = NodeId { address: config.address.clone(), incarnation };
        // A store that was copied from another address says nothing about our own votes.
        let is_ours = kept.address == config.address;
        let mut kept = if is_ours { kept } else { Kept::corrupt(config.address.clone()) };
        // Who was alone has only ever promised to itself.
        let has_promised = kept.cluster.is_some() && config.nodes > 1;
        let wait = if has_promised { config.timers.ttl_timeout } else { Duration::ZERO };
        kept.incarnation = incarnation;
        let round = kept.round();
        Member {
            me,
            rng: Rng::new(random),
            now,
            wake: now,
            judges_from: now,
            votes_from: now + wait,
            kept,
            saves: Saves { is_dirty: true, ..Saves::default() },
            elsewhere: None,
            may_found: config.found_by_itself,
            view: View::default(),
            role: Role::Init(Seeking::new(now)),
            pledge: None,
            poll: None,
            contest: None,
            next_try: now,
            n_failures: 0,
            round,
            last_id: 0,
            last_step: 0,
            departing: None,
            via: None,
            suspects: BTreeMap::new(),
            out: Output::default(),
            config,
        }
    }

    /// Takes one input at the time `now`.
    pub fn step(&mut self, now: Moment, input: Input) -> Output {
        self.begin(now);
        match input {
            Input::Tick => {}
            Input::Message { from, message } => self.receive(&from, message),
            Input::Saved(id) => self.saved(id),
            Input::Leave => self.leave(),
            Input::Transfer { to } => self.transfer(&to),
            Input::ReplaceVoter { old, new } => self.replace_voter(&old, &new),
            Input::Found => self.may_found = true,
        }
        self.tick();
        self.finish()
    }

    fn begin(&mut self, now: Moment) {
        let now = now.max(self.now);
        // We asked to be called and were not: the process stood still. What others sent meanwhile
        // may lie in the inbox, so nobody's silence counts until they had time to be heard.
        if now.since(self.wake) > self.config.timers.heartbeat_interval {
            self.judges_from = now + self.config.timers.heartbeat_timeout;
        }
        self.now = now;
    }

    fn receive(&mut self, from: &NodeId, message: Message) {
        if from.address == self.me.address || matches!(self.role, Role::Stopped) {
            return;
        }
        match message {
            Message::LeaderQuery { id } => self.answer_leader_query(from, id),
            Message::LeaderQueryResponse { id, leader, cluster } => {
                self.take_leader_answer(from, id, leader, cluster);
            }
            Message::JoinClusterRequest { id, name, is_seed, is_observer, standing } => {
                self.admit(from, id, admit::Applicant { name, is_seed, is_observer, standing });
            }
            Message::JoinClusterResponse { id, answer } => self.take_join_answer(from, id, answer),
            Message::MemberStatusUpdate { claim, after, steps } => {
                self.take_update(from, claim, after, steps);
            }
            Message::ClusterAlignment(snapshot) => self.take_alignment(from, &snapshot),
            Message::LeaderKeepAlive {
                leader,
                version,
                digest,
                seq,
                echo,
                promised,
                established,
                slots,
            } => {
                let beat =
                    lead::Beat { leader, version, digest, seq, echo, promised, established, slots };
                self.take_beat(from, &beat);
            }
            Message::LeaderKeepAliveAck { claim, incarnation, token, lease } => {
                self.take_ack(from, &claim, incarnation, token, lease);
            }
            Message::LeaderKeepAliveNack { incarnation, why } => {
                self.take_nack(from, incarnation, why);
            }
            Message::SeedKeepAlive { claim, cluster } => self.take_seed_beat(from, &claim, cluster),
            Message::SeedKeepAliveAck { claim: _ } => {}
            Message::LeaderRelieve { loser, winner } => self.take_relieve(&loser, winner),
            Message::ReJoinCluster { loser, winner } => self.take_rejoin(from, &loser, winner),
            Message::LeaderStatusQuery { id, version, suspect } => {
                self.answer_status_query(from, id, version, suspect);
            }
            Message::LeaderStatusQueryResponse { id, version, is_healthy, leader, newer } => {
                let answer = poll::Answer { id, version, is_healthy, leader, newer };
                self.take_status_answer(from, answer);
            }
            Message::Proposal(proposal) => self.answer_proposal(&proposal),
            Message::Vote { ballot, stage, version, answer } => {
                self.take_vote(&from.address, &ballot, stage, version, answer);
            }
            Message::LeaderElected(certificate) => self.learn(&certificate),
            Message::SlotsChange { claim, cluster, slots, committed } => {
                self.take_slots(from, &claim, cluster, slots, committed);
            }
            Message::SlotsChangeAck { version, order } => {
                self.take_slots_ack(&from.address, version, order);
            }
            Message::Leave => self.let_go(from),
            Message::LeaveAck => self.take_leave_ack(from),
            Message::TransferLeadership(release) => self.take_over(from, release),
            Message::Relay { to, carried } => self.carry(from, &to, carried),
            Message::Relayed { origin, carried } => self.take_carried(from, &origin, *carried),
        }
    }

    /// Everything that is due. Called after every input; what is not due does nothing.
    fn tick(&mut self) {
        match &self.role {
            Role::Init(_) => self.tick_init(),
            Role::Follower(_) => self.tick_follower(),
            Role::Leader(_) => self.tick_leader(),
            Role::Stopped => {}
        }
        self.tick_contest();
        self.tick_departing();
    }

    fn finish(&mut self) -> Output {
        self.note_lease();
        self.flush_steps();
        if self.saves.is_dirty {
            self.saves.is_dirty = false;
            self.saves.asked += 1;
            let mut kept = self.kept.clone();
            if mutant::is_on(Mutant::H4) {
                kept.votes.clear();
            }
            self.out.save = Some(Save { id: self.saves.asked, kept });
        }
        self.wake = self.next_wake();
        self.out.wake = self.wake;
        std::mem::take(&mut self.out)
    }

    /// The nearest deadline. Whatever it is, we want to be called once a heartbeat, so that we
    /// notice when we were not.
    fn next_wake(&self) -> Moment {
        let latest = self.now + self.config.timers.heartbeat_interval;
        if matches!(self.role, Role::Stopped) {
            return self.now + crate::config::TIMER_MAX;
        }
        let mut deadlines = vec![latest];
        self.init_deadlines(&mut deadlines);
        self.follower_deadlines(&mut deadlines);
        self.leader_deadlines(&mut deadlines);
        deadlines.extend(self.poll.as_ref().map(|it| it.until));
        deadlines.extend(self.contest.as_ref().map(|it| it.until));
        deadlines.extend(self.departing.as_ref().map(|it| it.next.min(it.give_up)));
        deadlines.extend([self.next_try, self.judges_from, self.votes_from]);
        deadlines.into_iter().filter(|it| *it > self.now).min().unwrap_or(latest)
    }

    fn saved(&mut self, id: u64) {
        self.saves.done = self.saves.done.max(id.min(self.saves.asked));
        let done = self.saves.done;
        let held = std::mem::take(&mut self.saves.held);
        for (id, held) in held {
            if id <= done {
                self.release_held(held);
            } else {
                self.saves.held.push((id, held));
            }
        }
    }

    fn release_held(&mut self, held: Held) {
        match held {
            Held::Message(outgoing) => self.out.messages.push(*outgoing),
            Held::OwnVote(vote) => self.take_own_vote(*vote),
            Held::OwnSlots(order) => {
                let me = self.me.address.clone();
                if let Some(claim) = self.view.claim.clone() {
                    self.take_slots_ack(&me, claim.version, order);
                }
            }
        }
    }

    /// Does `held` once everything that is known now is on the disk.
    fn once_saved(&mut self, held: Held) {
        let id = self.saves.asked + u64::from(self.saves.is_dirty);
        if id <= self.saves.done || mutant::is_on(Mutant::H4) {
            self.release_held(held);
        } else {
            self.saves.held.push((id, held));
        }
    }

    fn send(&mut self, to: &Address, message: Message) {
        if *to != self.me.address {
            let (to, message) = self.wrapped(to, message);
            self.out.messages.push(Outgoing { to, message });
        }
    }

    fn tell(&mut self, change: Change) {
        self.out.changes.push(change);
    }

    fn warn(&mut self, text: String) {
        self.tell(Change::Warning(text));
    }

    fn new_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    fn is_me(&self, node: &NodeId) -> bool {
        *node == self.me
    }

    /// Whether this member has a slot, whether or not it may use it now.
    fn has_slot(&self) -> bool {
        self.kept.slots.slot_of(&self.me.address).is_some()
    }

    /// Says whom we follow, if that is news.
    fn set_claim(&mut self, claim: Option<Claim>, reason: Reason) {
        if self.view.claim == claim {
            return;
        }
        self.view.claim.clone_from(&claim);
        self.tell(Change::Leader { claim, reason });
    }

    /// Forgets the view and looks for a cluster; `hint` is asked first.
    fn reset(&mut self, reason: Reason, hint: Option<Claim>) {
        self.set_claim(None, reason.clone());
        self.view = View::default();
        self.poll = None;
        self.contest = None;
        self.role = Role::Init(Seeking::with_hint(self.now, hint));
        self.tell(Change::ViewReset { reason });
    }

    /// Tells the user one step of the table.
    fn tell_step(&mut self, from: Option<Status>, step: &Step) {
        let Some((leader, version)) = self.view.of.clone() else { return };
        let Step { row, reason } = step.clone();
        if row.status == Status::Removed {
            self.view.why.remove(&row.node.address);
        } else {
            self.view.why.insert(row.node.address.clone(), reason.clone());
        }
        let seq = self.view.table.seq;
        self.tell(Change::Member { leader, version, seq, from, row, reason });
    }

    /// Waits longer after every failure, up to `ttl-timeout`, and never as long as the others.
    fn back_off(&mut self) {
        let timers = self.config.timers;
        let base = timers.retry_interval.min(timers.ttl_timeout);
        let grown = base * 2_u32.pow(self.n_failures.min(16));
        let grown = grown.min(timers.ttl_timeout.max(base));
        self.next_try = self.now + grown / 2 + self.rng.up_to(grown);
        self.n_failures += 1;
    }
}
