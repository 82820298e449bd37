//! Equal position, equal replica: nodes compare what they computed.
//!
//! At every checkpoint the first node to get there leaves its digest in the store, and the others
//! compare theirs with it. That is one write or one read for each node and checkpoint, however
//! many nodes there are. Digests end with the session of whoever left them, and each node keeps
//! only its newest ones.

use std::collections::VecDeque;

use bytes::Bytes;
use sardonyx_core::Position;
use sardonyx_store::{Committed, Condition, Result, Session, Store, Txn, Write};

/// About one entry in so many is a checkpoint. A digest takes milliseconds when there are ten
/// thousand peers, so it is not taken after every entry.
pub const CHECKPOINT_EVERY: u64 = 256;

/// How many of its own digests a node keeps in the store: a node that is further behind than
/// these does not compare.
const KEPT_MAX: usize = 4;

/// Whether the entry at `position` is a checkpoint: the same for everybody, wherever they began to
/// read. Positions have gaps on some stores, so this goes by a hash of the position and not by
/// multiples, which every entry might be.
pub fn is_checkpoint(position: Position) -> bool {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    position.0.wrapping_add(1).wrapping_mul(GOLDEN) / (u64::MAX / CHECKPOINT_EVERY + 1) == 0
}

/// What came of comparing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Compared {
    /// We were the first; under this key, and these are gone.
    First(String, Vec<String>),
    /// Somebody computed the same, or there is nothing to compare with any more.
    Same,
    /// Somebody computed something else.
    Other { position: Position, ours: String, theirs: String, who: String },
}

/// The digests that this node has left in the store.
#[derive(Debug, Default)]
pub(super) struct Left {
    keys: VecDeque<String>,
}

impl Left {
    /// Those to be taken away when another is left. They are until [`note`](Left::note) says so:
    /// whoever comes second leaves nothing, and then takes nothing away either.
    pub(super) fn outdated(&self) -> Vec<String> {
        let n_outdated = (self.keys.len() + 1).saturating_sub(KEPT_MAX);
        self.keys.iter().take(n_outdated).cloned().collect()
    }

    pub(super) fn note(&mut self, key: String, gone: &[String]) {
        self.keys.retain(|key| !gone.contains(key));
        self.keys.push_back(key);
    }
}

/// Leaves `digest` as ours, or compares it with what somebody left.
pub(super) async fn compare(
    store: &Store,
    session: &Session,
    position: Position,
    digest: String,
    who: &str,
    outdated: Vec<String>,
) -> Result<Compared> {
    let key = format!("digest/{:020}", position.0);
    let value = Bytes::from(format!("{digest} {who}"));
    let mut then = vec![Write::Lease(key.clone(), value)];
    then.extend(outdated.iter().cloned().map(Write::Delete));
    let txn = Txn { when: vec![Condition::Absent(key.clone())], then };
    if let Committed::Done(_) = session.commit(&txn).await? {
        return Ok(Compared::First(key, outdated));
    }
    let items = store.items(&key).await?;
    let Some(item) = items.into_iter().find(|item| item.key == key) else {
        return Ok(Compared::Same);
    };
    let text = String::from_utf8_lossy(&item.value).into_owned();
    let (theirs, who) = text.split_once(' ').unwrap_or((&text, "another node"));
    if theirs == digest {
        return Ok(Compared::Same);
    }
    Ok(Compared::Other { position, ours: digest, theirs: theirs.into(), who: who.into() })
}

pub(super) fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_entry_in_256_is_a_checkpoint_however_positions_are_spaced() {
        for step in [1, 256, 257, 1_024, 65_536] {
            let n = (0..100_000).filter(|at| is_checkpoint(Position(at * step))).count();
            assert!((350..430).contains(&n), "{n} of 100,000 with steps of {step}");
        }
    }

    #[test]
    fn the_newest_few_are_kept_whoever_was_first_in_between() {
        let mut left = Left::default();
        for number in 0..20 {
            let gone = left.outdated();
            // Every third time somebody else was first.
            if number % 3 > 0 {
                left.note(format!("{number}"), &gone);
            }
            assert!(left.keys.len() <= KEPT_MAX);
        }
        assert_eq!(left.keys, ["14", "16", "17", "19"]);
        // Two at once take the same one away; the next one makes up for it.
        let gone = left.outdated();
        left.note("a".into(), &gone);
        left.note("b".into(), &gone);
        assert_eq!(left.keys.len(), KEPT_MAX + 1);
        assert_eq!(left.outdated().len(), 2);
    }
}
