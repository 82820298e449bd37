//! What served queues and their clients say to each other.
//!
//! ```text
//! frame = bytes:u32 postcard(number, Ask or Answer) body*          big-endian
//!
//! client                         server
//! Hello ───────────────────────►        at most 64 KiB, within 5 s
//!        ◄─────────────────────── Welcome, or why not
//! (number, Ask) ───────────────►        any number at once; commits of a session in order
//!        ◄─────────────────────── (number, Answer), in any order; number 0: news
//! ```
//!
//! Bodies of messages and values stand raw behind the head, in the order in which it names them, so
//! they are neither copied into it nor out of it.

use std::{io, time::Duration};

use bytes::{Bytes, BytesMut};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::{
    limits::TRANSACTION_BYTES_MAX,
    message::{Body, Compression, Delivery, MessageId, QueueName, Receipt, Segments},
    session::{Owner, Place, Roster},
    transaction::{Key, Outgoing, Refused, Transaction},
};

/// The protocol's version. A server refuses others.
pub(crate) const VERSION: u16 = 1;

/// The largest frame: a transaction, and the names in it.
pub(crate) const FRAME_BYTES_MAX: usize = TRANSACTION_BYTES_MAX + (64 << 20);

/// The largest frame from somebody who has not been let in.
pub(crate) const HELLO_BYTES_MAX: usize = 64 << 10;

/// How long somebody may take to say hello.
pub(crate) const HELLO_PATIENCE: Duration = Duration::from_secs(5);

/// Both sides say something this often.
pub(crate) const BEAT: Duration = Duration::from_secs(2);

/// Whoever was silent for this long has gone.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(10);

pub(crate) const MAGIC: [u8; 8] = *b"SDXQUEUE";

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) magic: [u8; 8],
    pub(crate) version: u16,
    pub(crate) token: Option<String>,
}

/// What is served, or why not.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Welcome {
    Come { is_durable: bool, message_bytes_max: u64, value_bytes_max: u64 },
    No(String),
}

/// What kind of body, and how many bytes of it stand behind the head.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Kind {
    Segments(u32),
    Sentinel(u32),
    Note(u32),
}

/// Keys with the lengths of their values; `None` has no value.
pub(crate) type Lengths = Vec<(Key, Option<u32>)>;

/// A transaction without its bodies.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Outline {
    pub(crate) holds: Vec<Receipt>,
    pub(crate) acks: Vec<Receipt>,
    pub(crate) sends: Vec<(QueueName, Option<u16>, Kind)>,
    pub(crate) puts: Lengths,
    pub(crate) expects: Lengths,
}

/// A request. The order of the variants is part of the protocol: new ones go to the end.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Ask {
    Beat,
    Open(Place, Owner, Roster),
    Announce(Place, Roster),
    Depth(QueueName),
    /// Keys that begin so, behind one.
    Peek(Place, String, Option<Key>),
    Forget(String),
    Jobs,
    Receive(u64, u64),
    Commit(u64, Outline),
    Release(u64, Vec<Receipt>),
    Get(u64, Key),
    Scan(u64, String, Option<Key>),
    Room(u64, Vec<QueueName>),
    Close(u64),
}

/// A delivery without its body.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Given {
    receipt: Receipt,
    queue: QueueName,
    partition: Option<u16>,
    id: MessageId,
    attempt: u32,
    kind: Kind,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    Beat,
    Done,
    Refused(Refused),
    Session(u64),
    Depth(u64, u64),
    /// Some keys, and whether there are more behind them.
    Keys(Lengths, bool),
    Value(Option<u32>),
    Jobs(Vec<String>),
    Deliveries(Vec<Given>),
    /// News: a session is over.
    Lost(u64),
}

/// A frame on its way: its head, then what follows as it is.
pub(crate) type Frame = Vec<Bytes>;

fn broken(why: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_string())
}

/// A message and its bodies as a frame.
pub(crate) fn encode(message: &impl Serialize, bodies: Vec<Bytes>) -> io::Result<Frame> {
    let mut head = postcard::to_extend(message, vec![0; 4]).map_err(broken)?;
    let len = head.len() - 4 + bodies.iter().map(Bytes::len).sum::<usize>();
    if len > FRAME_BYTES_MAX {
        return Err(broken(format!("a frame of {len} bytes; {FRAME_BYTES_MAX} are the most")));
    }
    head[..4].copy_from_slice(&(len as u32).to_be_bytes());
    let mut frame = vec![Bytes::from(head)];
    frame.extend(bodies);
    Ok(frame)
}

/// Sends one frame.
pub(crate) async fn send(to: &mut (impl AsyncWrite + Unpin), frame: &Frame) -> io::Result<()> {
    for piece in frame {
        to.write_all(piece).await?;
    }
    Ok(())
}

/// Receives one message of at most `bytes_max`, and what stands behind it. Memory is taken as bytes
/// arrive, so a length that nobody fills costs nothing.
pub(crate) async fn receive<T: DeserializeOwned>(
    from: &mut (impl AsyncRead + Unpin),
    bytes_max: usize,
) -> io::Result<(T, Bytes)> {
    let len = from.read_u32().await? as usize;
    if len > bytes_max {
        return Err(broken(format!("a frame of {len} bytes, where {bytes_max} are the most")));
    }
    let mut frame = BytesMut::with_capacity(len.min(64 << 10));
    let mut from = from.take(len as u64);
    while frame.len() < len {
        frame.reserve((len - frame.len()).min(1 << 20));
        if from.read_buf(&mut frame).await? == 0 {
            return Err(broken("it ended inside a frame"));
        }
    }
    let frame = frame.freeze();
    let (message, rest) = postcard::take_from_bytes(&frame).map_err(broken)?;
    let start = len - rest.len();
    Ok((message, frame.slice(start..)))
}

