//! RESP, the protocol of Redis.
//!
//! | request | answer |
//! |---|---|
//! | `NEXT` | an integer |
//! | `NEXT n` | an array of integers |
//! | `RANGE n` | an array of pairs: a first id, and how many follow it one by one |
//! | `PING`, `QUIT`, `COMMAND`, `CLIENT …` | what a Redis client expects when it connects |
//!
//! Refusals: `-RETRYAFTER <milliseconds> …`, `-NOTREADY <why>`. Both forms of requests are read,
//! arrays and plain lines.

use bytes::{Buf, BytesMut};

use super::{Malformed, Request};
use crate::{ids::NoIds, shared::Range};

/// More words than any of our requests has.
const WORDS_MAX: usize = 16;

/// One id, as clients write it. Whoever is in a hurry sends hundreds at once, so it is looked for
/// before anything is taken apart.
const NEXT: &[u8] = b"*1\r\n$4\r\nNEXT\r\n";

/// Takes one request out of `input`, if a whole one is there.
pub fn read(input: &mut BytesMut) -> Result<Option<Request>, Malformed> {
    if input.starts_with(NEXT) {
        input.advance(NEXT.len());
        return Ok(Some(Request::Next));
    }
    let mut words: [&[u8]; WORDS_MAX] = [&[]; WORDS_MAX];
    let mut rest = &input[..];
    let n_words = match rest.first() {
        None => return Ok(None),
        Some(b'*') => {
            let Some(n) = number(&mut rest, b'*')? else { return Ok(None) };
            if n > WORDS_MAX {
                return Err(Malformed("too many words"));
            }
            for word in &mut words[..n] {
                let Some(len) = number(&mut rest, b'$')? else { return Ok(None) };
                if len > 512 {
                    return Err(Malformed("a word is too long"));
                }
                let Some((text, more)) = rest.split_at_checked(len + 2) else { return Ok(None) };
                *word = &text[..len];
                rest = more;
            }
            n
        }
        Some(_) => {
            let Some(end) = rest.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
            let mut n = 0;
            let line = rest[..end].trim_ascii();
            for word in line.split(u8::is_ascii_whitespace).filter(|it| !it.is_empty()) {
                *words.get_mut(n).ok_or(Malformed("too many words"))? = word;
                n += 1;
            }
            rest = &rest[end + 1..];
            n
        }
    };
    let request = understand(&words[..n_words]);
    let n_read = input.len() - rest.len();
    input.advance(n_read);
    request.map(Some)
}

fn number(rest: &mut &[u8], mark: u8) -> Result<Option<usize>, Malformed> {
    let Some(end) = rest.iter().take(16).position(|byte| *byte == b'\n') else {
        return if rest.len() < 16 { Ok(None) } else { Err(Malformed("a length was expected")) };
    };
    let (line, more) = rest.split_at(end + 1);
    let digits = line.strip_prefix(&[mark]).ok_or(Malformed("a length was expected"))?;
    let n = decimal(digits.trim_ascii_end()).ok_or(Malformed("a length was expected"))?;
    *rest = more;
    Ok(Some(n as usize))
}

fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 9 {
        return None;
    }
    digits
        .iter()
        .try_fold(0, |n, digit| digit.is_ascii_digit().then(|| n * 10 + u64::from(digit - b'0')))
}

fn understand(words: &[&[u8]]) -> Result<Request, Malformed> {
    let Some((name, rest)) = words.split_first() else { return Ok(Request::Say("OK")) };
    let count = || {
        let n = rest.first().and_then(|digits| decimal(digits));
        n.ok_or(Malformed("the number of ids is a number up to 100000"))
    };
    let is = |text: &str| name.eq_ignore_ascii_case(text.as_bytes());
    match () {
        () if is("NEXT") && rest.is_empty() => Ok(Request::Next),
        () if is("NEXT") => count().map(Request::Ids),
        () if is("RANGE") => count().map(Request::Ranges),
        () if is("PING") => Ok(Request::Say("PONG")),
        () if is("QUIT") => Ok(Request::Quit),
        () if is("COMMAND") || is("CLIENT") || is("SELECT") => Ok(Request::Say("OK")),
        () => Err(Malformed("unknown command: NEXT, NEXT n, RANGE n, PING, QUIT")),
    }
}

/// Writes `-CODE why`.
pub fn write_error(output: &mut Vec<u8>, code: &str, why: &str) {
    output.push(b'-');
    output.extend_from_slice(code.as_bytes());
    output.push(b' ');
    output.extend(why.bytes().filter(|byte| !byte.is_ascii_control()));
    output.extend_from_slice(b"\r\n");
}

/// Writes `+text`.
pub fn write_text(output: &mut Vec<u8>, text: &str) {
    output.push(b'+');
    output.extend_from_slice(text.as_bytes());
    output.extend_from_slice(b"\r\n");
}

fn write_number(output: &mut Vec<u8>, mark: u8, n: u64) {
    output.push(mark);
    output.extend_from_slice(itoa::Buffer::new().format(n).as_bytes());
    output.extend_from_slice(b"\r\n");
}

/// Says why there are no ids.
pub fn refuse(output: &mut Vec<u8>, why: &NoIds) {
    match why {
        NoIds::RetryAfter(after) => {
            let after = format!("{} ms: all ids up to now are taken", after.as_millis());
            write_error(output, "RETRYAFTER", &after);
        }
        NoIds::NotReady(_) | NoIds::BadLayout(_) => {
            write_error(output, "NOTREADY", &why.to_string());
        }
    }
}

/// Writes each id as an answer of its own.
pub fn write_singles(output: &mut Vec<u8>, ranges: &[Range]) {
    const LINE_BYTES: u64 = ":9223372036854775807\r\n".len() as u64;
    output.reserve((LINE_BYTES * ranges.iter().map(Range::len).sum::<u64>()) as usize);
    for id in ranges.iter().flat_map(Range::iter) {
        write_number(output, b':', id.bits());
    }
}

/// Writes all ids as one answer.
pub fn write(output: &mut Vec<u8>, ranges: &[Range], as_ranges: bool) {
    if !as_ranges {
        write_number(output, b'*', ranges.iter().map(Range::len).sum());
        return write_singles(output, ranges);
    }
    let runs = || ranges.iter().flat_map(Range::runs);
    write_number(output, b'*', runs().count() as u64);
    for (first, n) in runs() {
        output.extend_from_slice(b"*2\r\n");
        write_number(output, b':', first.bits());
        write_number(output, b':', n);
    }
}
