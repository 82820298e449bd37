//! Whatever bytes come from a line, a disk or another store: something readable, or a clear refusal.

#![allow(clippy::print_stdout)]

#[path = "../../../fuzz/harness.rs"]
mod harness;

use std::time::{Duration, Instant};

use bytes::Bytes;
use harness::{Rng, Target, break_frame, measure};
use sardonyx_core::Position;
use serde::de::DeserializeOwned;

use crate::{
    Error, Origin, Token,
    embedded::{FRAME_BYTES, HEADER_BYTES, RECORD_BYTES},
    golden::forms,
    pieces::Pointer,
    remote::{Answer, Ask, FRAME_BYTES_MAX, HELLO_BYTES_MAX, Hello, Welcome, receive},
};

fn form(name: &str) -> Vec<u8> {
    forms().into_iter().find(|it| it.0 == name).expect("a form").1
}

fn block_on<T>(it: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(it)
}

/// Reads all frames of a stream as messages of one kind.
fn read_all<T: DeserializeOwned>(mut stream: &[u8], bytes_max: usize) -> (u32, String) {
    let mut n = 0;
    loop {
        match block_on(receive::<T>(&mut stream, bytes_max)) {
            Ok(_) => n += 1,
            Err(why) => return (n, why.to_string()),
        }
    }
}

#[test]
fn a_stream_of_frames() {
    let seeds = ["hello", "asks", "answer-position", "answer-end"].map(form).into();
    Target { name: "store-frame", seeds, words: &["SDXSTORE"] }.run(|input| {
        let hello = read_all::<Hello>(input, HELLO_BYTES_MAX);
        let welcome = read_all::<Welcome>(input, HELLO_BYTES_MAX);
        let asks = read_all::<(u64, Ask)>(input, FRAME_BYTES_MAX);
        let answers = read_all::<(u64, Answer)>(input, FRAME_BYTES_MAX);
        let shown = |(n, why): (u32, String)| format!("{} {why} ", "#".repeat(n.min(9) as usize));
        [hello, welcome, asks, answers].map(shown).concat()
    });
}

#[test]
fn an_origin() {
    let seeds = vec![form("origin"), form("entry")];
    Target { name: "store-origin", seeds, words: &["\"peers\"", "\"jobs\""] }.run(|input| {
        let entry = Token::split(input)
            .map(|(_, command)| sardonyx_core::wire::command_from_bytes(command).map(drop));
        match Origin::from_bytes(Position(42), input) {
            Err(why) => format!("{why} {entry:?}"),
            Ok(origin) => {
                let bytes = origin.to_bytes().expect("what was read can be written");
                assert_eq!(Origin::from_bytes(Position(42), &bytes), Ok(origin));
                "read".into()
            }
        }
    });
}

/// A pointer as it lies on a server: where, which, in how many pieces, how long, and its checksum.
fn pointer(n_pieces: u32, origin: &[u8]) -> Vec<u8> {
    let crc = crc32c::crc32c(origin);
    postcard::to_stdvec(&(42_u64, 7_u64, n_pieces, origin.len() as u64, crc)).expect("written")
}

/// The length of the pieces here: so short that a short input has many.
const SHORT_PIECE: usize = 4;

/// What a backend reads of a pointer's pieces. Behind one that is missing it asks for none: a number
/// of pieces that nobody wrote costs nothing.
fn read_pieces(pointer: &Pointer, pieces: &[&[u8]]) -> Option<Bytes> {
    let mut n_asked = 0;
    let read = block_on(pointer.read(|piece| {
        assert_eq!(piece as usize, n_asked, "one after the other");
        assert!(n_asked <= pieces.len(), "piece {} of {} is missing", pieces.len(), piece);
        n_asked += 1;
        let found = pieces.get(piece as usize).map(|it| Bytes::copy_from_slice(it));
        std::future::ready(Ok(found))
    }));
    read.expect("nothing fails")
}

