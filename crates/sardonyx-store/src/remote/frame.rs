//! What a served store and its clients say to each other: a length, then postcard.
//!
//! ```text
//! client                         server
//! Hello ───────────────────────►        at most 64 KiB, within 5 s
//!        ◄─────────────────────── Welcome, or why not
//! (number, Ask) ───────────────►        any number at once
//!        ◄─────────────────────── (number, answer), in any order
//! ```

use std::time::Duration;

use bytes::Bytes;
use sardonyx_core::Position;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::{
    backend::{Committed, Item, Raw, Txn},
    error::{Error, Result},
    store::ORIGIN_BYTES_MAX,
};

/// The protocol's version. A server refuses others.
pub(crate) const VERSION: u16 = 2;

/// The largest frame: an origin, and what is around it.
pub(crate) const FRAME_BYTES_MAX: usize = ORIGIN_BYTES_MAX + 4096;

/// The largest frame from somebody who has not been let in.
pub(crate) const HELLO_BYTES_MAX: usize = 64 << 10;

/// How long somebody may take to say hello.
pub(crate) const HELLO_PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) magic: [u8; 8],
    pub(crate) version: u16,
    pub(crate) token: Option<String>,
}

pub(crate) const MAGIC: [u8; 8] = *b"SDXSTORE";

/// `None`: welcome. Otherwise why not.
pub(crate) type Welcome = Option<String>;

/// A request. The order of the variants is part of the protocol: new ones go to the end.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Ask {
    Append(Bytes),
    /// Some entries behind a position; answered when there are some.
    Read(Option<Position>),
    Origin,
    SetOrigin(Position, Bytes),
    Trim(Position),
    OpenSession(u64, Duration),
    /// A sign of life.
    Beat(u64, Duration),
    EndSession(u64),
    Commit(Option<u64>, Txn),
    Value(String),
    /// Answered when nothing is under the key.
    KeyEnd(String),
    Items(String),
    End,
    /// Nobody waits any more for the answer with this number. Has none itself.
    Forget(u64),
}

impl Ask {
    /// Whether the answer may take as long as it likes.
    pub(crate) fn may_wait(&self) -> bool {
        matches!(self, Ask::Read(_) | Ask::KeyEnd(_))
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    Position(Position),
    Entries(Vec<Raw>),
    Trimmed,
    Origin(Option<(Position, Bytes)>),
    Flag(bool),
    Done,
    Committed(Committed),
    Value(Option<Bytes>),
    Items(Vec<Item>),
    Fault(Fault),
    End(Option<Position>),
}

/// An [`Error`] on its way.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Fault {
    Unavailable(String),
    SessionLost(String),
    Corrupt(String),
    NotConfigured(String),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        match error {
            Error::Unavailable(why) => Fault::Unavailable(why),
            Error::SessionLost(why) => Fault::SessionLost(why),
            Error::Corrupt(why) => Fault::Corrupt(why),
            Error::NotConfigured(why) => Fault::NotConfigured(why),
            Error::TooLarge { .. } => Fault::NotConfigured(error.to_string()),
        }
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        match fault {
            Fault::Unavailable(why) => Error::Unavailable(why),
            Fault::SessionLost(why) => Error::SessionLost(why),
            Fault::Corrupt(why) => Error::Corrupt(why),
            Fault::NotConfigured(why) => Error::NotConfigured(why),
        }
    }
}

fn broken(why: impl std::fmt::Display) -> Error {
    Error::Unavailable(format!("the connection broke: {why}"))
}

/// A message as a frame.
pub(crate) fn encode(message: &impl Serialize) -> Result<Vec<u8>> {
    let mut frame = postcard::to_extend(message, vec![0; 4]).map_err(broken)?;
    let len = frame.len() - 4;
    if len > FRAME_BYTES_MAX {
        return Err(Error::TooLarge { what: "a frame", bytes: len, bytes_max: FRAME_BYTES_MAX });
    }
    frame[..4].copy_from_slice(&(len as u32).to_be_bytes());
    Ok(frame)
}

/// Sends one message.
pub(crate) async fn send(to: &mut (impl AsyncWrite + Unpin), it: &impl Serialize) -> Result<()> {
    to.write_all(&encode(it)?).await.map_err(broken)
}

/// Receives one message of at most `bytes_max`. Memory is taken as bytes arrive, so a length that
/// nobody fills costs nothing.
pub(crate) async fn receive<T: DeserializeOwned>(
    from: &mut (impl AsyncRead + Unpin),
    bytes_max: usize,
) -> Result<T> {
    let len = from.read_u32().await.map_err(broken)? as usize;
    if len > bytes_max {
        return Err(broken(format!("a frame of {len} bytes, where {bytes_max} are the most")));
    }
    let mut frame = Vec::with_capacity(len.min(64 << 10));
    let read = from.take(len as u64).read_to_end(&mut frame).await.map_err(broken)?;
    if read < len {
        return Err(broken("it ended inside a frame"));
    }
    match postcard::take_from_bytes(&frame) {
        Ok((message, [])) => Ok(message),
        Ok(_) | Err(_) => Err(broken("a frame that cannot be read")),
    }
}
