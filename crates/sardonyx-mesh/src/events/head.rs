//! What stands before an event's body on the wire.

use serde::{Deserialize, Serialize};

use super::SendError;
use crate::{
    claim::Version,
    wire::{
        codec,
        limits::{EVENT_BYTES_MAX, KIND_BYTES_MAX},
    },
};

/// What an event is about. The order of the variants is part of the protocol.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum About {
    /// No answer is wanted.
    Tell,
    /// An answer is wanted, under this number.
    Ask(u64),
    /// The answer to the question with this number; the body is the answer.
    Answer(u64),
    /// There will be no answer to the question with this number; the body says why.
    NoAnswer(u64),
}

/// Borrows its kind: small events come by the hundred thousand.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Head<'a> {
    pub(crate) about: About,
    pub(crate) kind: &'a str,
    /// The version that the sender saw.
    pub(crate) version: Version,
}

impl<'a> Head<'a> {
    /// The head as bytes, if the whole event may be sent.
    pub(crate) fn encode(&self, body: usize) -> Result<Vec<u8>, SendError> {
        if self.kind.len() > KIND_BYTES_MAX || self.kind.is_empty() {
            let why = format!("a kind has 1 to {KIND_BYTES_MAX} bytes");
            return Err(SendError::Unwritable(why));
        }
        let head = codec::encode(self).map_err(|why| SendError::Unwritable(why.to_string()))?;
        let bytes = head.len() + body;
        match bytes <= EVENT_BYTES_MAX {
            true => Ok(head),
            false => Err(SendError::TooLarge { bytes, max: EVENT_BYTES_MAX }),
        }
    }

    /// The head of an event, and where its body begins.
    pub(crate) fn decode(bytes: &'a [u8]) -> Result<(Head<'a>, usize), codec::Unreadable> {
        let (head, at) = codec::decode_head::<Head<'a>>(bytes)?;
        match head.kind.len() {
            1..=KIND_BYTES_MAX => Ok((head, at)),
            n => Err(codec::Unreadable(format!("a kind of {n} bytes"))),
        }
    }
}
