//! The log in etcd: ordered by revision, written without contention, read by revision.
//!
//! etcd can list keys by name cheaply but by revision only by looking at all of them. So entries
//! are filed in buckets: each append is conditional on the bucket's number being unchanged since
//! it was read, hence all of a bucket's entries come before all of the next one's, and a reader
//! looks at one bucket at a time. Whoever notices that a bucket is full starts the next one; an
//! append that was under way then tries again there. Writing is in [`append`](super::append).
//!
//! A transaction may write several entries; they share a revision, and the first byte of each value
//! says which of them it is. The two together are the position.
//!
//! Watch events are a doorbell and nothing more. What is there is always read, in one transaction
//! with the trim mark: a lost event can make a reader late, never wrong.

use std::{sync::Arc, time::Instant};

use async_trait::async_trait;
use bytes::Bytes;
use sardonyx_core::Position;
use tokio::sync::mpsc;
use tokio_stream::{StreamExt as _, wrappers::ReceiverStream};
use tonic::Streaming;

use super::{
    POLL_PERIOD,
    proto::{
        ASCEND, BY_CREATE_REVISION, DESCEND, DeleteRangeResponse, KeyValue, RangeRequest,
        RangeResponse, RequestOp, TxnRequest, TxnResponse, WatchCreateRequest, WatchRequest,
        WatchResponse, WatchUnion, delete_of, end_of, is_absent, is_unchanged, put, range,
        range_of,
    },
    rpc::{DELETE, RANGE, Rpc, TXN, WATCH},
};
use crate::{
    backend::{Raw, Read, Tail},
    error::{Error, Result},
};

/// How many entries one transaction may write: etcd takes 128 operations by default.
pub(super) const BATCH_ENTRIES_MAX: usize = 100;

/// How many bits of a position say which entry of its transaction it is.
const INDEX_BITS: u32 = 7;

/// How many entries are read at once, unless they are so large that fewer must do.
const PAGE_ENTRIES_MAX: i64 = 2048;

/// The position of the entry with this index among those created at `revision`.
pub(super) fn position(revision: i64, index: u8) -> Position {
    Position((revision as u64) << INDEX_BITS | u64::from(index))
}

/// The revision at which the entry at `position` was created.
fn revision_of(position: Position) -> i64 {
    (position.0 >> INDEX_BITS) as i64
}

/// What is stored under an entry's key, as an entry.
pub(super) fn raw_entry(stored: &KeyValue) -> Raw {
    let index = stored.value.first().copied().unwrap_or_default();
    let bytes = stored.value.slice(stored.value.len().min(1)..);
    Raw { position: position(stored.create_revision, index), bytes }
}

/// The bucket that is filled now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bucket {
    pub(super) number: u64,
    /// The revision at which it was begun.
    pub(super) revision: i64,
}

impl Bucket {
    pub(super) fn of(found: &KeyValue) -> Result<Bucket> {
        let number = std::str::from_utf8(&found.value).ok();
        let number = number.and_then(|number| u64::from_str_radix(number, 16).ok());
        let unreadable = || Error::Corrupt("the number of etcd's bucket cannot be read".into());
        Ok(Bucket { number: number.ok_or_else(unreadable)?, revision: found.mod_revision })
    }

    pub(super) fn value(number: u64) -> Bytes {
        format!("{number:016x}").into()
    }
}

#[derive(Debug)]
pub(super) struct Log {
    pub(super) rpc: Arc<Rpc>,
    /// Everything about the log is below this, so that one watch rings for all of it.
    prefix: String,
}

impl Log {
    pub(super) fn new(rpc: Arc<Rpc>, prefix: &str) -> Log {
        Log { rpc, prefix: format!("{prefix}log/") }
    }

    /// The bucket that is filled now; the first one is begun if there is none.
    pub(super) async fn bucket(&self) -> Result<Bucket> {
        let at = self.at();
        let txn = TxnRequest {
            compare: vec![is_absent(&at)],
            success: vec![put(&at, Bucket::value(0), 0).into()],
            failure: vec![range(&at).into()],
        };
        let answer: TxnResponse = self.rpc.call(TXN, txn).await?;
        let revision = answer.revision();
        match answer.ranges().flat_map(|range| range.kvs).next() {
            Some(found) => Bucket::of(&found),
            None => Ok(Bucket { number: 0, revision }),
        }
    }

