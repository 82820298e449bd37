//! One decision by vote: Paxos for a single value, once for every version.
//!
//! The first stage (`pre`) asks for promises and learns what may have been chosen; the second
//! (`formal`) asks for the vote itself. What may have been chosen is proposed again, never replaced:
//! the value with the highest ballot among the promises wins over the proposer's own.

use std::{collections::BTreeSet, fmt};

use serde::{Deserialize, Serialize};

use crate::{
    address::{Address, NodeId},
    claim::{Claim, ClusterId, Version},
    slots::Slots,
};

/// The number of a proposal. No two proposals share one: it names the process that made it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Ballot {
    /// Larger than any that the proposer has seen.
    pub round: u64,
    /// Who proposes.
    pub proposer: NodeId,
}

impl fmt::Display for Ballot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.round, self.proposer)
    }
}

/// What is voted on.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Value {
    /// Who is to lead: this very process, not a later one at its address.
    pub candidate: NodeId,
    /// The cluster; a new one in the election that founds it.
    pub cluster: ClusterId,
    /// Who votes from now on.
    pub slots: Slots,
}

/// What a voter keeps about one version.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Acceptor {
    /// No ballot below this is answered with a yes.
    pub promised: Option<Ballot>,
    /// The last formal vote.
    pub accepted: Option<(Ballot, Value)>,
}

impl Acceptor {
    /// Takes a pre-proposal: a promise, unless a larger ballot has one.
    pub fn promise(&mut self, ballot: &Ballot) -> Result<(), Ballot> {
        match &self.promised {
            Some(promised) if promised > ballot => Err(promised.clone()),
            Some(_) | None => {
                self.promised = Some(ballot.clone());
                Ok(())
            }
        }
    }

    /// Takes a formal proposal, unless a larger ballot has a promise.
    pub fn accept(&mut self, ballot: &Ballot, value: &Value) -> Result<(), Ballot> {
        self.promise(ballot)?;
        self.accepted = Some((ballot.clone(), value.clone()));
        Ok(())
    }
}

/// Which stage of a vote.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Asks for a promise.
    Pre,
    /// Asks for the vote.
    Formal,
}

/// The proof that a quorum elected somebody.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Certificate {
    /// For which version.
    pub version: Version,
    /// What was chosen.
    pub value: Value,
    /// By which proposal.
    pub ballot: Ballot,
    /// Who voted for it.
    pub voters: BTreeSet<Address>,
}

impl Certificate {
    /// What was decided, whoever voted for it.
    pub fn name(&self) -> (Version, &Ballot, &Value) {
        (self.version, &self.ballot, &self.value)
    }

    /// Whether the voters that are named decide.
    pub fn is_valid(&self) -> bool {
        self.value.slots.is_quorum(&self.voters)
    }

    /// What it proves.
    pub fn claim(&self) -> Claim {
        let leader = self.value.candidate.clone();
        Claim { leader, version: self.version, certified: true }
    }
}

/// Why a vote is a no, and what the proposer can do with it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, Hash)]
pub enum Refusal {
    /// A larger ballot has the promise: try again above it.
    Promised(Ballot),
    /// The voter hears a leader that has a lease: follow that one.
    LeaderAlive(Claim),
    /// The voter holds back its vote for a leader of an earlier version for this much longer.
    Pledged {
        /// For which version it holds back.
        version: Version,
        /// How long still, in microseconds of the voter's clock.
        for_micros: u64,
    },
    /// That version is over; the proof of a newer one, if it is at hand.
    OldVersion(Version, Option<Box<Certificate>>),
    /// The voters have changed: count again with these.
    OldSlots(Box<Slots>),
    /// The proposal is of another cluster.
    OtherCluster(Option<ClusterId>),
    /// The voter may not vote, for this reason.
    NotVoting(String),
}

impl fmt::Debug for Ballot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
