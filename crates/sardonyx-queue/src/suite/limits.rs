//! What is most, and what happens there.

use std::time::Duration;

use bytes::Bytes;

use super::{Arena, alone, is_silent, note, owner, place, queue, receive_n, roster, sending, soon};
use crate::{
    Body, KEY_BYTES_MAX, NAME_BYTES_MAX, Outgoing, Place, QUEUE_BYTES_MAX, QUEUE_MESSAGES_MAX,
    QueueName, Receipt, Refused, Session, TRANSACTION_BYTES_MAX, TRANSACTION_PARTS_MAX,
    Transaction,
};

fn is_too_large<T>(answer: &Result<T, Refused>) -> bool {
    matches!(answer, Err(Refused::TooLarge(_)))
}

/// Exactly as much as is allowed is taken, one more is refused, and the session goes on.
pub async fn limits_hold_at_their_edges(arena: &Arena) {
    let queues = arena.open().await;
    let here = place("here");
    let input = queue(&here, "up");
    let session = alone(&queues, &here).await;
    let put = |key: usize, value: usize| Transaction {
        puts: vec![("k".repeat(key), Some(Bytes::from(vec![7; value])))],
        ..Transaction::default()
    };
    session.commit(put(KEY_BYTES_MAX, 1)).await.unwrap();
    assert!(is_too_large(&session.commit(put(KEY_BYTES_MAX + 1, 1)).await));
    let value_max = queues.value_bytes_max();
    session.commit(put(1, value_max)).await.unwrap();
    assert_eq!(session.get("k").await.unwrap().map(|value| value.len()), Some(value_max));
    assert!(is_too_large(&session.commit(put(1, value_max + 1)).await));
    let message_max = queues.message_bytes_max();
    let send = |bytes| {
        let body = Body::Note(Bytes::from(vec![7; bytes]));
        sending(vec![Outgoing { queue: input.clone(), partition: None, body }])
    };
    session.commit(send(message_max)).await.unwrap();
    assert!(is_too_large(&session.commit(send(message_max + 1)).await));
    let received = receive_n(&session, 1).await;
    let Body::Note(note) = &received[0].body else { panic!("a note was sent") };
    assert_eq!(note.len(), message_max);
    let acks = vec![received[0].receipt];
    session.commit(Transaction { acks, ..Transaction::default() }).await.unwrap();
    names_have_a_limit(arena, &session, &input).await;
    // A transaction of many parts, and one that is too much as a whole.
    let parts = |n: usize| Transaction { acks: vec![Receipt(0); n], ..Transaction::default() };
    assert_eq!(session.commit(parts(TRANSACTION_PARTS_MAX)).await, Err(Refused::Lost));
    assert!(is_too_large(&session.commit(parts(TRANSACTION_PARTS_MAX + 1)).await));
    let value = Bytes::from(vec![7; value_max]);
    let n = TRANSACTION_BYTES_MAX / value_max + 1;
    let puts = (0..n).map(|n| (n.to_string(), Some(value.clone()))).collect();
    assert!(is_too_large(&session.commit(Transaction { puts, ..Transaction::default() }).await));
    assert_eq!(session.get("0").await.unwrap(), None);
}

async fn names_have_a_limit(arena: &Arena, session: &Session, input: &QueueName) {
    let queues = arena.open().await;
    let name = |n: usize| "n".repeat(n);
    let long = QueueName { from: name(NAME_BYTES_MAX), ..input.clone() };
    session.commit(sending(vec![note(&long, None, "long")])).await.unwrap();
    assert_eq!(receive_n(session, 1).await[0].queue, long);
    let longer = QueueName { from: name(NAME_BYTES_MAX + 1), ..input.clone() };
    assert!(is_too_large(&session.commit(sending(vec![note(&longer, None, "")])).await));
    let peer = owner(&name(NAME_BYTES_MAX), 1);
    let here = Place { job: input.job.clone(), task: name(NAME_BYTES_MAX) };
    queues.session(&here, &peer, &roster(1, &[&peer])).await.unwrap();
    let there = Place { job: input.job.clone(), task: name(NAME_BYTES_MAX + 1) };
    assert!(is_too_large(&queues.session(&there, &peer, &roster(1, &[&peer])).await));
    let peer = owner(&name(NAME_BYTES_MAX + 1), 1);
    assert!(is_too_large(&queues.announce(&here, &roster(2, &[&peer])).await));
}

/// By the number of messages and by their bytes; whoever waits goes on as soon as there is room.
pub async fn a_full_queue_makes_senders_wait(arena: &Arena) {
    let queues = arena.open().await;
    let (here, there) = (place("here"), place("there"));
    let output = queue(&there, "here");
    let (sender, receiver) = (alone(&queues, &here).await, alone(&queues, &there).await);
    let room = |sender: &Session| {
        let (sender, output) = (sender.clone(), output.clone());
        async move { sender.room(&[output]).await }
    };
    let is_full = async || tokio::time::timeout(Duration::from_millis(300), room(&sender)).await;
    let bytes = (queues.message_bytes_max() / 2).min(QUEUE_BYTES_MAX as usize / 2) as u64;
    let full_of_bytes: Vec<_> = vec![bytes; QUEUE_BYTES_MAX.div_ceil(bytes) as usize];
    let full_of_messages = vec![1; QUEUE_MESSAGES_MAX as usize];
    for sizes in [full_of_bytes, full_of_messages] {
        let n = sizes.len();
        for (index, bytes) in sizes.into_iter().enumerate() {
            if index + 1 == n || index % 512 == 0 {
                soon(room(&sender)).await.unwrap();
            }
            let body = Body::Note(Bytes::from(vec![7; bytes as usize]));
            let sends = vec![Outgoing { queue: output.clone(), partition: None, body }];
            sender.commit(sending(sends)).await.unwrap();
        }
        assert!(is_full().await.is_err(), "{n} messages fill it");
        let first = receive_n(&receiver, 1).await;
        assert!(is_full().await.is_err(), "what is in flight takes room");
        let waiting = tokio::spawn(room(&sender));
        let acks = vec![first[0].receipt];
        receiver.commit(Transaction { acks, ..Transaction::default() }).await.unwrap();
        soon(waiting).await.unwrap().unwrap();
        let rest = receive_n(&receiver, n - 1).await;
        let acks = rest.iter().map(|it| it.receipt).collect();
        receiver.commit(Transaction { acks, ..Transaction::default() }).await.unwrap();
    }
    assert!(is_silent(&receiver).await);
}
