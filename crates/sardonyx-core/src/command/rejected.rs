//! Why a command changed nothing.

use alloc::string::String;
use core::fmt;

use super::VOLUNTEERS_MAX;
use crate::{
    id::{JobId, PeerId, TaskId},
    replica::{JoinProtocol, job::JobOutcome},
};

/// Why a command changed nothing. Part of normal life, not an error: commands cross on their way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Rejected {
    /// The peer is a member already.
    AlreadyMember(PeerId),
    /// The peer is being stitched in already.
    AlreadyJoining(PeerId),
    /// Every member is taken up with another joiner.
    NoCandidate,
    /// The cluster has as many peers as it may have.
    ClusterFull(u32),
    /// The peer is not being stitched in, or no longer.
    NotJoining(PeerId),
    /// The join is not in the phase that this command ends.
    WrongPhase(PeerId),
    /// The join is in the hands of another peer than the one that the command names.
    WrongObserver {
        /// Who should have been named.
        expected: PeerId,
        /// Who was.
        named: PeerId,
    },
    /// The joiner is to watch another member than the one that the command names.
    WrongSubject {
        /// Who should have been named.
        expected: PeerId,
        /// Who was.
        named: PeerId,
    },
    /// Neither a member nor a joiner.
    UnknownPeer(PeerId),
    /// The command belongs to the other join protocol.
    WrongProtocol(JoinProtocol),
    /// The join protocol is settled for good.
    ProtocolSettled(JoinProtocol),
    /// The limit is below what is there already.
    LimitBelowPresent {
        /// The limit's name.
        limit: &'static str,
        /// How many there are.
        present: usize,
    },
    /// The command says nothing that is not so already.
    NothingNew,
    /// There is no such job.
    UnknownJob(JobId),
    /// There is or was a job of that id.
    KnownJob(JobId),
    /// The job is over.
    JobEnded(JobId, JobOutcome),
    /// The job has no such task.
    UnknownTask(JobId, TaskId),
    /// The task is done.
    TaskCompleted(JobId, TaskId),
    /// The peer does not run that task.
    NotOnTask(PeerId, TaskId),
    /// Another peer is sealing the task.
    SealedBy(PeerId),
    /// Everybody who volunteered is where the plan wants it, or is no member.
    NobodyMoves,
    /// More volunteers than one entry may have.
    TooManyVolunteers(usize),
    /// The job cannot be understood, or cannot be run.
    BadJob(String),
    /// The cluster has as many jobs as it may have.
    TooManyJobs(u32),
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rejected::AlreadyMember(peer) => write!(f, "{peer} is a member already"),
            Rejected::AlreadyJoining(peer) => write!(f, "{peer} is joining already"),
            Rejected::NoCandidate => write!(f, "every member is taken up with another joiner"),
            Rejected::ClusterFull(max) => write!(f, "the cluster is full: peers-max is {max}"),
            Rejected::NotJoining(peer) => write!(f, "{peer} is not joining"),
            Rejected::WrongPhase(peer) => write!(f, "{peer} is in another phase of its join"),
            Rejected::WrongObserver { expected, named } => {
                write!(f, "the join is in the hands of {expected}, not of {named}")
            }
            Rejected::WrongSubject { expected, named } => {
                write!(f, "the joiner is to watch {expected}, not {named}")
            }
            Rejected::UnknownPeer(peer) => write!(f, "{peer} is neither a member nor joining"),
            Rejected::WrongProtocol(protocol) => {
                write!(f, "this cluster joins by the {protocol} protocol")
            }
            Rejected::ProtocolSettled(protocol) => {
                write!(f, "the join protocol is {protocol} for good")
            }
            Rejected::LimitBelowPresent { limit, present } => {
                write!(f, "{limit} cannot be below the {present} that are there")
            }
            Rejected::NothingNew => write!(f, "it says nothing new"),
            Rejected::UnknownJob(job) => write!(f, "there is no job {job}"),
            Rejected::KnownJob(job) => write!(f, "there is a job {job} already"),
            Rejected::JobEnded(job, outcome) => write!(f, "job {job} is {outcome}"),
            Rejected::UnknownTask(job, task) => write!(f, "job {job} has no task {task}"),
            Rejected::TaskCompleted(job, task) => {
                write!(f, "task {task} of job {job} is completed")
            }
            Rejected::NotOnTask(peer, task) => write!(f, "{peer} does not run {task}"),
            Rejected::SealedBy(peer) => write!(f, "{peer} is sealing it"),
            Rejected::NobodyMoves => write!(f, "the plan moves none of them"),
            Rejected::TooManyVolunteers(n) => {
                write!(f, "{n} volunteers in one entry, at most {VOLUNTEERS_MAX} go together")
            }
            Rejected::BadJob(why) => write!(f, "{why}"),
            Rejected::TooManyJobs(max) => {
                write!(f, "the cluster is full: jobs-max is {max}; gc makes room")
            }
        }
    }
}
