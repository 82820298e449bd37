//! Items and transactions.
//!
//! A node's own version begins anew when the node is deleted and made again, so it cannot guard an
//! item. Each key therefore has a node that stays, whose version counts the writes, and below it
//! the value, which may be ephemeral. A write raises the count and changes the value in one
//! request; an expired lease takes the value only, which every condition also asks for.

use std::collections::BTreeSet;

use bytes::Bytes;
use zookeeper_client::{
    Client, CreateMode, Error as ZkError, MultiReadResult, MultiWriteError, MultiWriter,
};

use super::client::{Zk, call, escape, judge, raw, unescape};
use crate::{
    backend::{Committed, Condition, Item, Txn, Version, Write},
    error::{Error, Result},
};

/// How often a transaction is tried again that others got in the way of.
const TRIES_MAX: u32 = 100;

/// How many items are read in one request.
const READ_ITEMS_MAX: usize = 256;

fn guard_path(root: &str, key: &str) -> String {
    format!("{root}/item/{}", escape(key))
}

pub(super) async fn list(client: &Client, root: &str, prefix: &str) -> Result<Vec<Item>> {
    let parent = format!("{root}/item");
    call(client.sync(&parent)).await?;
    let nodes = call(client.list_children(&parent)).await?;
    let mut keys: Vec<_> = nodes.iter().filter_map(|node| unescape(node)).collect();
    keys.retain(|key| key.starts_with(prefix));
    keys.sort();
    let mut items = Vec::new();
    for keys in keys.chunks(READ_ITEMS_MAX) {
        let held = read(client, root, keys).await?;
        let item = |(key, held): (&String, Held)| {
            let version = Version(held.version? as u64);
            Some(Item { key: key.clone(), value: held.value?, version })
        };
        items.extend(keys.iter().zip(held).filter_map(item));
    }
    Ok(items)
}

/// What is under a key.
#[derive(Debug, PartialEq, Eq)]
struct Held {
    /// How often it was written; `None` if it never was.
    version: Option<i32>,
    value: Option<Bytes>,
}

impl Held {
    fn meets(&self, condition: &Condition) -> bool {
        match condition {
            Condition::Absent(_) => self.value.is_none(),
            Condition::Is(_, version) => {
                self.value.is_some() && self.version.map(|it| it as u64) == Some(version.0)
            }
        }
    }
}

/// What is under each of `keys`, all at one moment.
async fn read(client: &Client, root: &str, keys: &[String]) -> Result<Vec<Held>> {
    let mut reader = client.new_multi_reader();
    for key in keys {
        let guard = guard_path(root, key);
        let added =
            reader.add_get_data(&guard).and_then(|()| reader.add_get_data(&format!("{guard}/v")));
        added.map_err(|why| judge(&why))?;
    }
    let results = call(reader.commit()).await?;
    let held = |pair: &[MultiReadResult]| -> Result<Held> {
        let [guard, value] = pair else {
            return Err(Error::Unavailable("ZooKeeper left answers out".into()));
        };
        let mut held = Held { version: None, value: None };
        if let MultiReadResult::Data { stat, .. } = guard {
            held.version = Some(stat.version);
        }
        if let MultiReadResult::Data { data, .. } = value {
            held.value = Some(Bytes::copy_from_slice(data));
        }
        Ok(held)
    };
    results.chunks(2).map(held).collect()
}

/// Reads, decides, and writes on the condition that nothing has changed since; again, if it has.
pub(super) async fn commit(client: &Client, zk: &Zk, root: &str, txn: &Txn) -> Result<Committed> {
    let keys: BTreeSet<_> =
        (txn.when.iter().map(Condition::key)).chain(txn.then.iter().map(Write::key)).collect();
    let keys: Vec<String> = keys.into_iter().map(str::to_owned).collect();
    call(client.sync(&format!("{root}/item"))).await?;
    for _ in 0..TRIES_MAX {
        let held = read(client, root, &keys).await?;
        let of = |key: &str| keys.iter().position(|it| it == key).map(|index| &held[index]);
        let holds =
            |condition: &Condition| of(condition.key()).is_some_and(|it| it.meets(condition));
        if !txn.when.iter().all(holds) {
            return Ok(Committed::Refused);
        }
        let mut has_all = true;
        for (key, held) in keys.iter().zip(&held) {
            if held.version.is_none() {
                // Made once and never deleted. That it is there says nothing yet.
                let options = zk.options(CreateMode::Persistent);
                let made = raw(client.create(&guard_path(root, key), b"", &options)).await?;
                super::ignore_existing(made.map(drop))?;
                has_all = false;
            }
        }
        if !has_all {
            continue;
        }
        let mut writer = client.new_multi_writer();
        for (key, held) in keys.iter().zip(&held) {
            let guard = guard_path(root, key);
            let write = txn.then.iter().find(|write| write.key() == key);
            add(&mut writer, zk, &guard, held, write).map_err(|why| judge(&why))?;
        }
        match raw_multi(writer).await? {
            Ok(()) => {
                let version = |write: &Write| match write {
                    Write::Delete(_) => Version(0),
                    Write::Put(key, _) | Write::Lease(key, _) => {
                        let before = of(key).and_then(|held| held.version).unwrap_or_default();
                        Version(before as u64 + 1)
                    }
                };
                return Ok(Committed::Done(txn.then.iter().map(version).collect()));
            }
            // Somebody was faster, or a lease expired: what holds now decides.
            Err(ZkError::BadVersion | ZkError::NoNode | ZkError::NodeExists) => {
                call(client.sync(&format!("{root}/item"))).await?;
            }
            Err(why) => return Err(judge(&why)),
        }
    }
    Err(Error::Unavailable("too many others write the same items".into()))
}

/// The operations on one key: that nothing has changed since it was read, and what is written.
fn add(
    writer: &mut MultiWriter<'_>,
    zk: &Zk,
    guard: &str,
    held: &Held,
    write: Option<&Write>,
) -> std::result::Result<(), ZkError> {
    let (value, version) = (format!("{guard}/v"), held.version.unwrap_or_default());
    let Some(write) = write else {
        writer.add_check_version(guard, version)?;
        if held.value.is_some() {
            return writer.add_check_version(&value, -1);
        }
        // There is no check for absence, but making a node and deleting it again is one.
        let options = zk.options(CreateMode::Persistent);
        writer.add_create(&value, b"", &options)?;
        return writer.add_delete(&value, None);
    };
    writer.add_set_data(guard, b"", Some(version))?;
    if held.value.is_some() {
        writer.add_delete(&value, None)?;
    }
    let (data, mode) = match write {
        Write::Put(_, data) => (data, CreateMode::Persistent),
        Write::Lease(_, data) => (data, CreateMode::Ephemeral),
        Write::Delete(_) => return Ok(()),
    };
    writer.add_create(&value, data, &zk.options(mode))
}

async fn raw_multi(mut writer: MultiWriter<'_>) -> Result<std::result::Result<(), ZkError>> {
    let commit = writer.commit();
    raw::<_, MultiWriteError>(async { commit.await.map(drop) }).await
}
