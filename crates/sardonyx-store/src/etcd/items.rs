//! Items and transactions. A version is the revision at which a key was last written; etcd never
//! uses one twice.

use super::{
    proto::{
        RangeResponse, RequestOp, TxnRequest, TxnResponse, delete_of, is_absent, is_present,
        is_unchanged, put, range, range_of,
    },
    rpc::{RANGE, Rpc, TXN},
};
use crate::{
    backend::{Committed, Condition, Item, Txn, Version, Write},
    error::{Error, Result},
    local::session_lost,
};

pub(super) async fn list(rpc: &Rpc, root: &str, prefix: &str) -> Result<Vec<Item>> {
    let root = format!("{root}item/");
    let found: RangeResponse = rpc.call(RANGE, range_of(&format!("{root}{prefix}"))).await?;
    let item = |it: super::proto::KeyValue| {
        let key = std::str::from_utf8(&it.key).ok().and_then(|key| key.strip_prefix(&root));
        let key = key.ok_or_else(|| Error::Corrupt(format!("a key that is no text: {:?}", it.key)));
        let version = Version(it.mod_revision as u64);
        Ok(Item { key: key?.to_owned(), value: it.value, version })
    };
    found.kvs.into_iter().map(item).collect()
}

/// Commits, in a session if one is given: the key that lives with its lease, and the lease.
pub(super) async fn commit(
    rpc: &Rpc,
    root: &str,
    txn: &Txn,
    session: Option<(&str, i64)>,
) -> Result<Committed> {
    let key = |key: &str| format!("{root}item/{key}");
    let mut compare: Vec<_> = txn
        .when
        .iter()
        .map(|condition| match condition {
            Condition::Absent(it) => is_absent(&key(it)),
            Condition::Is(it, version) => is_unchanged(&key(it), version.0 as i64),
        })
        .collect();
    compare.extend(session.map(|(key, _)| is_present(key)));
    let lease = session.map_or(0, |(_, lease)| lease);
    let write = |write: &Write| -> RequestOp {
        match write {
            Write::Put(it, value) => put(&key(it), value.clone(), 0).into(),
            Write::Lease(it, value) => put(&key(it), value.clone(), lease).into(),
            Write::Delete(it) => {
                let mut delete = delete_of(&key(it));
                delete.range_end.clear();
                delete.into()
            }
        }
    };
    let success = txn.then.iter().map(write).collect();
    let failure = session.map(|(key, _)| range(key).into()).into_iter().collect();
    let answer: TxnResponse = rpc.call(TXN, TxnRequest { compare, success, failure }).await?;
    if !answer.succeeded {
        let is_alive = answer.ranges().next().is_none_or(|session| !session.kvs.is_empty());
        return if is_alive { Ok(Committed::Refused) } else { Err(session_lost()) };
    }
    let revision = answer.revision() as u64;
    let version = |write: &Write| match write {
        Write::Put(..) | Write::Lease(..) => Version(revision),
        Write::Delete(_) => Version(0),
    };
    Ok(Committed::Done(txn.then.iter().map(version).collect()))
}
