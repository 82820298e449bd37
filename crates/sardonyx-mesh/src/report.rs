//! What a member says about itself when it is asked.

use serde::{Deserialize, Serialize};

use crate::{
    address::{Address, NodeId},
    change::Reason,
    claim::{Claim, ClusterId, FencingToken, Quality, Version},
    view::Row,
};

/// What a member does at the moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Looks for a cluster.
    Init,
    /// Follows a leader, or looks for one that it lost.
    Follower,
    /// Asks for votes.
    Candidate,
    /// Leads.
    Leader,
    /// Has left, and does nothing more.
    Stopped,
}

/// Somebody thinks that somebody is gone.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Suspicion {
    /// Who thinks so.
    pub observer: NodeId,
    /// About whom.
    pub suspect: NodeId,
    /// Why.
    pub reason: Reason,
}

/// A member's own view, at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Report {
    /// Who reports.
    pub node: NodeId,
    /// Its label.
    pub name: String,
    /// What it does.
    pub phase: Phase,
    /// The cluster, once founded.
    pub cluster: Option<ClusterId>,
    /// Whom it takes for the leader.
    pub leader: Option<Claim>,
    /// What that leadership is worth, as far as this member knows.
    pub quality: Option<Quality>,
    /// The version that it shows: the leader's, or the last established.
    pub version: Version,
    /// The newest established version it knows.
    pub established: Version,
    /// Steps of the table so far.
    pub seq: u64,
    /// The table's digest: equal on members that agree.
    pub digest: u64,
    /// The members.
    pub members: Vec<Row>,
    /// Who votes.
    pub voters: Vec<Address>,
    /// Whether this member votes; if not, why.
    pub voting: Result<(), String>,
    /// Who thinks that who is gone, and why.
    pub suspicions: Vec<Suspicion>,
    /// The token, while this member may use one.
    pub token: Option<FencingToken>,
}
