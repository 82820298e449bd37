//! The journal's bytes.
//!
//! ```text
//! segment  = header frame* zeros
//! header   = "SARDNYX\n" version:u32 0:u32 number:u64 crc:u32 0:u32
//! frame    = "FRAM" bytes:u32 sequence:u64 records:u32 crc:u32 record*
//! record   = bytes:u32 crc:u32 kind:u8 body            kind 0: an entry, kind 1: another request
//! ```
//!
//! All numbers are little-endian; a crc is CRC-32C of what stands before it in its header, or of a
//! record's kind and body. A frame is one group commit. The next one is written only when it is on
//! disk; so a bad frame with a good one behind it was damaged later, and one with nothing behind it
//! was never finished. To tell the two apart at the very end as well, the writer puts an empty
//! frame behind the last full one as soon as that is on disk.

use crate::engine::Op;

pub(crate) const VERSION: u32 = 1;
pub(crate) const HEADER_BYTES: usize = 32;
pub(crate) const FRAME_BYTES: usize = 24;
pub(crate) const RECORD_BYTES: usize = 8;
const MAGIC: &[u8; 8] = b"SARDNYX\n";
const FRAME_MAGIC: &[u8; 4] = b"FRAM";
const KIND_ENTRY: u8 = 0;
const KIND_OP: u8 = 1;

pub(crate) fn header(number: u64) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[16..24].copy_from_slice(&number.to_le_bytes());
    let crc = crc32c::crc32c(&header[..24]);
    header[24..28].copy_from_slice(&crc.to_le_bytes());
    header
}

/// What a segment's header says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Header {
    Number(u64),
    Newer(u32),
    Bad,
}

pub(crate) fn read_header(bytes: &[u8]) -> Header {
    let Some(header) = bytes.get(..HEADER_BYTES) else { return Header::Bad };
    if header[..8] != *MAGIC || crc32c::crc32c(&header[..24]) != u32_at(header, 24) {
        return Header::Bad;
    }
    match u32_at(header, 8) {
        VERSION => Header::Number(u64_at(header, 16)),
        version => Header::Newer(version),
    }
}

/// A frame under construction: one group of requests.
#[derive(Debug, Default)]
pub(crate) struct FrameWriter {
    bytes: Vec<u8>,
    n_records: u32,
}

impl FrameWriter {
    pub(crate) fn push(&mut self, op: &Op) -> Result<(), postcard::Error> {
        if self.bytes.is_empty() {
            self.bytes.resize(FRAME_BYTES, 0);
        }
        if let Op::Append(entry) = op {
            self.push_record(KIND_ENTRY, entry);
        } else {
            self.push_record(KIND_OP, &postcard::to_stdvec(op)?);
        }
        Ok(())
    }

    fn push_record(&mut self, kind: u8, content: &[u8]) {
        let start = self.bytes.len();
        let body = start + RECORD_BYTES;
        self.bytes.extend_from_slice(&[0; RECORD_BYTES]);
        self.bytes.push(kind);
        self.bytes.extend_from_slice(content);
        let len = (self.bytes.len() - body) as u32;
        let crc = crc32c::crc32c(&self.bytes[body..]);
        self.bytes[start..start + 4].copy_from_slice(&len.to_le_bytes());
        self.bytes[start + 4..body].copy_from_slice(&crc.to_le_bytes());
        self.n_records += 1;
    }

    /// How many bytes it has by now.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Empties it for the next group, and keeps no more than `keep` bytes of room: a large origin
    /// would otherwise stay in memory for good.
    pub(crate) fn clear(&mut self, keep: usize) {
        self.bytes.clear();
        self.bytes.shrink_to(keep);
        self.n_records = 0;
    }

