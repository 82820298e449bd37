//! Who may work, and what happens to what others had.

use bytes::Bytes;

use super::{
    Arena, alone, depth_becomes, is_lost, is_silent, note, owner, place, queue, receive_n,
    receive_texts, roster, sending, soon, text,
};
use crate::Transaction;

/// An owner that is not on the newest roster can commit nothing, and what it had goes to others, in
/// its old order.
pub async fn who_left_is_fenced(arena: &Arena) {
    let (here, a, b) = (place("here"), owner("a", 1), owner("b", 2));
    let input = queue(&here, "up");
    let queues = arena.open().await;
    let old = queues.session(&here, &a, &roster(1, &[&a])).await.unwrap();
    let sends = ["1", "2", "3", "4"].map(|text| note(&input, None, text)).into();
    old.commit(sending(sends)).await.unwrap();
    let held = receive_n(&old, 3).await;
    let others = arena.open().await;
    let new = others.session(&here, &b, &roster(2, &[&b])).await.unwrap();
    soon(old.lost()).await;
    let late = Transaction {
        acks: vec![held[0].receipt],
        puts: vec![("key".into(), Some(Bytes::from_static(b"late")))],
        sends: vec![note(&input, None, "late")],
        ..Transaction::default()
    };
    assert!(is_lost(&old.commit(late).await));
    let only_keys = vec![("key".into(), Some(Bytes::from_static(b"late")))];
    assert!(is_lost(&old.commit(Transaction { puts: only_keys, ..Default::default() }).await));
    assert!(is_lost(&old.receive(1).await));
    assert!(is_lost(&old.get("key").await));
    assert!(is_lost(&old.room(std::slice::from_ref(&input)).await));
    let received = receive_n(&new, 4).await;
    let texts: Vec<_> = received.iter().map(text).collect();
    assert_eq!(texts, ["1", "2", "3", "4"]);
    let attempts: Vec<_> = received.iter().map(|it| it.attempt).collect();
    assert_eq!(attempts, [2, 2, 2, 1]);
    assert_eq!(new.get("key").await.unwrap(), None);
    // Nor may it come back.
    assert!(is_lost(&queues.session(&here, &a, &roster(1, &[&a])).await));
    // The same peer, given the task again, is another owner.
    let again = owner("a", 3);
    queues.session(&here, &again, &roster(3, &[&b, &again])).await.unwrap();
}

/// News from before what is known is no news.
pub async fn an_old_roster_changes_nothing(arena: &Arena) {
    let (here, a, b) = (place("here"), owner("a", 1), owner("b", 2));
    let queues = arena.open().await;
    let session = queues.session(&here, &a, &roster(5, &[&a, &b])).await.unwrap();
    session.commit(sending(vec![note(&queue(&here, "up"), None, "1")])).await.unwrap();
    let held = receive_n(&session, 1).await;
    queues.announce(&here, &roster(4, &[&b])).await.unwrap();
    queues.announce(&here, &roster(5, &[&b])).await.unwrap();
    let acks = vec![held[0].receipt];
    session.commit(Transaction { acks, ..Transaction::default() }).await.unwrap();
    // Whoever has heard less than the queues is taken at its word if it is still on the roster.
    queues.session(&here, &b, &roster(2, &[&b])).await.unwrap();
    // And one that is on no roster that is known is not let in.
    let c = owner("c", 6);
    assert!(is_lost(&queues.session(&here, &c, &roster(4, &[&c])).await));
    assert!(is_lost(&queues.session(&here, &c, &roster(6, &[&a])).await));
}

