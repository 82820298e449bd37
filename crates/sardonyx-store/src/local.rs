//! A store in this process: the state, who waits for it to change, and whose session is due.
//!
//! `memory:` and `embedded:` differ only in their [`Medium`]: where requests are made durable and
//! where entries are read from. The server for other processes stands on the same value, so a
//! session here is an id that somebody beats for, in this process or in another.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, Weak},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use bytes::Bytes;
use sardonyx_core::{PeerId, Position};
use tokio::sync::watch;

use crate::{
    backend::{Backend, Committed, Condition, Item, Lease, Raw, Read, Tail, Txn, Write},
    engine::{Op, Outcome, State},
    error::{Error, Result},
    mutant::{self, Mutant},
    token::{Token, lock, random},
};

/// Where requests are made durable and entries are kept.
#[async_trait]
pub(crate) trait Medium: Send + Sync {
    /// Makes `op` durable, applies it to the shared state, and says what became of it.
    async fn submit(&self, op: Op) -> Result<Outcome>;

    /// Some entries from `from` on, at least one; only called for entries that are there.
    async fn read(&self, from: u64) -> Result<Vec<Raw>>;
}

/// The state as everybody in this process sees it: durable, and then visible.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    /// The bounds of the log: the first entry, and the one that comes next.
    log: watch::Sender<(u64, u64)>,
    /// Rings whenever items or sessions may have changed.
    items: watch::Sender<()>,
}

impl Shared {
    pub(crate) fn new(state: State) -> Shared {
        let log = watch::Sender::new((state.first, state.next));
        Shared { state: Mutex::new(state), log, items: watch::Sender::new(()) }
    }

    /// Applies what has been made durable, and wakes those who wait for it.
    pub(crate) fn apply(&self, ops: impl IntoIterator<Item = Op>) -> Vec<Outcome> {
        let mut items_changed = false;
        let mut state = lock(&self.state);
        let mut apply = |op| {
            items_changed |= matches!(op, Op::EndSession { .. } | Op::Commit { .. });
            state.apply(op)
        };
        let outcomes = ops.into_iter().map(&mut apply).collect();
        let bounds = (state.first, state.next);
        drop(state);
        self.log.send_if_modified(|log| std::mem::replace(log, bounds) != bounds);
        if items_changed {
            self.items.send_replace(());
        }
        outcomes
    }

    pub(crate) fn with<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&lock(&self.state))
    }

    pub(crate) fn bounds(&self) -> (u64, u64) {
        *self.log.borrow()
    }
}

/// A store in this process. Cheap to clone; the last clone closes it.
#[derive(Clone)]
pub(crate) struct Local {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    medium: Box<dyn Medium>,
    deadlines: Mutex<BTreeMap<u64, Instant>>,
    /// Dropped last, when the medium is closed.
    open: watch::Sender<()>,
}

/// How often sessions are looked at, at least.
const EXPIRY_PERIOD: Duration = Duration::from_millis(50);

impl Local {
    /// Sessions that outlived a restart get their full timeout again, as their owners could not
    /// give a sign of life meanwhile.
    pub(crate) fn new(shared: Arc<Shared>, medium: Box<dyn Medium>) -> Local {
        let now = Instant::now();
        let deadlines = shared.with(|state| {
            state.sessions().map(|(id, timeout)| (id, now + timeout)).collect::<BTreeMap<_, _>>()
        });
        let (deadlines, open) = (Mutex::new(deadlines), watch::Sender::new(()));
        let inner = Arc::new(Inner { shared, medium, deadlines, open });
        tokio::spawn(expire(Arc::downgrade(&inner)));
        Local { inner }
    }

    pub(crate) async fn submit(&self, op: Op) -> Result<Outcome> {
        self.inner.medium.submit(op).await
    }

    pub(crate) async fn begin_session(&self, id: u64, timeout: Duration) -> Result<()> {
        self.submit(Op::OpenSession { id, timeout }).await?;
        lock(&self.inner.deadlines).insert(id, Instant::now() + timeout);
        Ok(())
    }

    /// A sign of life; false if the session has ended.
    pub(crate) fn beat(&self, id: u64, timeout: Duration) -> bool {
        let alive = self.inner.shared.with(|state| state.has_session(id));
        let mut deadlines = lock(&self.inner.deadlines);
        if alive && let Some(deadline) = deadlines.get_mut(&id) {
            *deadline = Instant::now() + timeout;
            return true;
        }
        false
    }

    pub(crate) async fn end_session(&self, id: u64) -> Result<()> {
        lock(&self.inner.deadlines).remove(&id);
        self.submit(Op::EndSession { id }).await.map(drop)
    }

