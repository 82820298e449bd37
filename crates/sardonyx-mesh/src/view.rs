//! The table of members as one leader keeps it and everybody else copies it.
//!
//! A view is named by its leader and version, and counted by `seq`: two copies with the same name
//! and the same `seq` are equal. Only the leader changes it; others apply its changes one by one,
//! without a gap, or take a snapshot.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use crate::{
    address::{Address, NodeId},
    change::Reason,
    claim::{Claim, Version},
};

/// What the leader says about a member.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// Let in, and has not yet shown that it knows.
    Joining,
    /// Here.
    Active,
    /// Silent for `heartbeat-timeout`.
    Unreachable,
    /// On its way out: silent for `ttl-timeout`, or it said goodbye.
    Leaving,
    /// Out.
    Removed,
}

impl Status {
    /// Whether a member may go from `self` to `next`. `None` is before the first.
    pub fn may_follow(before: Option<Status>, next: Status) -> bool {
        use Status::{Active, Joining, Leaving, Removed, Unreachable};
        match before {
            None => next != Removed,
            Some(Joining) => matches!(next, Active | Leaving),
            Some(Active) => matches!(next, Unreachable | Leaving),
            Some(Unreachable) => matches!(next, Active | Leaving),
            Some(Leaving) => next == Removed,
            Some(Removed) => false,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Status::Joining => "joining",
            Status::Active => "active",
            Status::Unreachable => "unreachable",
            Status::Leaving => "leaving",
            Status::Removed => "removed",
        })
    }
}

/// A member in the table.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Who.
    pub node: NodeId,
    /// Its label.
    pub name: String,
    /// Whether it is a seed.
    pub is_seed: bool,
    /// Whether it never wants to vote.
    pub is_observer: bool,
    /// What the leader says about it.
    pub status: Status,
}

/// One step of the table: a member's new status, and why.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, Hash)]
pub struct Step {
    /// The member as it is after the step.
    pub row: Row,
    /// Why.
    pub reason: Reason,
}

/// The table.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, Hash)]
pub struct Table {
    /// How many steps it took.
    pub seq: u64,
    rows: BTreeMap<Address, Row>,
}

/// The most members of a cluster, voters and observers together.
pub const MEMBERS_MAX: usize = 4_096;

impl Table {
    /// The member at an address.
    pub fn get(&self, address: &Address) -> Option<&Row> {
        self.rows.get(address)
    }

    /// The row of this very process.
    pub fn row_of(&self, node: &NodeId) -> Option<&Row> {
        self.rows.get(&node.address).filter(|row| row.node == *node)
    }

    /// All members, by address.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.values()
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether nobody is in it.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// How many members are active.
    pub fn n_active(&self) -> usize {
        self.rows.values().filter(|row| row.status == Status::Active).count()
    }

    /// Takes one step.
    pub fn apply(&mut self, step: &Step) {
        self.seq = self.seq.saturating_add(1);
        let address = step.row.node.address.clone();
        match step.row.status {
            Status::Removed => {
                self.rows.remove(&address);
            }
            Status::Joining | Status::Active | Status::Unreachable | Status::Leaving => {
                self.rows.insert(address, step.row.clone());
            }
        }
    }

    /// A number that differs when tables differ: FNV-1a over everything in it.
    pub fn digest(&self, claim: Option<&Claim>) -> u64 {
        let mut digest = Digest::new();
        digest.number(claim.map_or(Version(0), |it| it.version).0);
        if let Some(claim) = claim {
            digest.node(&claim.leader);
        }
        digest.number(self.seq);
        for row in self.rows.values() {
            digest.node(&row.node);
            digest.text(&row.name);
            digest.number(u64::from(row.is_seed) | u64::from(row.is_observer) << 1);
            digest.number(row.status as u64);
        }
        digest.0
    }
}

struct Digest(u64);

impl Digest {
    fn new() -> Digest {
        Digest(0xcbf2_9ce4_8422_2325)
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn number(&mut self, number: u64) {
        for byte in number.to_le_bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn node(&mut self, node: &NodeId) {
        self.text(node.address.host());
        self.number(u64::from(node.address.port()));
        self.number(node.incarnation.0);
    }
}
