//! `zookeeper://HOST:PORT,…/NAME`: a real ZooKeeper, version 3.6 or newer.
//!
//! ```text
//! /sardonyx/NAME/format                 the layout's version
//! /sardonyx/NAME/log/e-0000000042       an entry: persistent, sequential
//! /sardonyx/NAME/trim                   entries before this position may be gone
//! /sardonyx/NAME/origin, origin-piece/… a pointer, and what it points to in pieces
//! /sardonyx/NAME/pulse/PEER             ephemeral
//! /sardonyx/NAME/cell/NAME
//! /sardonyx/NAME/item/KEY               its version counts the writes to the key, and stays
//! /sardonyx/NAME/item/KEY/v             the value; ephemeral if it is leased
//! ```
//!
//! The log is read by number ([`log`]), transactions are in [`items`], sessions in [`session`]: a
//! session is a client of its own, so that it ends when its owner does and not when a read fails.

mod client;
mod items;
mod log;
mod origin;
mod session;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use sardonyx_core::{PeerId, Position};
use zookeeper_client::{CreateMode, Error as ZkError};

use client::{Zk, call, escape, raw};

use crate::{
    backend::{Backend, Committed, Item, Lease, Tail, Txn},
    error::{Error, Result},
    location::Servers,
    token::Token,
};

/// The version of the layout above. A newer one is refused.
const FORMAT: u32 = 1;

/// A watch that is silent is checked every so often.
const POLL_PERIOD: Duration = Duration::from_secs(5);

/// Connects, and checks that what is stored there fits.
pub(crate) async fn connect(servers: &Servers) -> Result<ZooKeeper> {
    let zk = Zk::new(servers);
    let root = format!("/sardonyx/{}", servers.name);
    let client = zk.client().await?;
    let options = zk.options(CreateMode::Persistent);
    // The common root is everybody's, whoever comes first.
    let everybodys = CreateMode::Persistent.with_acls(zookeeper_client::Acls::anyone_all());
    ignore_existing(raw(client.create("/sardonyx", b"", &everybodys)).await?.map(drop))?;
    ignore_existing(raw(client.create(&root, b"", &options)).await?.map(drop))?;
    for part in ["log", "origin-piece", "pulse", "cell", "item"] {
        let path = format!("{root}/{part}");
        ignore_existing(raw(client.create(&path, b"", &options)).await?.map(drop))?;
    }
    let path = format!("{root}/format");
    let format = FORMAT.to_string();
    ignore_existing(raw(client.create(&path, format.as_bytes(), &options)).await?.map(drop))?;
    let (found, _) = call(client.get_data(&path)).await?;
    let found = String::from_utf8_lossy(&found);
    match found.parse::<u32>() {
        Ok(format) if format <= FORMAT => Ok(ZooKeeper { zk, root }),
        _ => Err(Error::NotConfigured(format!(
            "{root} in ZooKeeper has format {found}, but this build reads up to {FORMAT}: \
             upgrade it"
        ))),
    }
}

fn ignore_existing(created: std::result::Result<(), ZkError>) -> Result<()> {
    match created {
        Ok(()) | Err(ZkError::NodeExists) => Ok(()),
        Err(why) => Err(client::judge(&why)),
    }
}

pub(crate) struct ZooKeeper {
    zk: Arc<Zk>,
    root: String,
}

impl ZooKeeper {
    fn pulse_path(&self, peer: &PeerId) -> String {
        format!("{}/pulse/{}", self.root, escape(peer.as_str()))
    }

    fn cell_path(&self, name: &str) -> String {
        format!("{}/cell/{}", self.root, escape(name))
    }
}

#[async_trait]
impl Backend for ZooKeeper {
    async fn append(&self, _token: Token, bytes: Bytes) -> Result<Position> {
        log::append(&self.zk, &self.root, &bytes).await
    }

    fn tail(&self, after: Option<Position>) -> Box<dyn Tail> {
        Box::new(log::ZkTail::new(Arc::clone(&self.zk), &self.root, after))
    }