    /// Completes the frame's header and returns the whole of it.
    pub(crate) fn finish(&mut self, sequence: u64) -> &[u8] {
        let bytes = &mut self.bytes;
        bytes.resize(bytes.len().max(FRAME_BYTES), 0);
        let len = (bytes.len() - FRAME_BYTES) as u32;
        bytes[..4].copy_from_slice(FRAME_MAGIC);
        bytes[4..8].copy_from_slice(&len.to_le_bytes());
        bytes[8..16].copy_from_slice(&sequence.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.n_records.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..20]);
        bytes[20..24].copy_from_slice(&crc.to_le_bytes());
        bytes
    }
}

/// A frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub(crate) len: usize,
    pub(crate) sequence: u64,
    pub(crate) n_records: u32,
}

/// The frame header at the start of `bytes`; `None` if there is no good one.
pub(crate) fn frame_header(bytes: &[u8]) -> Option<FrameHeader> {
    let header = bytes.get(..FRAME_BYTES)?;
    let is_good =
        header[..4] == *FRAME_MAGIC && crc32c::crc32c(&header[..20]) == u32_at(header, 20);
    is_good.then(|| FrameHeader {
        len: u32_at(header, 4) as usize,
        sequence: u64_at(header, 8),
        n_records: u32_at(header, 16),
    })
}

/// A record, and where its bytes stand in what was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    /// The range of an entry's bytes.
    Entry(std::ops::Range<usize>),
    /// Another request, still encoded.
    Op(&'a [u8]),
}

/// The records of the frame at `at`, whose header has been read and whose bytes are all there; an
/// error is the offset of the first bad record.
pub(crate) fn records<'a>(
    bytes: &'a [u8],
    at: usize,
    header: FrameHeader,
) -> impl Iterator<Item = Result<Record<'a>, usize>> + 'a {
    let end = at + FRAME_BYTES + header.len;
    let mut next = at + FRAME_BYTES;
    let mut left = header.n_records;
    std::iter::from_fn(move || {
        if left == 0 {
            let is_whole = next == end;
            next = end;
            return (!is_whole).then_some(Err(next));
        }
        left -= 1;
        let start = next;
        let record = record(&bytes[..end], start);
        match &record {
            Some((_, after)) => next = *after,
            None => (left, next) = (0, end),
        }
        Some(record.map(|(record, _)| record).ok_or(start))
    })
}

fn record(bytes: &[u8], start: usize) -> Option<(Record<'_>, usize)> {
    let head = bytes.get(start..start + RECORD_BYTES)?;
    let (len, crc) = (u32_at(head, 0) as usize, u32_at(head, 4));
    let body = start + RECORD_BYTES;
    let content = bytes.get(body..body.checked_add(len)?)?;
    if crc32c::crc32c(content) != crc {
        return None;
    }
    let record = match content.split_first()? {
        (&KIND_ENTRY, _) => Record::Entry(body + 1..body + len),
        (&KIND_OP, op) => Record::Op(op),
        _ => return None,
    };
    Some((record, body + len))
}

/// What follows the last good frame of a segment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Nothing: zeros.
    Clean,
    /// A frame that was never finished, up to this offset.
    Torn(usize),
}

/// Looks at what stands at `at`, where no good frame with `sequence` is. An error means that a
/// good later frame follows, so what stands here was good once.
pub(crate) fn judge_end(bytes: &[u8], at: usize, sequence: u64) -> Result<End, ()> {
    let rest = bytes.get(at..).unwrap_or_default();
    let Some(last) = rest.iter().rposition(|byte| *byte != 0) else { return Ok(End::Clean) };
    let starts = rest.windows(4).enumerate().filter(|(_, window)| *window == FRAME_MAGIC);
    for (start, _) in starts {
        let is_later = |header: &FrameHeader| header.sequence > sequence;
        let frame = frame_header(&rest[start..]).filter(is_later);
        if frame.is_some_and(|frame| rest.len() - start - FRAME_BYTES >= frame.len) {
            return Err(());
        }
    }
    Ok(End::Torn(at + last + 1))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
