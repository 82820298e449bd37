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

/// Takes one request out of `input`, if a whole one is there.
pub fn read(input: &mut BytesMut) -> Result<Option<Request>, Malformed> {
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

fn write_number(output: &mut Vec<u8>, mark: u8, mut n: u64) {
    let (mut digits, mut at) = ([0; 20], 20);
    while at == 20 || n > 0 {
        at -= 1;
        digits[at] = b'0' + (n % 10) as u8;
        n /= 10;
    }
    output.push(mark);
    output.extend_from_slice(&digits[at..]);
    output.extend_from_slice(b"\r\n");
}

/// Writes the answer to a request for ids.
pub fn write(output: &mut Vec<u8>, request: Request, taken: Result<&[Range], NoIds>) {
    let ranges = match taken {
        Ok(ranges) => ranges,
        Err(NoIds::RetryAfter(after)) => {
            let after = format!("{} ms: all ids up to now are taken", after.as_millis());
            return write_error(output, "RETRYAFTER", &after);
        }
        Err(why @ (NoIds::NotReady(_) | NoIds::BadLayout(_))) => {
            return write_error(output, "NOTREADY", &why.to_string());
        }
    };
    match request {
        Request::Next => {
            let id = ranges.first().and_then(|range| range.get(0)).unwrap_or_default();
            write_number(output, b':', id.bits());
        }
        Request::Ids(n) => {
            write_number(output, b'*', n);
            for id in ranges.iter().flat_map(Range::iter) {
                write_number(output, b':', id.bits());
            }
        }
        Request::Ranges(_) => {
            let runs = || ranges.iter().flat_map(Range::runs);
            write_number(output, b'*', runs().count() as u64);
            for (first, n) in runs() {
                output.extend_from_slice(b"*2\r\n");
                write_number(output, b':', first.bits());
                write_number(output, b':', n);
            }
        }
        Request::Say(_) | Request::Quit => {}
    }
}
