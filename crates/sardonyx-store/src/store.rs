//! The handle: what every backend shares. Tokens, retries, limits and forms live here, so that a
//! backend is only about its server.

use std::{sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use sardonyx_core::{Command, PeerId, Position, Replica, wire};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::{
    backend::{Backend, Committed, Item, Txn},
    error::{Error, Result},
    location::Location,
    mutant::{self, Mutant},
    session::Session,
    subscription::{Start, Subscription},
    token::{Seen, Token, Writer},
};

/// The largest entry in bytes, token included. ZooKeeper takes a little less than a mebibyte with
/// everything around it, and a cluster should be able to move.
pub const ENTRY_BYTES_MAX: usize = (1 << 20) - 4096;

/// The largest value of a cell or an item.
pub const VALUE_BYTES_MAX: usize = 256 << 10;

/// The longest name of a cell, and the longest key of an item.
pub const KEY_BYTES_MAX: usize = 512;

/// The largest origin. It is stored in pieces, so servers' limits do not bound it; memory does.
pub const ORIGIN_BYTES_MAX: usize = 256 << 20;

/// How a store is used; the same for all kinds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// How long a request is tried again before its caller hears that the store does not answer.
    pub patience: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options { patience: Duration::from_secs(15) }
    }
}

/// The replica where a trimmed log begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Origin {
    /// The last position whose entry is part of it.
    pub position: Position,
    /// The cluster there.
    pub replica: Replica,
    /// Which appends had been read there, so that whoever starts here drops the same copies.
    pub seen: Seen,
}

#[derive(Serialize, Deserialize)]
struct OriginForm {
    version: u8,
    replica: String,
    seen: Seen,
}

/// The version of the origin's form that this build writes.
const ORIGIN_VERSION: u8 = 1;

impl Origin {
    /// As a backend stores it: postcard around the replica's JSON.
    pub(crate) fn to_bytes(&self) -> Result<Bytes> {
        let replica = wire::replica_to_json(&self.replica);
        let form = OriginForm { version: ORIGIN_VERSION, replica, seen: self.seen.clone() };
        let bytes = postcard::to_stdvec(&form).map_err(|why| Error::Corrupt(why.to_string()))?;
        limit("an origin", bytes.len(), ORIGIN_BYTES_MAX)?;
        Ok(bytes.into())
    }

    pub(crate) fn from_bytes(position: Position, bytes: &[u8]) -> Result<Origin> {
        let corrupt = |why: String| Error::Corrupt(format!("the origin at {position}: {why}"));
        if bytes.first().is_some_and(|version| *version > ORIGIN_VERSION) {
            let why = "the origin was written by a newer build: upgrade this one";
            return Err(Error::NotConfigured(why.into()));
        }
        let form: OriginForm =
            postcard::from_bytes(bytes).map_err(|why| corrupt(why.to_string()))?;
        let replica =
            wire::replica_from_json(&form.replica).map_err(|why| corrupt(why.to_string()))?;
        Ok(Origin { position, replica, seen: form.seen })
    }
}

