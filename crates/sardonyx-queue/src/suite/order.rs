//! In which order messages come, and how they are counted.

use std::time::Duration;

use super::{
    Arena, alone, depth_becomes, note, place, queue, receive_n, receive_texts, sending, soon, text,
};
use crate::{Body, Transaction};

/// An empty queue is known to be empty only if what is under way counts.
pub async fn depth_counts_what_is_in_flight(arena: &Arena) {
    let queues = arena.open().await;
    let here = place("here");
    let input = queue(&here, "up");
    let session = alone(&queues, &here).await;
    depth_becomes(&queues, &input, 0, 0).await;
    let sends = (0..3).map(|n| note(&input, None, &n.to_string())).collect();
    session.commit(sending(sends)).await.unwrap();
    depth_becomes(&queues, &input, 3, 0).await;
    let held = receive_n(&session, 2).await;
    depth_becomes(&queues, &input, 1, 2).await;
    let acks = vec![held[0].receipt];
    session.commit(Transaction { acks, ..Transaction::default() }).await.unwrap();
    depth_becomes(&queues, &input, 1, 1).await;
    session.release(vec![held[1].receipt]).await.unwrap();
    depth_becomes(&queues, &input, 2, 0).await;
    // To be received from one's own queue, and counted there.
    let held = receive_n(&session, 2).await;
    let acks = held.iter().map(|it| it.receipt).collect();
    let back = Transaction { acks, sends: vec![note(&input, None, "back")], ..Default::default() };
    session.commit(back).await.unwrap();
    depth_becomes(&queues, &input, 1, 0).await;
}

/// To the front, in the old order.
pub async fn what_is_released_keeps_its_place(arena: &Arena) {
    let queues = arena.open().await;
    let here = place("here");
    let input = queue(&here, "up");
    let session = alone(&queues, &here).await;
    let sends = (0..6).map(|n| note(&input, Some(0), &n.to_string())).collect();
    session.commit(sending(sends)).await.unwrap();
    let held = receive_n(&session, 4).await;
    let ids: Vec<_> = held.iter().map(|it| it.id).collect();
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
    // In any order; and what is not ours does no harm.
    let receipts = [2, 0, 1, 3].map(|n: usize| held[n].receipt);
    session.release(receipts.into()).await.unwrap();
    session.release(vec![held[0].receipt]).await.unwrap();
    assert_eq!(receive_texts(&session, 6).await, ["0", "1", "2", "3", "4", "5"]);
}

/// A long queue does not keep a short one waiting.
pub async fn queues_take_turns(arena: &Arena) {
    let queues = arena.open().await;
    let here = place("here");
    let (long, short) = (queue(&here, "a"), queue(&here, "b"));
    let session = alone(&queues, &here).await;
    let mut sends: Vec<_> = (0..100).map(|n| note(&long, None, &n.to_string())).collect();
    sends.extend(["x", "y"].map(|text| note(&short, None, text)));
    sends.extend(["p", "q"].map(|text| note(&long, Some(3), text)));
    session.commit(sending(sends)).await.unwrap();
    let first = receive_texts(&session, 16).await;
    for text in ["0", "x", "p", "1", "y", "q", "2"] {
        assert!(first.iter().any(|it| it == text), "{text} is not among {first:?}");
    }
    let of_long: Vec<u32> = first.iter().filter_map(|text| text.parse().ok()).collect();
    assert!(of_long.is_sorted(), "{of_long:?}");
}

/// Each time that somebody got it.
pub async fn deliveries_are_counted(arena: &Arena) {
    let queues = arena.open().await;
    let here = place("here");
    let session = alone(&queues, &here).await;
    session.commit(sending(vec![note(&queue(&here, "up"), None, "1")])).await.unwrap();
    for attempt in 1..=4 {
        let held = receive_n(&session, 1).await;
        assert_eq!(held[0].attempt, attempt);
        session.release(vec![held[0].receipt]).await.unwrap();
    }
}

/// A thousand receives, dropped after any number of polls.
pub async fn a_dropped_receive_loses_nothing(arena: &Arena) {
    let queues = arena.open().await;
    let here = place("here");
    let input = queue(&here, "up");
    let session = alone(&queues, &here).await;
    let sender = session.clone();
    let sending = tokio::spawn(async move {
        for n in 0..50u32 {
            let sends = vec![note(&input, None, &n.to_string())];
            sender.commit(sending(sends)).await.unwrap();
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    let mut received = Vec::new();
    let mut patience = 0;
    while received.len() < 50 {
        patience = (patience + 137) % 3000;
        let moment = Duration::from_micros(patience);
        if let Ok(some) = tokio::time::timeout(moment, session.receive(3)).await {
            received.extend(some.unwrap());
        }
    }
    soon(sending).await.unwrap();
    let texts: Vec<_> = received.iter().map(text).collect();
    assert_eq!(texts, (0..50).map(|n| n.to_string()).collect::<Vec<_>>());
    assert!(received.iter().all(|it| matches!(it.body, Body::Note(_))));
}