/// The first byte says how long the pointer is; behind it are the pieces that it points to.
#[test]
fn a_pointer_and_its_pieces() {
    let input = |pointer: &[u8], pieces: &[u8]| [&[pointer.len() as u8], pointer, pieces].concat();
    let long = form("origin");
    let n_long = long.len().div_ceil(SHORT_PIECE) as u32;
    let seeds = vec![
        input(&pointer(3, b"an origin"), b"an origin"),
        input(&pointer(u32::MAX, b"an origin"), b"an orig"),
        input(&pointer(0, b""), b""),
        input(&pointer(n_long, &long), &long),
        input(&pointer(2, b"an origin"), b"an origin"),
        input(&pointer(2, b"an origi"), b"an origin"),
    ];
    Target { name: "store-pieces", seeds, words: &[] }.run(|input| {
        let Some((n, rest)) = input.split_first() else { return "empty".into() };
        let (pointer, found) = rest.split_at(usize::from(*n).min(rest.len()));
        let pointer = match Pointer::from_bytes(pointer) {
            Err(Error::Corrupt(why)) => return why,
            Err(why) => panic!("what is damaged is not called so: {why:?}"),
            Ok(pointer) => pointer,
        };
        let again = Pointer::from_bytes(&pointer.to_bytes());
        assert_eq!(again.as_ref(), Ok(&pointer), "what was read can be written");
        // By its name an origin is deleted when there is a later one.
        if let Some(next) = pointer.position.0.checked_add(1) {
            assert!(pointer.name() < format!("{next:016x}"), "{}", pointer.name());
        }
        let pieces: Vec<_> = found.chunks(SHORT_PIECE).collect();
        let read = read_pieces(&pointer, &pieces);
        // Whatever is cut where, together they are what was cut.
        let n_named = (pointer.n_pieces as usize).saturating_mul(SHORT_PIECE);
        let origin = found[..n_named.min(found.len())].to_vec();
        let is_whole = pointer.is_whole(&origin);
        assert_eq!(read.as_deref(), is_whole.then_some(&origin[..]), "what is whole is read");
        if is_whole {
            let mut other = origin.clone();
            other.push(0);
            assert!(!pointer.is_whole(&other), "a byte too many is noticed");
            other.truncate(origin.len());
            other.iter_mut().take(1).for_each(|byte| *byte ^= 1);
            assert!(origin.is_empty() || !pointer.is_whole(&other), "a wrong bit is noticed");
        }
        let n_pieces = "#".repeat(pieces.len().min(9));
        let shown = Origin::from_bytes(pointer.position, &origin).map(drop);
        format!("{is_whole} {n_pieces} {shown:?}")
    });
}

/// Makes every checksum right, so that what is behind them is reached.
fn repair(bytes: &mut [u8]) {
    let u32_at = |bytes: &[u8], at: usize| {
        bytes[at..at + 4].iter().rev().fold(0_usize, |n, it| n << 8 | usize::from(*it))
    };
    let put = |bytes: &mut [u8], at: usize, crc: u32| {
        bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
    };
    if bytes.len() < HEADER_BYTES {
        return;
    }
    let crc = crc32c::crc32c(&bytes[..24]);
    put(bytes, 24, crc);
    let mut at = HEADER_BYTES;
    while at + FRAME_BYTES <= bytes.len() && &bytes[at..at + 4] == b"FRAM" {
        let end = (at + FRAME_BYTES).saturating_add(u32_at(bytes, at + 4)).min(bytes.len());
        let crc = crc32c::crc32c(&bytes[at..at + 20]);
        put(bytes, at + 20, crc);
        let mut record = at + FRAME_BYTES;
        while record + RECORD_BYTES <= end {
            let body = record + RECORD_BYTES;
            let to = body.saturating_add(u32_at(bytes, record)).min(end);
            let crc = crc32c::crc32c(&bytes[body..to]);
            put(bytes, record + 4, crc);
            record = to;
        }
        at = end;
    }
}

/// The first byte says whether the file is as it is or has its checksums made right.
#[test]
fn a_journal() {
    let journal = |frames: &[&[u8]]| {
        let mut journal = vec![1];
        journal.extend(crate::embedded::header(0));
        frames.iter().for_each(|frame| journal.extend(*frame));
        journal.extend([0; 40]);
        journal
    };
    // A journal begins with a snapshot, and then come requests.
    let mut writer = crate::embedded::FrameWriter::default();
    writer.push(&crate::engine::Op::Snapshot(Box::default())).expect("written");
    let first = writer.finish(6).to_vec();
    let frame = form("journal-frame");
    let mut third = frame.clone();
    third[8] = 8;
    let seeds = vec![
        journal(&[]),
        journal(&[&first]),
        journal(&[&first, &frame]),
        journal(&[&first, &frame, &third]),
        journal(&[&first, &frame, &form("journal-seal")]),
    ];
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join(format!("journal-{:020}", 0));
    Target { name: "store-journal", seeds, words: &["FRAM", "SARDNYX\n"] }.run(|input| {
        let Some((mode, file)) = input.split_first() else { return "empty".into() };
        let mut file = file.to_vec();
        if mode % 2 == 1 {
            repair(&mut file);
        }
        std::fs::write(&path, &file).expect("the file is written");
        let checked = crate::check(dir.path());
        assert_eq!(std::fs::read(&path).expect("the file"), file, "looking changes nothing");
        match checked {
            Ok(report) => {
                let entries = "#".repeat(report.n_entries.min(9) as usize);
                format!("{entries} {}", report.torn_bytes > 0)
            }
            Err(why) => why.to_string(),
        }
    });
}

