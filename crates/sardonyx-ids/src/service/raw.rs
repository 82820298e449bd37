//! Raw frames, all numbers little-endian.
//!
//! ```text
//!   request   u32: how many ids; with the highest bit set, as ranges
//!   answer    u32: how many follow; then u64 for each id, or u64 and u32 for each range
//!   refusal   u32: 0; then u32: milliseconds until it is worth asking again, 2^32 - 1: not ready
//! ```

use bytes::{Buf, BytesMut};

use super::{Malformed, Request};
use crate::{ids::NoIds, shared::Range};

/// In a request: answer with ranges.
pub const AS_RANGES: u32 = 1 << 31;

/// Takes one request out of `input`, if a whole one is there. Every four bytes are one.
pub fn read(input: &mut BytesMut) -> Result<Option<Request>, Malformed> {
    Ok((input.len() >= 4).then(|| {
        let n = input.get_u32_le();
        let count = u64::from(n & !AS_RANGES);
        match n {
            1 => Request::Next,
            AS_RANGES.. => Request::Ranges(count),
            _ => Request::Ids(count),
        }
    }))
}

/// Writes a refusal; `None`: not ready, or not a request that could be met.
pub fn write_refusal(output: &mut Vec<u8>, after_millis: Option<u32>) {
    output.extend_from_slice(&0_u32.to_le_bytes());
    output.extend_from_slice(&after_millis.unwrap_or(u32::MAX).to_le_bytes());
}

/// Says why there are no ids.
pub fn refuse(output: &mut Vec<u8>, why: &NoIds) {
    let after = match why {
        NoIds::RetryAfter(after) => Some(after.as_millis().max(1) as u32),
        NoIds::NotReady(_) | NoIds::BadLayout(_) => None,
    };
    write_refusal(output, after);
}

/// Writes each id as an answer of its own.
pub fn write_singles(output: &mut Vec<u8>, ranges: &[Range]) {
    for id in ranges.iter().flat_map(Range::iter) {
        output.extend_from_slice(&1_u32.to_le_bytes());
        output.extend_from_slice(&id.bits().to_le_bytes());
    }
}

/// Writes all ids as one answer.
pub fn write(output: &mut Vec<u8>, ranges: &[Range], as_ranges: bool) {
    if as_ranges {
        let runs = || ranges.iter().flat_map(Range::runs);
        output.extend_from_slice(&(runs().count() as u32).to_le_bytes());
        for (first, n) in runs() {
            output.extend_from_slice(&first.bits().to_le_bytes());
            output.extend_from_slice(&(n as u32).to_le_bytes());
        }
    } else {
        let n: u64 = ranges.iter().map(Range::len).sum();
        output.extend_from_slice(&(n as u32).to_le_bytes());
        for id in ranges.iter().flat_map(Range::iter) {
            output.extend_from_slice(&id.bits().to_le_bytes());
        }
    }
}
