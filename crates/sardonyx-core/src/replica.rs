//! The replica: the cluster as a value at a position.
//!
//! Everything about one member is in one [`Member`], everything about one join in flight in one
//! [`Join`]; the maps that people see (`pairs`, `prepared`, `accepted`, `peer-state`) are views of
//! these. Trees are persistent, so a replica is cloned in constant time and old ones can be kept.
//!
//! The questions are here; the changes are in `ring`, `joins` and `allocation`, and are made by
//! commands only. What must always hold is in [`laws`].

mod allocation;
pub mod job;
mod joins;
pub mod laws;
mod ring;

use alloc::collections::{BTreeMap, BTreeSet};
use core::fmt;

use serde::{Deserialize, Serialize};

use self::job::{Job, JobOutcome, Slot};
use crate::{
    id::{JobId, PeerId, Position},
    mutant::{self, Mutant},
    scheduler::PlanCell,
    tree::Tree,
};

/// How many members a cluster may have unless `configure-cluster` says otherwise.
pub const PEERS_MAX: u32 = 100_000;

/// How many jobs that were not collected a cluster may have, unless configured otherwise.
pub const JOBS_MAX: u32 = 10_000;

/// Of how many collected jobs it is remembered how they ended, unless configured otherwise.
pub const OUTCOMES_MAX: u32 = 10_000;

/// The cluster as a value.
#[derive(Clone, Debug, Default)]
pub struct Replica {
    /// `None` until configured or until the first join, which settles it for good.
    pub(crate) join_protocol: Option<JoinProtocol>,
    pub(crate) job_scheduler: JobScheduler,
    pub(crate) limits: Limits,
    pub(crate) members: Tree<PeerId, Member>,
    /// Members in the order in which they joined.
    pub(crate) seats: Tree<u64, PeerId>,
    /// The seats of those who run nothing.
    pub(crate) idle: Tree<u64, ()>,
    /// Joins in flight, by the member at which the joiner is stitched in.
    pub(crate) joins: Tree<PeerId, Join>,
    /// Joiner to anchor: `joins` the other way round.
    pub(crate) anchors: Tree<PeerId, PeerId>,
    /// The members at which a joiner could be stitched in now. Kept, not computed: choosing the
    /// k-th of ten thousand must not walk over all of them.
    pub(crate) free: Tree<PeerId, ()>,
    /// Jobs in the order of submission, ended ones too until they are collected.
    pub(crate) jobs: Tree<u64, Job>,
    pub(crate) job_places: Tree<JobId, u64>,
    /// How collected jobs ended, oldest first.
    pub(crate) outcomes: Tree<u64, (JobId, JobOutcome)>,
    pub(crate) collected: Tree<JobId, u64>,
    /// Where the log may be trimmed, and by whom.
    pub(crate) origin: Option<Origin>,
    /// Who should run what, once somebody has asked. Follows from all the rest.
    pub(crate) plan: PlanCell,
}

/// The place up to which `gc` made the log superfluous.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Origin {
    /// The position of the `gc` entry.
    pub position: Position,
    /// Who asked for it, and is to trim.
    pub owner: PeerId,
}

/// How a peer joins; one per cluster, settled once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JoinProtocol {
    /// The joiner watches the subject, then the subject's watcher switches to the joiner.
    TwoPhase,
    /// The observer watches the joiner, then the joiner watches whom the observer watched.
    #[default]
    ThreePhase,
}

/// How peers are shared out among jobs; may be changed at any time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobScheduler {
    /// The oldest job takes all it can use.
    Greedy,
    /// Every job gets about as many peers as any other.
    #[default]
    RoundRobin,
    /// Every job gets the share it asked for.
    Percentage,
}

/// What an operator may bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Limits {
    /// Members and joiners together.
    pub peers_max: u32,
    /// Jobs that were not collected.
    pub jobs_max: u32,
    /// Collected jobs of which it is remembered how they ended.
    pub outcomes_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { peers_max: PEERS_MAX, jobs_max: JOBS_MAX, outcomes_max: OUTCOMES_MAX }
    }
}

/// One fully joined peer.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// Whom it watches; `None` in a cluster of one.
    pub(crate) watches: Option<PeerId>,
    /// Who watches it; `None` in a cluster of one.
    pub(crate) watched_by: Option<PeerId>,
    /// Its place in the join order.
    pub(crate) seat: u64,
    /// What it runs.
    pub(crate) slot: Option<Slot>,
}

/// A join in flight.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Join {
    pub(crate) joiner: PeerId,
    pub(crate) phase: Phase,
}

/// How far a join is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Its anchor is chosen.
    Prepared,
    /// It has been notified and waits for `accept-join-cluster`.
    Accepted,
}

impl Replica {
    /// The empty cluster.
    pub fn new() -> Replica {
        Replica::default()
    }

    /// The empty cluster, with its join protocol and scheduler settled if given.
    pub fn configured(protocol: Option<JoinProtocol>, scheduler: Option<JobScheduler>) -> Replica {
        Replica {
            join_protocol: protocol,
            job_scheduler: scheduler.unwrap_or_default(),
            ..Replica::default()
        }
    }

    /// The protocol by which peers join now.
    pub fn join_protocol(&self) -> JoinProtocol {
        self.join_protocol.unwrap_or_default()
    }

    /// How peers are shared out among jobs.
    pub fn job_scheduler(&self) -> JobScheduler {
        self.job_scheduler
    }