    /// The key of the bucket's number.
    pub(super) fn at(&self) -> String {
        format!("{}at", self.prefix)
    }

    fn trim_key(&self) -> String {
        format!("{}trim", self.prefix)
    }

    fn entries(&self) -> String {
        format!("{}e/", self.prefix)
    }

    pub(super) fn bucket_prefix(&self, number: u64) -> String {
        format!("{}e/{number:016x}/", self.prefix)
    }

    /// The newest entry. Looks at every key, so it is for people and not for readers.
    pub(super) async fn end(&self) -> Result<Option<Position>> {
        let newest = RangeRequest {
            limit: 1,
            keys_only: true,
            sort_order: DESCEND,
            sort_target: BY_CREATE_REVISION,
            ..range_of(&self.entries())
        };
        let newest: RangeResponse = self.rpc.call(RANGE, newest).await?;
        let Some(newest) = newest.kvs.first() else { return Ok(None) };
        let group = self.group(&self.entries(), newest.create_revision).await?;
        Ok(group.last().map(|entry| entry.position))
    }

    /// The entries below `prefix` that were created at one revision, in order.
    async fn group(&self, prefix: &str, revision: i64) -> Result<Vec<Raw>> {
        let group = RangeRequest {
            min_create_revision: revision,
            max_create_revision: revision,
            ..range_of(prefix)
        };
        let group: RangeResponse = self.rpc.call(RANGE, group).await?;
        let mut entries: Vec<_> = group.kvs.iter().map(raw_entry).collect();
        entries.sort_by_key(|entry| entry.position);
        Ok(entries)
    }

    /// Marks first and deletes afterwards: a reader that finds the mark before it knows that
    /// entries may be missing.
    pub(super) async fn trim(&self, before: Position) -> Result<()> {
        self.mark_trimmed(before).await?;
        // What shares its revision with the first entry that is kept, is kept as well.
        let kept = self.bucket_from(revision_of(before)).await?;
        loop {
            let first = RangeRequest { limit: 1, keys_only: true, ..range_of(&self.entries()) };
            let first: RangeResponse = self.rpc.call(RANGE, first).await?;
            let Some(first) = first.kvs.first() else { return Ok(()) };
            let number = self.bucket_of(first)?;
            if number >= kept {
                break;
            }
            let prefix = self.bucket_prefix(number);
            let _: DeleteRangeResponse = self.rpc.call(DELETE, delete_of(&prefix)).await?;
        }
        let trimmed = RangeRequest {
            keys_only: true,
            max_create_revision: revision_of(before) - 1,
            ..range_of(&self.bucket_prefix(kept))
        };
        let trimmed: RangeResponse = self.rpc.call(RANGE, trimmed).await?;
        for chunk in trimmed.kvs.chunks(BATCH_ENTRIES_MAX) {
            let delete = |it: &KeyValue| -> RequestOp {
                let key = it.key.to_vec();
                super::proto::DeleteRangeRequest { key, range_end: Vec::new() }.into()
            };
            let success = chunk.iter().map(delete).collect();
            let txn = TxnRequest { success, ..TxnRequest::default() };
            let _: TxnResponse = self.rpc.call(TXN, txn).await?;
        }
        Ok(())
    }

    async fn mark_trimmed(&self, before: Position) -> Result<()> {
        let key = self.trim_key();
        loop {
            let held: RangeResponse = self.rpc.call(RANGE, range(&key)).await?;
            let held = held.kvs.first();
            if held.is_some_and(|held| trim_mark(&held.value) >= before.0) {
                return Ok(());
            }
            let revision = held.map_or(0, |held| held.mod_revision);
            let mark = Bytes::copy_from_slice(&before.0.to_be_bytes());
            let txn = TxnRequest {
                compare: vec![is_unchanged(&key, revision)],
                success: vec![put(&key, mark, 0).into()],
                failure: vec![],
            };
            if self.rpc.call::<_, TxnResponse>(TXN, txn).await?.succeeded {
                return Ok(());
            }
        }
    }

