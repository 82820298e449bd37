//! A record is all or nothing wherever it is cut, and damage is never taken for a cut.

use std::{ops::Range, path::Path};

use bytes::Bytes;

use super::{only_segment, open};
use crate::{
    OpenError, Place, Queues, Transaction,
    embedded::{
        Options,
        format::{self, Header},
    },
    suite::{alone, depth_becomes, note, place, queue, receive_n, run, sending, text},
};

/// Where the records stand that hold something.
fn records(bytes: &Bytes) -> Vec<Range<usize>> {
    let Header::Good { salt, .. } = format::read_header(bytes) else { panic!("a header") };
    let mut at = format::HEADER_BYTES;
    let mut records = Vec::new();
    while let Some(record) = format::read_record(bytes, at, salt) {
        if !format::read_events(bytes, record).expect("good events").is_empty() {
            records.push(at..record.end);
        }
        at = record.end;
    }
    records
}

/// A journal whose last record acknowledges, sends and puts; and its bytes.
async fn journal(dir: &Path, here: &Place) -> Bytes {
    let (input, output) = (queue(here, "up"), queue(here, "down"));
    let queues = open(dir, Options::default()).await;
    let session = alone(&queues, here).await;
    let long = "long ".repeat(50);
    let puts = vec![("key".into(), Some(Bytes::from_static(b"before")))];
    let sends = vec![note(&input, None, "first"), note(&input, None, &long)];
    session.commit(Transaction { sends, puts, ..Transaction::default() }).await.unwrap();
    let held = receive_n(&session, 2).await;
    let moved = Transaction {
        acks: vec![held[0].receipt, held[1].receipt],
        sends: vec![note(&output, Some(3), &text(&held[0])), note(&output, None, &long)],
        puts: vec![("key".into(), Some(Bytes::from(long.into_bytes())))],
        ..Transaction::default()
    };
    session.commit(moved).await.unwrap();
    drop((session, queues));
    Bytes::from(std::fs::read(only_segment(dir)).unwrap())
}

/// Whether the last transaction of [`journal`] happened: all of it, or nothing of it.
async fn is_moved(queues: &Queues, here: &Place) -> bool {
    let (input, output) = (queue(here, "up"), queue(here, "down"));
    let key = queues.peek(here, "key").await.unwrap();
    let is_moved = key[0].1 != "before";
    let (n_in, n_out) = if is_moved { (0, 2) } else { (2, 0) };
    depth_becomes(queues, &input, n_in, 0).await;
    depth_becomes(queues, &output, n_out, 0).await;
    let received = receive_n(&alone(queues, here).await, 2).await;
    assert!(received.iter().any(|it| text(it) == "first"));
    assert!(received.iter().any(|it| text(it) == "long ".repeat(50)));
    is_moved
}

#[test]
fn a_journal_cut_at_any_byte_has_all_of_a_transaction_or_nothing() {
    a_cut_has_all_or_nothing(600);
}

/// The last record has more than `least` bytes: otherwise few cuts would be tried.
pub(super) fn a_cut_has_all_or_nothing(least: usize) {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let here = place("here");
        let bytes = journal(dir.path(), &here).await;
        let last = records(&bytes).pop().unwrap();
        assert!(last.len() > least, "{last:?}");
        let (mut n_before, mut n_after) = (0, 0);
        for cut in last.start..=last.end {
            // What is behind the cut is missing, or still zeros, or something that was there once.
            for filling in [None, Some(0), Some(0xa5)] {
                let dir = tempfile::tempdir().unwrap();
                let mut bytes = bytes[..cut].to_vec();
                if let Some(filling) = filling {
                    bytes.extend(vec![filling; 64]);
                }
                std::fs::write(dir.path().join("queue-00000000000000000000"), bytes).unwrap();
                let queues = open(dir.path(), Options::default()).await;
                let is_moved = is_moved(&queues, &here).await;
                assert_eq!(is_moved, cut == last.end, "cut at {cut} of {last:?}, {filling:?}");
                // And it can be written to as ever.
                let session = alone(&queues, &here).await;
                let after = sending(vec![note(&queue(&here, "x"), None, "after")]);
                session.commit(after).await.unwrap();
                *if is_moved { &mut n_after } else { &mut n_before } += 1;
            }
        }
        assert!(n_before > 1800 && n_after == 3, "{n_before} before, {n_after} after");
    });
}

#[test]
fn a_flipped_bit_in_what_was_acknowledged_is_found_and_named() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let here = place("here");
        let bytes = journal(dir.path(), &here).await;
        let end = records(&bytes).pop().unwrap().end;
        // The zeros behind it take long to read a thousand times.
        let bytes = bytes.slice(..end + 4096);
        for at in 0..end {
            let dir = tempfile::tempdir().unwrap();
            let mut bytes = bytes.to_vec();
            bytes[at] ^= 1 << (at % 8);
            let path = dir.path().join("queue-00000000000000000000");
            std::fs::write(&path, &bytes).unwrap();
            let opened = Queues::embedded(dir.path(), Options::default()).await;
            let Err(OpenError::Corrupt(why)) = opened else {
                panic!("byte {at} of {end}: {opened:?}")
            };
            assert!(why.contains("queue-00000000000000000000") && why.contains("byte"), "{why}");
            assert_eq!(std::fs::read(&path).unwrap(), bytes, "nothing is changed");
        }
    });
}

#[test]
fn a_journal_inside_a_message_is_not_taken_for_the_journal() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let here = place("here");
        let stranger = journal(dir.path(), &here).await;
        let dir = tempfile::tempdir().unwrap();
        let queues = open(dir.path(), Options::default()).await;
        let session = alone(&queues, &here).await;
        let body = crate::Body::Note(stranger.slice(..records(&stranger).pop().unwrap().end + 40));
        let outgoing = crate::Outgoing { queue: queue(&here, "up"), partition: None, body };
        session.commit(sending(vec![outgoing])).await.unwrap();
        drop((session, queues));
        // The record is torn in its last byte; the journal in it is whole.
        let path = only_segment(dir.path());
        let mut bytes = std::fs::read(&path).unwrap();
        let end = records(&Bytes::from(bytes.clone())).pop().unwrap().end;
        bytes.truncate(end - 1);
        std::fs::write(&path, bytes).unwrap();
        let queues = open(dir.path(), Options::default()).await;
        depth_becomes(&queues, &queue(&here, "up"), 0, 0).await;
    });
}

#[test]
fn a_directory_has_one_owner_and_strange_files_are_refused() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let queues = open(dir.path(), Options::default()).await;
        let second = Queues::embedded(dir.path(), Options::default()).await;
        let Err(OpenError::NotConfigured(why)) = second else { panic!("{second:?}") };
        assert!(why.contains(&std::process::id().to_string()), "{why}");
        drop(queues);
        let path = only_segment(dir.path());
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[8] = 9;
        let crc = crc32c::crc32c(&bytes[..36]);
        bytes[36..40].copy_from_slice(&crc.to_le_bytes());
        std::fs::write(&path, bytes).unwrap();
        let newer = Queues::embedded(dir.path(), Options::default()).await;
        let Err(OpenError::NotConfigured(why)) = newer else { panic!("{newer:?}") };
        assert!(why.contains("format 9"), "{why}");
    });
}
