//! A persistent ordered map that knows ranks: clones share, changes copy one path, the k-th key
//! is found without counting.
//!
//! Why our own: the replica is cloned at every entry and must stay `no_std`, and choosing an
//! observer means finding the k-th candidate among ten thousand. No library offers all three; see
//! docs/decisions/0003-a-tree-with-ranks.md for what was measured.
//!
//! It is a weight-balanced tree (Adams; parameters 3 and 2 after Hirai and Yamamoto). A node that
//! nobody else holds is changed in place, so playing a log without keeping old replicas copies
//! nothing.

use alloc::{sync::Arc, vec::Vec};
use core::{borrow::Borrow, cmp::Ordering, fmt};

/// A subtree may be at most this many times as heavy as its sibling.
const DELTA: usize = 3;
/// When it is heavier, this decides between a single and a double rotation.
const GAMMA: usize = 2;

/// An ordered map with O(1) clone and O(log n) get, insert, remove and rank.
pub struct Tree<K, V> {
    root: Link<K, V>,
}

type Link<K, V> = Option<Arc<Node<K, V>>>;

#[derive(Clone)]
struct Node<K, V> {
    key: K,
    value: V,
    size: usize,
    left: Link<K, V>,
    right: Link<K, V>,
}

impl<K, V> Tree<K, V> {
    /// The empty map.
    pub const fn new() -> Self {
        Tree { root: None }
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        size(&self.root)
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// The entry with exactly `rank` smaller keys.
    pub fn nth(&self, rank: usize) -> Option<(&K, &V)> {
        let mut rank = rank;
        let mut link = &self.root;
        while let Some(node) = link {
            let before = size(&node.left);
            match rank.cmp(&before) {
                Ordering::Less => link = &node.left,
                Ordering::Equal => return Some((&node.key, &node.value)),
                Ordering::Greater => {
                    rank -= before + 1;
                    link = &node.right;
                }
            }
        }
        None
    }

    /// The entry with the greatest key.
    pub fn last(&self) -> Option<(&K, &V)> {
        self.nth(self.len().checked_sub(1)?)
    }

    /// All entries, smallest key first.
    pub fn iter(&self) -> Iter<'_, K, V> {
        let mut iter = Iter { path: Vec::new() };
        iter.descend(&self.root);
        iter
    }

    /// All keys, smallest first.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    /// All values, in the order of their keys.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// The bytes that the nodes occupy, not counting what keys and values point to.
    pub fn bytes(&self) -> usize {
        // An Arc keeps two counters beside its content.
        self.len() * (size_of::<Node<K, V>>() + 2 * size_of::<usize>())
    }

    /// A tree of entries whose keys are known to grow: linear, where inserting would not be.
    pub(crate) fn from_growing(entries: Vec<(K, V)>) -> Self {
        fn build<K, V>(n: usize, entries: &mut impl Iterator<Item = (K, V)>) -> Link<K, V> {
            let before = n / 2;
            let left = if before > 0 { build(before, entries) } else { None };
            let (key, value) = entries.next()?;
            let after = n - before - 1;
            let right = if after > 0 { build(after, entries) } else { None };
            Some(Arc::new(Node { key, value, size: n, left, right }))
        }
        let n = entries.len();
        let root = if n > 0 { build(n, &mut entries.into_iter()) } else { None };
        Tree { root }
    }

    /// Whether both are the very same tree in memory, and therefore equal. May miss equal ones.
    pub fn same(&self, other: &Self) -> bool {
        match (&self.root, &other.root) {
            (None, None) => true,
            (Some(mine), Some(theirs)) => Arc::ptr_eq(mine, theirs),
            _ => false,
        }
    }
}

