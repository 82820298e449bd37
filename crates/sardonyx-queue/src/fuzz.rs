//! Whatever bytes come from a line, a disk or a queue: something readable, or a clear refusal.

#![allow(clippy::print_stdout)]

#[path = "../../../fuzz/harness.rs"]
pub(crate) mod harness;

use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use arrow::{
    array::{
        ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int64Array, ListArray, RecordBatch,
        StringArray, StructArray,
    },
    datatypes::{Int32Type, Int64Type},
};
use bytes::Bytes;
use harness::{Rng, Target, break_frame, measure};
use serde::de::DeserializeOwned;

use crate::{
    Compression, Segments,
    embedded::{
        format::{Blob, Event, HEADER_BYTES, Kind, RECORD_BYTES, header, record_head},
        play,
    },
    golden::{events, frames, place, queue, roster},
    remote::frame::{Answer, Ask, FRAME_BYTES_MAX, HELLO_BYTES_MAX, Hello, Rest, Welcome, receive},
};

fn block_on<T>(it: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(it)
}

/// Reads all frames of a stream as messages of one kind, each with what stands behind it.
fn read_all<T: DeserializeOwned>(
    mut stream: &[u8],
    bytes_max: usize,
    use_it: impl Fn(T, Rest) -> String,
) -> String {
    let mut said = String::new();
    loop {
        match block_on(receive::<T>(&mut stream, bytes_max)) {
            Ok((message, rest)) => said.push_str(&use_it(message, Rest(rest))),
            Err(why) => return format!("{said} {why}"),
        }
    }
}

fn ask((_, ask): (u64, Ask), mut rest: Rest) -> String {
    match ask {
        Ask::Commit(_, outline) => format!("{:?}", rest.transaction(outline).map(drop)),
        Ask::Beat
        | Ask::Open(..)
        | Ask::Announce(..)
        | Ask::Depth(_)
        | Ask::Peek(..)
        | Ask::Forget(_)
        | Ask::Jobs
        | Ask::Receive(..)
        | Ask::Release(..)
        | Ask::Get(..)
        | Ask::Scan(..)
        | Ask::Room(..)
        | Ask::Close(_) => "ask ".into(),
    }
}

fn answer((_, answer): (u64, Answer), mut rest: Rest) -> String {
    match answer {
        Answer::Keys(lengths, _) => format!("{:?}", rest.values(lengths).map(drop)),
        Answer::Value(len) => format!("{:?}", len.map(|len| rest.cut(len).map(drop))),
        Answer::Deliveries(given) => format!("{:?}", rest.deliveries(given).map(drop)),
        Answer::Beat
        | Answer::Done
        | Answer::Refused(_)
        | Answer::Session(_)
        | Answer::Depth(..)
        | Answer::Jobs(_)
        | Answer::Lost(_) => "answer ".into(),
    }
}

#[test]
fn a_stream_of_frames() {
    let seeds = frames().into_iter().map(|(_, bytes)| bytes).collect();
    Target { name: "queue-frame", seeds, words: &["SDXQUEUE"] }.run(|input| {
        let hello = read_all::<Hello>(input, HELLO_BYTES_MAX, |_, _| "hello".into());
        let welcome = read_all::<Welcome>(input, HELLO_BYTES_MAX, |_, _| "welcome".into());
        let asks = read_all(input, FRAME_BYTES_MAX, ask);
        format!("{hello} {welcome} {asks} {}", read_all(input, FRAME_BYTES_MAX, answer))
    });
}

fn batches() -> Vec<RecordBatch> {
    let number: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(-3)]));
    let text: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), Some("longer"), None]));
    let flag: ArrayRef = Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)]));
    let real: ArrayRef = Arc::new(Float64Array::from(vec![1.5, f64::NAN, 0.0]));
    let words: ArrayRef =
        Arc::new(vec!["x", "y", "x"].into_iter().collect::<DictionaryArray<Int32Type>>());
    let lists = vec![Some(vec![Some(1), None]), None, Some(vec![])];
    let list: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists));
    let both = StructArray::try_from(vec![("n", number.clone()), ("t", text.clone())]);
    let both: ArrayRef = Arc::new(both.expect("a struct"));
    let all = vec![
        ("number", number.clone()),
        ("text", text),
        ("flag", flag),
        ("real", real),
        ("words", words),
        ("list", list),
        ("both", both),
    ];
    let some = RecordBatch::try_from_iter(all).expect("a batch");
    let one = RecordBatch::try_from_iter(vec![("number", number)]).expect("a batch");
    let none = some.slice(0, 0);
    vec![some, one, none]
}

