//! Bytes to small numbers: each new key gets the next one.
//!
//! Words are short, and this is the innermost loop of a word count. So the first fifteen bytes of a
//! key and its length stand in the table itself: a short key is found, and told from others, without
//! looking anywhere else.

use hashbrown::{HashTable, hash_table::Entry as Found};
use xxhash_rust::xxh3::xxh3_64;

/// Keys up to this long are whole in the table.
const INLINE_MAX: usize = 15;

/// What the last byte of a head says of a key that is longer.
const LONG: u64 = 0xff << 56;

/// The head in halves: as one number it would be padded, and the table is what does not fit caches.
struct Entry {
    head: (u64, u64),
    id: u32,
}

/// Keys as bytes, numbered in order of their first appearance.
#[derive(Default)]
pub(super) struct Interner {
    table: HashTable<Entry>,
    /// All keys, one after the other.
    bytes: Vec<u8>,
    /// Where each key ends in `bytes`.
    ends: Vec<usize>,
}

impl Interner {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The number of the key that is `values[start..end]`. Whole buffers are handed over, because
    /// sixteen bytes are read faster than the few that are meant.
    pub(super) fn intern(&mut self, values: &[u8], start: usize, end: usize) -> u32 {
        let Interner { table, bytes, ends } = self;
        let key = &values[start..end];
        let head = head(values, start, key);
        let is_short = key.len() <= INLINE_MAX;
        let hash = hash(head, key);
        let is_same = |entry: &Entry| {
            entry.head == head && (is_short || key_in(bytes, ends, entry.id) == key)
        };
        let hash_again = |entry: &Entry| hash_of_entry(entry, bytes, ends);
        match table.entry(hash, is_same, hash_again) {
            Found::Occupied(found) => found.get().id,
            Found::Vacant(place) => {
                let id = ends.len() as u32;
                place.insert(Entry { head, id });
                bytes.extend_from_slice(key);
                ends.push(bytes.len());
                id
            }
        }
    }

    /// A number that no key has: for null.
    pub(super) fn reserve(&mut self) -> u32 {
        self.ends.push(self.bytes.len());
        self.ends.len() as u32 - 1
    }

    pub(super) fn key(&self, id: u32) -> &[u8] {
        key_in(&self.bytes, &self.ends, id)
    }
}

fn key_in<'a>(bytes: &'a [u8], ends: &[usize], id: u32) -> &'a [u8] {
    let id = id as usize;
    let start = if id == 0 { 0 } else { ends[id - 1] };
    &bytes[start..ends[id]]
}

fn head(values: &[u8], start: usize, key: &[u8]) -> (u64, u64) {
    let length = key.len();
    let read = match values[start..].first_chunk::<16>() {
        Some(bytes) => u128::from_le_bytes(*bytes),
        None => {
            let mut bytes = [0; 16];
            let n = length.min(16);
            bytes[..n].copy_from_slice(&key[..n]);
            u128::from_le_bytes(bytes)
        }
    };
    let read = match length {
        0 => 0,
        1..=INLINE_MAX => read & (u128::MAX >> (128 - 8 * length)),
        _ => read,
    };
    let (low, high) = (read as u64, (read >> 64) as u64);
    match length {
        0..=INLINE_MAX => (low, high | ((length as u64) << 56)),
        _ => (low, high | LONG),
    }
}

fn hash(head: (u64, u64), key: &[u8]) -> u64 {
    if key.len() <= INLINE_MAX { hash_of_head(head) } else { xxh3_64(key) }
}

fn hash_of_head((low, high): (u64, u64)) -> u64 {
    xxh3_64(&((u128::from(high) << 64) | u128::from(low)).to_le_bytes())
}

fn hash_of_entry(entry: &Entry, bytes: &[u8], ends: &[usize]) -> u64 {
    match entry.head.1 & LONG == LONG {
        true => xxh3_64(key_in(bytes, ends, entry.id)),
        false => hash_of_head(entry.head),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Lengths around the border between short and long, bytes at the end of the buffer.
        #[test]
        fn numbers_are_those_of_a_plain_map(
            keys in proptest::collection::vec(proptest::collection::vec(0..3u8, 0..19), 1..200),
        ) {
            let mut interner = Interner::default();
            let mut map: HashMap<&[u8], u32> = HashMap::new();
            let mut buffer = Vec::new();
            let mut places = Vec::new();
            for key in &keys {
                places.push((buffer.len(), buffer.len() + key.len()));
                buffer.extend_from_slice(key);
            }
            for (key, (start, end)) in keys.iter().zip(places) {
                let next = map.len() as u32;
                let expected = *map.entry(key).or_insert(next);
                prop_assert_eq!(interner.intern(&buffer, start, end), expected);
                prop_assert_eq!(interner.key(expected), &key[..]);
            }
            prop_assert_eq!(interner.len(), map.len());
        }
    }
}
