//! What a member tells its user: who came and went, who leads, and why.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    address::NodeId,
    claim::{Claim, Version},
    view::{Row, Status},
};

/// Why something changed. With the change it says who saw what.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, Hash)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// It asked to join.
    Joined,
    /// It showed that it knows the table.
    Initialised,
    /// The leader heard nothing from it for this many milliseconds.
    Silent {
        /// Milliseconds on the leader's clock.
        millis: u64,
    },
    /// The leader heard it again.
    HeardAgain,
    /// It said goodbye.
    Left,
    /// A newer process took its address.
    Restarted,
    /// It did not finish joining in time.
    JoinTimedOut,
    /// It stands in the table that a leader handed over.
    InSnapshot,
    /// It does not stand in the table that a leader handed over.
    NotInSnapshot,
    /// No seed named a leader, and this member is a seed.
    NobodyLeads,
    /// A quorum elected it.
    Elected,
    /// A leader handed its office to it.
    Transferred,
    /// The leader was not heard for this many milliseconds.
    LeaderSilent {
        /// Milliseconds on the follower's clock.
        millis: u64,
    },
    /// The leader's lease ran out: too few voters were heard.
    LeaseLost,
    /// Enough voters hold back their votes.
    LeaseGained,
    /// The leader ordered everybody to join the winner of a conflict.
    Relieved {
        /// The winner, if it was named.
        by: Option<Claim>,
    },
    /// The leader says that this process is no member.
    NotAMember,
    /// The leader's process is gone: another one answers at its address.
    LeaderRestarted,
    /// This member was told to stop.
    Stopping,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Joined => f.write_str("it asked to join"),
            Reason::Initialised => f.write_str("it has the table"),
            Reason::Silent { millis } => write!(f, "nothing heard from it for {millis} ms"),
            Reason::HeardAgain => f.write_str("heard again"),
            Reason::Left => f.write_str("it said goodbye"),
            Reason::Restarted => f.write_str("a newer process took its address"),
            Reason::JoinTimedOut => f.write_str("it did not finish joining in time"),
            Reason::InSnapshot => f.write_str("the leader's table has it"),
            Reason::NotInSnapshot => f.write_str("the leader's table does not have it"),
            Reason::NobodyLeads => f.write_str("no other seed names a leader"),
            Reason::Elected => f.write_str("a quorum elected it"),
            Reason::Transferred => f.write_str("the office was handed over"),
            Reason::LeaderSilent { millis } => write!(f, "no answer from it for {millis} ms"),
            Reason::LeaseLost => f.write_str("too few voters answer, the lease ran out"),
            Reason::LeaseGained => f.write_str("a quorum holds back its votes"),
            Reason::Relieved { by: Some(by) } => write!(f, "relieved in favour of {by}"),
            Reason::Relieved { by: None } => f.write_str("relieved"),
            Reason::NotAMember => f.write_str("the leader does not know us"),
            Reason::LeaderRestarted => f.write_str("another process answers at its address"),
            Reason::Stopping => f.write_str("told to stop"),
        }
    }
}

/// Something that the user of a member is told, in order.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// A member's status. After a reset a member may appear with any status but `removed`; from
    /// then on it goes through the states one by one.
    Member {
        /// Whose table says so.
        leader: NodeId,
        /// Of which version.
        version: Version,
        /// And at which step.
        seq: u64,
        /// The status before; `None` for one that was not known.
        from: Option<Status>,
        /// The member as it is now.
        row: Row,
        /// Why.
        reason: Reason,
    },
    /// Who leads, as far as this member knows; `None` for nobody.
    Leader {
        /// The new one.
        claim: Option<Claim>,
        /// Why.
        reason: Reason,
    },
    /// This member leads and gained or lost its lease.
    Lease {
        /// Whether it has it now.
        held: bool,
        /// For which version.
        version: Version,
        /// Why.
        reason: Reason,
    },
    /// Everything said about members so far is void: this member begins anew.
    ViewReset {
        /// Why.
        reason: Reason,
    },
    /// This member has left and does nothing more.
    Stopped,
    /// Something that an operator should know; nothing changed.
    Warning(String),
}
