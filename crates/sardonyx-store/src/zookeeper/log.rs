//! The log in ZooKeeper: sequential nodes, read by number.
//!
//! ZooKeeper numbers the nodes densely, so the next entry has a name before it exists: a reader
//! asks for it and, if it is not there, watches for exactly that node. There is no list to fetch
//! and no moment between looking and watching. A number that stays empty while higher ones exist
//! is one that was trimmed, or that something else under the log took.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use sardonyx_core::Position;
use zookeeper_client::{Client, CreateMode, Error as ZkError};

use super::{
    POLL_PERIOD,
    client::{Zk, call, judge, raw},
};
use crate::{
    backend::{Raw, Read, Tail},
    error::{Error, Result},
};

/// How many entries are asked for at once, when reading lags behind and when it does not.
const READ_ENTRIES_MAX: u64 = 256;
const READ_ENTRIES_MIN: u64 = 8;

/// After an answer of this size fewer entries are asked for.
const READ_BYTES: usize = 4 << 20;

/// How many nodes are deleted at once.
const DELETES_MAX: usize = 256;

/// ZooKeeper's numbers have 31 bits. Near the end appends are refused, before numbers repeat.
const NUMBER_MAX: i64 = i32::MAX as i64 - 1_000_000;

fn path(root: &str, number: u64) -> String {
    format!("{root}/log/e-{number:010}")
}

pub(super) async fn append(zk: &Zk, root: &str, bytes: &[u8]) -> Result<Position> {
    let client = zk.client().await?;
    let options = zk.options(CreateMode::PersistentSequential);
    let (_, number) = call(client.create(&format!("{root}/log/e-"), bytes, &options)).await?;
    match number.into_i64() {
        number @ 0..=NUMBER_MAX => Ok(Position(number as u64)),
        _ => Err(Error::NotConfigured(format!(
            "{root} has used up ZooKeeper's numbers: move the cluster to a new name"
        ))),
    }
}

/// The newest entry. Lists every node, so it is for people and not for readers.
pub(super) async fn end(zk: &Zk, root: &str) -> Result<Option<Position>> {
    let client = zk.client().await?;
    call(client.sync(&format!("{root}/log"))).await?;
    Ok(numbers(&client, root).await?.last().copied().map(Position))
}

/// Marks first and deletes afterwards, from the front: a reader that misses an entry finds the
/// mark behind it.
pub(super) async fn trim(zk: &Zk, root: &str, before: Position) -> Result<()> {
    let client = zk.client().await?;
    mark_trimmed(zk, &client, root, before).await?;
    let nodes = numbers(&client, root).await?;
    let trimmed: Vec<_> = nodes.into_iter().filter(|number| *number < before.0).collect();
    for chunk in trimmed.chunks(DELETES_MAX) {
        let paths: Vec<_> = chunk.iter().map(|number| path(root, *number)).collect();
        // All are sent before the first answer is awaited.
        let deletes: Vec<_> = paths.iter().map(|path| client.delete(path, None)).collect();
        for delete in deletes {
            match raw(delete).await? {
                // Somebody else trims as well.
                Ok(()) | Err(ZkError::NoNode) => {}
                Err(why) => return Err(judge(&why)),
            }
        }
    }
    Ok(())
}

async fn mark_trimmed(zk: &Zk, client: &Client, root: &str, before: Position) -> Result<()> {
    let path = format!("{root}/trim");
    let mark = before.0.to_be_bytes();
    loop {
        let written = match raw(client.get_data(&path)).await? {
            Ok((held, _)) if trim_mark(&held) >= before.0 => return Ok(()),
            Ok((_, stat)) => {
                raw(client.set_data(&path, &mark, Some(stat.version))).await?.map(drop)
            }
            Err(ZkError::NoNode) => {
                let options = zk.options(CreateMode::Persistent);
                raw(client.create(&path, &mark, &options)).await?.map(drop)
            }
            Err(why) => return Err(judge(&why)),
        };
        match written {
            Ok(()) => return Ok(()),
            Err(ZkError::BadVersion | ZkError::NodeExists) => {}
            Err(why) => return Err(judge(&why)),
        }
    }
}

