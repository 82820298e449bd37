//! The origin: pieces first, then a pointer to them, so that nobody sees half of one.

use bytes::Bytes;
use sardonyx_core::Position;
use zookeeper_client::{Client, CreateMode, Error as ZkError};

use super::client::{Zk, call, judge, raw};
use crate::{
    error::{Error, Result},
    pieces::{PIECE_BYTES, Pointer},
};

fn piece_path(root: &str, pointer: &Pointer, piece: u32) -> String {
    format!("{root}/origin-piece/{}-{piece:08x}", pointer.name())
}

async fn pointer(client: &Client, root: &str) -> Result<Option<(Pointer, i32)>> {
    let path = format!("{root}/origin");
    call(client.sync(&path)).await?;
    match raw(client.get_data(&path)).await? {
        Ok((bytes, stat)) => Ok(Some((Pointer::from_bytes(&bytes)?, stat.version))),
        Err(ZkError::NoNode) => Ok(None),
        Err(why) => Err(judge(&why)),
    }
}

pub(super) async fn read(zk: &Zk, root: &str) -> Result<Option<(Position, Bytes)>> {
    let client = zk.client().await?;
    // A later origin may take the place of the one whose pieces are being read.
    for _ in 0..10 {
        let Some((pointer, _)) = pointer(&client, root).await? else { return Ok(None) };
        let fetch = async |piece: u32| {
            let path = piece_path(root, &pointer, piece);
            match raw(client.get_data(&path)).await? {
                Ok((piece, _)) => Ok(Some(piece.into())),
                Err(ZkError::NoNode) => Ok(None),
                Err(why) => Err(judge(&why)),
            }
        };
        if let Some(bytes) = pointer.read(fetch).await? {
            return Ok(Some((pointer.position, bytes)));
        }
    }
    Err(Error::Unavailable("the origin keeps changing".into()))
}

pub(super) async fn write(zk: &Zk, root: &str, position: Position, bytes: &Bytes) -> Result<bool> {
    let client = zk.client().await?;
    let new = Pointer::new(position, bytes)?;
    let (path, options) = (format!("{root}/origin"), zk.options(CreateMode::Persistent));
    let mut is_written = false;
    loop {
        let held = pointer(&client, root).await?;
        match &held {
            Some((held, _)) if held.position > position => return Ok(false),
            Some((held, _)) if held.position == position => return Ok(true),
            Some(_) | None => {}
        }
        if !is_written {
            for (piece, chunk) in (0..).zip(bytes.chunks(PIECE_BYTES)) {
                call(client.create(&piece_path(root, &new, piece), chunk, &options)).await?;
            }
            is_written = true;
        }
        let pointer = new.to_bytes();
        let written = match held {
            Some((_, version)) => {
                raw(client.set_data(&path, &pointer, Some(version))).await?.map(drop)
            }
            None => raw(client.create(&path, &pointer, &options)).await?.map(drop),
        };
        match written {
            Ok(()) => {
                clean(&client, root, &new).await;
                return Ok(true);
            }
            Err(ZkError::BadVersion | ZkError::NodeExists | ZkError::NoNode) => {}
            Err(why) => return Err(judge(&why)),
        }
    }
}

/// Deletes the pieces of earlier origins. Should it fail, the next origin does it.
async fn clean(client: &Client, root: &str, newest: &Pointer) {
    let parent = format!("{root}/origin-piece");
    let Ok(pieces) = call(client.list_children(&parent)).await else { return };
    let first_kept = format!("{:016x}", newest.position.0);
    for piece in pieces.iter().filter(|piece| **piece < first_kept) {
        let _ = call(client.delete(&format!("{parent}/{piece}"), None)).await;
    }
}
