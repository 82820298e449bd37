//! All or nothing.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use bytes::Bytes;

use super::{
    Arena, alone, depth_becomes, is_silent, note, place, queue, receive_n, receive_texts, sending,
    text,
};
use crate::{Body, Compression, Outgoing, Receipt, Refused, Segments, Transaction};

/// A batch leaves one queue and enters another, the state and the position with it.
pub async fn a_commit_is_all_or_nothing(arena: &Arena) {
    let queues = arena.open().await;
    let (here, there) = (place("here"), place("there"));
    let (input, output) = (queue(&here, "up"), queue(&there, "here"));
    let session = alone(&queues, &here).await;
    session.commit(sending(vec![note(&input, None, "a"), note(&input, None, "b")])).await.unwrap();
    let received = receive_n(&session, 2).await;
    let moved = Transaction {
        acks: received.iter().map(|it| it.receipt).collect(),
        sends: received.iter().map(|it| note(&output, None, &text(it))).collect(),
        puts: vec![("position".into(), Some(Bytes::from_static(b"2")))],
        expects: vec![("position".into(), None)],
        ..Transaction::default()
    };
    session.commit(moved).await.unwrap();
    assert_eq!(session.get("position").await.unwrap().as_deref(), Some(b"2".as_ref()));
    depth_becomes(&queues, &input, 0, 0).await;
    depth_becomes(&queues, &output, 2, 0).await;
    let downstream = alone(&arena.open().await, &there).await;
    assert_eq!(receive_texts(&downstream, 2).await, ["a", "b"]);
}

/// Whatever the reason, nothing of it happened.
pub async fn what_is_refused_leaves_no_trace(arena: &Arena) {
    let queues = arena.open().await;
    let (here, there) = (place("here"), place("there"));
    let (input, output) = (queue(&here, "up"), queue(&there, "here"));
    let session = alone(&queues, &here).await;
    session.commit(sending(vec![note(&input, None, "a"), note(&input, None, "b")])).await.unwrap();
    let received = receive_n(&session, 2).await;
    let good = Transaction {
        acks: vec![received[0].receipt],
        sends: vec![note(&output, None, "phantom")],
        puts: vec![("key".into(), Some(Bytes::from_static(b"phantom")))],
        ..Transaction::default()
    };
    let value = Some(Bytes::from_static(b"other"));
    let changed = Transaction { expects: vec![("key".into(), value)], ..good.clone() };
    assert_eq!(session.commit(changed).await, Err(Refused::Changed("key".into())));
    let foreign = Receipt(u64::MAX);
    let held = Transaction { holds: vec![foreign], ..good.clone() };
    assert_eq!(session.commit(held).await, Err(Refused::Lost));
    let acked = Transaction { acks: vec![received[0].receipt, foreign], ..good.clone() };
    assert_eq!(session.commit(acked).await, Err(Refused::Lost));
    let twice = vec![received[0].receipt; 2];
    let twice = Transaction { acks: twice, ..good.clone() };
    assert_eq!(session.commit(twice).await, Err(Refused::Lost));
    depth_becomes(&queues, &input, 0, 2).await;
    depth_becomes(&queues, &output, 0, 0).await;
    assert_eq!(session.get("key").await.unwrap(), None);
    let downstream = alone(&queues, &there).await;
    assert!(is_silent(&downstream).await);
    // The same, without what was wrong with it.
    let held = Transaction { holds: vec![received[1].receipt], ..good };
    session.commit(held).await.unwrap();
    assert_eq!(receive_texts(&downstream, 1).await, ["phantom"]);
    depth_becomes(&queues, &input, 0, 1).await;
}

/// A hundred commits under way at once, each of which needs the one before.
pub async fn commits_keep_their_order(arena: &Arena) {
    let queues = arena.open().await;
    let here = place("here");
    let session = alone(&queues, &here).await;
    let value = |n: u64| Some(Bytes::from(n.to_string()));
    let step = |n: u64| Transaction {
        expects: vec![("n".into(), if n == 0 { None } else { value(n) })],
        puts: vec![("n".into(), value(n + 1))],
        sends: vec![note(&queue(&here, "up"), None, &n.to_string())],
        ..Transaction::default()
    };
    let answers: Vec<_> = (0..100).map(|n| session.commit(step(n))).collect();
    // Waiting in the wrong order must not matter.
    for answer in answers.into_iter().rev() {
        answer.await.unwrap();
    }
    assert_eq!(session.get("n").await.unwrap(), value(100));
    let wanted: Vec<_> = (0..100).map(|n| n.to_string()).collect();
    assert_eq!(receive_texts(&session, 100).await, wanted);
}

fn batch() -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
    let words = (0..1000).map(|n| (n % 7 != 0).then(|| format!("word-{}", n % 10)));
    let words: ArrayRef = Arc::new(StringArray::from_iter(words));
    RecordBatch::try_from_iter([("n", numbers), ("word", words)]).expect("a batch")
}

/// As a batch, or encoded, with any compression; and a sentinel keeps its name.
pub async fn segments_arrive_as_they_were(arena: &Arena) {
    let queues = arena.open().await;
    let here = place("here");
    let input = queue(&here, "up");
    let session = alone(&queues, &here).await;
    let as_is = Segments::Batch(batch());
    let encoded = |compression| Segments::Encoded(as_is.encode(compression).expect("bytes"));
    let all = [
        as_is.clone(),
        encoded(Compression::None),
        encoded(Compression::Lz4),
        encoded(Compression::Zstd),
    ];
    let body = |segments: &Segments| Body::Segments(segments.clone());
    let outgoing = |body| Outgoing { queue: input.clone(), partition: Some(0), body };
    let mut sends: Vec<_> = all.iter().map(|it| outgoing(body(it))).collect();
    sends.push(outgoing(Body::Sentinel("leader-7".into())));
    session.commit(sending(sends)).await.unwrap();
    for delivery in receive_n(&session, 5).await {
        assert_eq!(delivery.partition, Some(0));
        match delivery.body {
            Body::Segments(segments) => assert_eq!(segments.decode().unwrap(), batch()),
            Body::Sentinel(name) => assert_eq!(name, "leader-7"),
            Body::Note(_) => panic!("no note was sent"),
        }
    }
}
