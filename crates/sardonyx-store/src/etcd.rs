//! `etcd://HOST:PORT,…/NAME`: a real etcd, version 3.4 or newer.
//!
//! ```text
//! sardonyx/NAME/format                     the layout's version
//! sardonyx/NAME/log/at                     the number of the bucket that is filled now
//! sardonyx/NAME/log/trim                   entries before this position may be gone
//! sardonyx/NAME/log/e/BUCKET/TOKEN         an entry; its create revision says where it stands
//! sardonyx/NAME/origin, origin-piece/…     a pointer, and what it points to in pieces
//! sardonyx/NAME/session/LEASE              is there as long as the lease
//! sardonyx/NAME/pulse/…, cell/…, item/…
//! ```
//!
//! An entry has a key of its own, so appenders do not contend, and the token in the key makes a
//! second copy impossible within a bucket. How the log is written is in [`append`], how it is read
//! in [`log`], how sessions live in [`session`], what is called in [`rpc`] and [`proto`].

#[cfg(feature = "suite")]
pub(crate) mod admin;
mod append;
mod items;
mod log;
mod origin;
mod proto;
mod rpc;
mod session;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use sardonyx_core::{PeerId, Position};

use append::Appender;
use log::{Bell, Log};
use proto::{
    CompactionRequest, CompactionResponse, RangeResponse, StatusRequest, StatusResponse,
    TxnRequest, TxnResponse, is_absent, put, range,
};
use rpc::{COMPACT, RANGE, Rpc, STATUS, TXN};

use crate::{
    backend::{Backend, Committed, Item, Lease, Tail, Txn},
    error::{Error, Result},
    location::Servers,
    token::Token,
};

/// The version of the layout above. A newer one is refused.
const FORMAT: u32 = 1;

/// The oldest etcd whose leases and watches are good enough.
const OLDEST: (u32, u32) = (3, 4);

/// A doorbell that does not ring is checked every so often: etcd has lost events before.
const POLL_PERIOD: Duration = Duration::from_secs(5);

/// Connects, and checks that the server and what is stored there fit.
pub(crate) async fn connect(servers: &Servers) -> Result<Etcd> {
    let rpc = Arc::new(Rpc::new(servers)?);
    let status: StatusResponse = rpc.call(STATUS, StatusRequest {}).await?;
    check_version(&status.version)?;
    let prefix = format!("sardonyx/{}/", servers.name);
    check_format(&rpc, &prefix).await?;
    let log = Arc::new(Log::new(Arc::clone(&rpc), &prefix));
    let appender = Appender::start(Arc::clone(&log)).await?;
    Ok(Etcd { rpc, prefix, log, appender, compact: servers.compact })
}

/// Refuses servers that are too old, going by how they call themselves.
fn check_version(found: &str) -> Result<()> {
    let mut parts = found.split('.').map_while(|part| part.parse::<u32>().ok());
    let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    let (major, minor) = OLDEST;
    match version < OLDEST {
        true => Err(Error::NotConfigured(format!(
            "etcd {found} is too old: {major}.{minor} or newer is needed"
        ))),
        false => Ok(()),
    }
}

async fn check_format(rpc: &Rpc, prefix: &str) -> Result<()> {
    let key = format!("{prefix}format");
    let txn = TxnRequest {
        compare: vec![is_absent(&key)],
        success: vec![put(&key, FORMAT.to_string().into(), 0).into()],
        failure: vec![range(&key).into()],
    };
    let answer: TxnResponse = rpc.call(TXN, txn).await?;
    let found = answer.ranges().flat_map(|range| range.kvs).next();
    let Some(found) = found else { return Ok(()) };
    let found = String::from_utf8_lossy(&found.value).into_owned();
    match found.parse::<u32>() {
        Ok(format) if format <= FORMAT => Ok(()),
        _ => Err(Error::NotConfigured(format!(
            "{prefix} in etcd has format {found}, but this build reads up to {FORMAT}: upgrade it"
        ))),
    }
}

/// Whether the one server that `url` names leads; `None` if it does not answer.
#[cfg(feature = "suite")]
pub(crate) async fn leads(url: &str) -> Option<bool> {
    let Ok(crate::Location::Etcd(servers)) = crate::Location::parse(url) else { return None };
    let rpc = Rpc::new(&servers).ok()?;
    let status = rpc.call::<_, StatusResponse>(STATUS, StatusRequest {});
    let status = tokio::time::timeout(Duration::from_secs(1), status).await.ok()?.ok()?;
    Some(status.header.is_some_and(|at| at.member_id == status.leader))
}

pub(crate) struct Etcd {
    rpc: Arc<Rpc>,
    prefix: String,
    log: Arc<Log>,
    appender: Appender,
    /// Whether this etcd is ours alone, so that its past may be forgotten (docs/decisions/0013).
    compact: bool,
}

/// Makes etcd forget what was deleted up to now.
async fn compact(rpc: &Rpc, prefix: &str) -> Result<()> {
    let now: RangeResponse = rpc.call(RANGE, range(&format!("{prefix}format"))).await?;
    let revision = now.header.map_or(0, |header| header.revision);
    match rpc.call::<_, CompactionResponse>(COMPACT, CompactionRequest { revision }).await {
        // Somebody else was quicker.
        Err(Error::Unavailable(why)) if why.contains("has been compacted") => Ok(()),
        compacted => compacted.map(drop),
    }
}

