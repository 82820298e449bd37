//! Small durable values of a task.

use bytes::Bytes;

use super::{
    Arena, alone, depth_becomes, is_lost, note, owner, place, queue, receive_n, roster, sending,
    soon,
};
use crate::{Place, Refused, Transaction};

fn bytes(text: &str) -> Option<Bytes> {
    Some(Bytes::copy_from_slice(text.as_bytes()))
}

/// Written, read, found by how they begin, taken away; each task has its own.
pub async fn keys_are_kept_and_found(arena: &Arena) {
    let queues = arena.open().await;
    let here = place("here");
    let session = alone(&queues, &here).await;
    let odd = "part/ü %.*>/2";
    let puts = vec![
        ("part/1".into(), bytes("one")),
        (odd.into(), bytes("two")),
        ("partly".into(), bytes("")),
        ("other".into(), bytes("other")),
    ];
    session.commit(Transaction { puts, ..Transaction::default() }).await.unwrap();
    assert_eq!(session.get(odd).await.unwrap(), bytes("two"));
    assert_eq!(session.get("partly").await.unwrap(), bytes(""));
    assert_eq!(session.get("part/").await.unwrap(), None);
    let names = |found: Vec<(String, Bytes)>| found.into_iter().map(|(key, _)| key);
    let found: Vec<_> = names(session.scan("part/").await.unwrap()).collect();
    assert_eq!(found, ["part/1", odd]);
    assert_eq!(names(session.scan("").await.unwrap()).count(), 4);
    assert_eq!(names(session.scan("nothing").await.unwrap()).count(), 0);
    // Within one transaction the last word counts.
    let puts =
        vec![("part/1".into(), None), ("other".into(), bytes("a")), ("other".into(), bytes("b"))];
    let expects = vec![("part/1".into(), bytes("one")), ("part/9".into(), None)];
    session.commit(Transaction { puts, expects, ..Transaction::default() }).await.unwrap();
    let found: Vec<_> = names(queues.peek(&here, "part/").await.unwrap()).collect();
    assert_eq!(found, [odd]);
    assert_eq!(session.get("other").await.unwrap(), bytes("b"));
    let sibling = Place { job: here.job.clone(), task: "sibling".into() };
    assert_eq!(queues.peek(&sibling, "").await.unwrap(), []);
    assert_eq!(alone(&queues, &sibling).await.get("other").await.unwrap(), None);
}

/// Of many who expect it to be absent, one writes it.
pub async fn a_write_once_cell_has_one_winner(arena: &Arena) {
    let here = place("here");
    let owners: Vec<_> = (0..8).map(|n| owner(&format!("p{n}"), 1)).collect();
    let all = roster(1, &owners.iter().collect::<Vec<_>>());
    let mut racing = Vec::new();
    for (n, owner) in owners.iter().enumerate() {
        let session = arena.open().await.session(&here, owner, &all).await.unwrap();
        racing.push(tokio::spawn(async move {
            let elect = Transaction {
                expects: vec![("leader".into(), None)],
                puts: vec![("leader".into(), bytes(&n.to_string()))],
                ..Transaction::default()
            };
            let answer = session.commit(elect).await;
            let leader = session.get("leader").await.unwrap();
            (n, answer, leader, session)
        }));
    }
    let mut winners = Vec::new();
    let mut leaders = Vec::new();
    for racer in racing {
        let (n, answer, leader, _session) = soon(racer).await.unwrap();
        match answer {
            Ok(()) => winners.push(n),
            Err(refused) => assert_eq!(refused, Refused::Changed("leader".into())),
        }
        leaders.push(leader);
    }
    assert_eq!(winners.len(), 1, "{winners:?}");
    let elected = bytes(&winners[0].to_string());
    assert!(leaders.iter().all(|leader| *leader == elected), "{leaders:?}");
}

/// Nothing of it is left, and nobody can go on with it; others are not touched.
pub async fn a_job_is_forgotten(arena: &Arena) {
    let queues = arena.open().await;
    let (here, other) = (place("here"), place("other"));
    let (input, of_other) = (queue(&here, "up"), queue(&other, "up"));
    let session = alone(&queues, &here).await;
    let stays = alone(&queues, &other).await;
    let puts = vec![("key".into(), bytes("value"))];
    let sends = vec![note(&input, None, "1"), note(&input, Some(1), "2")];
    session.commit(Transaction { sends, puts, ..Transaction::default() }).await.unwrap();
    stays.commit(sending(vec![note(&of_other, None, "1")])).await.unwrap();
    receive_n(&session, 1).await;
    assert!(queues.jobs().await.unwrap().contains(&here.job));
    queues.forget(&here.job).await.unwrap();
    soon(session.lost()).await;
    assert!(is_lost(&session.commit(Transaction::default()).await));
    let jobs = queues.jobs().await.unwrap();
    assert!(!jobs.contains(&here.job) && jobs.contains(&other.job), "{jobs:?}");
    depth_becomes(&queues, &input, 0, 0).await;
    assert_eq!(queues.peek(&here, "").await.unwrap(), []);
    queues.forget(&here.job).await.unwrap();
    queues.forget("never-heard-of").await.unwrap();
    depth_becomes(&queues, &of_other, 1, 0).await;
    receive_n(&stays, 1).await;
}
