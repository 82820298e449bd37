//! The raw limit: what a server or a disk does without us. For benchmarks only.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    time::Instant,
};

use async_trait::async_trait;

use crate::{
    embedded::{GROWTH_BYTES, zero},
    error::{Error, Result},
    location::Location,
    token::random,
};

/// Appends with the bare client library, to a place of its own.
#[async_trait]
pub trait RawAppend: Send + Sync {
    /// One append, durable as the server has it.
    async fn append(&self, bytes: &[u8]) -> Result<()>;

    /// The same entry `n` times in one transaction, for clients that gather what others ask meanwhile.
    /// `None` where our store does not gather either.
    async fn append_all(&self, _bytes: &[u8], _n: usize) -> Option<Result<()>> {
        None
    }
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

/// How a file is appended to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RawFile {
    /// It grows with each write: a plain append.
    Growing,
    /// It is grown in zeros beforehand, by as much at a time as our journal, and written over.
    OverZeros,
}

/// Groups of records appended to a file, each group synced once. The file lives as long as this.
#[derive(Debug)]
pub struct RawJournal {
    file: File,
    path: PathBuf,
    kind: RawFile,
    offset: u64,
    len: u64,
}

impl RawJournal {
    /// An empty file in `dir`.
    pub fn create(dir: &Path, kind: RawFile) -> Result<RawJournal> {
        let path = dir.join(format!("raw-{:016x}", random()?));
        let file = File::options().create_new(true).write(true).open(&path);
        let file = file.map_err(|why| failed(&path, &why))?;
        Ok(RawJournal { file, path, kind, offset: 0, len: 0 })
    }

    /// Appends groups of `group` records until `until`; says how many records that made.
    pub fn append(&mut self, record: &[u8], group: usize, until: Instant) -> Result<u64> {
        let bytes = record.repeat(group);
        let mut n = 0;
        while Instant::now() < until {
            self.write(&bytes).map_err(|why| failed(&self.path, &why))?;
            n += group as u64;
        }
        Ok(n)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let end = self.offset + bytes.len() as u64;
        if self.kind == RawFile::OverZeros && end > self.len {
            let growth = (end - self.len).next_multiple_of(GROWTH_BYTES);
            zero(&self.file, self.len, growth)?;
            self.file.sync_all()?;
            self.len += growth;
        }
        self.file.write_all_at(bytes, self.offset)?;
        self.offset = end;
        self.file.sync_data()
    }
}

impl Drop for RawJournal {
    fn drop(&mut self) {
        // It is in the way of nothing.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn failed(path: &Path, why: &io::Error) -> Error {
    Error::NotConfigured(format!("{}: {why}", path.display()))
}