/// Partitions go to whom the roster gives them, with what was in flight from them.
pub async fn partitions_move(arena: &Arena) {
    let (here, a, b) = (place("here"), owner("a", 1), owner("b", 2));
    let input = queue(&here, "up");
    let queues = arena.open().await;
    let first = queues.session(&here, &a, &roster(1, &[&a])).await.unwrap();
    let sends = (0..8u16).map(|n| note(&input, Some(n % 4), &n.to_string())).collect();
    first.commit(sending(sends)).await.unwrap();
    let held = receive_n(&first, 8).await;
    let others = arena.open().await;
    let second = others.session(&here, &b, &roster(2, &[&a, &b])).await.unwrap();
    // 1 and 3 are now b's: their messages come again, in order within each.
    let moved = receive_n(&second, 4).await;
    let of = |partition| -> Vec<String> {
        let of = moved.iter().filter(|it| it.partition == Some(partition));
        of.map(text).collect()
    };
    assert_eq!((of(1), of(3)), (vec!["1".into(), "5".into()], vec!["3".into(), "7".into()]));
    assert!(is_silent(&second).await);
    let receipt = |text_: &str| held.iter().find(|it| text(it) == text_).unwrap().receipt;
    let taken = Transaction { acks: vec![receipt("0"), receipt("1")], ..Transaction::default() };
    assert!(is_lost(&first.commit(taken).await));
    // What stayed is still ours.
    let kept = vec![receipt("0"), receipt("2"), receipt("4"), receipt("6")];
    let kept = Transaction { acks: kept, ..Transaction::default() };
    let kept = first.commit(kept).await;
    // A backend may end the whole session when a partition is taken from it.
    if is_lost(&kept) {
        let again = queues.session(&here, &a, &roster(2, &[&a, &b])).await.unwrap();
        let rest = receive_n(&again, 4).await;
        let acks = rest.iter().map(|it| it.receipt).collect();
        again.commit(Transaction { acks, ..Transaction::default() }).await.unwrap();
    } else {
        kept.unwrap();
    }
    depth_becomes(&queues, &input, 0, 4).await;
}

/// What lies in partitions of an owner that has not come yet is there when it comes, although
/// others of its process have looked past it.
pub async fn a_late_owner_finds_its_partitions(arena: &Arena) {
    let (here, a, b) = (place("here"), owner("a", 1), owner("b", 1));
    let input = queue(&here, "up");
    let queues = arena.open().await;
    let both = roster(1, &[&a, &b]);
    let first = queues.session(&here, &a, &both).await.unwrap();
    let sends = (0..8u16).map(|n| note(&input, Some(n % 4), &n.to_string())).collect();
    first.commit(sending(sends)).await.unwrap();
    let ours = receive_n(&first, 4).await;
    assert!(is_silent(&first).await);
    let second = queues.session(&here, &b, &both).await.unwrap();
    let theirs = receive_n(&second, 4).await;
    let mut partitions: Vec<_> = theirs.iter().filter_map(|it| it.partition).collect();
    partitions.sort_unstable();
    assert_eq!(partitions, [1, 1, 3, 3]);
    // The same owner once more, on the same roster: what it had is there again.
    drop(second);
    let again = queues.session(&here, &b, &both).await.unwrap();
    assert_eq!(receive_n(&again, 4).await.len(), 4);
    assert_eq!(ours.len(), 4);
    depth_becomes(&queues, &input, 0, 8).await;
}

/// What a lost connection left behind does not hold anything up.
pub async fn a_newer_session_ends_the_older(arena: &Arena) {
    let here = place("here");
    let older = alone(&arena.open().await, &here).await;
    older.commit(sending(vec![note(&queue(&here, "up"), None, "1")])).await.unwrap();
    let held = receive_n(&older, 1).await;
    let newer = alone(&arena.open().await, &here).await;
    soon(older.lost()).await;
    let acks = vec![held[0].receipt];
    assert!(is_lost(&older.commit(Transaction { acks, ..Transaction::default() }).await));
    assert_eq!(receive_texts(&newer, 1).await, ["1"]);
    // Its end is not ours.
    drop(older);
    newer.commit(Transaction::default()).await.unwrap();
}

/// Closed, or the last clone dropped.
pub async fn a_closed_session_gives_back(arena: &Arena) {
    let (here, a, b) = (place("here"), owner("a", 1), owner("b", 1));
    let input = queue(&here, "up");
    let queues = arena.open().await;
    let both = roster(1, &[&a, &b]);
    let first = queues.session(&here, &a, &both).await.unwrap();
    let second = queues.session(&here, &b, &both).await.unwrap();
    first.commit(sending(vec![note(&input, None, "1"), note(&input, None, "2")])).await.unwrap();
    receive_n(&first, 2).await;
    let clone = first.clone();
    drop(first);
    assert!(is_silent(&second).await);
    drop(clone);
    let held = receive_n(&second, 2).await;
    assert_eq!(held.iter().map(text).collect::<Vec<_>>(), ["1", "2"]);
    second.close().await;
    soon(second.lost()).await;
    assert!(is_lost(&second.commit(Transaction::default()).await));
    depth_becomes(&queues, &input, 2, 0).await;
}
