//! Whatever comes behind the greeting: events whose heads make sense, or a refusal.

#![allow(clippy::print_stdout)]

#[path = "../../../../fuzz/harness.rs"]
mod harness;

use bytes::{Buf as _, Bytes, BytesMut};
use harness::{Rng, Target};

use super::head::{About, Head};
use crate::{
    claim::Version,
    wire::{
        frame,
        limits::{EVENT_BYTES_MAX, KIND_BYTES_MAX},
    },
};

/// One of each kind, with its body.
fn events() -> Vec<Vec<u8>> {
    let event = |about, kind: &str, body: &str| {
        let head = Head { about, kind, version: Version(300) };
        let mut bytes = head.encode(body.len()).expect("it may be sent");
        bytes.extend(body.as_bytes());
        bytes
    };
    vec![
        event(About::Tell, "number", "hello"),
        event(About::Ask(7), "k", ""),
        event(About::Answer(u64::MAX), &"k".repeat(KIND_BYTES_MAX), "42"),
        event(About::NoAnswer(0), "ü", "nobody there receives it"),
    ]
}

/// Reads a stream that comes in pieces; says what was in it, up to the first thing that is no event.
fn feed(stream: &[u8], rng: &mut Rng) -> String {
    let (mut decoder, mut buffer) = (frame::Decoder::new(EVENT_BYTES_MAX), BytesMut::new());
    let (mut said, mut rest) = (String::new(), stream);
    while !rest.is_empty() {
        let (piece, later) = rest.split_at((1 + rng.below(2_000)).min(rest.len()));
        buffer.extend_from_slice(piece);
        rest = later;
        loop {
            let message = match decoder.next(&mut buffer) {
                Ok(None) => break,
                Err(why) => return format!("{said} {why:?}"),
                Ok(Some(message)) => message,
            };
            match Head::decode(&message) {
                Err(why) => return format!("{said} {why}"),
                Ok((head, at)) => {
                    check(&head, at, &message);
                    said.push_str(&format!("{:?} ", head.about));
                }
            }
        }
    }
    said
}

/// What was read is within the limits of what may be sent, and is the same when it was sent on.
fn check(head: &Head<'_>, at: usize, message: &[u8]) {
    assert!((1..=KIND_BYTES_MAX).contains(&head.kind.len()), "a kind of any length");
    let body = message.len() - at;
    let again = head.encode(body).expect("what may be heard may be said");
    assert!(again.len() <= at, "a number has no shorter form than ours");
    assert_eq!(Head::decode(&again), Ok((head.clone(), again.len())));
}

/// The first byte says whether the rest is a stream as it is, or messages with their lengths in
/// front, which are then framed rightly.
#[test]
fn an_event_behind_the_greeting() {
    let (mut framed, mut listed) = (BytesMut::from(&[0_u8][..]), vec![1]);
    let mut seeds = Vec::new();
    for event in events() {
        let number = (event.len() as u16).to_be_bytes();
        seeds.push([&[1], &number[..], &event[..]].concat());
        frame::encode(&event, &Bytes::new(), &mut framed);
        listed.extend([&number[..], &event[..]].concat());
    }
    seeds.extend([framed.to_vec(), listed]);
    Target { name: "mesh-event", seeds, words: &["number"] }.run(|input| {
        let mut rng = Rng(input.len() as u64);
        let Some((mode, mut rest)) = input.split_first() else { return "empty".into() };
        if mode % 2 == 0 {
            return feed(rest, &mut rng);
        }
        let mut stream = BytesMut::new();
        while rest.len() >= 2 {
            let n = usize::from(rest.get_u16()).min(rest.len());
            frame::encode(&rest[..n], &Bytes::new(), &mut stream);
            rest = &rest[n..];
        }
        feed(&stream, &mut rng)
    });
}
