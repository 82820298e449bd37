//! The raw limit: what a server or a disk does without us. For benchmarks only.

use std::{fs::File, io::Write as _, path::Path, time::Instant};

use async_trait::async_trait;

use crate::{
    error::{Error, Result},
    location::Location,
    token::random,
};

/// Appends with the bare client library, to a place of its own.
#[async_trait]
pub trait RawAppend: Send + Sync {
    /// One append, durable as the server has it.
    async fn append(&self, bytes: &[u8]) -> Result<()>;
}

/// The bare client for the server that `url` names; `None` where there is no server but ours.
pub async fn connect(url: &str) -> Result<Option<Box<dyn RawAppend>>> {
    match Location::parse(url)? {
        Location::Etcd(servers) => Ok(Some(Box::new(crate::etcd::RawEtcd::connect(&servers)?))),
        Location::ZooKeeper(servers) => {
            Ok(Some(Box::new(crate::zookeeper::RawZooKeeper::connect(&servers).await?)))
        }
        Location::Memory | Location::Embedded(_) | Location::Remote(_) => Ok(None),
    }
}

/// Appends groups of `group` records to a file in `dir` until `until`, each group synced once; says
/// how many records that made.
pub fn append_to_file(dir: &Path, record: &[u8], group: usize, until: Instant) -> Result<u64> {
    let failed = |why: std::io::Error| Error::NotConfigured(format!("{}: {why}", dir.display()));
    let path = dir.join(format!("raw-{:016x}", random()?));
    let mut file = File::options().create(true).append(true).open(&path).map_err(failed)?;
    let bytes = record.repeat(group);
    let mut n = 0;
    while Instant::now() < until {
        file.write_all(&bytes).and_then(|()| file.sync_data()).map_err(failed)?;
        n += group as u64;
    }
    std::fs::remove_file(&path).map_err(failed)?;
    Ok(n)
}
