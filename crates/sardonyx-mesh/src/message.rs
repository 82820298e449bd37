//! What members say to each other about the cluster. What users say is carried elsewhere.
//!
//! An order is based on something that its sender saw. It carries what that was, and the receiver
//! follows it only if it still holds: everything a leader says carries its [`Claim`].
//!
//! Who sent a message is not in it: the transport knows, because it greeted.

pub mod carried;

use serde::{Deserialize, Serialize};

use self::carried::Carried;
use crate::{
    address::{Address, Incarnation, NodeId},
    claim::{Claim, ClusterId, Version},
    moment::Moment,
    slots::Slots,
    view::{Step, Table},
    vote::{Ballot, Certificate, Refusal, Stage, Value},
};

/// A system event, by the document's name where it has one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, Hash)]
pub enum Message {
    /// Who leads? From a member that wants in, to every seed.
    LeaderQuery {
        /// Comes back in the answer.
        id: u64,
    },
    /// Whom the seed follows, if anybody.
    LeaderQueryResponse {
        /// Of the question.
        id: u64,
        /// The leader that it hears.
        leader: Option<Claim>,
        /// The cluster in its store: where one exists, none is founded.
        cluster: Option<ClusterId>,
    },
    /// Let me in.
    JoinClusterRequest {
        /// Comes back in the answer.
        id: u64,
        /// Its label.
        name: String,
        /// Whether it is a seed.
        is_seed: bool,
        /// Whether it never wants to vote.
        is_observer: bool,
        /// What is in its store.
        standing: Standing,
    },
    /// The answer to a join.
    JoinClusterResponse {
        /// Of the request.
        id: u64,
        /// In, or why not.
        answer: JoinAnswer,
    },
    /// One or more steps of the table, in order, each of which is the next one. A member that comes
    /// in is a step to `joining`.
    MemberStatusUpdate {
        /// Whose table.
        claim: Claim,
        /// The table's `seq` before the first step.
        after: u64,
        /// The steps.
        steps: Vec<Step>,
    },
    /// The whole table, for a member whose own differs. It is right about everything, also about
    /// the receiver.
    ClusterAlignment(Box<Snapshot>),
    /// A follower's sign of life to its leader.
    LeaderKeepAlive {
        /// Whom it takes for the leader.
        leader: NodeId,
        /// For which version.
        version: Version,
        /// Of its table; 0 asks for the whole of it.
        digest: u64,
        /// The steps of its table.
        seq: u64,
        /// The token of the last ack for which it holds back its vote.
        echo: Option<Moment>,
        /// The newest version that it promised to somebody, or may have promised: if it is above
        /// `version`, this voter can no longer hold back for the leader.
        promised: Version,
        /// The newest established version it knows.
        established: Version,
        /// The order of its slots.
        slots: (Version, u64),
    },
    /// The leader heard it.
    LeaderKeepAliveAck {
        /// Who answers, and as what.
        claim: Claim,
        /// Which life of the receiver it answers.
        incarnation: Incarnation,
        /// The leader's time, to be echoed.
        token: Moment,
        /// Whether the voter should hold back its vote.
        lease: Lease,
    },
    /// The keep-alive went to somebody who does not take it.
    LeaderKeepAliveNack {
        /// Which life was refused.
        incarnation: Incarnation,
        /// Why.
        why: NackReason,
    },
    /// A leader's sign of life to every seed, so that two clusters find each other.
    SeedKeepAlive {
        /// The sender's claim.
        claim: Claim,
        /// Its cluster, if it is founded.
        cluster: Option<ClusterId>,
    },
    /// The seed heard it.
    SeedKeepAliveAck {
        /// Whom the seed follows.
        claim: Option<Claim>,
    },
    /// A seed to a leader: somebody else leads with more right.
    LeaderRelieve {
        /// The claim that is to end, exactly.
        loser: Claim,
        /// The one that stands.
        winner: Claim,
    },
    /// A relieved leader to everybody in its table: begin anew.
    ReJoinCluster {
        /// The claim that ended.
        loser: Claim,
        /// Whom to join.
        winner: Option<Claim>,
    },
    /// Do you hear a leader? From a follower that hears none, to every voter.
    LeaderStatusQuery {
        /// Comes back in the answer.
        id: u64,
        /// The newest established version the asker knows.
        version: Version,
        /// Whom it does not hear.
        suspect: Option<Claim>,
    },
    /// Whether it does.
    LeaderStatusQueryResponse {
        /// Of the question.
        id: u64,
        /// Of the question.
        version: Version,
        /// Whether it hears a leader that has a lease.
        is_healthy: bool,
        /// Whom it follows.
        leader: Option<Claim>,
        /// The proof of a version that is newer than the asker's.
        newer: Option<Box<Certificate>>,
    },
    /// A vote is asked for.
    Proposal(Box<Proposal>),
    /// A vote.
    Vote {
        /// Of which proposal.
        ballot: Ballot,
        /// Of which stage.
        stage: Stage,
        /// For which version.
        version: Version,
        /// Yes, with what was accepted before; or no, and why.
        answer: Result<Option<Box<(Ballot, Value)>>, Refusal>,
    },
    /// A quorum has elected.
    LeaderElected(Box<Certificate>),
    /// The leader changes who votes.
    SlotsChange {
        /// The leader.
        claim: Claim,
        /// The cluster.
        cluster: ClusterId,
        /// Who votes then.
        slots: Slots,
        /// Whether enough voters have kept it. Until then it is only to be kept and acknowledged.
        committed: bool,
    },
    /// The change is kept.
    SlotsChangeAck {
        /// The version of the leader that asked.
        version: Version,
        /// What was kept.
        order: (Version, u64),
    },
    /// Goodbye, to the leader.
    Leave,
    /// The leader has taken it out of the table.
    LeaveAck,
    /// The leader has given up its lease for good, and the receiver is to be elected.
    TransferLeadership(Release),
    /// Carry this to a member whom I may not reach.
    Relay {
        /// To whom.
        to: Address,
        /// What.
        carried: Box<Carried>,
    },
    /// I carry this for somebody.
    Relayed {
        /// Who sent it to me.
        origin: NodeId,
        /// What.
        carried: Box<Carried>,
    },
}

