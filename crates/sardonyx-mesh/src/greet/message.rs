//! The words of the handshake. Their order is part of the protocol: new ones go to the end.

use serde::{Deserialize, Serialize};

use super::key::{Nonce, Proof};
use crate::{
    address::{Address, NodeId},
    config::ConfigSummary,
};

/// The first bytes of a greeting.
pub const MAGIC: [u8; 8] = *b"SDXMESH1";

/// Who a node is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Identity {
    /// Where it is dialled, and which life it lives there.
    pub node: NodeId,
    /// A label for people.
    pub name: String,
}

/// What a connection is for. Control never waits behind events, because it has a connection of its
/// own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Lane {
    /// Messages of the protocol, both ways. A pair has one.
    Control,
    /// Users' events, from who dialled to who was dialled.
    Events,
}

/// A message of the handshake.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Greet {
    /// The first word, from who dialled.
    Active(Active),
    /// A number that was never used, to be signed.
    Challenge(Nonce),
    /// The signature of who dialled.
    Proof(Proof),
    /// The answer of who was dialled, signed.
    Passive(Passive, Proof),
    /// Why not, in words for the log there.
    Refused(String),
}

/// What somebody says who dialled.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Active {
    pub(super) magic: [u8; 8],
    pub(super) versions: (u16, u16),
    pub(super) identity: Identity,
    /// Whom it believes to have dialled.
    pub(super) to: Address,
    pub(super) config: ConfigSummary,
    pub(super) lane: Lane,
    pub(super) dial: u64,
    pub(super) nonce: Nonce,
}

/// What somebody says who was dialled, once it knows who that was.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Passive {
    pub(super) identity: Identity,
    pub(super) config: ConfigSummary,
    pub(super) version: u16,
}
