//! The journal's bytes.
//!
//! ```text
//! segment = header record* zeros                     record 0 is a snapshot
//! header  = "SDXQUEUE" version:u32 0:u32 number:u64 salt:u64 0:u32 crc:u32
//! record  = "RCRD" meta:u32 sequence:u64 settled:u64 bodies:u64 0:u32 crc:u32 event* body*
//! ```
//!
//! Numbers are little-endian. A record is one group commit: its events in postcard, then the bytes
//! of messages and values, in the order in which the events name them. Its crc (CRC-32C) is over the
//! salt, what stands before it, and the events; every body has its own, in the event that names it.
//!
//! `settled` is the last sequence that was on the disk when the record was written. So a bad record
//! that a later one calls settled was damaged; one that nobody calls settled was never finished,
//! and is as if it had never been. The salt keeps a journal inside a message from being taken for
//! part of this one.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{
    ledger::Lane,
    message::{MessageId, QueueName},
    session::{Place, Roster},
    transaction::Key,
};

pub(crate) const VERSION: u32 = 1;
pub(crate) const HEADER_BYTES: usize = 40;
pub(crate) const RECORD_BYTES: usize = 40;
const MAGIC: &[u8; 8] = b"SDXQUEUE";
const RECORD_MAGIC: &[u8; 4] = b"RCRD";

/// Bytes that stand behind the events.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Blob {
    pub(crate) len: u32,
    pub(crate) crc: u32,
}

impl Blob {
    pub(crate) fn of(bytes: &[u8]) -> Blob {
        // Limits keep bodies far below 4 GiB.
        Blob { len: bytes.len() as u32, crc: crc32c::crc32c(bytes) }
    }
}

/// What kind of body a message has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Kind {
    Segments,
    Sentinel,
    Note,
}

/// A message by its place.
pub(crate) type Mark = (QueueName, Lane, MessageId);

/// Something that happened. The order of the variants is part of the format: new ones go to the end.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Event {
    Commit {
        place: Place,
        acks: Vec<Mark>,
        sends: Vec<(Mark, Kind, Blob)>,
        puts: Vec<(Key, Option<Blob>)>,
    },
    Delivered(Vec<Mark>),
    Announced(Place, Roster),
    Forgotten(String),
    /// In a snapshot: a message, how often it was delivered, and in which older segment and where its
    /// bytes stand, unless they stand here.
    Message {
        mark: Mark,
        attempt: u32,
        kind: Kind,
        blob: Blob,
        spot: Option<(u64, u64)>,
    },
    /// In a snapshot, behind the messages of the queue: how many it has had, and the next number.
    Counted {
        queue: QueueName,
        n_acked: u64,
        next: u64,
    },
}

/// A segment's header.
pub(crate) fn header(number: u64, salt: u64) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[16..24].copy_from_slice(&number.to_le_bytes());
    header[24..32].copy_from_slice(&salt.to_le_bytes());
    let crc = crc32c::crc32c(&header[..36]);
    header[36..].copy_from_slice(&crc.to_le_bytes());
    header
}

/// What a segment's header says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Header {
    Good { number: u64, salt: u64 },
    Newer(u32),
    Bad,
}

pub(crate) fn read_header(bytes: &[u8]) -> Header {
    let Some(header) = bytes.get(..HEADER_BYTES) else { return Header::Bad };
    if header[..8] != *MAGIC || crc32c::crc32c(&header[..36]) != u32_at(header, 36) {
        return Header::Bad;
    }
    match u32_at(header, 8) {
        VERSION => Header::Good { number: u64_at(header, 16), salt: u64_at(header, 24) },
        version => Header::Newer(version),
    }
}

/// The head of a record with these events and this many bytes of bodies.
pub(crate) fn record_head(
    salt: u64,
    sequence: u64,
    settled: u64,
    meta: &[u8],
    n_body_bytes: u64,
) -> [u8; RECORD_BYTES] {
    let mut head = [0; RECORD_BYTES];
    head[..4].copy_from_slice(RECORD_MAGIC);
    head[4..8].copy_from_slice(&(meta.len() as u32).to_le_bytes());
    head[8..16].copy_from_slice(&sequence.to_le_bytes());
    head[16..24].copy_from_slice(&settled.to_le_bytes());
    head[24..32].copy_from_slice(&n_body_bytes.to_le_bytes());
    let crc = record_crc(salt, &head[..36], meta);
    head[36..].copy_from_slice(&crc.to_le_bytes());
    head
}