/// A coordination store. Cheap to clone; one per node is enough.
#[derive(Clone)]
pub struct Store {
    backend: Arc<dyn Backend>,
    writer: Arc<Writer>,
    options: Options,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Store {
    /// Opens the store that `url` names.
    pub async fn open(url: &str, options: Options) -> Result<Store> {
        let backend: Arc<dyn Backend> = match Location::parse(url)? {
            Location::Memory => Arc::new(crate::memory::open()),
            Location::Embedded(dir) => Arc::new(crate::embedded::open(&dir).await?),
            Location::Remote(servers) => {
                Arc::new(retry(options, || crate::remote::connect(&servers)).await?)
            }
            Location::Etcd(servers) => {
                Arc::new(retry(options, || crate::etcd::connect(&servers)).await?)
            }
            Location::ZooKeeper(servers) => {
                Arc::new(retry(options, || crate::zookeeper::connect(&servers)).await?)
            }
        };
        Store::over(backend, options)
    }

    /// A store on a backend of one's own.
    pub fn over(backend: Arc<dyn Backend>, options: Options) -> Result<Store> {
        Ok(Store { backend, writer: Arc::new(Writer::new()?), options })
    }

    /// Lets go of the store, and returns once it is closed: when every other handle, subscription
    /// and session of this process is gone as well. Then the directory of an embedded one is free.
    pub async fn close(self) {
        let open = self.backend.watch_open();
        drop(self);
        if let Some(mut open) = open {
            while open.changed().await.is_ok() {}
        }
    }

    /// What it stands on, for those who need a single attempt: benchmarks and the suite.
    pub fn backend(&self) -> &dyn Backend {
        &*self.backend
    }

    /// Appends `command` and says where it stands. `Ok` means durable, and that every reader will
    /// see it exactly once.
    ///
    /// When an answer is lost the same entry is sent again. Then the position may be that of the
    /// second copy, which readers drop: the command stands at or before it.
    pub async fn append(&self, command: &Command) -> Result<Position> {
        let command = wire::command_to_bytes(command).map_err(|why| {
            if let wire::Unreadable::TooLarge(bytes) = why {
                return too_large(bytes);
            }
            Error::Corrupt(format!("a command that cannot be written down: {why}"))
        })?;
        self.append_bytes(&command).await
    }

    /// Appends bytes that need not be a command that this build knows; readers are handed what
    /// they cannot read as just that.
    pub async fn append_bytes(&self, command: &[u8]) -> Result<Position> {
        let len = Token::BYTES + command.len();
        if len > ENTRY_BYTES_MAX {
            return Err(too_large(len));
        }
        if mutant::is_on(Mutant::FreshTokens) {
            let attempt = || async {
                let in_flight = self.writer.begin().await;
                self.backend.append(in_flight.token, entry_of(in_flight.token, command)).await
            };
            return self.retry(attempt).await;
        }
        let in_flight = self.writer.begin().await;
        let entry = entry_of(in_flight.token, command);
        self.retry(|| self.backend.append(in_flight.token, entry.clone())).await
    }

    /// Reads the log from `start` on, without end.
    pub fn subscribe(&self, start: Start) -> Subscription {
        Subscription::open(Arc::clone(&self.backend), start)
    }

    /// The position of the newest entry that is there now; `None` when there is none. Not cheap on
    /// every backend: for people who look, not for readers.
    pub async fn end(&self) -> Result<Option<Position>> {
        self.retry(|| self.backend.end()).await
    }

    /// The newest origin.
    pub async fn origin(&self) -> Result<Option<Origin>> {
        let stored = self.retry(|| self.backend.origin()).await?;
        stored.map(|(position, bytes)| Origin::from_bytes(position, &bytes)).transpose()
    }

    /// Stores an origin unless a later one is there. False: one is, and whoever wrote it trims.
    pub async fn set_origin(&self, origin: &Origin) -> Result<bool> {
        let bytes = origin.to_bytes()?;
        self.retry(|| self.backend.set_origin(origin.position, bytes.clone())).await
    }

    /// Forgets the entries before the origin: nobody can need them. Without an origin it does
    /// nothing. Repeat it after a crash; it goes on where it was.
    pub async fn trim(&self) -> Result<()> {
        match self.retry(|| self.backend.origin()).await? {
            Some((position, _)) => self.retry(|| self.backend.trim(position)).await,
            None => Ok(()),
        }
    }

    /// Opens a session for pulses and leases. It ends when it is closed or dropped, and `timeout`
    /// after the process behind it dies. The store may grant another timeout.
    pub async fn session(&self, timeout: Duration) -> Result<Session> {
        let lease = self.retry(|| self.backend.open_session(timeout)).await?;
        Ok(Session::new(lease, self.options))
    }

    /// Whether `peer` has a pulse.
    pub async fn alive(&self, peer: &PeerId) -> Result<bool> {
        self.retry(|| self.backend.alive(peer)).await
    }

    /// Returns when `peer` has no pulse: at once if it has none now. Goes on through failures of
    /// the store, since a store that does not answer is no news about `peer`.
    pub async fn watch_pulse(&self, peer: &PeerId) -> Result<()> {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.backend.pulse_end(peer).await {
                Err(why) if why.is_transient() => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                ended => return ended,
            }
        }
    }