fn checked(file: &[u8]) -> crate::Result<crate::Report> {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join(format!("journal-{:020}", 0)), file).expect("written");
    crate::check(dir.path())
}

/// A journal of a snapshot and a frame with this one record, all checksums right.
fn with_record(record: &[u8]) -> Vec<u8> {
    let mut file = crate::embedded::header(0).to_vec();
    let mut first = crate::embedded::FrameWriter::default();
    first.push(&crate::engine::Op::Snapshot(Box::default())).expect("written");
    file.extend_from_slice(first.finish(1));
    let at = file.len();
    file.extend_from_slice(b"FRAM");
    file.extend_from_slice(&((RECORD_BYTES + record.len()) as u32).to_le_bytes());
    file.extend_from_slice(&2_u64.to_le_bytes());
    file.extend_from_slice(&1_u32.to_le_bytes());
    file.extend_from_slice(&[0; 4]);
    file.extend_from_slice(&(record.len() as u32).to_le_bytes());
    file.extend_from_slice(&[0; 4]);
    file.extend_from_slice(record);
    assert!(at + FRAME_BYTES < file.len());
    repair(&mut file);
    file
}

/// A request that only a newer build knows was acknowledged like any other: whoever cannot read it
/// must not drop it as unfinished.
#[test]
fn a_record_that_was_written_and_cannot_be_read_is_not_taken_for_torn() {
    assert!(checked(&with_record(b"\x00entry")).is_ok());
    let unknown = checked(&with_record(b"\x01\x63newer"));
    assert!(matches!(unknown, Err(crate::Error::Corrupt(_))), "{unknown:?}");
    let mut torn = with_record(b"\x00entry");
    let last = torn.len() - 1;
    torn[last] ^= 1;
    assert!(checked(&torn).is_ok_and(|it| it.torn_bytes > 0), "a wrong checksum at the end is");
}

/// A count is not believed before its records are there.
#[test]
fn a_number_of_records_that_nobody_wrote_costs_nothing() {
    let mut file = with_record(b"\x00entry");
    let frame = file.len() - FRAME_BYTES - RECORD_BYTES - 6;
    file[frame + 16..frame + 20].copy_from_slice(&u32::MAX.to_le_bytes());
    repair(&mut file);
    assert!(checked(&file).is_ok_and(|it| it.torn_bytes > 0));
}

/// 1,500 frames that are wrong for a known reason: each is refused, and soon.
#[test]
fn bad_frames_are_refused() {
    let mut rng = Rng(1);
    let asks = form("asks");
    let mut good = Vec::new();
    let mut rest = &asks[..];
    while let Some(len) = rest.first_chunk::<4>().map(|it| u32::from_be_bytes(*it) as usize) {
        good.push(rest[..4 + len].to_vec());
        rest = &rest[4 + len..];
    }
    for n in 0..1500 {
        let mut frame = good[rng.below(good.len())].clone();
        let what = match n % 5 {
            0 => {
                // Behind the number, which is 1 and takes a byte. One of each request is in the file.
                frame[5] = (good.len() + rng.below(100)) as u8;
                "no such request"
            }
            1 => {
                frame.extend((0..=rng.below(20)).map(|_| 7));
                measure(&mut frame);
                "more than a request"
            }
            way => break_frame(&mut rng, &mut frame, way),
        };
        let begun = Instant::now();
        let read = block_on(receive::<(u64, Ask)>(&mut &frame[..], FRAME_BYTES_MAX));
        let is_refused = matches!(&read, Err(Error::Unavailable(_)));
        assert!(is_refused, "{what} is taken for {read:?}: {frame:?}");
        assert!(begun.elapsed() < Duration::from_millis(500), "{what}: {:?}", begun.elapsed());
    }
}
