//! An origin in pieces: servers bound the size of a value, clusters do not bound that of a replica.

use bytes::{Bytes, BytesMut};
use sardonyx_core::Position;
use serde::{Deserialize, Serialize};

use crate::{
    error::{Error, Result},
    token::random,
};

/// The size of a piece: well within what every server takes.
pub(crate) const PIECE_BYTES: usize = 512 << 10;

/// Where an origin is, and how to tell that it is whole.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Pointer {
    pub(crate) position: Position,
    /// Two who write an origin for one position do not write over each other's pieces.
    id: u64,
    pub(crate) n_pieces: u32,
    len: u64,
    crc: u32,
}

impl Pointer {
    pub(crate) fn new(position: Position, bytes: &[u8]) -> Result<Pointer> {
        Ok(Pointer {
            position,
            id: random()?,
            n_pieces: bytes.len().div_ceil(PIECE_BYTES) as u32,
            len: bytes.len() as u64,
            crc: crc32c::crc32c(bytes),
        })
    }

    /// What its pieces are filed under; sorts by position.
    pub(crate) fn name(&self) -> String {
        format!("{:016x}-{:016x}", self.position.0, self.id)
    }

    /// Fetches its pieces until one is missing. `None` if that is not the origin which was written:
    /// a later one may have taken its place meanwhile.
    pub(crate) async fn read<F>(&self, mut fetch: impl FnMut(u32) -> F) -> Result<Option<Bytes>>
    where
        F: Future<Output = Result<Option<Bytes>>>,
    {
        let mut bytes = BytesMut::new();
        for piece in 0..self.n_pieces {
            let Some(found) = fetch(piece).await? else { break };
            bytes.extend_from_slice(&found);
        }
        Ok(self.is_whole(&bytes).then(|| bytes.freeze()))
    }

    pub(crate) fn is_whole(&self, bytes: &[u8]) -> bool {
        bytes.len() as u64 == self.len && crc32c::crc32c(bytes) == self.crc
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        // Numbers always can be written down.
        postcard::to_stdvec(self).unwrap_or_default()
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Pointer> {
        postcard::from_bytes(bytes)
            .map_err(|_| Error::Corrupt("the pointer to the origin cannot be read".into()))
    }
}