    async fn end(&self) -> Result<Option<Position>> {
        log::end(&self.zk, &self.root).await
    }

    async fn origin(&self) -> Result<Option<(Position, Bytes)>> {
        origin::read(&self.zk, &self.root).await
    }

    async fn set_origin(&self, position: Position, bytes: Bytes) -> Result<bool> {
        origin::write(&self.zk, &self.root, position, &bytes).await
    }

    async fn trim(&self, before: Position) -> Result<()> {
        log::trim(&self.zk, &self.root, before).await
    }

    async fn open_session(&self, timeout: Duration) -> Result<Box<dyn Lease>> {
        let lease = session::ZkLease::open(Arc::clone(&self.zk), &self.root, timeout).await?;
        Ok(Box::new(lease))
    }

    async fn alive(&self, peer: &PeerId) -> Result<bool> {
        let (client, path) = (self.zk.client().await?, self.pulse_path(peer));
        // What another client wrote before may not have reached the server we talk to.
        call(client.sync(&path)).await?;
        Ok(call(client.check_stat(&path)).await?.is_some())
    }

    async fn pulse_end(&self, peer: &PeerId) -> Result<()> {
        let path = self.pulse_path(peer);
        loop {
            let client = self.zk.client().await?;
            call(client.sync(&path)).await?;
            let (stat, watcher) = call(client.check_and_watch_stat(&path)).await?;
            if stat.is_none() {
                return Ok(());
            }
            // Whatever happened, or nothing for a while: look again, with a new watch.
            let _ = tokio::time::timeout(POLL_PERIOD, watcher.changed()).await;
        }
    }

    async fn fill_cell(&self, name: &str, value: Bytes) -> Result<Bytes> {
        let (client, path) = (self.zk.client().await?, self.cell_path(name));
        let options = self.zk.options(CreateMode::Persistent);
        match raw(client.create(&path, &value, &options)).await? {
            Ok(_) => Ok(value),
            Err(ZkError::NodeExists) => {
                call(client.sync(&path)).await?;
                Ok(call(client.get_data(&path)).await?.0.into())
            }
            Err(why) => Err(client::judge(&why)),
        }
    }

    async fn cell(&self, name: &str) -> Result<Option<Bytes>> {
        let (client, path) = (self.zk.client().await?, self.cell_path(name));
        call(client.sync(&path)).await?;
        match raw(client.get_data(&path)).await? {
            Ok((value, _)) => Ok(Some(value.into())),
            Err(ZkError::NoNode) => Ok(None),
            Err(why) => Err(client::judge(&why)),
        }
    }

    async fn items(&self, prefix: &str) -> Result<Vec<Item>> {
        items::list(&self.zk.client().await?, &self.root, prefix).await
    }

    async fn commit(&self, txn: &Txn) -> Result<Committed> {
        let client = self.zk.client().await?;
        items::commit(&client, &self.zk, &self.root, txn).await
    }
}

/// ZooKeeper's own sequential create, and nothing else.
#[cfg(feature = "bench")]
pub(crate) struct RawZooKeeper {
    client: zookeeper_client::Client,
    path: String,
}

#[cfg(feature = "bench")]
impl RawZooKeeper {
    pub(crate) async fn connect(servers: &Servers) -> Result<RawZooKeeper> {
        let client = Zk::new(servers).client().await?;
        let options = CreateMode::Persistent.with_acls(zookeeper_client::Acls::anyone_all());
        let path = format!("/sardonyx-raw/{}-{:016x}", servers.name, crate::token::random()?);
        call(client.mkdir(&path, &options)).await?;
        Ok(RawZooKeeper { client, path: format!("{path}/e-") })
    }
}

#[cfg(feature = "bench")]
#[async_trait]
impl crate::raw::RawAppend for RawZooKeeper {
    async fn append(&self, bytes: &[u8]) -> Result<()> {
        let acls = zookeeper_client::Acls::anyone_all();
        let options = CreateMode::PersistentSequential.with_acls(acls);
        call(self.client.create(&self.path, bytes, &options)).await.map(drop)
    }
}
