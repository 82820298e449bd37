//! What a third member carries between a follower and a leader whose own line is cut.
//!
//! A closed set, and not simply any message: a relay vouches for who sent it, and what it carries
//! must not carry anything itself.

use serde::{Deserialize, Serialize};

use super::{Lease, Message, NackReason, Snapshot};
use crate::{
    address::{Incarnation, NodeId},
    claim::{Claim, ClusterId, Version},
    moment::Moment,
    slots::Slots,
    vote::Certificate,
};

/// A sign of life, or an answer to one; each is the message of that name.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, Hash)]
#[expect(missing_docs, reason = "fields and variants are those of the message of that name")]
pub enum Carried {
    LeaderKeepAlive {
        leader: NodeId,
        version: Version,
        digest: u64,
        seq: u64,
        echo: Option<Moment>,
        promised: Version,
        established: Version,
        slots: (Version, u64),
    },
    LeaderKeepAliveAck {
        claim: Claim,
        incarnation: Incarnation,
        token: Moment,
        lease: Lease,
    },
    LeaderKeepAliveNack {
        incarnation: Incarnation,
        why: NackReason,
    },
    ClusterAlignment(Box<Snapshot>),
    LeaderElected(Box<Certificate>),
    SlotsChange {
        claim: Claim,
        cluster: ClusterId,
        slots: Slots,
        committed: bool,
    },
    SlotsChangeAck {
        version: Version,
        order: (Version, u64),
    },
}

impl Carried {
    /// The message, if it may be carried.
    pub fn of(message: &Message) -> Option<Carried> {
        Some(match message.clone() {
            Message::LeaderKeepAlive {
                leader,
                version,
                digest,
                seq,
                echo,
                promised,
                established,
                slots,
            } => Carried::LeaderKeepAlive {
                leader,
                version,
                digest,
                seq,
                echo,
                promised,
                established,
                slots,
            },
            Message::LeaderKeepAliveAck { claim, incarnation, token, lease } => {
                Carried::LeaderKeepAliveAck { claim, incarnation, token, lease }
            }
            Message::LeaderKeepAliveNack { incarnation, why } => {
                Carried::LeaderKeepAliveNack { incarnation, why }
            }
            Message::ClusterAlignment(snapshot) => Carried::ClusterAlignment(snapshot),
            Message::LeaderElected(certificate) => Carried::LeaderElected(certificate),
            Message::SlotsChange { claim, cluster, slots, committed } => {
                Carried::SlotsChange { claim, cluster, slots, committed }
            }
            Message::SlotsChangeAck { version, order } => {
                Carried::SlotsChangeAck { version, order }
            }
            Message::LeaderQuery { .. }
            | Message::LeaderQueryResponse { .. }
            | Message::JoinClusterRequest { .. }
            | Message::JoinClusterResponse { .. }
            | Message::MemberStatusUpdate { .. }
            | Message::SeedKeepAlive { .. }
            | Message::SeedKeepAliveAck { .. }
            | Message::LeaderRelieve { .. }
            | Message::ReJoinCluster { .. }
            | Message::LeaderStatusQuery { .. }
            | Message::LeaderStatusQueryResponse { .. }
            | Message::Proposal(_)
            | Message::Vote { .. }
            | Message::Leave
            | Message::LeaveAck
            | Message::TransferLeadership(_)
            | Message::Relay { .. }
            | Message::Relayed { .. } => return None,
        })
    }

    /// The message again.
    pub fn open(self) -> Message {
        match self {
            Carried::LeaderKeepAlive {
                leader,
                version,
                digest,
                seq,
                echo,
                promised,
                established,
                slots,
            } => Message::LeaderKeepAlive {
                leader,
                version,
                digest,
                seq,
                echo,
                promised,
                established,
                slots,
            },
            Carried::LeaderKeepAliveAck { claim, incarnation, token, lease } => {
                Message::LeaderKeepAliveAck { claim, incarnation, token, lease }
            }
            Carried::LeaderKeepAliveNack { incarnation, why } => {
                Message::LeaderKeepAliveNack { incarnation, why }
            }
            Carried::ClusterAlignment(snapshot) => Message::ClusterAlignment(snapshot),
            Carried::LeaderElected(certificate) => Message::LeaderElected(certificate),
            Carried::SlotsChange { claim, cluster, slots, committed } => {
                Message::SlotsChange { claim, cluster, slots, committed }
            }
            Carried::SlotsChangeAck { version, order } => {
                Message::SlotsChangeAck { version, order }
            }
        }
    }
}