impl<K: Ord, V> Tree<K, V> {
    /// The value at `key`.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let mut link = &self.root;
        while let Some(node) = link {
            link = match key.cmp(node.key.borrow()) {
                Ordering::Less => &node.left,
                Ordering::Equal => return Some(&node.value),
                Ordering::Greater => &node.right,
            };
        }
        None
    }

    /// Whether `key` is there.
    pub fn contains<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.get(key).is_some()
    }
}

impl<K: Ord + Clone, V: Clone> Tree<K, V> {
    /// The value at `key`, to be changed in place.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        // Looked up first: a miss must not copy a path that others share.
        if !self.contains(key) {
            return None;
        }
        let mut link = &mut self.root;
        while let Some(node) = link {
            let node = Arc::make_mut(node);
            link = match key.cmp(node.key.borrow()) {
                Ordering::Less => &mut node.left,
                Ordering::Equal => return Some(&mut node.value),
                Ordering::Greater => &mut node.right,
            };
        }
        None
    }

    /// Puts `value` at `key` and returns what was there.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        put(&mut self.root, key, value)
    }

    /// Takes `key` out and returns what was there.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        if !self.contains(key) {
            return None;
        }
        take(&mut self.root, key).map(|(_, value)| value)
    }
}

fn size<K, V>(link: &Link<K, V>) -> usize {
    link.as_ref().map_or(0, |node| node.size)
}

/// Inserts or replaces, and rebalances only where the tree has grown.
fn put<K: Ord + Clone, V: Clone>(link: &mut Link<K, V>, key: K, value: V) -> Option<V> {
    let Some(node) = link else {
        *link = Some(Arc::new(Node { key, value, size: 1, left: None, right: None }));
        return None;
    };
    let node = Arc::make_mut(node);
    let replaced = match key.cmp(&node.key) {
        Ordering::Less => put(&mut node.left, key, value),
        Ordering::Greater => put(&mut node.right, key, value),
        Ordering::Equal => return Some(core::mem::replace(&mut node.value, value)),
    };
    if replaced.is_none() {
        node.size += 1;
        balance(link);
    }
    replaced
}

/// Removes a key known to be present.
fn take<Q: Ord + ?Sized, K: Ord + Clone + Borrow<Q>, V: Clone>(
    link: &mut Link<K, V>,
    key: &Q,
) -> Option<(K, V)> {
    let node = Arc::make_mut(link.as_mut()?);
    let taken = match key.cmp(node.key.borrow()) {
        Ordering::Less => take(&mut node.left, key),
        Ordering::Greater => take(&mut node.right, key),
        Ordering::Equal => return take_root(link),
    };
    node.size -= 1;
    balance(link);
    taken
}

/// Removes the root of `link`; its neighbour from the heavier side takes its place.
fn take_root<K: Ord + Clone, V: Clone>(link: &mut Link<K, V>) -> Option<(K, V)> {
    let node = Arc::make_mut(link.as_mut()?);
    let neighbour = match size(&node.left) > size(&node.right) {
        true => take_end(&mut node.left, End::Last),
        false => take_end(&mut node.right, End::First),
    };
    let Some((key, value)) = neighbour else {
        // No neighbour means no children: the heavier side was empty.
        let node = Arc::unwrap_or_clone(link.take()?);
        return Some((node.key, node.value));
    };
    node.size -= 1;
    let taken =
        (core::mem::replace(&mut node.key, key), core::mem::replace(&mut node.value, value));
    balance(link);
    Some(taken)
}

#[derive(Clone, Copy)]
enum End {
    First,
    Last,
}

fn take_end<K: Ord + Clone, V: Clone>(link: &mut Link<K, V>, end: End) -> Option<(K, V)> {
    let node = Arc::make_mut(link.as_mut()?);
    let deeper = match end {
        End::First => &mut node.left,
        End::Last => &mut node.right,
    };
    if let Some(taken) = take_end(deeper, end) {
        node.size -= 1;
        balance(link);
        return Some(taken);
    }
    let mut node = Arc::unwrap_or_clone(link.take()?);
    *link = match end {
        End::First => node.right.take(),
        End::Last => node.left.take(),
    };
    Some((node.key, node.value))
}

