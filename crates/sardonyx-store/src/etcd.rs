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
use log::Log;
use proto::{
    RangeResponse, StatusRequest, StatusResponse, TxnRequest, TxnResponse, is_absent, put, range,
};
use rpc::{RANGE, Rpc, STATUS, TXN};

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
    let mut parts = status.version.split('.').map_while(|part| part.parse::<u32>().ok());
    let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    if version < OLDEST {
        let (found, (major, minor)) = (&status.version, OLDEST);
        let why = format!("etcd {found} is too old: {major}.{minor} or newer is needed");
        return Err(Error::NotConfigured(why));
    }
    let prefix = format!("sardonyx/{}/", servers.name);
    check_format(&rpc, &prefix).await?;
    let log = Arc::new(Log::new(Arc::clone(&rpc), &prefix));
    let appender = Appender::start(Arc::clone(&log)).await?;
    Ok(Etcd { rpc, prefix, log, appender })
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

/// Which of `hosts` leads, as all that answer see it.
#[cfg(feature = "suite")]
pub(crate) async fn leader(hosts: &[String]) -> Option<usize> {
    let mut leader = None;
    for (index, host) in hosts.iter().enumerate() {
        let servers = Servers {
            hosts: vec![host.clone()],
            name: String::new(),
            user: None,
            secret: None,
            tls: false,
            ca: None,
            identity: None,
        };
        let status = async {
            Rpc::new(&servers).ok()?.call::<_, StatusResponse>(STATUS, StatusRequest {}).await.ok()
        };
        let status = tokio::time::timeout(Duration::from_secs(1), status).await.ok().flatten();
        if status.is_some_and(|it| it.header.is_some_and(|at| at.member_id == it.leader)) {
            leader = Some(index);
        }
    }
    leader
}

pub(crate) struct Etcd {
    rpc: Arc<Rpc>,
    prefix: String,
    log: Arc<Log>,
    appender: Appender,
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
        self.log.trim(before).await
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
        loop {
            let found: RangeResponse = self.rpc.call(RANGE, range(&key)).await?;
            if found.kvs.is_empty() {
                return Ok(());
            }
            let revision = found.header.map_or(0, |header| header.revision);
            let mut bell = log::Bell::new(&self.rpc, &key, Vec::new(), revision).await?;
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
}
