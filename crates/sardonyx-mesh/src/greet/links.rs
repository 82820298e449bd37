//! One connection for each peer, and the same one on both sides.
//!
//! Law: whatever the order in which two nodes dial, greet and close, once nothing is on its way
//! both hold the connection that was dialled by the smaller address. And what a node holds is never
//! an older life of its peer than it has already greeted.

use std::collections::BTreeMap;

use crate::{
    address::Address,
    mutant::{self, Mutant},
};

/// A connection in this process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LinkId(pub u64);

/// Who dialled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dialler {
    /// This node.
    Me,
    /// The other one.
    Peer,
}

/// A connection that was greeted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// Which.
    pub id: LinkId,
    /// Who dialled it.
    pub dialler: Dialler,
    /// The peer's life.
    pub incarnation: u64,
    /// The dialler's number of it.
    pub dial: u64,
}

/// What becomes of a connection that has just been greeted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It is the one. The other is to be closed.
    Kept {
        /// The one that it replaces.
        closes: Option<LinkId>,
    },
    /// It is to be closed: there is a better one. That one should be tried at once, because the
    /// other side may not have it any more.
    Lost {
        /// The better one.
        to: LinkId,
    },
    /// It is to be closed: the peer was started again since.
    Stale,
}

/// Which connection leads to whom.
#[derive(Clone, Debug)]
pub struct Links {
    me: Address,
    held: BTreeMap<Address, Link>,
    /// The newest life that was greeted at each address.
    newest: BTreeMap<Address, u64>,
}

/// How many addresses are remembered with their newest life, beyond those that are connected.
const NEWEST_MAX: usize = 10_000;

impl Links {
    /// No connections yet.
    pub fn new(me: Address) -> Links {
        Links { me, held: BTreeMap::new(), newest: BTreeMap::new() }
    }

    /// The connection to a peer.
    pub fn get(&self, peer: &Address) -> Option<Link> {
        self.held.get(peer).copied()
    }

    /// All peers that are connected.
    pub fn peers(&self) -> impl Iterator<Item = (&Address, &Link)> {
        self.held.iter()
    }

    /// Takes in a connection that was greeted, or not.
    pub fn greeted(&mut self, peer: &Address, new: Link) -> Verdict {
        let newest = self.newest.get(peer).copied().unwrap_or_default();
        if new.incarnation < newest {
            return Verdict::Stale;
        }
        let is_better = self.held.get(peer).is_none_or(|old| self.is_better(peer, &new, old));
        match self.held.get(peer) {
            Some(old) if !is_better && !mutant::is_on(Mutant::BothKept) => {
                Verdict::Lost { to: old.id }
            }
            Some(_) | None => {
                if self.newest.len() >= NEWEST_MAX {
                    let held = &self.held;
                    self.newest.retain(|address, _| held.contains_key(address));
                }
                self.newest.insert(peer.clone(), new.incarnation);
                let closes = self.held.insert(peer.clone(), new).map(|old| old.id);
                let closes = closes.filter(|_| !mutant::is_on(Mutant::BothKept));
                Verdict::Kept { closes }
            }
        }
    }

    /// A connection ended. Only if it is the one that is held does its peer lose it.
    pub fn closed(&mut self, peer: &Address, id: LinkId) {
        if self.held.get(peer).is_some_and(|it| it.id == id) {
            self.held.remove(peer);
        }
    }

    fn is_better(&self, peer: &Address, new: &Link, old: &Link) -> bool {
        if new.incarnation != old.incarnation {
            return new.incarnation > old.incarnation;
        }
        if new.dialler == old.dialler {
            // The dialler would not have dialled again, had the old one been of use to it.
            return new.dial > old.dial;
        }
        let smaller = if self.me < *peer { Dialler::Me } else { Dialler::Peer };
        new.dialler == smaller
    }
}
