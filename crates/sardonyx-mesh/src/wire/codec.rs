//! Messages as bytes: postcard, and nothing left over.

use std::fmt;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// Bytes that are no message. Whoever sent them is not speaking our protocol.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unreadable(pub String);

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no message of this protocol: {}", self.0)
    }
}

impl std::error::Error for Unreadable {}

/// Reads one message, which must be all of `bytes`.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Unreadable> {
    let (message, rest) =
        postcard::take_from_bytes(bytes).map_err(|why| Unreadable(why.to_string()))?;
    match rest.len() {
        0 => Ok(message),
        n => Err(Unreadable(format!("{n} bytes too many"))),
    }
}

/// Reads a message at the beginning of `bytes`; the rest is somebody else's.
pub fn decode_head<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<(T, usize), Unreadable> {
    let (head, rest) =
        postcard::take_from_bytes(bytes).map_err(|why| Unreadable(why.to_string()))?;
    Ok((head, bytes.len() - rest.len()))
}

/// Writes one message.
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, Unreadable> {
    postcard::to_allocvec(message).map_err(|why| Unreadable(why.to_string()))
}