/// A message and what stands behind it, from a frame in memory.
pub(crate) fn decode<T: DeserializeOwned>(frame: &Bytes) -> io::Result<(T, Bytes)> {
    let frame = frame.slice(4.min(frame.len())..);
    let (message, rest) = postcard::take_from_bytes(&frame).map_err(broken)?;
    let start = frame.len() - rest.len();
    Ok((message, frame.slice(start..)))
}

/// Cuts bodies off the front of what stood behind a head.
pub(crate) struct Rest(pub(crate) Bytes);

impl Rest {
    pub(crate) fn cut(&mut self, len: u32) -> io::Result<Bytes> {
        match len as usize <= self.0.len() {
            true => Ok(self.0.split_to(len as usize)),
            false => Err(broken("a body is missing")),
        }
    }

    fn body(&mut self, kind: Kind) -> io::Result<Body> {
        Ok(match kind {
            Kind::Segments(len) => Body::Segments(Segments::Encoded(self.cut(len)?)),
            Kind::Note(len) => Body::Note(self.cut(len)?),
            Kind::Sentinel(len) => {
                Body::Sentinel(String::from_utf8(self.cut(len)?.to_vec()).map_err(broken)?)
            }
        })
    }

    pub(crate) fn values(&mut self, lengths: Lengths) -> io::Result<Vec<(Key, Option<Bytes>)>> {
        let value =
            |(key, len): (Key, Option<u32>)| Ok((key, len.map(|len| self.cut(len)).transpose()?));
        lengths.into_iter().map(value).collect()
    }

    pub(crate) fn transaction(&mut self, outline: Outline) -> io::Result<Transaction> {
        let Outline { holds, acks, sends, puts, expects } = outline;
        let send =
            |(queue, partition, kind)| Ok(Outgoing { queue, partition, body: self.body(kind)? });
        let sends = sends.into_iter().map(send).collect::<io::Result<_>>()?;
        let (puts, expects) = (self.values(puts)?, self.values(expects)?);
        Ok(Transaction { holds, acks, sends, puts, expects })
    }

    pub(crate) fn deliveries(&mut self, given: Vec<Given>) -> io::Result<Vec<Delivery>> {
        let deliver = |given: Given| {
            let Given { receipt, queue, partition, id, attempt, kind } = given;
            Ok(Delivery { receipt, queue, partition, id, attempt, body: self.body(kind)? })
        };
        given.into_iter().map(deliver).collect()
    }
}

fn outline_body(body: &Body, bodies: &mut Vec<Bytes>) -> Result<Kind, Refused> {
    let mut push = |bytes: Bytes| {
        // Limits keep bodies far below 4 GiB.
        let len = bytes.len() as u32;
        bodies.push(bytes);
        len
    };
    Ok(match body {
        Body::Segments(segments) => {
            let encoded = segments.encode(Compression::None);
            let wrong = |why| Refused::Unavailable(format!("a batch cannot be encoded: {why}"));
            Kind::Segments(push(encoded.map_err(wrong)?))
        }
        Body::Note(bytes) => Kind::Note(push(bytes.clone())),
        Body::Sentinel(name) => Kind::Sentinel(push(Bytes::copy_from_slice(name.as_bytes()))),
    })
}

/// Values and their lengths.
pub(crate) fn outline_values(
    values: Vec<(Key, Option<Bytes>)>,
    bodies: &mut Vec<Bytes>,
) -> Lengths {
    let outline = |(key, value): (Key, Option<Bytes>)| {
        let len = value.as_ref().map(|value| value.len() as u32);
        bodies.extend(value);
        (key, len)
    };
    values.into_iter().map(outline).collect()
}

/// A transaction as a head and bodies.
pub(crate) fn outline(transaction: Transaction) -> Result<(Outline, Vec<Bytes>), Refused> {
    let Transaction { holds, acks, sends, puts, expects } = transaction;
    let mut bodies = Vec::new();
    let mut outlined = Vec::with_capacity(sends.len());
    for Outgoing { queue, partition, body } in sends {
        outlined.push((queue, partition, outline_body(&body, &mut bodies)?));
    }
    let puts = outline_values(puts, &mut bodies);
    let expects = outline_values(expects, &mut bodies);
    Ok((Outline { holds, acks, sends: outlined, puts, expects }, bodies))
}

/// Deliveries as a head and bodies.
pub(crate) fn outline_deliveries(
    deliveries: Vec<Delivery>,
) -> Result<(Vec<Given>, Vec<Bytes>), Refused> {
    let mut bodies = Vec::new();
    let mut given = Vec::with_capacity(deliveries.len());
    for Delivery { receipt, queue, partition, id, attempt, body } in deliveries {
        let kind = outline_body(&body, &mut bodies)?;
        given.push(Given { receipt, queue, partition, id, attempt, kind });
    }
    Ok((given, bodies))
}
