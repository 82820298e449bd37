//! What lies between members: delays, losses, copies, and links that are cut in one direction.

use std::collections::BTreeSet;

use crate::rng::Rng;

/// The network, as bad as it is told to be. Times are microseconds.
#[derive(Clone, Debug)]
pub struct Network {
    /// Links that carry nothing, by sender and receiver.
    pub cut: BTreeSet<(usize, usize)>,
    /// How many messages of a thousand are lost.
    pub lost_per_mille: u64,
    /// How many of a thousand arrive twice.
    pub doubled_per_mille: u64,
    /// The shortest way.
    pub delay_min: u64,
    /// The longest way. Where it is longer than the shortest, messages overtake each other.
    pub delay_max: u64,
}

impl Network {
    /// Half a millisecond each way, nothing lost.
    pub fn calm() -> Network {
        Network {
            cut: BTreeSet::new(),
            lost_per_mille: 0,
            doubled_per_mille: 0,
            delay_min: 500,
            delay_max: 500,
        }
    }

    /// Cuts both directions between every two of different groups; who is in no group is alone.
    pub fn split(&mut self, n_nodes: usize, groups: &[&[usize]]) {
        let group = |node: usize| groups.iter().position(|it| it.contains(&node));
        for one in 0..n_nodes {
            for other in 0..n_nodes {
                let are_together = group(one).is_some() && group(one) == group(other);
                if one != other && !are_together {
                    self.cut.insert((one, other));
                }
            }
        }
    }

    /// Cuts everything but these links, which carry both ways.
    pub fn only(&mut self, n_nodes: usize, links: &[(usize, usize)]) {
        self.split(n_nodes, &[]);
        for (one, other) in links {
            self.cut.remove(&(*one, *other));
            self.cut.remove(&(*other, *one));
        }
    }

    /// Cuts one node off from all others.
    pub fn isolate(&mut self, node: usize, n_nodes: usize) {
        for other in (0..n_nodes).filter(|it| *it != node) {
            self.cut.insert((node, other));
            self.cut.insert((other, node));
        }
    }

    /// Nothing is cut any more.
    pub fn heal(&mut self) {
        self.cut.clear();
    }

    /// After how long each copy of a message arrives; none, one or two.
    pub(super) fn ways(&self, from: usize, to: usize, rng: &mut Rng) -> Vec<u64> {
        if self.cut.contains(&(from, to)) || rng.below(1_000) < self.lost_per_mille {
            return Vec::new();
        }
        let n_copies = 1 + usize::from(rng.below(1_000) < self.doubled_per_mille);
        let delay = |rng: &mut Rng| rng.between(self.delay_min, self.delay_max + 1);
        (0..n_copies).map(|_| delay(rng)).collect()
    }
}
