//! Appending to the log in etcd: one task per handle, which sends what has gathered while the last
//! transaction was under way. Under load this is a group commit; alone, an append goes at once.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use sardonyx_core::Position;
use tokio::sync::{mpsc, oneshot};

use super::{
    log::{BATCH_ENTRIES_MAX, Bucket, Log, position, raw_entry},
    proto::{TxnRequest, TxnResponse, is_absent, is_unchanged, put, range},
    rpc::TXN,
};
use crate::{
    error::{Error, Result},
    store::ENTRY_BYTES_MAX,
    token::Token,
};

/// A bucket is full after this many revisions. Larger ones cost readers, smaller ones make more
/// appends try again.
const BUCKET_REVISIONS: i64 = 256;

/// How many bytes of entries go into one transaction: etcd takes one and a half mebibytes.
const BATCH_BYTES_MAX: usize = ENTRY_BYTES_MAX + (128 << 10);

/// An entry on its way, and who waits for its position.
type Request = (Token, Bytes, oneshot::Sender<Result<Position>>);

/// Where appends go in. The task behind it ends with the last of these.
#[derive(Debug)]
pub(super) struct Appender(mpsc::Sender<Request>);

impl Appender {
    pub(super) async fn start(log: Arc<Log>) -> Result<Appender> {
        let bucket = log.bucket().await?;
        let (sender, requests) = mpsc::channel(2 * BATCH_ENTRIES_MAX);
        tokio::spawn(run(log, bucket, requests));
        Ok(Appender(sender))
    }

    pub(super) async fn append(&self, token: Token, bytes: Bytes) -> Result<Position> {
        let stopped = || Error::Unavailable("the store is being closed".into());
        let (answer, position) = oneshot::channel();
        self.0.send((token, bytes, answer)).await.map_err(|_| stopped())?;
        position.await.map_err(|_| stopped())?
    }
}

async fn run(log: Arc<Log>, mut bucket: Bucket, mut requests: mpsc::Receiver<Request>) {
    let mut batch: Vec<Request> = Vec::new();
    loop {
        if batch.is_empty() {
            let Some(first) = requests.recv().await else { return };
            batch.push(first);
            // Those who were answered a moment ago are about to ask again: let them.
            tokio::task::yield_now().await;
        }
        let mut bytes: usize = batch.iter().map(|(_, bytes, _)| bytes.len()).sum();
        while batch.len() < BATCH_ENTRIES_MAX && bytes < BATCH_BYTES_MAX - ENTRY_BYTES_MAX {
            let Ok(next) = requests.try_recv() else { break };
            bytes += next.1.len();
            batch.push(next);
        }
        match send(&log, bucket, &mut batch).await {
            Ok(now) => bucket = now,
            // Each is sent again by whoever waits for it.
            Err(why) => batch.drain(..).for_each(|it| drop(it.2.send(Err(why.clone())))),
        }
    }
}

/// Sends a batch once. What got through, now or before, is answered and leaves the batch; the rest
/// stays for the next try. Returns the bucket to go on with.
async fn send(log: &Log, bucket: Bucket, batch: &mut Vec<Request>) -> Result<Bucket> {
    let key = |token: &Token| {
        let Token { writer, number } = token;
        format!("{}{writer:016x}{number:016x}", log.bucket_prefix(bucket.number))
    };
    let keys: Vec<_> = batch.iter().map(|(token, ..)| key(token)).collect();
    let mut compare = vec![is_unchanged(&log.at(), bucket.revision)];
    compare.extend(keys.iter().map(|key| is_absent(key)));
    let indexed = |(index, (key, (_, bytes, _))): (u8, (&String, &Request))| {
        let mut value = BytesMut::with_capacity(1 + bytes.len());
        value.extend_from_slice(&[index]);
        value.extend_from_slice(bytes);
        put(key, value.freeze(), 0).into()
    };
    let success = (0..).zip(keys.iter().zip(batch.iter())).map(indexed).collect();
    let mut failure = vec![range(&log.at()).into()];
    failure.extend(keys.iter().map(|key| range(key).into()));
    let answer: TxnResponse = log.rpc.call(TXN, TxnRequest { compare, success, failure }).await?;
    let revision = answer.revision();
    if answer.succeeded {
        for (index, (_, _, waiting)) in (0..).zip(batch.drain(..)) {
            // Whoever gave up does not want to know.
            let _ = waiting.send(Ok(position(revision, index)));
        }
        return match revision - bucket.revision >= BUCKET_REVISIONS {
            true => Ok(advance(log, bucket).await),
            false => Ok(bucket),
        };
    }
    let mut found = answer.ranges().map(|range| range.kvs.into_iter().next());
    let gone = || Error::Corrupt(format!("{} is gone from etcd", log.at()));
    let now = Bucket::of(&found.next().flatten().ok_or_else(gone)?)?;
    for (request, copy) in std::mem::take(batch).into_iter().zip(found) {
        match copy {
            // An attempt whose answer was lost had got through.
            Some(copy) => drop(request.2.send(Ok(raw_entry(&copy).position))),
            None => batch.push(request),
        }
    }
    Ok(now)
}

/// Begins the next bucket, unless somebody else does. If it fails, somebody will notice again.
async fn advance(log: &Log, full: Bucket) -> Bucket {
    let number = full.number + 1;
    let txn = TxnRequest {
        compare: vec![is_unchanged(&log.at(), full.revision)],
        success: vec![put(&log.at(), Bucket::value(number), 0).into()],
        failure: vec![],
    };
    match log.rpc.call::<_, TxnResponse>(TXN, txn).await {
        Ok(answer) if answer.succeeded => Bucket { number, revision: answer.revision() },
        Ok(_) | Err(_) => full,
    }
}