    /// Writes a cell that nobody has written yet, and says what is in it now: this value, or that
    /// of whoever came first. What is in a cell never changes.
    pub async fn fill_cell(&self, name: &str, value: impl Into<Bytes>) -> Result<Bytes> {
        let value = value.into();
        check_key("the name of a cell", name)?;
        limit("the value of a cell", value.len(), VALUE_BYTES_MAX)?;
        self.retry(|| self.backend.fill_cell(name, value.clone())).await
    }

    /// What is in a cell.
    pub async fn cell(&self, name: &str) -> Result<Option<Bytes>> {
        check_key("the name of a cell", name)?;
        self.retry(|| self.backend.cell(name)).await
    }

    /// The items whose keys begin with `prefix`, in order of their keys.
    pub async fn items(&self, prefix: &str) -> Result<Vec<Item>> {
        self.retry(|| self.backend.items(prefix)).await
    }

    /// Carries out `txn` whole or not at all. Not tried again: after
    /// [`Unavailable`](Error::Unavailable) it may or may not have happened, and only the caller
    /// knows how to tell from what it finds.
    pub async fn commit(&self, txn: &Txn) -> Result<Committed> {
        check_txn(txn, false)?;
        self.backend.commit(txn).await
    }

    async fn retry<T, F>(&self, attempt: impl FnMut() -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        retry(self.options, attempt).await
    }
}

const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Tries again while the store does not answer, with growing pauses, until patience runs out.
pub(crate) async fn retry<T, F>(options: Options, mut attempt: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let until = Instant::now() + options.patience;
    let mut pause = FIRST_PAUSE;
    loop {
        match attempt().await {
            Err(why) if why.is_transient() && Instant::now() + pause < until => {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            outcome => return outcome,
        }
    }
}

/// What is stored: the token, and the command behind it.
fn entry_of(token: Token, command: &[u8]) -> Bytes {
    let mut entry = BytesMut::with_capacity(Token::BYTES + command.len());
    entry.extend_from_slice(&token.to_bytes());
    entry.extend_from_slice(command);
    entry.freeze()
}

fn too_large(bytes: usize) -> Error {
    Error::TooLarge { what: "an entry", bytes, bytes_max: ENTRY_BYTES_MAX }
}

fn limit(what: &'static str, bytes: usize, bytes_max: usize) -> Result<()> {
    match bytes > bytes_max {
        true => Err(Error::TooLarge { what, bytes, bytes_max }),
        false => Ok(()),
    }
}

fn check_key(what: &'static str, key: &str) -> Result<()> {
    limit(what, key.len(), KEY_BYTES_MAX)?;
    match key.is_empty() || key.chars().any(char::is_control) {
        true => Err(Error::NotConfigured(format!("{what} is empty or has control characters"))),
        false => Ok(()),
    }
}

/// Refuses what some backend could not do, whatever the backend.
pub(crate) fn check_txn(txn: &Txn, in_session: bool) -> Result<()> {
    use crate::backend::Write;
    let mut written = std::collections::BTreeSet::new();
    txn.when.iter().try_for_each(|condition| check_key("the key of an item", condition.key()))?;
    for write in &txn.then {
        check_key("the key of an item", write.key())?;
        if !written.insert(write.key()) {
            let why = format!("a transaction writes {:?} twice", write.key());
            return Err(Error::NotConfigured(why));
        }
        match write {
            Write::Lease(..) if !in_session => {
                return Err(Error::NotConfigured("a leased write needs a session".into()));
            }
            Write::Put(_, value) | Write::Lease(_, value) => {
                limit("the value of an item", value.len(), VALUE_BYTES_MAX)?;
            }
            Write::Delete(_) => {}
        }
    }
    Ok(())
}