    /// How many peers are fully joined.
    pub fn n_peers(&self) -> usize {
        self.members.len()
    }

    /// How many peers are fully joined or being stitched in.
    pub fn n_present(&self) -> usize {
        self.members.len() + self.anchors.len()
    }

    /// The bytes that this replica occupies by itself, ids included once.
    pub fn bytes(&self) -> usize {
        let ids = self.members.keys().chain(self.anchors.keys());
        let text: usize = ids.map(|id| id.as_str().len() + 2 * size_of::<usize>()).sum();
        let trees = self.members.bytes() + self.seats.bytes() + self.idle.bytes();
        let joins = self.free.bytes() + self.joins.bytes() + self.anchors.bytes();
        let jobs: usize = self.jobs().map(Job::bytes).sum();
        size_of::<Replica>() + text + trees + joins + jobs
    }

    /// The fully joined peers, in join order.
    pub fn peers(&self) -> impl Iterator<Item = &PeerId> {
        self.seats.values()
    }

    /// What bounds this cluster.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// The fully joined peers, in the order of their ids.
    pub fn peers_by_id(&self) -> impl Iterator<Item = &PeerId> {
        self.members.keys()
    }

    /// The fully joined peer with `rank` others before it, by id.
    pub fn peer_at(&self, rank: usize) -> Option<&PeerId> {
        self.members.nth(rank).map(|(peer, _)| peer)
    }

    /// Whether `peer` is fully joined.
    pub fn is_member(&self, peer: &PeerId) -> bool {
        self.members.contains(peer)
    }

    /// Whether `peer` is being stitched in.
    pub fn is_joining(&self, peer: &PeerId) -> bool {
        self.anchors.contains(peer)
    }

    /// Who watches whom, by watcher. Empty for a cluster of one.
    pub fn pairs(&self) -> impl Iterator<Item = (&PeerId, &PeerId)> {
        self.members.iter().filter_map(|(peer, member)| Some((peer, member.watches.as_ref()?)))
    }

    /// The joins in `phase` as people see them: observer to joiner in three phases, joiner to
    /// subject in two.
    pub fn joins_in(&self, phase: Phase) -> BTreeMap<&PeerId, &PeerId> {
        let joins = self.joins.iter().filter(|(_, join)| join.phase == phase);
        match self.join_protocol() {
            JoinProtocol::ThreePhase => joins.map(|(at, join)| (at, &join.joiner)).collect(),
            JoinProtocol::TwoPhase => joins.map(|(at, join)| (&join.joiner, at)).collect(),
        }
    }

    /// Everyone whose death `me` must report, as it follows from the cluster alone.
    ///
    /// Derived after every entry rather than edited by each command: a watch that some command
    /// forgot to move is a death that nobody sees.
    pub fn watches(&self, me: &PeerId) -> BTreeSet<PeerId> {
        let mut watched = BTreeSet::new();
        if let Some(member) = self.members.get(me) {
            watched.extend(member.watches.clone());
            let stitching = match self.join_protocol() {
                JoinProtocol::ThreePhase => me,
                JoinProtocol::TwoPhase => self.successor(me),
            };
            watched.extend(self.joins.get(stitching).map(|join| join.joiner.clone()));
        }
        if let Some(anchor) = self.anchors.get(me) {
            // The joiner watches its anchor as well: if that dies before the join is through,
            // nobody else may be there to report it.
            if !mutant::is_on(Mutant::AnchorUnwatched) {
                watched.insert(anchor.clone());
            }
            if self.join_protocol() == JoinProtocol::ThreePhase {
                watched.insert(self.successor(anchor).clone());
            }
        }
        watched.remove(me);
        watched
    }
}

/// Equal clusters look the same from outside; how seats are numbered is nobody's business.
impl PartialEq for Replica {
    fn eq(&self, other: &Self) -> bool {
        self.join_protocol == other.join_protocol
            && self.job_scheduler == other.job_scheduler
            && self.limits == other.limits
            && self.peers().eq(other.peers())
            && self.pairs().eq(other.pairs())
            && self.joins == other.joins
            && self.origin == other.origin
            && self.outcomes().eq(other.outcomes())
            && self.jobs.len() == other.jobs.len()
            && self
                .jobs()
                .zip(other.jobs())
                .all(|(mine, theirs)| self.same_job(mine, other, theirs))
    }
}

impl Eq for Replica {}

impl Replica {
    fn same_job(&self, mine: &Job, other: &Replica, theirs: &Job) -> bool {
        let tasks = || mine.tasks.iter().zip(&theirs.tasks);
        let since = |replica: &Replica, peer| replica.slot(peer).map(|slot| slot.since);
        mine.id == theirs.id
            && mine.terms == theirs.terms
            && mine.outcome == theirs.outcome
            && tasks().all(|(mine, theirs)| {
                mine.is_completed == theirs.is_completed
                    && mine.sealer == theirs.sealer
                    && mine.peers.values().eq(theirs.peers.values())
                    && mine.peers.values().all(|peer| since(self, peer) == since(other, peer))
            })
    }
}

impl fmt::Display for JoinProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            JoinProtocol::TwoPhase => "two-phase",
            JoinProtocol::ThreePhase => "three-phase",
        })
    }
}

impl fmt::Display for JobScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            JobScheduler::Greedy => "greedy",
            JobScheduler::RoundRobin => "round-robin",
            JobScheduler::Percentage => "percentage",
        })
    }
}
