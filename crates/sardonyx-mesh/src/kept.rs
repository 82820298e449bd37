//! What a member keeps over restarts: its promises, and what it knows for certain.
//!
//! It is small and is written as a whole. A promise is answered only after it is kept; the machine
//! waits for [`crate::Input::Saved`] before it says so.

use std::{
    collections::BTreeMap,
    hash::{Hash, Hasher},
};

use serde::{Deserialize, Serialize};

use crate::{
    address::{Address, Incarnation},
    claim::{ClusterId, Version},
    slots::Slots,
    vote::{Acceptor, Ballot, Certificate},
};

/// Everything that must survive.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, Hash)]
pub struct Kept {
    /// Whose store this is: one that was copied to another address is not used.
    pub address: Address,
    /// The last life that began with it. The next must be larger.
    pub incarnation: Incarnation,
    /// The cluster, once one was founded or joined.
    pub cluster: Option<ClusterId>,
    /// The newest version of which this member knows that a quorum elected its leader.
    pub established: Version,
    /// The proof of it, if it was seen.
    pub certificate: Option<Certificate>,
    /// Votes, by version; only those above `established` are still needed.
    pub votes: BTreeMap<Version, Acceptor>,
    /// Who votes, as far as this member knows.
    pub slots: Slots,
    /// Whether earlier votes may have been lost, and until when that matters.
    pub recovery: Recovery,
}

/// Whether this member may have forgotten votes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, Hash)]
#[serde(rename_all = "kebab-case")]
pub enum Recovery {
    /// Nothing was lost: it votes.
    #[default]
    Intact,
    /// Votes may be lost, and how new they were is unknown: it does not vote.
    Unknown,
    /// Votes may be lost up to this version: it votes only above it.
    UpTo(Version),
}

impl Kept {
    /// The store of a member that has none: new here, or its store is gone. Which of the two it is,
    /// the cluster will tell.
    pub fn empty(address: Address) -> Kept {
        Kept {
            address,
            incarnation: Incarnation::default(),
            cluster: None,
            established: Version(0),
            certificate: None,
            votes: BTreeMap::new(),
            slots: Slots::default(),
            recovery: Recovery::Intact,
        }
    }

    /// The store of a member whose own is there but cannot be read. It must have voted before, so
    /// it may not even help to found a new cluster.
    pub fn corrupt(address: Address) -> Kept {
        Kept { recovery: Recovery::Unknown, ..Kept::empty(address) }
    }

    /// Whether nothing was ever voted or learnt.
    pub fn is_pristine(&self) -> bool {
        self.cluster.is_none() && self.votes.is_empty() && self.recovery == Recovery::Intact
    }

    /// The largest ballot round in any vote.
    pub fn round(&self) -> u64 {
        let round = |ballot: &Ballot| ballot.round;
        self.votes.values().filter_map(|it| it.promised.as_ref().map(round)).max().unwrap_or(0)
    }

    /// The largest version in which a promise was made; 0 if there is none above the established.
    pub fn promised_version(&self) -> Version {
        let above = self.votes.range(self.established.next()..);
        above
            .filter(|(_, it)| it.promised.is_some())
            .map(|(v, _)| *v)
            .next_back()
            .unwrap_or_default()
    }

    /// Everything that has a part in an election. Who exactly voted for a leader has none: that they
    /// are enough was seen.
    pub fn hash_election(&self, into: &mut impl Hasher) {
        let Kept {
            address,
            incarnation,
            cluster,
            established,
            certificate,
            votes,
            slots,
            recovery,
        } = self;
        (address, incarnation, cluster, established, votes, slots, recovery).hash(into);
        certificate.as_ref().map(Certificate::name).hash(into);
    }

    /// Learns that `version` is established: older votes are no longer needed.
    pub fn establish(&mut self, version: Version) {
        if version > self.established {
            self.established = version;
            self.votes = self.votes.split_off(&version.next());
        }
    }
}
