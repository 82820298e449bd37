//! The store as a value: what `memory:` and `embedded:` keep, and how a request changes it.
//!
//! Law: `apply` depends on the state and the request alone, so a journal of requests played again
//! gives the same state, refusals included. Time comes in as requests: a session whose owner fell
//! silent is ended by a request like any other.
//!
//! Not here: the entries themselves, which the medium keeps; the state knows only their bounds.

use std::{collections::BTreeMap, ops::Bound, time::Duration};

use bytes::Bytes;
use sardonyx_core::Position;
use serde::{Deserialize, Serialize};

use crate::backend::{Committed, Condition, Item, Txn, Version, Write};

/// A request that may change the state. The order of the variants is part of the journal's form:
/// new ones go to the end.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Op {
    /// An entry: token and command. In the journal it has a form of its own.
    Append(Bytes),
    /// An origin.
    SetOrigin(Position, Bytes),
    /// Forget the entries before this one.
    Trim(Position),
    /// A session begins.
    OpenSession { id: u64, timeout: Duration },
    /// A session ends: closed by its owner, or silent for too long.
    EndSession { id: u64 },
    /// A transaction, in a session or outside of any.
    Commit { session: Option<u64>, txn: Txn },
    /// What the state was when a segment of the journal began.
    Snapshot(Box<State>),
}

/// What became of an [`Op`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Outcome {
    Appended(Position),
    OriginIsAt(Position),
    Done,
    Committed(Committed),
    SessionLost,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct State {
    /// Grows with every request; the source of versions.
    revision: u64,
    /// The position of the first entry that is kept.
    pub(crate) first: u64,
    /// The position of the entry that comes next.
    pub(crate) next: u64,
    pub(crate) origin: Option<(Position, Bytes)>,
    items: BTreeMap<String, Held>,
    sessions: BTreeMap<u64, Duration>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Held {
    value: Bytes,
    version: Version,
    session: Option<u64>,
}

/// No number grows this far in the life of a store: what does is damage, and would run over.
const NUMBER_MAX: u64 = u64::MAX / 2;

impl State {
    /// Whether it can be a state that was ever written.
    pub(crate) fn is_sound(&self) -> bool {
        self.first <= self.next && self.next <= NUMBER_MAX && self.revision <= NUMBER_MAX
    }

    pub(crate) fn apply(&mut self, op: Op) -> Outcome {
        self.revision += 1;
        match op {
            Op::Append(_) => {
                let position = Position(self.next);
                self.next += 1;
                Outcome::Appended(position)
            }
            Op::SetOrigin(position, bytes) => {
                let held = self.origin.as_ref().map(|(position, _)| *position);
                if held.is_none_or(|held| held < position) {
                    self.origin = Some((position, bytes));
                }
                Outcome::OriginIsAt(held.map_or(position, |held| held.max(position)))
            }
            Op::Trim(before) => {
                self.first = self.first.max(before.0.min(self.next));
                Outcome::Done
            }
            Op::OpenSession { id, timeout } => {
                self.sessions.insert(id, timeout);
                Outcome::Done
            }
            Op::EndSession { id } => {
                self.sessions.remove(&id);
                self.items.retain(|_, held| held.session != Some(id));
                Outcome::Done
            }
            Op::Commit { session, txn } => self.commit(session, txn),
            Op::Snapshot(state) => {
                *self = *state;
                Outcome::Done
            }
        }
    }

    fn commit(&mut self, session: Option<u64>, txn: Txn) -> Outcome {
        if session.is_some_and(|id| !self.sessions.contains_key(&id)) {
            return Outcome::SessionLost;
        }
        let holds = |condition: &Condition| match condition {
            Condition::Absent(key) => !self.items.contains_key(key),
            Condition::Is(key, version) => {
                self.items.get(key).is_some_and(|held| held.version == *version)
            }
        };
        if !txn.when.iter().all(holds) {
            return Outcome::Committed(Committed::Refused);
        }
        let version = Version(self.revision);
        let write = |write: Write| {
            let (key, value, session) = match write {
                Write::Put(key, value) => (key, value, None),
                Write::Lease(key, value) => (key, value, session),
                Write::Delete(key) => {
                    self.items.remove(&key);
                    return Version(0);
                }
            };
            self.items.insert(key, Held { value, version, session });
            version
        };
        Outcome::Committed(Committed::Done(txn.then.into_iter().map(write).collect()))
    }

    pub(crate) fn contains(&self, key: &str) -> bool {
        self.items.contains_key(key)
    }

    pub(crate) fn value(&self, key: &str) -> Option<Bytes> {
        self.items.get(key).map(|held| held.value.clone())
    }

    pub(crate) fn items(&self, prefix: &str) -> Vec<Item> {
        let from_prefix = self.items.range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
        let items = from_prefix.take_while(|(key, _)| key.starts_with(prefix));
        let item = |(key, held): (&String, &Held)| Item {
            key: key.clone(),
            value: held.value.clone(),
            version: held.version,
        };
        items.map(item).collect()
    }

    pub(crate) fn sessions(&self) -> impl Iterator<Item = (u64, Duration)> + '_ {
        self.sessions.iter().map(|(id, timeout)| (*id, *timeout))
    }

    pub(crate) fn has_session(&self, id: u64) -> bool {
        self.sessions.contains_key(&id)
    }
}
