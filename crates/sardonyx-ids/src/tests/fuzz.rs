//! Whatever bytes come from a caller or a store: a request, an id, a record, or a clear refusal.

#[path = "../../../../fuzz/harness.rs"]
mod harness;

use bytes::{Bytes, BytesMut};
use harness::{Rng, Target};
use sardonyx_store::{Item, Version};

use crate::{
    Form, Id,
    lease::record::Listing,
    service::{Malformed, REQUEST_BYTES_MAX, Request, raw, resp},
};

type Read = fn(&mut BytesMut) -> Result<Option<Request>, Malformed>;

/// Reads requests as they come, a few bytes at a time: what was read does not depend on the pieces.
fn read_all(read: Read, input: &[u8], piece: usize) -> (usize, String) {
    let (mut buffer, mut n, mut said) = (BytesMut::new(), 0, String::new());
    for some in input.chunks(piece) {
        buffer.extend_from_slice(some);
        loop {
            let before = buffer.len();
            match read(&mut buffer) {
                Ok(None) => break,
                Ok(Some(request)) => {
                    assert!(buffer.len() < before, "a request that takes nothing comes for ever");
                    n += 1;
                    said.push_str(&format!("{request:?} "));
                }
                // The service says why, and closes.
                Err(why) => return (n, format!("{said} {why:?}")),
            }
        }
        if buffer.len() > REQUEST_BYTES_MAX {
            return (n, format!("{said} too long"));
        }
    }
    (n, said)
}

#[test]
fn requests_in_resp() {
    let seeds: Vec<Vec<u8>> = [
        "NEXT\r\n",
        "NEXT 10\r\n",
        "RANGE 100000\r\n",
        "PING\r\nQUIT\r\n",
        "*1\r\n$4\r\nNEXT\r\n",
        "*2\r\n$5\r\nRANGE\r\n$2\r\n10\r\n",
        "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$1\r\na\r\n",
        "*0\r\n",
    ]
    .map(|it| it.as_bytes().to_vec())
    .into();
    let words = &["*", "$", "\r\n", "NEXT", "RANGE", "999999999", "-1", "*16\r\n", "$512\r\n"];
    Target { name: "ids-resp", seeds, words }.run(|input| {
        let whole = read_all(resp::read, input, usize::MAX);
        assert_eq!(read_all(resp::read, input, 1), whole, "in pieces it is the same");
        whole.1
    });
}

#[test]
fn requests_in_raw_frames() {
    let seeds = vec![1_u32.to_le_bytes().to_vec(), (raw::AS_RANGES | 7).to_le_bytes().to_vec()];
    Target { name: "ids-raw", seeds, words: &[] }.run(|input| {
        let whole = read_all(raw::read, input, usize::MAX);
        assert_eq!(read_all(raw::read, input, 3), whole, "in pieces it is the same");
        format!("{} {}", "#".repeat(whole.0.min(5)), whole.1)
    });
}

#[test]
fn an_id_as_text() {
    let id = Id::from_bits(0x0123_4567_89ab_cdef).expect("an id");
    let forms = [Form::Decimal, Form::Base32, Form::Base62];
    let seeds = forms.map(|form| form.write(id).into_bytes()).into();
    Target { name: "ids-text", seeds, words: &["9223372036854775808", "ZZZZ", "é", "-"] }.run(
        |input| {
            let text = String::from_utf8_lossy(input);
            let read = |form: Form| match form.read(&text) {
                Err(why) => why.to_string(),
                Ok(id) => {
                    assert_eq!(form.read(&form.write(id)), Ok(id), "what was read can be written");
                    "read".into()
                }
            };
            forms.map(read).join(" ")
        },
    );
}

/// What a store says about numbers: `key NUL value NUL`, over and over.
#[test]
fn records_of_a_store() {
    let records = [
        ("workers/live/5", r#"{"owner":"a","name":"n","since":7}"#),
        (
            "workers/last_reported_time/5",
            r#"{"until":9,"from":1,"owner":"a","attempt":"1","offset":0,"is_released":false}"#,
        ),
        ("workers/retired/6", "1"),
        ("workers/floor", "77"),
        (
            "workers/layout",
            r#"{"time-bits":41,"worker-bits":10,"sequence-bits":12,"epoch":1577836800000}"#,
        ),
    ];
    let seed = records.map(|(key, value)| format!("{key}\0{value}\0")).concat();
    let words = &["workers/", "live/", "floor", "18446744073709551616", "-1", "null", "\0"];
    Target { name: "ids-records", seeds: vec![seed.into_bytes()], words }.run(|input| {
        let parts: Vec<&[u8]> = input.split(|it| *it == 0).collect();
        let item = |pair: &[&[u8]]| Item {
            key: String::from_utf8_lossy(pair[0]).into_owned(),
            value: Bytes::copy_from_slice(pair.get(1).copied().unwrap_or_default()),
            version: Version(1),
        };
        let items: Vec<Item> = parts.chunks(2).map(item).collect();
        match Listing::read(&items) {
            Ok(listing) => format!("{} {}", listing.live.len().min(3), listing.fresh.len().min(3)),
            Err(why) => why.why,
        }
    });
}

/// 500 requests that are wrong for a known reason: each is refused, none is taken for another.
#[test]
fn bad_requests_are_refused() {
    let mut rng = Rng(3);
    for n in 0..500 {
        let number = rng.below(1 << 20);
        let bad = match n % 5 {
            0 => format!("*{}\r\n", 17 + number),
            1 => format!("*1\r\n${}\r\n", 513 + number),
            2 => format!("NEXT {number}x\r\n"),
            3 => format!("TAKE {number}\r\n"),
            _ => format!("*2\r\n$5\r\nRANGE\r\n:{number}\r\n"),
        };
        let read = resp::read(&mut BytesMut::from(bad.as_bytes()));
        assert!(read.is_err(), "{bad:?} is taken for {read:?}");
    }
}
