//! The voters: `nodes` slots, each bound to an address once and for all, or until it is replaced.
//!
//! What must hold: two quorums always share a voter. As long as slots are only filled, all voters
//! there ever were are at most `nodes`, and any two majorities of them meet. Replacing an address
//! goes through a joint phase, in which a majority of the old and a majority of the new are needed.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{
    address::{Address, Incarnation, NodeId},
    claim::Version,
};

/// A voter.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Slot {
    /// Who votes.
    pub address: Address,
    /// The life in which it was bound. A later life without a store has forgotten its votes.
    pub bound_as: Incarnation,
    /// Whether nobody had the slot before. Who takes another's place may have been a voter long ago,
    /// and votes only once a newer version than the present is established.
    pub is_first: bool,
}

impl Slot {
    fn of(node: &NodeId, is_first: bool) -> Slot {
        Slot { address: node.address.clone(), bound_as: node.incarnation, is_first }
    }
}

/// Who votes. Ordered by `(version, epoch)`; the larger is newer.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Slots {
    /// The leader's version when this was decided.
    pub version: Version,
    /// How many changes there have been.
    pub epoch: u64,
    /// How many voters there can be.
    pub nodes: u32,
    /// The slots in use, at most `nodes`.
    pub bound: Vec<Slot>,
    /// A slot, by index, that is being given to another address.
    pub replacing: Option<(u32, Slot)>,
}

impl Slots {
    /// The slots of a cluster that is being founded by `voters`.
    pub fn founded_by(nodes: u32, voters: &[NodeId]) -> Slots {
        let bound = voters.iter().take(nodes as usize).map(|it| Slot::of(it, true)).collect();
        Slots { version: Version(1), epoch: 0, nodes, bound, replacing: None }
    }

    /// What decides which of two is newer.
    pub fn order(&self) -> (Version, u64) {
        (self.version, self.epoch)
    }

    /// The slot of an address, also of one that is about to get one.
    pub fn slot_of(&self, address: &Address) -> Option<&Slot> {
        let coming = self.replacing.as_ref().map(|(_, slot)| slot);
        self.bound.iter().chain(coming).find(|slot| slot.address == *address)
    }

    /// Everybody whose vote may count.
    pub fn voters(&self) -> impl Iterator<Item = &Address> {
        let coming = self.replacing.as_ref().map(|(_, slot)| slot);
        self.bound.iter().chain(coming).map(|slot| &slot.address)
    }

    /// Whether there is a slot that was never used.
    pub fn has_room(&self) -> bool {
        self.bound.len() < self.nodes as usize
    }

    /// Whether these voters can decide.
    pub fn is_quorum(&self, voters: &BTreeSet<Address>) -> bool {
        let needed = self.nodes as usize / 2 + 1;
        let count = |of: &[Slot]| of.iter().filter(|it| voters.contains(&it.address)).count();
        let Some((index, coming)) = &self.replacing else { return count(&self.bound) >= needed };
        let mut next = self.bound.clone();
        if let Some(slot) = next.get_mut(*index as usize) {
            *slot = coming.clone();
        }
        count(&self.bound) >= needed && count(&next) >= needed
    }

    /// The same with one more voter, if there is room.
    pub fn with(&self, version: Version, voter: &NodeId) -> Option<Slots> {
        if !self.has_room() || self.replacing.is_some() || self.slot_of(&voter.address).is_some() {
            return None;
        }
        let mut next = self.clone();
        next.bound.push(Slot::of(voter, true));
        (next.version, next.epoch) = (version, self.epoch.saturating_add(1));
        Some(next)
    }

    /// The joint phase in which `old` gives way to `new`.
    pub fn replace(&self, version: Version, old: &Address, new: &NodeId) -> Option<Slots> {
        let index = self.bound.iter().position(|slot| slot.address == *old)?;
        if self.replacing.is_some() || self.slot_of(&new.address).is_some() {
            return None;
        }
        let mut next = self.clone();
        next.replacing = Some((u32::try_from(index).ok()?, Slot::of(new, false)));
        (next.version, next.epoch) = (version, self.epoch.saturating_add(1));
        Some(next)
    }

    /// The end of the joint phase.
    pub fn replaced(&self, version: Version) -> Option<Slots> {
        let mut next = self.clone();
        let (index, slot) = next.replacing.take()?;
        *next.bound.get_mut(index as usize)? = slot;
        (next.version, next.epoch) = (version, self.epoch.saturating_add(1));
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str) -> NodeId {
        NodeId { address: Address::new(name, 1).unwrap(), incarnation: Incarnation(1) }
    }

    fn set(names: &str) -> BTreeSet<Address> {
        names.split_whitespace().map(|it| node(it).address).collect()
    }

    #[test]
    fn a_quorum_is_counted_over_all_slots_also_empty_ones() {
        let slots = Slots::founded_by(5, &[node("a"), node("b"), node("c")]);
        assert!(!slots.is_quorum(&set("a b")));
        assert!(slots.is_quorum(&set("a b c")));
        assert!(!slots.is_quorum(&set("a b x")), "a stranger does not count");
        let more = slots.with(Version(1), &node("d")).unwrap();
        assert!(more.is_quorum(&set("a b d")) && more.order() > slots.order());
        let full = more.with(Version(1), &node("e")).unwrap();
        assert_eq!(full.with(Version(1), &node("f")), None);
        assert_eq!(slots.with(Version(1), &node("a")), None, "bound already");
    }

    #[test]
    fn two_quorums_around_a_replacement_always_meet() {
        let names = ["a", "b", "c", "x"];
        let old = Slots::founded_by(3, &[node("a"), node("b"), node("c")]);
        let joint = old.replace(Version(1), &node("c").address, &node("x")).unwrap();
        let new = joint.replaced(Version(1)).unwrap();
        let subsets: Vec<BTreeSet<Address>> = (0..16_u32)
            .map(|bits| {
                let is_in = |index: &usize| bits & (1 << index) != 0;
                (0..4).filter(is_in).map(|index| node(names[index]).address).collect()
            })
            .collect();
        let meet = |one: &Slots, other: &Slots| {
            let quorums = |of: &Slots| {
                subsets.iter().filter(|it| of.is_quorum(it)).cloned().collect::<Vec<_>>()
            };
            let other = quorums(other);
            quorums(one).iter().all(|it| other.iter().all(|that| !it.is_disjoint(that)))
        };
        assert!(meet(&old, &joint) && meet(&joint, &new) && meet(&joint, &joint));
        assert!(!meet(&old, &new), "which is why the joint phase is there");
    }
}
