//! JSON values in bytes: where they end, and that they are whole. Eight bytes at a time where there
//! are many.

use serde::de::IgnoredAny;

use super::Fault;

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// Where the white space from `at` on ends.
#[inline]
pub(crate) fn blank(bytes: &[u8], mut at: usize) -> usize {
    while matches!(bytes.get(at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
        at += 1;
    }
    at
}

/// Marks bytes that are zero; the lowest mark is exact, which is the only one that is used.
#[inline]
fn zeros(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word & HIGHS
}

/// Marks bytes that a JSON text cannot have as they are; the lowest mark is exact.
#[inline]
fn specials(word: u64) -> u64 {
    let quotes = zeros(word ^ (ONES * b'"' as u64));
    let escapes = zeros(word ^ (ONES * b'\\' as u64));
    let controls = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
    quotes | escapes | controls
}

/// The place of the quote that ends the text whose inside begins at `at`, and whether anything in
/// it is escaped.
#[inline]
pub(crate) fn text_end(bytes: &[u8], at: usize) -> Result<(usize, bool), Fault> {
    let mut end = at;
    let mut is_escaped = false;
    loop {
        while let Some(chunk) = bytes.get(end..).and_then(|rest| rest.first_chunk::<8>()) {
            let marks = specials(u64::from_le_bytes(*chunk));
            if marks != 0 {
                end += (marks.trailing_zeros() / 8) as usize;
                break;
            }
            end += 8;
        }
        match bytes.get(end) {
            Some(b'"') => return Ok((end, is_escaped)),
            Some(b'\\') => {
                is_escaped = true;
                end += 2;
            }
            Some(0..0x20) => return Err(Fault::new(end, "a control character in a text")),
            Some(_) => end += 1,
            None => return Err(Fault::new(at, "a text without its end")),
        }
    }
}

/// What stands between the quotes, with escapes undone.
pub(crate) fn unescaped(bytes: &[u8], from: usize, to: usize) -> Result<String, Fault> {
    serde_json::from_slice(&bytes[from - 1..=to])
        .map_err(|why| Fault::new(from, format!("a text that is not JSON ({why})")))
}

/// Where the digits from `at` on end.
#[inline]
fn digits(bytes: &[u8], mut at: usize) -> usize {
    while matches!(bytes.get(at), Some(b'0'..=b'9')) {
        at += 1;
    }
    at
}

/// Where the number that begins at `at` ends, and whether it is whole.
#[inline]
pub(crate) fn number_end(bytes: &[u8], at: usize) -> Result<(usize, bool), Fault> {
    let wrong = |place| Err(Fault::new(place, "a number that is not JSON"));
    let first = at + usize::from(bytes.get(at) == Some(&b'-'));
    let mut end = digits(bytes, first);
    if end == first || (end > first + 1 && bytes[first] == b'0') {
        return wrong(at);
    }
    let mut is_whole = true;
    if bytes.get(end) == Some(&b'.') {
        is_whole = false;
        let fraction = end + 1;
        end = digits(bytes, fraction);
        if end == fraction {
            return wrong(at);
        }
    }
    if let Some(b'e' | b'E') = bytes.get(end) {
        is_whole = false;
        let exponent = end + 1 + usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        end = digits(bytes, exponent);
        if end == exponent {
            return wrong(at);
        }
    }
    Ok((end, is_whole))
}

/// The whole number of at most 18 digits at `at`, and where it ends. Anything else is `None`, and
/// [`number_end`] says what it is.
#[inline]
pub(crate) fn small_int(bytes: &[u8], at: usize) -> Option<(i64, usize)> {
    let is_negative = bytes.get(at) == Some(&b'-');
    let first = at + usize::from(is_negative);
    let mut end = first;
    let mut value = 0_i64;
    while let Some(digit @ b'0'..=b'9') = bytes.get(end) {
        value = value.wrapping_mul(10).wrapping_add(i64::from(digit - b'0'));
        end += 1;
    }
    let n_digits = end - first;
    let is_plain = !matches!(bytes.get(end), Some(b'.' | b'e' | b'E'));
    let has_no_zero_first = n_digits == 1 || bytes.get(first) != Some(&b'0');
    if !(1..=18).contains(&n_digits) || !is_plain || !has_no_zero_first {
        return None;
    }
    Some((if is_negative { -value } else { value }, end))
}

/// Where the list or object that begins at `at` ends, and that it is JSON.
pub(crate) fn nested_end(bytes: &[u8], at: usize) -> Result<usize, Fault> {
    let mut depth = 0_usize;
    let mut end = at;
    loop {
        match bytes.get(end) {
            None => return Err(Fault::new(at, "a list or object without its end")),
            Some(b'"') => end = text_end(bytes, end + 1)?.0,
            Some(b'{' | b'[') => depth += 1,
            Some(b'}' | b']') => depth = depth.saturating_sub(1),
            Some(_) => {}
        }
        end += 1;
        if depth == 0 {
            break;
        }
    }
    match serde_json::from_slice::<IgnoredAny>(&bytes[at..end]) {
        Ok(_) => Ok(end),
        Err(why) => Err(Fault::new(at, format!("a value that is not JSON ({why})"))),
    }
}

/// Where the value that begins at `at` ends, and that it is JSON.
#[inline]
pub(crate) fn value_end(bytes: &[u8], at: usize) -> Result<usize, Fault> {
    match bytes.get(at) {
        Some(b'"') => {
            let (end, is_escaped) = text_end(bytes, at + 1)?;
            if is_escaped {
                unescaped(bytes, at + 1, end)?;
            }
            Ok(end + 1)
        }
        Some(b'-' | b'0'..=b'9') => Ok(number_end(bytes, at)?.0),
        Some(b'{' | b'[') => nested_end(bytes, at),
        Some(b't' | b'f' | b'n') => word_end(bytes, at),
        Some(_) => Err(Fault::new(at, "something that is no JSON value")),
        None => Err(Fault::new(at, "the end of the line where a value should be")),
    }
}

/// Where `true`, `false` or `null` ends.
pub(crate) fn word_end(bytes: &[u8], at: usize) -> Result<usize, Fault> {
    let rest = &bytes[at..];
    let word = [&b"true"[..], b"false", b"null"].into_iter().find(|word| rest.starts_with(word));
    word.map(|word| at + word.len())
        .ok_or_else(|| Fault::new(at, "a word that is not true, false or null"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_special_byte_is_found_at_every_place() {
        for place in 0..24 {
            for byte in 0..=255_u8 {
                let mut bytes = vec![b'x'; 24];
                bytes.push(b'"');
                bytes[place] = byte;
                let found = text_end(&bytes, 0);
                match byte {
                    b'"' => assert_eq!(found, Ok((place, false))),
                    b'\\' => match place {
                        // What is escaped is the quote that would have ended it.
                        23 => assert!(found.is_err()),
                        _ => assert_eq!(found, Ok((24, true))),
                    },
                    0..0x20 => assert_eq!(found.unwrap_err().at, place),
                    _ => assert_eq!(found, Ok((24, false)), "{byte} at {place}"),
                }
            }
        }
    }

    #[test]
    fn numbers_are_what_serde_json_takes_for_numbers() {
        for text in [
            "0",
            "-0",
            "1",
            "-1",
            "10",
            "01",
            "-01",
            "1.",
            "1.0",
            ".5",
            "1e5",
            "1E+5",
            "1e",
            "1e+",
            "-",
            "123456789012345678",
            "1234567890123456789",
            "12345678901234567890",
            "1.5e-3",
            "+1",
            "--1",
        ] {
            let is_json = serde_json::from_str::<serde_json::Number>(text).is_ok();
            let end = number_end(text.as_bytes(), 0).map(|(end, _)| end);
            assert_eq!(end == Ok(text.len()), is_json, "{text}");
            if let Some((value, end)) = small_int(text.as_bytes(), 0) {
                assert_eq!((text.parse(), end), (Ok(value), text.len()), "{text}");
            }
        }
        assert_eq!(small_int(b"1234567890123456789", 0), None);
        assert_eq!(small_int(b"123456789012345678,", 0), Some((123456789012345678, 18)));
    }
}
