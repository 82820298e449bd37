//! A session: the thread on which pulses and leases hang.

use sardonyx_core::PeerId;
use tokio::sync::watch;

use std::{sync::Arc, time::Duration};

use crate::{
    backend::{Committed, Lease, Txn},
    error::Result,
    store::{Options, check_txn, retry},
};

/// Signs of life to the store, given by a task of its own. One per node is enough.
///
/// Dropped, it is closed in the background; abandoned or killed, it ends by its timeout.
pub struct Session {
    lease: Arc<dyn Lease>,
    options: Options,
    is_open: bool,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("timeout", &self.lease.timeout()).finish_non_exhaustive()
    }
}

impl Session {
    pub(crate) fn new(lease: Box<dyn Lease>, options: Options) -> Session {
        Session { lease: lease.into(), options, is_open: true }
    }

    /// The timeout that the store granted.
    pub fn timeout(&self) -> Duration {
        self.lease.timeout()
    }

    /// Returns once the session is lost. What hung on it is gone or about to go: stop every task,
    /// take new peer ids, join again.
    pub async fn lost(&self) {
        let mut lost = self.lease.lost();
        // An error means that nobody will ever say so: the task that would is gone with the store.
        let _ = lost.wait_for(|lost| *lost).await;
    }

    /// Whether the session is lost, as far as is known here.
    pub fn is_lost(&self) -> bool {
        *self.lease.lost().borrow()
    }

    /// A receiver that becomes true when the session is lost.
    pub fn watch_lost(&self) -> watch::Receiver<bool> {
        self.lease.lost()
    }

    /// Gives `peer` a pulse.
    pub async fn pulse(&self, peer: &PeerId) -> Result<()> {
        retry(self.options, || self.lease.pulse(peer)).await
    }

    /// Takes the pulse of `peer` away; whoever watches it will know.
    pub async fn end_pulse(&self, peer: &PeerId) -> Result<()> {
        retry(self.options, || self.lease.end_pulse(peer)).await
    }

    /// Like [`Store::commit`](crate::Store::commit); what [`Write::Lease`](crate::Write::Lease)
    /// writes ends with this session.
    pub async fn commit(&self, txn: &Txn) -> Result<Committed> {
        check_txn(txn, true)?;
        self.lease.commit(txn).await
    }

    /// Ends the session now, with everything that hangs on it.
    pub async fn close(mut self) -> Result<()> {
        self.is_open = false;
        retry(self.options, || self.lease.close()).await
    }

    /// Gives no more signs of life, as if this process were killed. For tests and benchmarks.
    pub fn abandon(mut self) {
        self.is_open = false;
        self.lease.abandon();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.is_open
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let lease = Arc::clone(&self.lease);
            // If this fails, the timeout does the same a little later.
            runtime.spawn(async move { lease.close().await });
        }
    }
}