/// Restores the balance of `link` after one insertion or removal below it.
fn balance<K: Clone, V: Clone>(link: &mut Link<K, V>) {
    let Some(node) = link else { return };
    let (left, right) = (size(&node.left) + 1, size(&node.right) + 1);
    if right > DELTA * left {
        let node = Arc::make_mut(node);
        if let Some(child) = &node.right
            && size(&child.left) + 1 >= GAMMA * (size(&child.right) + 1)
        {
            rotate_right(&mut node.right);
        }
        rotate_left(link);
    } else if left > DELTA * right {
        let node = Arc::make_mut(node);
        if let Some(child) = &node.left
            && size(&child.right) + 1 >= GAMMA * (size(&child.left) + 1)
        {
            rotate_left(&mut node.left);
        }
        rotate_right(link);
    }
}

fn rotate_left<K: Clone, V: Clone>(link: &mut Link<K, V>) {
    let Some(mut top) = link.take() else { return };
    let node = Arc::make_mut(&mut top);
    let Some(mut pivot) = node.right.take() else {
        *link = Some(top);
        return;
    };
    let risen = Arc::make_mut(&mut pivot);
    node.right = risen.left.take();
    node.size = size(&node.left) + size(&node.right) + 1;
    risen.left = Some(top);
    risen.size = size(&risen.left) + size(&risen.right) + 1;
    *link = Some(pivot);
}

fn rotate_right<K: Clone, V: Clone>(link: &mut Link<K, V>) {
    let Some(mut top) = link.take() else { return };
    let node = Arc::make_mut(&mut top);
    let Some(mut pivot) = node.left.take() else {
        *link = Some(top);
        return;
    };
    let risen = Arc::make_mut(&mut pivot);
    node.left = risen.right.take();
    node.size = size(&node.left) + size(&node.right) + 1;
    risen.right = Some(top);
    risen.size = size(&risen.left) + size(&risen.right) + 1;
    *link = Some(pivot);
}

/// The entries of a [`Tree`], smallest key first.
pub struct Iter<'a, K, V> {
    /// The nodes whose key is still to come, the next one last.
    path: Vec<&'a Node<K, V>>,
}

impl<'a, K, V> Iter<'a, K, V> {
    fn descend(&mut self, mut link: &'a Link<K, V>) {
        while let Some(node) = link {
            self.path.push(node);
            link = &node.left;
        }
    }
}

impl<'a, K, V> Iterator for Iter<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        let node = self.path.pop()?;
        self.descend(&node.right);
        Some((&node.key, &node.value))
    }
}

impl<K, V> Clone for Tree<K, V> {
    fn clone(&self) -> Self {
        Tree { root: self.root.clone() }
    }
}

impl<K, V> Default for Tree<K, V> {
    fn default() -> Self {
        Tree::new()
    }
}

impl<K: PartialEq, V: PartialEq> PartialEq for Tree<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.same(other) || (self.len() == other.len() && self.iter().eq(other.iter()))
    }
}

impl<K: Eq, V: Eq> Eq for Tree<K, V> {}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for Tree<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(any(test, feature = "mutants"))]
impl<K: Ord, V> Tree<K, V> {
    /// Whether order, sizes and balance hold everywhere. For tests.
    pub fn is_sound(&self) -> bool {
        fn sound<K: Ord, V>(link: &Link<K, V>) -> bool {
            let Some(node) = link else { return true };
            let (left, right) = (size(&node.left), size(&node.right));
            node.size == left + right + 1
                && left + 1 <= DELTA * (right + 1)
                && right + 1 <= DELTA * (left + 1)
                && sound(&node.left)
                && sound(&node.right)
        }
        sound(&self.root) && self.keys().zip(self.keys().skip(1)).all(|(a, b)| a < b)
    }
}
