//! The public forms, pinned: `testdata/v1.txt` has one line per form. A change here is a change of
//! format and needs a decision record; `UPDATE=1 cargo test -p sardonyx-store` writes the file.

use std::{fmt::Write as _, time::Duration};

use bytes::Bytes;
use sardonyx_core::{Position, Replica};

use crate::{
    Condition, Origin, Seen, Token, Txn, Version, Write,
    embedded::{FrameWriter, header},
    engine::Op,
    remote::{Answer, Ask, Hello, encode},
};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/v1.txt");

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    })
}

fn txn() -> Txn {
    let when =
        vec![Condition::Absent("live/7".into()), Condition::Is("fresh/7".into(), Version(3))];
    let then = vec![
        Write::Lease("live/7".into(), Bytes::from_static(b"me")),
        Write::Put("fresh/7".into(), Bytes::from_static(b"100")),
        Write::Delete("old".into()),
    ];
    Txn { when, then }
}

pub(crate) fn forms() -> Vec<(&'static str, Vec<u8>)> {
    let token = Token { writer: 0x0102_0304_0506_0708, number: 9 };
    let mut entry = token.to_bytes().to_vec();
    entry.extend(b"\x01command");
    let entry = Bytes::from(entry);
    let mut seen = Seen::default();
    seen.note(token, Position(41));
    let origin = Origin { position: Position(42), replica: Replica::new(), seen };
    let ops = [
        Op::Append(entry.clone()),
        Op::SetOrigin(Position(42), Bytes::from_static(b"origin")),
        Op::Trim(Position(42)),
        Op::OpenSession { id: 5, timeout: Duration::from_millis(1500) },
        Op::EndSession { id: 5 },
        Op::Commit { session: Some(5), txn: txn() },
        Op::Snapshot(Box::default()),
    ];
    let mut frame = FrameWriter::default();
    ops.iter().for_each(|op| frame.push(op).unwrap());
    let asks = [
        Ask::Append(entry.clone()),
        Ask::Read(Some(Position(41))),
        Ask::Origin,
        Ask::SetOrigin(Position(42), Bytes::from_static(b"origin")),
        Ask::Trim(Position(42)),
        Ask::OpenSession(5, Duration::from_millis(1500)),
        Ask::Beat(5, Duration::from_millis(1500)),
        Ask::EndSession(5),
        Ask::Commit(Some(5), txn()),
        Ask::Value("pulse/a".into()),
        Ask::KeyEnd("pulse/a".into()),
        Ask::Items("item/".into()),
        Ask::End,
        Ask::Forget(7),
    ];
    let hello = Hello { magic: *b"SDXSTORE", version: 2, token: Some("t".into()) };
    vec![
        ("entry", entry.to_vec()),
        ("origin", origin.to_bytes().unwrap().to_vec()),
        ("journal-header", header(3).to_vec()),
        ("journal-frame", frame.finish(7).to_vec()),
        ("journal-seal", FrameWriter::default().finish(8).to_vec()),
        ("hello", encode(&hello).unwrap()),
        ("asks", asks.iter().flat_map(|ask| encode(&(1_u64, ask)).unwrap()).collect()),
        ("answer-position", encode(&(1_u64, Answer::Position(Position(42)))).unwrap()),
        ("answer-end", encode(&(1_u64, Answer::End(None))).unwrap()),
    ]
}

#[test]
fn forms_stay_as_they_are() {
    let text = forms().iter().fold(String::new(), |mut text, (name, bytes)| {
        writeln!(text, "{name} {}", hex(bytes)).unwrap();
        text
    });
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(PATH, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(PATH).unwrap_or_default(), text);
}

#[test]
fn an_origin_reads_as_it_was_written() {
    let mut seen = Seen::default();
    for number in [1, 2, 5, 3] {
        assert!(seen.note(Token { writer: 1, number }, Position(number)));
    }
    let origin = Origin { position: Position(5), replica: Replica::new(), seen };
    let bytes = origin.to_bytes().unwrap();
    assert_eq!(Origin::from_bytes(Position(5), &bytes), Ok(origin));
    assert!(Origin::from_bytes(Position(5), &bytes[..bytes.len() - 1]).is_err());
    assert!(Origin::from_bytes(Position(5), &[9]).is_err());
}