    pub(crate) async fn commit_in(&self, session: Option<u64>, txn: Txn) -> Result<Committed> {
        let outcome = self.submit(Op::Commit { session, txn }).await?;
        if let Outcome::Committed(committed) = outcome {
            return Ok(committed);
        }
        Err(if outcome == Outcome::SessionLost { session_lost() } else { unexpected(&outcome) })
    }

    /// Some entries behind `after`; waits until there are some.
    pub(crate) async fn read(&self, after: Option<Position>) -> Result<Read> {
        let from = after.map_or(0, |after| after.0.saturating_add(1));
        let mut log = self.inner.shared.log.subscribe();
        let (first, next) = *log
            .wait_for(|(first, next)| from < *first || from < *next)
            .await
            .map_err(|_| Error::Unavailable("the store was closed".into()))?;
        let from = match mutant::is_on(Mutant::WokenFor) {
            true => from.max(next - 1),
            false => from,
        };
        if from < first {
            return Ok(Read::Trimmed);
        }
        let read = self.inner.medium.read(from).await;
        // The medium may have dropped the entries between the look and the read.
        match self.inner.shared.bounds().0 > from {
            true => Ok(Read::Trimmed),
            false => read.map(Read::Entries),
        }
    }

    pub(crate) fn value(&self, key: &str) -> Option<Bytes> {
        self.inner.shared.with(|state| state.value(key))
    }

    pub(crate) fn raw_items(&self, prefix: &str) -> Vec<Item> {
        self.inner.shared.with(|state| state.items(prefix))
    }

    pub(crate) async fn key_end(&self, key: &str) -> Result<()> {
        let mut items = self.inner.shared.items.subscribe();
        loop {
            items.borrow_and_update();
            if !self.inner.shared.with(|state| state.contains(key)) {
                return Ok(());
            }
            let closed = |_| Error::Unavailable("the store was closed".into());
            items.changed().await.map_err(closed)?;
        }
    }
}

/// Ends sessions whose owners fell silent, until the store is closed.
async fn expire(inner: Weak<Inner>) {
    let mut looked = Instant::now();
    loop {
        tokio::time::sleep(EXPIRY_PERIOD).await;
        let Some(inner) = inner.upgrade() else { return };
        let now = Instant::now();
        // When this process stood still, so did the ears that hear the signs of life: the owners
        // get the time back. Otherwise one pause of the store would end every session at once.
        let stall = now.duration_since(looked).saturating_sub(4 * EXPIRY_PERIOD);
        looked = now;
        let mut due = Vec::new();
        lock(&inner.deadlines).retain(|id, deadline| {
            *deadline += stall;
            if *deadline <= now {
                due.push(*id);
            }
            *deadline > now
        });
        for id in due {
            if inner.medium.submit(Op::EndSession { id }).await.is_err() {
                lock(&inner.deadlines).insert(id, now);
            }
        }
    }
}

pub(crate) fn session_lost() -> Error {
    Error::SessionLost("the store ended it".into())
}

pub(crate) fn unexpected(outcome: &Outcome) -> Error {
    Error::Corrupt(format!("an answer that does not fit its request: {outcome:?}"))
}

pub(crate) fn pulse_key(peer: &PeerId) -> String {
    format!("pulse/{peer}")
}

/// Gives `peer` a pulse.
pub(crate) fn pulse_txn(peer: &PeerId) -> Txn {
    Txn { when: vec![], then: vec![Write::Lease(pulse_key(peer), Bytes::new())] }
}

/// Takes the pulse of `peer` away.
pub(crate) fn no_pulse_txn(peer: &PeerId) -> Txn {
    Txn { when: vec![], then: vec![Write::Delete(pulse_key(peer))] }
}

pub(crate) fn cell_key(name: &str) -> String {
    format!("cell/{name}")
}

/// The user's keys, apart from pulses and cells.
pub(crate) const ITEM_PREFIX: &str = "item/";

pub(crate) fn item_txn(txn: &Txn) -> Txn {
    let key = |key: &String| format!("{ITEM_PREFIX}{key}");
    let when = txn.when.iter().map(|condition| match condition {
        Condition::Absent(it) => Condition::Absent(key(it)),
        Condition::Is(it, version) => Condition::Is(key(it), *version),
    });
    let then = txn.then.iter().map(|write| match write {
        Write::Put(it, value) => Write::Put(key(it), value.clone()),
        Write::Lease(it, value) => Write::Lease(key(it), value.clone()),
        Write::Delete(it) => Write::Delete(key(it)),
    });
    Txn { when: when.collect(), then: then.collect() }
}

pub(crate) fn strip_items(mut items: Vec<Item>) -> Vec<Item> {
    items.iter_mut().for_each(|item| item.key = item.key[ITEM_PREFIX.len()..].to_owned());
    items
}