    /// The bucket of the first entry from `revision` on, or the one that is filled now.
    async fn bucket_from(&self, revision: i64) -> Result<u64> {
        let first = RangeRequest {
            limit: 1,
            keys_only: true,
            sort_order: ASCEND,
            sort_target: BY_CREATE_REVISION,
            min_create_revision: revision,
            ..range_of(&self.entries())
        };
        let success = vec![first.into(), range(&self.at()).into()];
        let txn = TxnRequest { success, ..TxnRequest::default() };
        let answer: TxnResponse = self.rpc.call(TXN, txn).await?;
        let mut found = answer.ranges().map(|range| range.kvs.into_iter().next());
        match (found.next().flatten(), found.next().flatten()) {
            (Some(first), _) => self.bucket_of(&first),
            (None, Some(at)) => Ok(Bucket::of(&at)?.number),
            (None, None) => Err(Error::Corrupt(format!("{} is gone from etcd", self.at()))),
        }
    }

    fn bucket_of(&self, entry: &KeyValue) -> Result<u64> {
        let key = std::str::from_utf8(&entry.key).ok();
        let number = key.and_then(|key| key.strip_prefix(&self.entries())?.split('/').next());
        let number = number.and_then(|number| u64::from_str_radix(number, 16).ok());
        number.ok_or_else(|| Error::Corrupt(format!("{:?} is no key of an entry", entry.key)))
    }
}

fn trim_mark(value: &[u8]) -> u64 {
    value.try_into().map_or(0, u64::from_be_bytes)
}

/// A watch whose events say only that it is time to look.
pub(super) struct Bell {
    events: Streaming<WatchResponse>,
    /// etcd ends a watch whose requests end, and serves it, as we do, until they do.
    _requests: mpsc::Sender<WatchRequest>,
    /// What happened up to here is known.
    revision: i64,
}

impl Bell {
    /// Rings for changes behind `revision` to the keys from `key` to `range_end`.
    pub(super) async fn new(
        rpc: &Rpc,
        key: &str,
        range_end: Vec<u8>,
        revision: i64,
    ) -> Result<Bell> {
        let create =
            WatchCreateRequest { key: key.into(), range_end, start_revision: revision + 1 };
        let create = WatchRequest { request: Some(WatchUnion::Create(create)) };
        let (requests, rest) = mpsc::channel(1);
        let rest = ReceiverStream::new(rest);
        let events = rpc.stream(WATCH, tokio_stream::once(create).chain(rest)).await?;
        Ok(Bell { events, _requests: requests, revision })
    }

    /// Waits until something may have changed.
    pub(super) async fn ring(&mut self, rpc: &Rpc) -> Result<()> {
        let until = Instant::now() + POLL_PERIOD;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let event = match tokio::time::timeout(left, self.events.message()).await {
                Ok(event) => event,
                Err(_) => return Ok(()),
            };
            let event = event.map_err(|status| rpc.judge_stream(&status))?;
            let ended = || Error::Unavailable("etcd ended a watch".into());
            let event = event.ok_or_else(ended)?;
            if event.canceled || event.compact_revision > 0 {
                return Err(ended());
            }
            let revision = event.header.as_ref().map_or(0, |header| header.revision);
            if !event.events.is_empty() && revision > self.revision {
                return Ok(());
            }
        }
    }
}

/// A reader of the log.
pub(super) struct EtcdTail {
    log: Arc<Log>,
    after: Option<Position>,
    bucket: Option<u64>,
    bell: Option<Bell>,
    page: i64,
}

impl EtcdTail {
    pub(super) fn new(log: Arc<Log>, after: Option<Position>) -> EtcdTail {
        EtcdTail { log, after, bucket: None, bell: None, page: PAGE_ENTRIES_MAX }
    }

