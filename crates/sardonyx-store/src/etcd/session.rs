//! A session is an etcd lease. Keep-alives are sent one by one, each on a stream of its own: a
//! stream that outlived its server would be silent for good, and nobody would know.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use bytes::Bytes;
use sardonyx_core::PeerId;
use tokio::sync::watch;

use super::{
    items,
    proto::{
        DeleteRangeResponse, LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest,
        LeaseKeepAliveResponse, LeaseRevokeRequest, LeaseRevokeResponse, PutResponse, delete_of,
        put,
    },
    rpc::{DELETE, GRANT, KEEP_ALIVE, PUT, REVOKE, Rpc},
};
use crate::{
    backend::{Committed, Lease, Txn},
    error::{Error, Result},
    local::session_lost,
};

pub(super) struct EtcdLease {
    rpc: Arc<Rpc>,
    prefix: String,
    id: i64,
    /// A key that is there as long as the lease is.
    key: String,
    timeout: Duration,
    lost: watch::Receiver<bool>,
    beating: tokio::task::AbortHandle,
}

impl EtcdLease {
    pub(super) async fn open(rpc: Arc<Rpc>, prefix: &str, timeout: Duration) -> Result<EtcdLease> {
        // etcd counts in seconds; a session must not be shorter than was asked for.
        let ttl = timeout.as_millis().div_ceil(1000).max(1) as i64;
        let asked = Instant::now();
        let granted: LeaseGrantResponse = rpc.call(GRANT, LeaseGrantRequest { ttl }).await?;
        let (id, timeout) = (granted.id, Duration::from_secs(granted.ttl.max(1) as u64));
        let key = format!("{prefix}session/{id:016x}");
        let _: PutResponse = rpc.call(PUT, put(&key, Bytes::new(), id)).await?;
        let (lost, is_lost) = watch::channel(false);
        let beats = Arc::clone(&rpc);
        let beating = tokio::spawn(async move {
            beat(&beats, id, timeout, asked).await;
            lost.send_replace(true);
        });
        let beating = beating.abort_handle();
        let prefix = prefix.to_owned();
        Ok(EtcdLease { rpc, prefix, id, key, timeout, lost: is_lost, beating })
    }

    fn check(&self) -> Result<()> {
        if *self.lost.borrow() { Err(session_lost()) } else { Ok(()) }
    }
}

/// Gives signs of life until the lease is lost: because etcd says so, or because it may have ended
/// without our hearing of it. Time counts from the sending of the last sign that was answered.
async fn beat(rpc: &Rpc, id: i64, timeout: Duration, mut heard: Instant) {
    let mut pause = timeout / 3;
    loop {
        tokio::time::sleep(pause).await;
        let left = timeout.saturating_sub(heard.elapsed());
        let sent = Instant::now();
        match tokio::time::timeout(left.min(timeout / 3), keep_alive(rpc, id)).await {
            Ok(Ok(true)) => (heard, pause) = (sent, timeout / 3),
            Ok(Ok(false)) => return,
            Ok(Err(why)) if !why.is_transient() => return,
            Ok(Err(_)) | Err(_) if heard.elapsed() >= timeout => return,
            Ok(Err(_)) | Err(_) => pause = timeout / 40,
        }
    }
}

async fn keep_alive(rpc: &Rpc, id: i64) -> Result<bool> {
    let requests = tokio_stream::once(LeaseKeepAliveRequest { id });
    let mut answers = rpc.stream::<_, LeaseKeepAliveResponse>(KEEP_ALIVE, requests).await?;
    match answers.message().await {
        Ok(Some(answer)) => Ok(answer.ttl > 0),
        Ok(None) => Err(Error::Unavailable("etcd hung up".into())),
        Err(status) => Err(rpc.judge_stream(&status)),
    }
}

impl Drop for EtcdLease {
    fn drop(&mut self) {
        self.beating.abort();
    }
}

#[async_trait]
impl Lease for EtcdLease {
    fn timeout(&self) -> Duration {
        self.timeout
    }

    fn lost(&self) -> watch::Receiver<bool> {
        self.lost.clone()
    }

    async fn pulse(&self, peer: &PeerId) -> Result<()> {
        self.check()?;
        let key = format!("{}pulse/{peer}", self.prefix);
        let _: PutResponse = self.rpc.call(PUT, put(&key, Bytes::new(), self.id)).await?;
        Ok(())
    }

    async fn end_pulse(&self, peer: &PeerId) -> Result<()> {
        let mut delete = delete_of(&format!("{}pulse/{peer}", self.prefix));
        delete.range_end.clear();
        let _: DeleteRangeResponse = self.rpc.call(DELETE, delete).await?;
        Ok(())
    }

    async fn commit(&self, txn: &Txn) -> Result<Committed> {
        self.check()?;
        items::commit(&self.rpc, &self.prefix, txn, Some((&self.key, self.id))).await
    }

    async fn close(&self) -> Result<()> {
        self.beating.abort();
        let revoked: Result<LeaseRevokeResponse> =
            self.rpc.call(REVOKE, LeaseRevokeRequest { id: self.id }).await;
        match revoked {
            // It had ended by itself.
            Err(Error::SessionLost(_)) | Ok(_) => Ok(()),
            Err(why) => Err(why),
        }
    }

    fn abandon(&self) {
        self.beating.abort();
    }
}