/// A leader's word that it gave up its lease for good: nobody needs to hold back for it any more.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, Hash)]
pub struct Release {
    /// Who gave it up.
    pub leader: NodeId,
    /// For which version.
    pub version: Version,
}

/// A vote is asked for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, Hash)]
pub struct Proposal {
    /// Its number.
    pub ballot: Ballot,
    /// Whether a promise or the vote is asked for.
    pub stage: Stage,
    /// For which version.
    pub version: Version,
    /// The cluster; `None` in the vote that founds one.
    pub cluster: Option<ClusterId>,
    /// The voters as the proposer knows them.
    pub slots: Slots,
    /// In the formal stage: whom to elect.
    pub value: Option<Value>,
    /// If a leader handed over: its word.
    pub release: Option<Release>,
}

/// What is in a joiner's store, as far as it matters to others.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, Hash)]
pub struct Standing {
    /// Its cluster.
    pub cluster: Option<ClusterId>,
    /// The newest established version it knows.
    pub established: Version,
    /// The proof of it.
    pub certificate: Option<Box<Certificate>>,
    /// Who votes, as it knows.
    pub slots: Slots,
    /// Whether it may take part in founding a cluster.
    pub may_found: bool,
}

/// The answer to a join.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, Hash)]
pub enum JoinAnswer {
    /// In; the table has the joiner in it.
    Accepted(Box<Snapshot>),
    /// The one that was asked does not lead; perhaps this one does.
    NotLeader(Option<Claim>),
    /// Not with this configuration or store; the text says what to do.
    Refused(String),
}

/// Everything a leader keeps for others, at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, Hash)]
pub struct Snapshot {
    /// Who says so.
    pub claim: Claim,
    /// The cluster, if it is founded.
    pub cluster: Option<ClusterId>,
    /// The proof that the claim is certified.
    pub certificate: Option<Certificate>,
    /// The newest established version.
    pub established: Version,
    /// Who votes: only what enough voters have kept.
    pub slots: Slots,
    /// The table.
    pub table: Table,
}

/// What an ack asks of a voter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, Hash)]
pub enum Lease {
    /// Nothing: the leader was not elected, or does not hear a quorum. Such an ack neither holds
    /// back a vote nor counts as a sign of a healthy leader.
    Off,
    /// To hold back its vote: the leader hears a quorum.
    Wanted,
    /// The same, and a quorum holds back already.
    Held,
}

/// Why a keep-alive was not taken.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, Hash)]
pub enum NackReason {
    /// The sender is not in the leader's table: join again.
    NotAMember {
        /// The leader's claim.
        claim: Claim,
    },
    /// The receiver does not lead; perhaps this one does.
    NotLeader {
        /// Whom the receiver follows.
        claim: Option<Claim>,
    },
}

/// A message on its way.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct Outgoing {
    /// To whom. The transport dials if it has no connection; a message that cannot be delivered
    /// is dropped.
    pub to: Address,
    /// What.
    pub message: Message,
}

impl Message {
    /// The message's name, for logs and counts.
    pub fn name(&self) -> &'static str {
        match self {
            Message::LeaderQuery { .. } => "LeaderQuery",
            Message::LeaderQueryResponse { .. } => "LeaderQueryResponse",
            Message::JoinClusterRequest { .. } => "JoinClusterRequest",
            Message::JoinClusterResponse { .. } => "JoinClusterResponse",
            Message::MemberStatusUpdate { .. } => "MemberStatusUpdate",
            Message::ClusterAlignment(_) => "ClusterAlignment",
            Message::LeaderKeepAlive { .. } => "LeaderKeepAlive",
            Message::LeaderKeepAliveAck { .. } => "LeaderKeepAliveAck",
            Message::LeaderKeepAliveNack { .. } => "LeaderKeepAliveNack",
            Message::SeedKeepAlive { .. } => "SeedKeepAlive",
            Message::SeedKeepAliveAck { .. } => "SeedKeepAliveAck",
            Message::LeaderRelieve { .. } => "LeaderRelieve",
            Message::ReJoinCluster { .. } => "ReJoinCluster",
            Message::LeaderStatusQuery { .. } => "LeaderStatusQuery",
            Message::LeaderStatusQueryResponse { .. } => "LeaderStatusQueryResponse",
            Message::Proposal(_) => "Proposal",
            Message::Vote { .. } => "Vote",
            Message::LeaderElected(_) => "LeaderElected",
            Message::SlotsChange { .. } => "SlotsChange",
            Message::SlotsChangeAck { .. } => "SlotsChangeAck",
            Message::Leave => "Leave",
            Message::LeaveAck => "LeaveAck",
            Message::TransferLeadership(_) => "TransferLeadership",
            Message::Relay { .. } => "Relay",
            Message::Relayed { .. } => "Relayed",
        }
    }
}
