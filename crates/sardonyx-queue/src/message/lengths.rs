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

const CONTINUES: [u8; 4] = [0xff; 4];

pub(super) fn wrong(why: &str) -> ArrowError {
    ArrowError::IpcError(format!("an encoded batch is damaged: {why}"))
}

/// Whether every length in a stream is one that its bytes can fill, and what is compressed takes at
/// most `bytes_max` when it is read.
pub(super) fn check(mut stream: &[u8], bytes_max: u64) -> Result<(), ArrowError> {
    let mut decoded: u64 = 0;
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
        decoded = decoded_bytes(&message, body)?.saturating_add(decoded);
        if decoded > bytes_max {
            return Err(wrong(&format!("it would take more than {bytes_max} bytes")));
        }
        stream = rest;
    }
    Ok(())
}

/// How much memory the compressed buffers of a body ask for. All of them must lie inside it.
fn decoded_bytes(message: &Message<'_>, body: &[u8]) -> Result<u64, ArrowError> {
    let in_dictionary = message.header_as_dictionary_batch().and_then(|it| it.data());
    let batch: Option<RecordBatch<'_>> = message.header_as_record_batch().or(in_dictionary);
    let Some(batch) = batch else { return Ok(0) };
    let is_compressed = batch.compression().is_some();
    let mut sum: u64 = 0;
    for buffer in batch.buffers().into_iter().flatten() {
        let (from, len) = (usize::try_from(buffer.offset()), usize::try_from(buffer.length()));
        let bytes = from.ok().zip(len.ok()).and_then(|(from, len)| body.get(from..)?.get(..len));
        let bytes = bytes.ok_or_else(|| wrong("a buffer lies outside of its body"))?;
        // An empty one has no length in front; below zero means as it is.
        let asked = bytes.first_chunk::<8>().filter(|_| is_compressed);
        let asked = asked.map_or(0, |it| i64::from_le_bytes(*it));
        sum = sum.saturating_add(u64::try_from(asked).unwrap_or(0));
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, RecordBatch};

    use super::*;
    use crate::{Compression, Segments};

    #[test]
    fn what_is_compressed_counts_as_it_will_be() {
        let numbers = Arc::new(Int64Array::from(vec![7; 1000])) as _;
        let batch = RecordBatch::try_from_iter(vec![("n", numbers)]).expect("a batch");
        for compression in [Compression::Lz4, Compression::Zstd] {
            let encoded = Segments::Batch(batch.clone()).encode(compression).expect("encoded");
            assert!(encoded.len() < 1000, "{}", encoded.len());
            // The numbers, and perhaps a bit for each that says that it is there.
            let total =
                (0..10_000).find(|max| check(&encoded, *max).is_ok()).expect("below 10,000");
            assert!((8000..=8128).contains(&total), "{total}");
            let why = check(&encoded, total - 1).expect_err("one byte too many").to_string();
            assert!(why.contains("would take more than"), "{why}");
        }
        let plain = Segments::Batch(batch).encode(Compression::None).expect("encoded");
        assert!(check(&plain, 0).is_ok(), "what is not compressed takes no more than it has");
    }
}
