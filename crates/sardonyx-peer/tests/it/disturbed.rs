//! A store that loses answers and ends sessions when it is told to.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use sardonyx_core::{PeerId, Position};
use sardonyx_store::{
    Backend, Committed, Error, Item, Lease, Options, Result, Store, Tail, Token, Txn,
};
use tokio::sync::watch;

/// The switches, shared with the test.
#[derive(Default)]
pub struct Switches {
    /// Every so manieth append lands, but its answer is lost. 0: none.
    pub lose_every: AtomicU64,
    /// The store has ended the sessions up to this one, whether their owners know or not.
    pub ended_up_to: AtomicU64,
    appends: AtomicU64,
    n_sessions: AtomicU64,
    sessions: Mutex<Vec<watch::Sender<bool>>>,
}

impl Switches {
    /// Ends every session that is open, as a server would that has not heard of its owner.
    pub fn end_sessions(&self) {
        for session in self.sessions.lock().unwrap().drain(..) {
            session.send_replace(true);
        }
    }
}

pub struct Disturbed {
    inner: Store,
    switches: Arc<Switches>,
}

/// `inner`, disturbed by the switches.
pub fn disturbed(inner: &Store, switches: &Arc<Switches>) -> Store {
    let backend = Disturbed { inner: inner.clone(), switches: Arc::clone(switches) };
    Store::over(Arc::new(backend), Options { patience: Duration::from_secs(2) }).unwrap()
}

#[async_trait]
impl Backend for Disturbed {
    async fn append(&self, token: Token, bytes: Bytes) -> Result<Position> {
        let position = self.inner.backend().append(token, bytes).await?;
        let number = self.switches.appends.fetch_add(1, Ordering::Relaxed) + 1;
        match number.checked_rem(self.switches.lose_every.load(Ordering::Relaxed)) {
            Some(0) => Err(Error::Unavailable("the answer was lost".into())),
            Some(_) | None => Ok(position),
        }
    }

    fn tail(&self, after: Option<Position>) -> Box<dyn Tail> {
        self.inner.backend().tail(after)
    }

    async fn end(&self) -> Result<Option<Position>> {
        self.inner.backend().end().await
    }

    async fn origin(&self) -> Result<Option<(Position, Bytes)>> {
        self.inner.backend().origin().await
    }

    async fn set_origin(&self, position: Position, bytes: Bytes) -> Result<bool> {
        self.inner.backend().set_origin(position, bytes).await
    }

    async fn trim(&self, before: Position) -> Result<()> {
        self.inner.backend().trim(before).await
    }

    async fn open_session(&self, timeout: Duration) -> Result<Box<dyn Lease>> {
        let inner = self.inner.backend().open_session(timeout).await?;
        let (lost, is_lost) = watch::channel(false);
        self.switches.sessions.lock().unwrap().push(lost);
        let number = self.switches.n_sessions.fetch_add(1, Ordering::Relaxed) + 1;
        let switches = Arc::clone(&self.switches);
        Ok(Box::new(DisturbedLease { inner, is_lost, number, switches }))
    }

    async fn alive(&self, peer: &PeerId) -> Result<bool> {
        self.inner.backend().alive(peer).await
    }

    async fn pulse_end(&self, peer: &PeerId) -> Result<()> {
        self.inner.backend().pulse_end(peer).await
    }

    async fn fill_cell(&self, name: &str, value: Bytes) -> Result<Bytes> {
        self.inner.backend().fill_cell(name, value).await
    }

    async fn cell(&self, name: &str) -> Result<Option<Bytes>> {
        self.inner.backend().cell(name).await
    }

    async fn items(&self, prefix: &str) -> Result<Vec<Item>> {
        self.inner.backend().items(prefix).await
    }

    async fn commit(&self, txn: &Txn) -> Result<Committed> {
        self.inner.backend().commit(txn).await
    }
}

struct DisturbedLease {
    inner: Box<dyn Lease>,
    is_lost: watch::Receiver<bool>,
    number: u64,
    switches: Arc<Switches>,
}

#[async_trait]
impl Lease for DisturbedLease {
    fn timeout(&self) -> Duration {
        self.inner.timeout()
    }

    fn lost(&self) -> watch::Receiver<bool> {
        self.is_lost.clone()
    }

    async fn pulse(&self, peer: &PeerId) -> Result<()> {
        self.inner.pulse(peer).await
    }

    async fn end_pulse(&self, peer: &PeerId) -> Result<()> {
        self.inner.end_pulse(peer).await
    }

    async fn commit(&self, txn: &Txn) -> Result<Committed> {
        match self.number <= self.switches.ended_up_to.load(Ordering::Relaxed) {
            true => Err(Error::SessionLost("the store ended it".into())),
            false => self.inner.commit(txn).await,
        }
    }

    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }

    fn abandon(&self) {
        self.inner.abandon();
    }
}