/// Segments, plain and made smaller; what is read is looked at value by value.
#[test]
fn encoded_segments() {
    let mut seeds = Vec::new();
    for batch in batches() {
        for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
            let encoded = Segments::Batch(batch.clone()).encode(compression).expect("encoded");
            seeds.push(encoded.to_vec());
        }
    }
    Target { name: "queue-segments", seeds, words: &[] }.run(|input| {
        match Segments::Encoded(Bytes::copy_from_slice(input)).decode() {
            Err(why) => why.to_string(),
            Ok(batch) => {
                let again = Segments::Batch(batch.clone()).encode(Compression::None);
                format!("{} {} {}", batch.num_columns(), batch.num_rows().min(9), again.is_ok())
            }
        }
    });
}

/// Found by reading, before the fuzzing: a message of some hundred bytes could end the process that
/// reads it, since memory for a length was taken before anybody looked whether it is there.
#[test]
fn a_length_that_nobody_fills_costs_nothing() {
    let plain = Segments::Batch(batches().remove(1)).encode(Compression::None).expect("encoded");
    // The body's length is in the flatbuffer: each place where it might stand.
    for at in 0..plain.len() - 8 {
        for huge in [i64::MAX, i64::MIN, -1, 1 << 40] {
            let mut bytes = plain.to_vec();
            bytes[at..at + 8].copy_from_slice(&huge.to_le_bytes());
            drop(Segments::Encoded(bytes.into()).decode());
        }
    }
    for compression in [Compression::Lz4, Compression::Zstd] {
        let small = Segments::Batch(batches().remove(0)).encode(compression).expect("encoded");
        let mut n_refused = 0;
        for at in 0..small.len() - 8 {
            let mut bytes = small.to_vec();
            bytes[at..at + 8].copy_from_slice(&(1_i64 << 40).to_le_bytes());
            let read = Segments::Encoded(bytes.into()).decode();
            let is_it = |why: String| why.contains("would take more than");
            n_refused += usize::from(read.is_err_and(|why| is_it(why.to_string())));
        }
        assert!(n_refused > 3, "{compression:?}: {n_refused}");
    }
}

/// Found by the fuzzing: Arrow's reader panics at a schema without fields, and at types that are none.
#[test]
fn a_description_that_makes_no_sense_is_refused() {
    for compression in [Compression::None, Compression::Zstd] {
        let good = Segments::Batch(batches().remove(0)).encode(compression).expect("encoded");
        let mut n_refused = 0;
        for at in 8..good.len() {
            let mut bytes = good.to_vec();
            bytes[at] ^= 0x07;
            n_refused += usize::from(Segments::Encoded(bytes.into()).decode().is_err());
        }
        assert!(n_refused > 100, "{compression:?}: {n_refused}");
    }
}

const SALT: u64 = 7;

/// Makes every checksum right, so that what is behind them is reached.
fn repair(bytes: &mut [u8]) {
    let number = |bytes: &[u8], at: usize, n: usize| {
        bytes[at..at + n].iter().rev().fold(0_usize, |n, it| n << 8 | usize::from(*it))
    };
    if bytes.len() < HEADER_BYTES {
        return;
    }
    let crc = crc32c::crc32c(&bytes[..36]);
    bytes[36..40].copy_from_slice(&crc.to_le_bytes());
    let salt: [u8; 8] = bytes[24..32].try_into().expect("eight bytes");
    let mut at = HEADER_BYTES;
    while at.saturating_add(RECORD_BYTES) <= bytes.len() && &bytes[at..at + 4] == b"RCRD" {
        let meta = at + RECORD_BYTES;
        let bodies = meta.saturating_add(number(bytes, at + 4, 4));
        if bodies > bytes.len() {
            return;
        }
        let crc = crc32c::crc32c_append(crc32c::crc32c(&salt), &bytes[at..at + 36]);
        let crc = crc32c::crc32c_append(crc, &bytes[meta..bodies]);
        bytes[at + 36..at + 40].copy_from_slice(&crc.to_le_bytes());
        at = bodies.saturating_add(number(bytes, at + 24, 8));
    }
}

fn record(sequence: u64, events: &[Event], bodies: &[u8]) -> Vec<u8> {
    let written = events.iter().flat_map(|it| postcard::to_stdvec(it).expect("written"));
    let meta: Vec<u8> = written.collect();
    let mut record = record_head(SALT, sequence, sequence - 1, &meta, bodies.len() as u64).to_vec();
    record.extend(meta);
    record.extend(bodies);
    record
}

fn journal(records: &[Vec<u8>]) -> Vec<u8> {
    let mut journal = vec![1];
    journal.extend(header(0, SALT));
    records.iter().for_each(|record| journal.extend(record));
    journal.extend([0; 64]);
    journal
}