fn record_crc(salt: u64, head: &[u8], meta: &[u8]) -> u32 {
    let crc = crc32c::crc32c(&salt.to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c_append(crc, head), meta)
}

/// A record whose head and events are good. Its bodies are not looked at yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) sequence: u64,
    pub(crate) settled: u64,
    /// Where the bodies begin, and where the record ends.
    pub(crate) bodies: usize,
    pub(crate) end: usize,
    pub(crate) meta: usize,
}

/// The record at `at`; `None` if there is no good one.
pub(crate) fn read_record(bytes: &[u8], at: usize, salt: u64) -> Option<Record> {
    let head = bytes.get(at..at.checked_add(RECORD_BYTES)?)?;
    if head[..4] != *RECORD_MAGIC {
        return None;
    }
    let meta = at + RECORD_BYTES;
    let bodies = meta.checked_add(u32_at(head, 4) as usize)?;
    let crc = record_crc(salt, &head[..36], bytes.get(meta..bodies)?);
    if crc != u32_at(head, 36) {
        return None;
    }
    let end = bodies.checked_add(usize::try_from(u64_at(head, 24)).ok()?)?;
    let (sequence, settled) = (u64_at(head, 8), u64_at(head, 16));
    Some(Record { sequence, settled, bodies, end, meta })
}

/// The events of a record, and the bytes of their bodies as places in `bytes`; `None` if any of it is
/// bad.
pub(crate) fn read_events(bytes: &Bytes, record: Record) -> Option<Vec<(Event, Vec<usize>)>> {
    let mut meta = bytes.get(record.meta..record.bodies)?;
    let mut next = record.bodies;
    let mut events = Vec::new();
    while !meta.is_empty() {
        let (event, rest) = postcard::take_from_bytes::<Event>(meta).ok()?;
        let mut places = Vec::new();
        for blob in event.blobs() {
            let end = next.checked_add(blob.len as usize).filter(|end| *end <= record.end)?;
            if crc32c::crc32c(bytes.get(next..end)?) != blob.crc {
                return None;
            }
            places.push(next);
            next = end;
        }
        events.push((event, places));
        meta = rest;
    }
    (next == record.end).then_some(events)
}

/// Whether a record's events make sense to this build, whatever became of its bodies. Their checksum is
/// good, so they are what was written.
pub(crate) fn is_readable(bytes: &Bytes, record: Record) -> bool {
    let mut meta = bytes.get(record.meta..record.bodies).unwrap_or_default();
    while !meta.is_empty() {
        let Ok((_, rest)) = postcard::take_from_bytes::<Event>(meta) else { return false };
        meta = rest;
    }
    true
}

impl Event {
    /// The bodies that it names, in order.
    fn blobs(&self) -> Vec<Blob> {
        match self {
            Event::Commit { sends, puts, .. } => {
                let sends = sends.iter().map(|(_, _, blob)| *blob);
                sends.chain(puts.iter().filter_map(|(_, blob)| *blob)).collect()
            }
            Event::Message { blob, spot: None, .. } => vec![*blob],
            Event::Message { spot: Some(_), .. }
            | Event::Delivered(_)
            | Event::Announced(..)
            | Event::Forgotten(_)
            | Event::Counted { .. } => Vec::new(),
        }
    }
}

/// What stands behind the last good record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Nothing: zeros.
    Clean,
    /// A record that was never finished, up to this offset.
    Torn(usize),
    /// A record that was on the disk once.
    Damaged,
}

/// Looks at what stands at `at`, where no good record with `sequence` is.
pub(crate) fn judge_end(bytes: &[u8], at: usize, sequence: u64, salt: u64) -> End {
    let rest = bytes.get(at..).unwrap_or_default();
    let Some(last) = rest.iter().rposition(|byte| *byte != 0) else { return End::Clean };
    let mut from = at;
    while let Some(found) = find(&bytes[from..], RECORD_MAGIC) {
        let record = read_record(bytes, from + found, salt);
        if record.is_some_and(|record| record.sequence > sequence && record.settled >= sequence) {
            return End::Damaged;
        }
        from += found + 1;
    }
    End::Torn(at + last + 1)
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
