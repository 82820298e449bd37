//! The lengths that an encoded batch names, held against what is there, before anybody takes memory
//! for them: Arrow's reader takes a length at its word, and a few bytes could ask for all memory.
//!
//! ```text
//! stream  = message* end
//! message = ff ff ff ff  bytes:i32  flatbuffer  body        the body's length stands in the flatbuffer
//! buffer  = bytes:i64 compressed                            in the body, if it is made smaller
//! ```

use arrow::{
    error::ArrowError,
    ipc::{Message, RecordBatch, root_as_message},
};

use crate::limits::DECODED_BYTES_MAX;

const CONTINUES: [u8; 4] = [0xff; 4];

fn wrong(why: &str) -> ArrowError {
    ArrowError::IpcError(format!("an encoded batch is damaged: {why}"))
}

/// Whether every length in a stream is one that its bytes can fill.
pub(super) fn check(mut stream: &[u8]) -> Result<(), ArrowError> {
    let mut decoded = 0;
    while let Some((head, rest)) = stream.split_first_chunk::<4>() {
        let (len, rest) = match (*head == CONTINUES, rest.split_first_chunk::<4>()) {
            (false, _) => (head, rest),
            (true, Some((len, rest))) => (len, rest),
            (true, None) => return Err(wrong("it ends inside a length")),
        };
        let len =
            usize::try_from(i32::from_le_bytes(*len)).map_err(|_| wrong("a length below 0"))?;
        if len == 0 {
            return Ok(());
        }
        let (meta, rest) = rest.split_at_checked(len).ok_or_else(|| wrong("it is cut short"))?;
        let message = root_as_message(meta).map_err(|why| wrong(&why.to_string()))?;
        let len = usize::try_from(message.bodyLength()).ok();
        let body = len.and_then(|len| rest.split_at_checked(len));
        let (body, rest) = body.ok_or_else(|| wrong("a body is cut short"))?;
        decoded += decoded_bytes(&message, body)?;
        if decoded > DECODED_BYTES_MAX {
            return Err(wrong(&format!("it would take more than {DECODED_BYTES_MAX} bytes")));
        }
        stream = rest;
    }
    Ok(())
}

/// How much memory the compressed buffers of a body ask for.
fn decoded_bytes(message: &Message<'_>, body: &[u8]) -> Result<u64, ArrowError> {
    let in_dictionary = message.header_as_dictionary_batch().and_then(|it| it.data());
    let batch: Option<RecordBatch<'_>> = message.header_as_record_batch().or(in_dictionary);
    let Some(batch) = batch.filter(|it| it.compression().is_some()) else { return Ok(0) };
    let mut sum: u64 = 0;
    for buffer in batch.buffers().into_iter().flatten() {
        let (from, len) = (usize::try_from(buffer.offset()), usize::try_from(buffer.length()));
        let bytes = from.ok().zip(len.ok()).and_then(|(from, len)| body.get(from..)?.get(..len));
        let bytes = bytes.ok_or_else(|| wrong("a buffer lies outside of its body"))?;
        // An empty one has no length in front; below zero means as it is.
        let asked = bytes.first_chunk::<8>().map_or(0, |it| i64::from_le_bytes(*it));
        sum = sum.saturating_add(u64::try_from(asked).unwrap_or(0));
    }
    Ok(sum)
}
