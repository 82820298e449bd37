//! Commands, entries, and `apply`: the one way in which a cluster becomes another.
//!
//! One file per command. Each has its arguments as a struct, an `apply` that checks first and
//! changes afterwards, and a doc comment that says who sends it and why it may be rejected.

mod abort_join_cluster;
mod accept_join_cluster;
mod complete_task;
mod configure_cluster;
mod gc;
mod kill_job;
mod leave_cluster;
mod notify_join_cluster;
mod notify_watchers;
mod peer_gc;
mod prepare_join_cluster;
mod rejected;
mod seal_task;
mod submit_job;
mod volunteer_for_task;

pub use abort_join_cluster::AbortJoinCluster;
pub use accept_join_cluster::AcceptJoinCluster;
pub use complete_task::CompleteTask;
pub use configure_cluster::ConfigureCluster;
pub use gc::Gc;
pub use kill_job::KillJob;
pub use leave_cluster::LeaveCluster;
pub use notify_join_cluster::NotifyJoinCluster;
pub use notify_watchers::NotifyWatchers;
pub use peer_gc::PeerGc;
pub use prepare_join_cluster::PrepareJoinCluster;
pub use rejected::Rejected;
pub use seal_task::SealTask;
pub use submit_job::{JobText, SubmitJob};
pub use volunteer_for_task::{VOLUNTEERS_MAX, VolunteerForTask};

use serde::{Deserialize, Serialize};

use crate::{
    id::{PeerId, Position},
    replica::Replica,
};

/// Everything that can be asked of the log. The order of the variants is part of the compact
/// form: new ones go to the end.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Command {
    /// Settles how the cluster works.
    ConfigureCluster(ConfigureCluster),
    /// A peer wants in.
    PrepareJoinCluster(PrepareJoinCluster),
    /// Three phases: the observer watches the joiner.
    NotifyJoinCluster(NotifyJoinCluster),
    /// Two phases: the joiner watches the subject.
    NotifyWatchers(NotifyWatchers),
    /// The joiner can be stitched in.
    AcceptJoinCluster(AcceptJoinCluster),
    /// A join is given up.
    AbortJoinCluster(AbortJoinCluster),
    /// A peer is gone.
    LeaveCluster(LeaveCluster),
    /// Somebody is about to check everybody's pulse.
    PeerGc(PeerGc),
    /// A client has work.
    SubmitJob(SubmitJob),
    /// Peers ask for the tasks that the plan gives them.
    VolunteerForTask(VolunteerForTask),
    /// A peer saw the last of a task's input.
    SealTask(SealTask),
    /// A task is done.
    CompleteTask(CompleteTask),
    /// A job is to end.
    KillJob(KillJob),
    /// What is over may be forgotten.
    Gc(Gc),
}

/// A command at its place in the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Where it stands.
    pub position: Position,
    /// What it asks.
    pub command: Command,
}

/// What became of a command: `Ok`, or why it changed nothing.
pub type Outcome = Result<(), Rejected>;

/// The cluster after `entry`, and what became of it.
///
/// Every command has an answer, however late or senseless it is: either it changes the cluster or
/// it says why not. It must not panic, or no peer would ever get past that entry again.
pub fn apply(replica: &Replica, entry: &Entry) -> (Replica, Outcome) {
    let mut next = replica.clone();
    let outcome = next.play(entry);
    (next, outcome)
}

impl Replica {
    /// [`apply`] in place, for those who have no use for the replica before.
    pub fn play(&mut self, entry: &Entry) -> Outcome {
        let outcome = match &entry.command {
            Command::ConfigureCluster(args) => args.apply(self),
            Command::PrepareJoinCluster(args) => args.apply(self, entry.position),
            Command::NotifyJoinCluster(args) => args.apply(self),
            Command::NotifyWatchers(args) => args.apply(self),
            Command::AcceptJoinCluster(args) => args.apply(self),
            Command::AbortJoinCluster(args) => args.apply(self),
            Command::LeaveCluster(args) => args.apply(self),
            Command::PeerGc(args) => args.apply(self),
            Command::SubmitJob(args) => args.apply(self),
            Command::VolunteerForTask(args) => args.apply(self, entry.position),
            Command::SealTask(args) => args.apply(self),
            Command::CompleteTask(args) => args.apply(self),
            Command::KillJob(args) => args.apply(self),
            Command::Gc(args) => args.apply(self, entry.position),
        };
        if outcome.is_ok() {
            self.release_uncovered();
        }
        outcome
    }
}