impl Etcd {
    async fn value(&self, key: &str) -> Result<Option<Bytes>> {
        let found: RangeResponse = self.rpc.call(RANGE, range(key)).await?;
        Ok(found.kvs.into_iter().next().map(|it| it.value))
    }

    fn pulse_key(&self, peer: &PeerId) -> String {
        format!("{}pulse/{peer}", self.prefix)
    }
}

#[async_trait]
impl Backend for Etcd {
    async fn append(&self, token: Token, bytes: Bytes) -> Result<Position> {
        self.appender.append(token, bytes).await
    }

    fn tail(&self, after: Option<Position>) -> Box<dyn Tail> {
        Box::new(log::EtcdTail::new(Arc::clone(&self.log), after))
    }

    async fn end(&self) -> Result<Option<Position>> {
        self.log.end().await
    }

    async fn origin(&self) -> Result<Option<(Position, Bytes)>> {
        origin::read(&self.rpc, &self.prefix).await
    }

    async fn set_origin(&self, position: Position, bytes: Bytes) -> Result<bool> {
        origin::write(&self.rpc, &self.prefix, position, &bytes).await
    }

    async fn trim(&self, before: Position) -> Result<()> {
        self.log.trim(before).await?;
        if self.compact { compact(&self.rpc, &self.prefix).await } else { Ok(()) }
    }

    async fn open_session(&self, timeout: Duration) -> Result<Box<dyn Lease>> {
        let lease = session::EtcdLease::open(Arc::clone(&self.rpc), &self.prefix, timeout).await?;
        Ok(Box::new(lease))
    }

    async fn alive(&self, peer: &PeerId) -> Result<bool> {
        Ok(self.value(&self.pulse_key(peer)).await?.is_some())
    }

    async fn pulse_end(&self, peer: &PeerId) -> Result<()> {
        let key = self.pulse_key(peer);
        let mut bell = None;
        loop {
            let found: RangeResponse = self.rpc.call(RANGE, range(&key)).await?;
            if found.kvs.is_empty() {
                return Ok(());
            }
            let revision = found.header.map_or(0, |header| header.revision);
            let bell = match &mut bell {
                Some(bell) => bell,
                None => bell.insert(Bell::new(&self.rpc, &key, Vec::new(), revision).await?),
            };
            bell.ring(&self.rpc).await?;
        }
    }

    async fn fill_cell(&self, name: &str, value: Bytes) -> Result<Bytes> {
        let key = format!("{}cell/{name}", self.prefix);
        let txn = TxnRequest {
            compare: vec![is_absent(&key)],
            success: vec![put(&key, value.clone(), 0).into()],
            failure: vec![range(&key).into()],
        };
        let answer: TxnResponse = self.rpc.call(TXN, txn).await?;
        let held = answer.ranges().flat_map(|range| range.kvs).next();
        Ok(held.map_or(value, |held| held.value))
    }

    async fn cell(&self, name: &str) -> Result<Option<Bytes>> {
        self.value(&format!("{}cell/{name}", self.prefix)).await
    }

    async fn items(&self, prefix: &str) -> Result<Vec<Item>> {
        items::list(&self.rpc, &self.prefix, prefix).await
    }

    async fn commit(&self, txn: &Txn) -> Result<Committed> {
        items::commit(&self.rpc, &self.prefix, txn, None).await
    }
}

/// etcd's own put, and nothing else.
#[cfg(feature = "bench")]
pub(crate) struct RawEtcd {
    rpc: Rpc,
    prefix: String,
    next: std::sync::atomic::AtomicU64,
}

#[cfg(feature = "bench")]
impl RawEtcd {
    pub(crate) fn connect(servers: &Servers) -> Result<RawEtcd> {
        let prefix = format!("sardonyx-raw/{}/{:016x}/", servers.name, crate::token::random()?);
        Ok(RawEtcd { rpc: Rpc::new(servers)?, prefix, next: 0.into() })
    }
}

#[cfg(feature = "bench")]
#[async_trait]
impl crate::raw::RawAppend for RawEtcd {
    async fn append(&self, bytes: &[u8]) -> Result<()> {
        let number = self.next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let key = format!("{}{number:016x}", self.prefix);
        let put = put(&key, Bytes::copy_from_slice(bytes), 0);
        self.rpc.call::<_, proto::PutResponse>(rpc::PUT, put).await.map(drop)
    }

    async fn append_all(&self, bytes: &[u8], n: usize) -> Option<Result<()>> {
        let bytes = Bytes::copy_from_slice(bytes);
        let first = self.next.fetch_add(n as u64, std::sync::atomic::Ordering::Relaxed);
        let put = |number| put(&format!("{}{number:016x}", self.prefix), bytes.clone(), 0).into();
        let success = (first..first + n as u64).map(put).collect();
        let txn = TxnRequest { compare: vec![], success, failure: vec![] };
        Some(self.rpc.call::<_, TxnResponse>(TXN, txn).await.map(drop))
    }
}

#[cfg(test)]
mod tests {
    use super::check_version;

    /// What servers of these versions answer to the status request.
    #[test]
    fn a_server_that_is_too_old_is_refused() {
        for version in ["3.3.25", "3.3.0-rc.4", "3.0.17", "2.3.8", ""] {
            let why = check_version(version).expect_err(version).to_string();
            assert!(why.contains("too old: 3.4 or newer is needed"), "{why}");
        }
        for version in ["3.4.0", "3.4.23", "3.5.0-alpha.0", "3.10.1", "4.0.0"] {
            assert_eq!(check_version(version), Ok(()), "{version}");
        }
    }
}
