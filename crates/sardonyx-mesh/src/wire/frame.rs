//! Frames: how messages of any length lie in a stream of bytes.
//!
//! ```text
//! 0     1     2        4     5
//! ┌─────┬─────┬────────┬─────┬──────────────────────────────┐
//! │ 1   │ 5   │ length │ next│ payload, 0 to 65,280 bytes   │
//! └─────┴─────┴────────┴─────┴──────────────────────────────┘
//!   version of the frame · length of this head · bytes in all, head included, big endian ·
//!   1 if the message goes on in the next frame, else 0
//! ```
//!
//! A frame that is followed by another is full. So a message has exactly one form, and nobody can
//! keep a connection busy with frames that carry nothing.

use std::fmt;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

use super::limits::FRAME_PAYLOAD_MAX;

/// The version of the frame, its first byte.
pub const VERSION: u8 = 1;

/// The length of a frame's head, its second byte.
pub const HEAD: usize = 5;

/// How much is kept ready for a message like the last one.
const GROWN_MAX: usize = 2 << 20;

/// Why a stream of bytes is no stream of frames. The connection is of no use afterwards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadFrame {
    /// The first byte is not [`VERSION`]: somebody speaks another protocol.
    Version(u8),
    /// The second byte is not [`HEAD`].
    Head(u8),
    /// The length is less than the head's or more than a full frame's.
    Length(u16),
    /// The last byte of the head is neither 0 nor 1.
    Next(u8),
    /// A frame that is not full says that the message goes on.
    NotFull(usize),
    /// The message is longer than is allowed here.
    TooLong {
        /// How many bytes are allowed.
        max: usize,
    },
}

impl fmt::Display for BadFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadFrame::Version(byte) => {
                write!(f, "the frame's version is {byte}, {VERSION} is spoken here")
            }
            BadFrame::Head(byte) => write!(f, "the frame's head has {byte} bytes, not {HEAD}"),
            BadFrame::Length(n) => write!(f, "the frame's length {n} cannot be"),
            BadFrame::Next(byte) => write!(f, "the frame's fifth byte is {byte}, not 0 or 1"),
            BadFrame::NotFull(n) => {
                write!(f, "a frame of {n} bytes is followed by another, though it is not full")
            }
            BadFrame::TooLong { max } => write!(f, "the message is longer than {max} bytes"),
        }
    }
}

impl std::error::Error for BadFrame {}

/// Cuts a stream of bytes into messages.
#[derive(Debug)]
pub struct Decoder {
    max: usize,
    /// The frames so far of a message that goes on.
    begun: BytesMut,
}

impl Decoder {
    /// A decoder for messages of at most `max` bytes.
    pub fn new(max: usize) -> Decoder {
        Decoder { max, begun: BytesMut::new() }
    }

    /// From now on messages may have `max` bytes.
    pub fn set_max(&mut self, max: usize) {
        self.max = max;
    }

    /// The next whole message in `stream`, whose bytes are taken out of it; `None` while more
    /// bytes are needed.
    pub fn next(&mut self, stream: &mut BytesMut) -> Result<Option<Bytes>, BadFrame> {
        loop {
            let Some((n, has_next)) = self.head(stream)? else { return Ok(None) };
            stream.advance(HEAD);
            let payload = stream.split_to(n);
            if !has_next && self.begun.is_empty() {
                return Ok(Some(payload.freeze()));
            }
            self.begun.extend_from_slice(&payload);
            if !has_next {
                // The next one is likely to be as long, and then nothing is moved while it grows.
                let next = BytesMut::with_capacity(self.begun.len().min(GROWN_MAX));
                return Ok(Some(std::mem::replace(&mut self.begun, next).freeze()));
            }
        }
    }

    /// How many bytes of payload are there, if the frame is whole. All that is wrong with its head
    /// is found before its payload is waited for.
    fn head(&self, stream: &BytesMut) -> Result<Option<(usize, bool)>, BadFrame> {
        let byte = |at: usize| stream.get(at).copied();
        if let Some(version) = byte(0).filter(|it| *it != VERSION) {
            return Err(BadFrame::Version(version));
        }
        if let Some(head) = byte(1).filter(|it| usize::from(*it) != HEAD) {
            return Err(BadFrame::Head(head));
        }
        let Some(head) = stream.get(..HEAD) else { return Ok(None) };
        let total = u16::from_be_bytes([head[2], head[3]]);
        let n = usize::from(total).checked_sub(HEAD).filter(|n| *n <= FRAME_PAYLOAD_MAX);
        let n = n.ok_or(BadFrame::Length(total))?;
        let has_next = match head[4] {
            0 => false,
            1 => true,
            other => return Err(BadFrame::Next(other)),
        };
        if has_next && n != FRAME_PAYLOAD_MAX {
            return Err(BadFrame::NotFull(n));
        }
        if self.begun.len() + n > self.max {
            return Err(BadFrame::TooLong { max: self.max });
        }
        Ok((stream.len() >= HEAD + n).then_some((n, has_next)))
    }
}