#[async_trait]
impl Backend for Local {
    async fn append(&self, _token: Token, bytes: Bytes) -> Result<Position> {
        let outcome = self.submit(Op::Append(bytes)).await?;
        if let Outcome::Appended(position) = outcome {
            return Ok(position);
        }
        Err(unexpected(&outcome))
    }

    fn tail(&self, after: Option<Position>) -> Box<dyn Tail> {
        Box::new(LocalTail { local: self.clone(), after })
    }

    async fn end(&self) -> Result<Option<Position>> {
        let (first, next) = self.inner.shared.bounds();
        Ok((first < next).then(|| Position(next - 1)))
    }

    async fn origin(&self) -> Result<Option<(Position, Bytes)>> {
        Ok(self.inner.shared.with(|state| state.origin.clone()))
    }

    async fn set_origin(&self, position: Position, bytes: Bytes) -> Result<bool> {
        let outcome = self.submit(Op::SetOrigin(position, bytes)).await?;
        if let Outcome::OriginIsAt(at) = outcome {
            return Ok(at == position);
        }
        Err(unexpected(&outcome))
    }

    async fn trim(&self, before: Position) -> Result<()> {
        self.submit(Op::Trim(before)).await.map(drop)
    }

    async fn open_session(&self, timeout: Duration) -> Result<Box<dyn Lease>> {
        let id = random()?;
        self.begin_session(id, timeout).await?;
        Ok(Box::new(LocalLease::new(self.clone(), id, timeout)))
    }

    async fn alive(&self, peer: &PeerId) -> Result<bool> {
        Ok(self.inner.shared.with(|state| state.contains(&pulse_key(peer))))
    }

    async fn pulse_end(&self, peer: &PeerId) -> Result<()> {
        self.key_end(&pulse_key(peer)).await
    }

    async fn fill_cell(&self, name: &str, value: Bytes) -> Result<Bytes> {
        let key = cell_key(name);
        let txn = Txn {
            when: vec![Condition::Absent(key.clone())],
            then: vec![Write::Put(key.clone(), value.clone())],
        };
        match self.commit_in(None, txn).await? {
            Committed::Done(_) => Ok(value),
            Committed::Refused => Ok(self.value(&key).unwrap_or(value)),
        }
    }

    async fn cell(&self, name: &str) -> Result<Option<Bytes>> {
        Ok(self.value(&cell_key(name)))
    }

    async fn items(&self, prefix: &str) -> Result<Vec<Item>> {
        let prefix = format!("{ITEM_PREFIX}{prefix}");
        Ok(strip_items(self.raw_items(&prefix)))
    }

    async fn commit(&self, txn: &Txn) -> Result<Committed> {
        self.commit_in(None, item_txn(txn)).await
    }

    fn watch_open(&self) -> Option<watch::Receiver<()>> {
        Some(self.inner.open.subscribe())
    }
}

struct LocalTail {
    local: Local,
    after: Option<Position>,
}

#[async_trait]
impl Tail for LocalTail {
    async fn next(&mut self) -> Result<Read> {
        let read = self.local.read(self.after).await?;
        if let Read::Entries(entries) = &read {
            self.after = entries.last().map(|entry| entry.position).or(self.after);
        }
        Ok(read)
    }
}

/// A session whose owner lives in this process.
struct LocalLease {
    local: Local,
    id: u64,
    timeout: Duration,
    lost: watch::Receiver<bool>,
    beating: tokio::task::AbortHandle,
}

impl LocalLease {
    fn new(local: Local, id: u64, timeout: Duration) -> LocalLease {
        let (lost, is_lost) = watch::channel(false);
        let beats = local.clone();
        let beating = tokio::spawn(async move {
            while beats.beat(id, timeout) {
                tokio::time::sleep(timeout / 4).await;
            }
            lost.send_replace(true);
        });
        LocalLease { local, id, timeout, lost: is_lost, beating: beating.abort_handle() }
    }
}

impl Drop for LocalLease {
    fn drop(&mut self) {
        self.beating.abort();
    }
}

#[async_trait]
impl Lease for LocalLease {
    fn timeout(&self) -> Duration {
        self.timeout
    }

    fn lost(&self) -> watch::Receiver<bool> {
        self.lost.clone()
    }

    async fn pulse(&self, peer: &PeerId) -> Result<()> {
        self.local.commit_in(Some(self.id), pulse_txn(peer)).await.map(drop)
    }

    async fn end_pulse(&self, peer: &PeerId) -> Result<()> {
        self.local.commit_in(Some(self.id), no_pulse_txn(peer)).await.map(drop)
    }

    async fn commit(&self, txn: &Txn) -> Result<Committed> {
        self.local.commit_in(Some(self.id), item_txn(txn)).await
    }

    async fn close(&self) -> Result<()> {
        self.beating.abort();
        self.local.end_session(self.id).await
    }

    fn abandon(&self) {
        self.beating.abort();
    }
}