fn trim_mark(value: &[u8]) -> u64 {
    value.try_into().map_or(0, u64::from_be_bytes)
}

/// The numbers of the nodes that are there, in order.
async fn numbers(client: &Client, root: &str) -> Result<Vec<u64>> {
    let nodes = call(client.list_children(&format!("{root}/log"))).await?;
    let number = |node: &String| node.strip_prefix("e-")?.parse().ok();
    let mut numbers: Vec<u64> = nodes.iter().filter_map(number).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// A reader of the log.
pub(super) struct ZkTail {
    zk: Arc<Zk>,
    root: String,
    next: u64,
    n_asked: u64,
}

impl ZkTail {
    pub(super) fn new(zk: Arc<Zk>, root: &str, after: Option<Position>) -> ZkTail {
        let next = after.map_or(0, |after| after.0 + 1);
        ZkTail { zk, root: root.to_owned(), next, n_asked: READ_ENTRIES_MIN }
    }

    /// The entries from `next` on that are there, up to the first that is not.
    async fn look(&mut self, client: &Client) -> Result<Vec<Raw>> {
        let numbers = self.next..self.next + self.n_asked;
        // All are asked for before the first answer is awaited.
        let asked: Vec<_> =
            numbers.map(|number| (number, client.get_data(&path(&self.root, number)))).collect();
        let mut entries = Vec::new();
        let mut bytes = 0;
        for (number, asked) in asked {
            match raw(asked).await? {
                Ok((data, _)) => {
                    bytes += data.len();
                    entries.push(Raw { position: Position(number), bytes: Bytes::from(data) });
                }
                Err(ZkError::NoNode) => break,
                Err(why) => return Err(judge(&why)),
            }
        }
        self.n_asked = match entries.len() as u64 == self.n_asked && bytes < READ_BYTES {
            true => (self.n_asked * 4).min(READ_ENTRIES_MAX),
            false => READ_ENTRIES_MIN,
        };
        Ok(entries)
    }

    /// Whether the next entry was trimmed. If it was not and later ones are there, something else
    /// took its number: then goes on behind it.
    async fn explain_absence(&mut self, client: &Client) -> Result<bool> {
        match raw(client.get_data(&format!("{}/trim", self.root))).await? {
            Ok((mark, _)) if trim_mark(&mark) > self.next => return Ok(true),
            Ok(_) | Err(ZkError::NoNode) => {}
            Err(why) => return Err(judge(&why)),
        }
        Ok(false)
    }

    async fn skip_gap(&mut self, client: &Client) -> Result<()> {
        let numbers = numbers(client, &self.root).await?;
        let there = numbers.iter().copied().find(|number| *number >= self.next);
        if let Some(there) = there.filter(|there| *there > self.next)
            && call(client.check_stat(&path(&self.root, self.next))).await?.is_none()
            && !self.explain_absence(client).await?
        {
            self.next = there;
        }
        Ok(())
    }
}

#[async_trait]
impl Tail for ZkTail {
    async fn next(&mut self) -> Result<Read> {
        loop {
            let client = self.zk.client().await?;
            let entries = self.look(&client).await?;
            if let Some(last) = entries.last() {
                self.next = last.position.0 + 1;
                return Ok(Read::Entries(entries));
            }
            let awaited = path(&self.root, self.next);
            let (stat, watcher) = call(client.check_and_watch_stat(&awaited)).await?;
            if stat.is_some() {
                continue;
            }
            if self.explain_absence(&client).await? {
                return Ok(Read::Trimmed);
            }
            if tokio::time::timeout(POLL_PERIOD, watcher.changed()).await.is_err() {
                self.skip_gap(&client).await?;
            }
        }
    }
}