impl Command {
    /// Every command's name in the log, in the order of the variants.
    pub const NAMES: [&'static str; 14] = [
        "configure-cluster",
        "prepare-join-cluster",
        "notify-join-cluster",
        "notify-watchers",
        "accept-join-cluster",
        "abort-join-cluster",
        "leave-cluster",
        "peer-gc",
        "submit-job",
        "volunteer-for-task",
        "seal-task",
        "complete-task",
        "kill-job",
        "gc",
    ];

    /// The command's name in the log.
    pub fn name(&self) -> &'static str {
        match self {
            Command::ConfigureCluster(_) => Self::NAMES[0],
            Command::PrepareJoinCluster(_) => Self::NAMES[1],
            Command::NotifyJoinCluster(_) => Self::NAMES[2],
            Command::NotifyWatchers(_) => Self::NAMES[3],
            Command::AcceptJoinCluster(_) => Self::NAMES[4],
            Command::AbortJoinCluster(_) => Self::NAMES[5],
            Command::LeaveCluster(_) => Self::NAMES[6],
            Command::PeerGc(_) => Self::NAMES[7],
            Command::SubmitJob(_) => Self::NAMES[8],
            Command::VolunteerForTask(_) => Self::NAMES[9],
            Command::SealTask(_) => Self::NAMES[10],
            Command::CompleteTask(_) => Self::NAMES[11],
            Command::KillJob(_) => Self::NAMES[12],
            Command::Gc(_) => Self::NAMES[13],
        }
    }

    /// The peer whose join it is about, if it is about one.
    pub fn joiner(&self) -> Option<&PeerId> {
        match self {
            Command::PrepareJoinCluster(it) => Some(&it.joiner),
            Command::NotifyJoinCluster(it) => Some(&it.joiner),
            Command::NotifyWatchers(it) => Some(&it.joiner),
            Command::AcceptJoinCluster(it) => Some(&it.joiner),
            Command::AbortJoinCluster(it) => Some(&it.joiner),
            Command::ConfigureCluster(_)
            | Command::LeaveCluster(_)
            | Command::PeerGc(_)
            | Command::SubmitJob(_)
            | Command::VolunteerForTask(_)
            | Command::SealTask(_)
            | Command::CompleteTask(_)
            | Command::KillJob(_)
            | Command::Gc(_) => None,
        }
    }

    /// Whether a peer may say this before it has joined. Everything else waits until it has.
    pub fn is_about_joining(&self) -> bool {
        match self {
            Command::PrepareJoinCluster(_)
            | Command::NotifyJoinCluster(_)
            | Command::NotifyWatchers(_)
            | Command::AcceptJoinCluster(_)
            | Command::AbortJoinCluster(_)
            | Command::LeaveCluster(_)
            | Command::PeerGc(_) => true,
            Command::ConfigureCluster(_)
            | Command::SubmitJob(_)
            | Command::VolunteerForTask(_)
            | Command::SealTask(_)
            | Command::CompleteTask(_)
            | Command::KillJob(_)
            | Command::Gc(_) => false,
        }
    }
}

macro_rules! into_command {
    ($($name:ident),* $(,)?) => {$(
        impl From<$name> for Command {
            fn from(args: $name) -> Command {
                Command::$name(args)
            }
        }
    )*};
}

into_command!(
    ConfigureCluster,
    PrepareJoinCluster,
    NotifyJoinCluster,
    NotifyWatchers,
    AcceptJoinCluster,
    AbortJoinCluster,
    LeaveCluster,
    PeerGc,
    SubmitJob,
    VolunteerForTask,
    SealTask,
    CompleteTask,
    KillJob,
    Gc,
);