/// How many frames a message of `n` bytes takes.
pub fn frames(n: usize) -> usize {
    n.div_ceil(FRAME_PAYLOAD_MAX).max(1)
}

/// Appends the frames of one message to `out`. The message is `head` and then `body`; two parts,
/// so that a large body is copied once.
pub fn encode(head: &[u8], body: &[u8], out: &mut BytesMut) {
    let mut left = head.len() + body.len();
    out.reserve(left + frames(left) * HEAD);
    let (mut head, mut body) = (head, body);
    loop {
        let n = left.min(FRAME_PAYLOAD_MAX);
        left -= n;
        out.put_u8(VERSION);
        out.put_u8(HEAD as u8);
        out.put_u16((HEAD + n) as u16);
        out.put_u8(u8::from(left > 0));
        let from_head = n.min(head.len());
        out.put_slice(&head[..from_head]);
        out.put_slice(&body[..n - from_head]);
        (head, body) = (&head[from_head..], &body[n - from_head..]);
        if left == 0 {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn framed(head: &[u8], body: &[u8]) -> BytesMut {
        let mut out = BytesMut::new();
        encode(head, body, &mut out);
        out
    }

    fn count(mut stream: &[u8]) -> usize {
        let mut n = 0;
        while !stream.is_empty() {
            stream = &stream[usize::from(u16::from_be_bytes([stream[2], stream[3]]))..];
            n += 1;
        }
        n
    }

    #[test]
    fn a_message_takes_as_many_frames_as_it_must() {
        let table = [(0, 1), (1, 1), (65_280, 1), (65_281, 2), (130_560, 2), (6_500_000, 100)];
        for (len, n) in table {
            let stream = framed(&[], &vec![7; len]);
            assert_eq!((count(&stream), frames(len)), (n, n), "{len} bytes");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        /// Whatever the pieces in which it arrives, what was sent is what is read.
        #[test]
        fn encode_and_decode_are_each_others_inverse(
            lens in prop::collection::vec((0_usize..300, 0_usize..300_000), 1..5),
            piece in 1_usize..100_000,
        ) {
            let mut sent = Vec::new();
            let mut stream = BytesMut::new();
            for (index, (head, body)) in lens.into_iter().enumerate() {
                let (head, body) = (vec![index as u8; head], vec![!(index as u8); body]);
                encode(&head, &body, &mut stream);
                sent.push([head, body].concat());
            }
            let mut decoder = Decoder::new(1 << 20);
            let (mut buffer, mut read) = (BytesMut::new(), Vec::new());
            for piece in stream.chunks(piece) {
                buffer.extend_from_slice(piece);
                while let Some(message) = decoder.next(&mut buffer).unwrap() {
                    read.push(message.to_vec());
                }
            }
            prop_assert!(buffer.is_empty());
            prop_assert_eq!(sent, read);
        }
    }

    #[test]
    fn what_is_no_frame_is_found_at_its_first_wrong_byte() {
        let table: &[(&[u8], BadFrame)] = &[
            (b"GET / HTTP/1.1\r\n", BadFrame::Version(b'G')),
            (&[2], BadFrame::Version(2)),
            (&[1, 6], BadFrame::Head(6)),
            (&[1, 5, 0, 4, 0], BadFrame::Length(4)),
            (&[1, 5, 0xff, 0xff, 0], BadFrame::Length(0xffff)),
            (&[1, 5, 0, 5, 2], BadFrame::Next(2)),
            (&[1, 5, 0, 6, 1], BadFrame::NotFull(1)),
            (&[1, 5, 0, 106, 0], BadFrame::TooLong { max: 100 }),
        ];
        for (bytes, wrong) in table {
            let mut stream = BytesMut::from(*bytes);
            assert_eq!(Decoder::new(100).next(&mut stream), Err(*wrong), "{bytes:?}");
        }
        let mut stream = BytesMut::from(&[1, 5, 0, 105, 0][..]);
        assert_eq!(Decoder::new(100).next(&mut stream), Ok(None), "exactly the limit");
    }

    #[test]
    fn a_gigabyte_is_refused_after_its_first_frames() {
        let mut decoder = Decoder::new(256 << 10);
        let (mut stream, mut fed) = (BytesMut::new(), 0);
        let refused = loop {
            stream.extend_from_slice(&[1, 5, 0xff, 0x05, 1]);
            stream.extend_from_slice(&[0; FRAME_PAYLOAD_MAX]);
            fed += FRAME_PAYLOAD_MAX;
            match decoder.next(&mut stream) {
                Ok(it) => assert_eq!(it, None),
                Err(why) => break why,
            }
        };
        assert_eq!(refused, BadFrame::TooLong { max: 256 << 10 });
        assert!(fed < 400 << 10, "{fed} bytes were taken");
    }
}