    /// What is in the bucket behind `after`, the trim mark, and the bucket that is filled now: all
    /// at one revision.
    async fn look(&mut self, bucket: u64) -> Result<(Look, i64)> {
        let from = self.after.map_or(0, revision_of);
        let entries = RangeRequest {
            limit: self.page,
            sort_order: ASCEND,
            sort_target: BY_CREATE_REVISION,
            min_create_revision: from,
            ..range_of(&self.log.bucket_prefix(bucket))
        };
        let success =
            vec![entries.into(), range(&self.log.trim_key()).into(), range(&self.log.at()).into()];
        let txn = TxnRequest { success, ..TxnRequest::default() };
        let answer: TxnResponse = self.log.rpc.call(TXN, txn).await?;
        let revision = answer.revision();
        let mut found = answer.ranges();
        let page = found.next().unwrap_or_default();
        let mut marks = found.map(|range| range.kvs.into_iter().next());
        let (trim, at) = (marks.next().flatten(), marks.next().flatten());
        let gone = || Error::Corrupt(format!("{} is gone from etcd", self.log.at()));
        let at = Bucket::of(&at.ok_or_else(gone)?)?.number;
        let mut trimmed = trim.map_or(0, |it| trim_mark(&it.value));
        let mut entries = whole_groups(&page);
        entries.retain(|entry| Some(entry.position) > self.after);
        if entries.is_empty() && page.more {
            entries = self.next_group(bucket, from).await?;
            // Read behind the entries: whoever deleted some of them had set it before.
            let mark: RangeResponse = self.log.rpc.call(RANGE, range(&self.log.trim_key())).await?;
            trimmed = mark.kvs.first().map_or(0, |it| trim_mark(&it.value));
        }
        Ok((Look { entries, trimmed, at }, revision))
    }
}

impl EtcdTail {
    /// The next group behind `after` when a page is too small to hold it, `from` being the revision
    /// of `after`.
    async fn next_group(&self, bucket: u64, from: i64) -> Result<Vec<Raw>> {
        let prefix = self.log.bucket_prefix(bucket);
        let mut rest = self.log.group(&prefix, from).await?;
        rest.retain(|entry| Some(entry.position) > self.after);
        if !rest.is_empty() {
            return Ok(rest);
        }
        let first = RangeRequest {
            limit: 1,
            keys_only: true,
            sort_order: ASCEND,
            sort_target: BY_CREATE_REVISION,
            min_create_revision: from + 1,
            ..range_of(&prefix)
        };
        let first: RangeResponse = self.log.rpc.call(RANGE, first).await?;
        match first.kvs.first() {
            Some(first) => self.log.group(&prefix, first.create_revision).await,
            None => Ok(Vec::new()),
        }
    }
}

/// The entries of a page in order, without the last group if the page may have cut it.
fn whole_groups(page: &RangeResponse) -> Vec<Raw> {
    let last = page.kvs.iter().map(|it| it.create_revision).max();
    let is_whole = |it: &&KeyValue| !page.more || Some(it.create_revision) != last;
    let mut entries: Vec<_> = page.kvs.iter().filter(is_whole).map(raw_entry).collect();
    entries.sort_by_key(|entry| entry.position);
    entries
}

struct Look {
    entries: Vec<Raw>,
    trimmed: u64,
    at: u64,
}

#[async_trait]
impl Tail for EtcdTail {
    async fn next(&mut self) -> Result<Read> {
        loop {
            let bucket = match self.bucket {
                Some(bucket) => bucket,
                None => self.log.bucket_from(self.after.map_or(0, revision_of)).await?,
            };
            self.bucket = Some(bucket);
            let (look, revision) = match self.look(bucket).await {
                // A page of large entries is more than one answer holds.
                Err(Error::Unavailable(why)) if why.contains("message") && self.page > 1 => {
                    self.page /= 2;
                    continue;
                }
                look => look?,
            };
            let wanted = self.after.map_or(0, |after| after.0 + 1);
            if look.trimmed > wanted {
                return Ok(Read::Trimmed);
            }
            if let Some(last) = look.entries.last() {
                self.after = Some(last.position);
                return Ok(Read::Entries(look.entries));
            }
            if look.at > bucket {
                self.bucket = Some(bucket + 1);
                continue;
            }
            self.wait(revision).await?;
        }
    }
}

impl EtcdTail {
    /// Waits until something may have changed behind `revision`.
    async fn wait(&mut self, revision: i64) -> Result<()> {
        let bell = match &mut self.bell {
            Some(bell) => bell,
            none => {
                let (prefix, rpc) = (&self.log.prefix, &self.log.rpc);
                none.insert(Bell::new(rpc, prefix, end_of(prefix), revision).await?)
            }
        };
        bell.revision = bell.revision.max(revision);
        let rung = bell.ring(&self.log.rpc).await;
        if rung.is_err() {
            // Looked first, then watched from there on: nothing is missed by starting anew.
            self.bell = None;
        }
        rung
    }
}
