//! What a backend has to do. Five files do it; `suite` says whether they do it right.
//!
//! A method here is one attempt: retrying, tokens, decoding and dropping duplicates are done once,
//! for all backends, in [`Store`](crate::Store) and [`Subscription`](crate::Subscription).

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use sardonyx_core::{PeerId, Position};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::{error::Result, token::Token};

/// Where coordination is kept. See the crate's drawing for what each part is for.
#[async_trait]
pub trait Backend: Send + Sync {
    /// Appends `bytes`, which begin with `token`, at the end of the log. `Ok` means durable. After
    /// [`Unavailable`](crate::Error::Unavailable) the caller appends the same bytes again.
    async fn append(&self, token: Token, bytes: Bytes) -> Result<Position>;

    /// The entries behind `after`, in order, without end. `None` begins at the first entry.
    fn tail(&self, after: Option<Position>) -> Box<dyn Tail>;

    /// The position of the newest entry that is there; `None` when there is none.
    async fn end(&self) -> Result<Option<Position>>;

    /// The newest origin.
    async fn origin(&self) -> Result<Option<(Position, Bytes)>>;

    /// Stores an origin unless a later one is there; says whether the one that is there now is at
    /// this position. Never half written.
    async fn set_origin(&self, position: Position, bytes: Bytes) -> Result<bool>;

    /// Forgets the entries before `before`. Readers that still want one of them see
    /// [`Read::Trimmed`]; none sees a gap.
    async fn trim(&self, before: Position) -> Result<()>;

    /// Opens a session that ends `timeout` after its owner's last sign of life.
    async fn open_session(&self, timeout: Duration) -> Result<Box<dyn Lease>>;

    /// Whether `peer` has a pulse.
    async fn alive(&self, peer: &PeerId) -> Result<bool>;

    /// Returns when `peer` has no pulse: at once if it has none now.
    async fn pulse_end(&self, peer: &PeerId) -> Result<()>;

    /// Writes a cell that nobody has written, and says what is in it now.
    async fn fill_cell(&self, name: &str, value: Bytes) -> Result<Bytes>;

    /// What is in a cell.
    async fn cell(&self, name: &str) -> Result<Option<Bytes>>;

    /// The items whose keys begin with `prefix`, in order of their keys, all of one moment.
    async fn items(&self, prefix: &str) -> Result<Vec<Item>>;

    /// Carries out `txn` whole or not at all. It may not contain [`Write::Lease`].
    async fn commit(&self, txn: &Txn) -> Result<Committed>;

    /// A receiver that fails once the store is closed, if closing is more than hanging up.
    fn watch_open(&self) -> Option<watch::Receiver<()>> {
        None
    }
}

/// A reader's place in the log.
#[async_trait]
pub trait Tail: Send {
    /// Waits for the next entries; never returns an empty list. May be called again after an
    /// error, and then goes on where it was.
    async fn next(&mut self) -> Result<Read>;
}

/// What a [`Tail`] finds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Read {
    /// The next entries.
    Entries(Vec<Raw>),
    /// The next entry was trimmed: take the origin and go on behind it.
    Trimmed,
}

/// An entry as it is stored.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Raw {
    /// Its place.
    pub position: Position,
    /// Its token and its command.
    pub bytes: Bytes,
}

/// A session with the store: what hangs on it ends with it.
#[async_trait]
pub trait Lease: Send + Sync {
    /// The timeout that the store granted.
    fn timeout(&self) -> Duration;

    /// Becomes true once the session is lost, at the latest when the store may have ended it.
    fn lost(&self) -> watch::Receiver<bool>;

    /// Gives `peer` a pulse, in place of one it may already have.
    async fn pulse(&self, peer: &PeerId) -> Result<()>;

    /// Takes the pulse of `peer` away.
    async fn end_pulse(&self, peer: &PeerId) -> Result<()>;

    /// Like [`Backend::commit`], and what [`Write::Lease`] writes ends with this session. Fails
    /// once the session is lost.
    async fn commit(&self, txn: &Txn) -> Result<Committed>;

    /// Ends the session now, with everything that hangs on it.
    async fn close(&self) -> Result<()>;

    /// Stops the signs of life and nothing else, as a killed process would.
    fn abandon(&self);
}

/// An item's version. It grows with every write to its key and never repeats for a key, not even
/// after the item was deleted and written again.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct Version(pub u64);

/// A value under a key.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Item {
    /// Its key.
    pub key: String,
    /// Its value.
    pub value: Bytes,
    /// Its version.
    pub version: Version,
}

/// Writes that happen together if all conditions hold, and not at all otherwise.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Txn {
    /// What must be so.
    pub when: Vec<Condition>,
    /// What is then done. A key may be written once.
    pub then: Vec<Write>,
}

/// What must be so before a [`Txn`] writes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Condition {
    /// There is nothing under this key.
    Absent(String),
    /// The key has been there without a change since it had this version.
    Is(String, Version),
}

/// What a [`Txn`] does.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Write {
    /// Stores a value that stays.
    Put(String, Bytes),
    /// Stores a value that ends with the session that commits it.
    Lease(String, Bytes),
    /// Removes what is under the key, if anything.
    Delete(String),
}

impl Write {
    /// The key it touches.
    pub fn key(&self) -> &str {
        match self {
            Write::Put(key, _) | Write::Lease(key, _) | Write::Delete(key) => key,
        }
    }
}

impl Condition {
    /// The key it is about.
    pub fn key(&self) -> &str {
        match self {
            Condition::Absent(key) | Condition::Is(key, _) => key,
        }
    }
}

/// What became of a [`Txn`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Committed {
    /// It was carried out. The new version of each key in `then`, in that order; a deleted key has
    /// none, and 0 stands in its place.
    Done(Vec<Version>),
    /// A condition did not hold; nothing was written.
    Refused,
}
