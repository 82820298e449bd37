//! The origin: pieces first, then a pointer to them, so that nobody sees half of one.

use bytes::Bytes;
use sardonyx_core::Position;

use super::{
    proto::{
        DeleteRangeRequest, DeleteRangeResponse, PutResponse, RangeResponse, TxnRequest,
        TxnResponse, is_unchanged, put, range, range_of,
    },
    rpc::{DELETE, PUT, RANGE, Rpc, TXN},
};
use crate::{
    error::{Error, Result},
    pieces::{PIECE_BYTES, Pointer},
};

fn piece_prefix(prefix: &str, pointer: &Pointer) -> String {
    format!("{prefix}origin-piece/{}/", pointer.name())
}

async fn pointer(rpc: &Rpc, prefix: &str) -> Result<Option<(Pointer, i64)>> {
    let found: RangeResponse = rpc.call(RANGE, range(&format!("{prefix}origin"))).await?;
    let Some(found) = found.kvs.into_iter().next() else { return Ok(None) };
    Ok(Some((Pointer::from_bytes(&found.value)?, found.mod_revision)))
}

pub(super) async fn read(rpc: &Rpc, prefix: &str) -> Result<Option<(Position, Bytes)>> {
    // A later origin may take the place of the one whose pieces are being read.
    for _ in 0..10 {
        let Some((pointer, _)) = pointer(rpc, prefix).await? else { return Ok(None) };
        let fetch = async |piece: u32| {
            let key = format!("{}{piece:08x}", piece_prefix(prefix, &pointer));
            let found: RangeResponse = rpc.call(RANGE, range(&key)).await?;
            Ok(found.kvs.into_iter().next().map(|found| found.value))
        };
        if let Some(bytes) = pointer.read(fetch).await? {
            return Ok(Some((pointer.position, bytes)));
        }
    }
    Err(Error::Unavailable("the origin keeps changing".into()))
}

pub(super) async fn write(
    rpc: &Rpc,
    prefix: &str,
    position: Position,
    bytes: &Bytes,
) -> Result<bool> {
    let new = Pointer::new(position, bytes)?;
    let mut is_written = false;
    loop {
        let held = pointer(rpc, prefix).await?;
        match held {
            Some((held, _)) if held.position > position => return Ok(false),
            Some((held, _)) if held.position == position => return Ok(true),
            Some(_) | None => {}
        }
        if !is_written {
            for (piece, chunk) in (0..).zip(bytes.chunks(PIECE_BYTES)) {
                let key = format!("{}{piece:08x}", piece_prefix(prefix, &new));
                let _: PutResponse = rpc.call(PUT, put(&key, bytes.slice_ref(chunk), 0)).await?;
            }
            is_written = true;
        }
        let revision = held.map_or(0, |(_, revision)| revision);
        let key = format!("{prefix}origin");
        let txn = TxnRequest {
            compare: vec![is_unchanged(&key, revision)],
            success: vec![put(&key, new.to_bytes().into(), 0).into()],
            failure: vec![],
        };
        let answer: TxnResponse = rpc.call(TXN, txn).await?;
        if answer.succeeded {
            clean(rpc, prefix, &new).await;
            return Ok(true);
        }
    }
}

/// Deletes the pieces of earlier origins. Should it fail, the next origin does it.
async fn clean(rpc: &Rpc, prefix: &str, newest: &Pointer) {
    let all = range_of(&format!("{prefix}origin-piece/"));
    let earlier = DeleteRangeRequest {
        key: all.key,
        range_end: format!("{prefix}origin-piece/{:016x}", newest.position.0).into(),
    };
    let _: Result<DeleteRangeResponse> = rpc.call(DELETE, earlier).await;
}
