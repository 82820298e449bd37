//! A claim to lead: by whom, for which version, and how good it is.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{address::NodeId, moment::Moment};

/// The number of a leadership. It grows by one with every leader that a quorum elects.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Version(pub u64);

impl Version {
    /// The version of the next election.
    pub fn next(self) -> Version {
        Version(self.0.saturating_add(1))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}

/// A cluster from its founding on: random, so that tokens of two clusters never compare.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct ClusterId(pub u128);

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Somebody leads, or says so.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Claim {
    /// Who.
    pub leader: NodeId,
    /// For which version. Without a certificate it is one above the last that was established,
    /// and may be withdrawn.
    pub version: Version,
    /// Whether a quorum elected it for this version. A seed that promoted itself is not certified.
    pub certified: bool,
}

impl Claim {
    /// Whether this claim stands when it meets `other`: certified before uncertified, then the
    /// larger version, then the larger address.
    pub fn outranks(&self, other: &Claim) -> bool {
        let rank = |it: &Claim| {
            let certified = it.certified && !crate::mutant::is_on(crate::mutant::Mutant::H15);
            (certified, it.version, it.leader.clone())
        };
        rank(self) > rank(other)
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.certified { "certified" } else { "self-promoted" };
        write!(f, "{} {} {how}", self.leader, self.version)
    }
}

/// What a leadership is worth at this moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quality {
    /// It keeps the table of members, but nobody promised to elect no other.
    Provisional,
    /// Elected by a quorum, and a quorum holds back its votes right now.
    Established,
}

/// Proof of leadership, for whoever is written to: a larger version always wins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct FencingToken {
    /// Tokens of different clusters do not compare.
    pub cluster: ClusterId,
    /// The established version.
    pub version: Version,
    /// On the leader's own clock; not to be used from then on.
    pub valid_until: Moment,
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}
