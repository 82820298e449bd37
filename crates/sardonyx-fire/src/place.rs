//! Who there is: the processes of a run, and where each of them stands on the network.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How many nodes there are.
pub const NODES: usize = 5;
/// How many virtual peers each of them has.
pub const PEERS: usize = 8;
/// How many servers an etcd or a ZooKeeper has.
pub const STORES: usize = 3;
/// How many processes draw ids.
pub const DRAWERS: usize = 4;

/// A process of the run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// A server of the coordination store.
    Store(usize),
    /// A node with its peers.
    Node(usize),
    /// The process that serves an embedded store, embedded queues, or both.
    Host,
    /// The NATS server.
    Nats,
    /// A process that draws ids.
    Drawer(usize),
}

impl Place {
    /// How many there are in all.
    pub const COUNT: usize = STORES + NODES + 2 + DRAWERS;

    /// Its place in the network; the servers of the store come first, because their suite numbers
    /// them so.
    pub fn index(self) -> usize {
        match self {
            Place::Store(index) => index,
            Place::Node(index) => STORES + index,
            Place::Host => STORES + NODES,
            Place::Nats => STORES + NODES + 1,
            Place::Drawer(index) => STORES + NODES + 2 + index,
        }
    }

    /// All nodes.
    pub fn nodes() -> impl Iterator<Item = Place> {
        (0..NODES).map(Place::Node)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Store(index) => write!(f, "store{index}"),
            Place::Node(index) => write!(f, "node{index}"),
            Place::Host => f.write_str("host"),
            Place::Nats => f.write_str("nats"),
            Place::Drawer(index) => write!(f, "drawer{index}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn everybody_has_a_place_of_its_own() {
        let stores = (0..STORES).map(Place::Store);
        let drawers = (0..DRAWERS).map(Place::Drawer);
        let all = stores.chain(Place::nodes()).chain([Place::Host, Place::Nats]).chain(drawers);
        let indices: BTreeSet<_> = all.map(Place::index).collect();
        assert_eq!(indices, (0..Place::COUNT).collect());
    }
}