/// The first byte says whether the file is as it is or has its checksums made right.
#[test]
fn a_journal() {
    let mark = |id: u64| (queue(), None, crate::MessageId(id));
    let send = |id: u64| Event::Commit {
        place: place(),
        acks: Vec::new(),
        sends: vec![(mark(id), Kind::Note, Blob::of(b"body"))],
        puts: vec![("k".into(), Some(Blob::of(b"v")))],
    };
    let ack =
        Event::Commit { place: place(), acks: vec![mark(0)], sends: Vec::new(), puts: Vec::new() };
    let empty = record(1, &[], &[]);
    let begins = [Event::Counted { queue: queue(), n_acked: 0, next: 0 }];
    let announced = [Event::Announced(place(), roster()), Event::Delivered(vec![mark(0)])];
    let seeds = vec![
        journal(&[]),
        journal(std::slice::from_ref(&empty)),
        journal(&[empty.clone(), record(2, &[send(0)], b"bodyv")]),
        journal(&[record(1, &begins, &[]), record(2, &[send(0), send(1)], b"bodyvbodyv")]),
        journal(&[
            empty.clone(),
            record(2, &[send(0)], b"bodyv"),
            record(3, &announced, &[]),
            record(4, &[ack, Event::Forgotten("j".into())], &[]),
        ]),
        journal(&[record(1, &events(), b"bodyv")]),
    ];
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join(format!("queue-{:020}", 0));
    Target { name: "queue-journal", seeds, words: &["RCRD", "SDXQUEUE"] }.run(|input| {
        let Some((mode, file)) = input.split_first() else { return "empty".into() };
        let mut file = file.to_vec();
        if mode % 2 == 1 {
            repair(&mut file);
        }
        std::fs::write(&path, &file).expect("the file is written");
        let played = play(dir.path());
        assert_eq!(std::fs::read(&path).expect("the file"), file, "looking changes nothing");
        match played {
            Ok(played) => {
                assert_eq!(played.ledger.broken_law(), None, "a law of the ledger");
                let queues = "#".repeat(played.ledger.queues.len().min(9));
                format!("{queues} {}", played.resume.torn_bytes > 0)
            }
            Err(why) => format!("{why:?}"),
        }
    });
}

/// Events that only a newer build knows were acknowledged like any others: whoever cannot read them must
/// not drop them as unfinished.
#[test]
fn a_record_that_was_written_and_cannot_be_read_is_not_taken_for_torn() {
    let played = |last: &[u8]| {
        let dir = tempfile::tempdir().expect("a directory");
        let mut meta = last.to_vec();
        let mut file = header(0, SALT).to_vec();
        file.extend(record(1, &[], &[]));
        file.extend(record_head(SALT, 2, 1, &meta, 0));
        file.append(&mut meta);
        std::fs::write(dir.path().join(format!("queue-{:020}", 0)), file).expect("written");
        play(dir.path()).map(drop)
    };
    let forgotten = postcard::to_stdvec(&Event::Forgotten("j".into())).expect("written");
    assert!(played(&forgotten).is_ok());
    let unknown = played(b"\x63newer");
    assert!(matches!(unknown, Err(crate::OpenError::Corrupt(_))), "{unknown:?}");
}

/// 1,500 frames that are wrong for a known reason: each is refused, and soon.
#[test]
fn bad_frames_are_refused() {
    let mut rng = Rng(2);
    let commit = frames().into_iter().find(|it| it.0 == "commit").expect("a commit").1;
    for n in 0..1500 {
        let mut frame = commit.clone();
        let what = match n % 5 {
            0 => {
                frame[5] = 14 + rng.below(100) as u8;
                "no such request"
            }
            1 => {
                // A body that the head names is not there, or only half of it.
                let missing = 1 + rng.below(5);
                frame.truncate(frame.len() - missing);
                measure(&mut frame);
                "a body is missing"
            }
            way => break_frame(&mut rng, &mut frame, way),
        };
        let begun = Instant::now();
        let read = block_on(receive::<(u64, Ask)>(&mut &frame[..], FRAME_BYTES_MAX));
        let read = read.and_then(|((_, ask), rest)| {
            if let Ask::Commit(_, outline) = ask {
                return Rest(rest).transaction(outline).map(drop);
            }
            Ok(())
        });
        let why = read.err().unwrap_or_else(|| panic!("{what} is taken: {frame:?}"));
        let wanted = [io::ErrorKind::InvalidData, io::ErrorKind::UnexpectedEof];
        assert!(wanted.contains(&why.kind()), "{what}: {why:?}");
        assert!(begun.elapsed() < Duration::from_millis(500), "{what}: {:?}", begun.elapsed());
    }
}
