//! Scenarios of cells, items and leases.

use bytes::Bytes;
use tokio::time::{Instant, sleep};

use super::{Arena, SOON};
use crate::{Committed, Condition, Error, Session, Store, Txn, Version, Write};

/// Sixteen try to fill a cell: one does, and all of them hear the same.
pub async fn a_cell_has_one_winner(arena: &Arena) {
    let mut racers = tokio::task::JoinSet::new();
    for n in 0..16 {
        let store = arena.open().await;
        racers.spawn(async move { store.fill_cell("leader of job/1", format!("{n}")).await });
    }
    let results = racers.join_all().await;
    let results: Vec<_> = results.into_iter().map(|it| it.expect("an answer")).collect();
    assert!(results.iter().all(|it| *it == results[0]), "{results:?}");
    let store = arena.open().await;
    assert_eq!(store.cell("leader of job/1").await, Ok(Some(results[0].clone())));
    assert_eq!(store.cell("nobody's").await, Ok(None));
}

fn put(key: &str, value: &'static str) -> Write {
    Write::Put(key.into(), Bytes::from_static(value.as_bytes()))
}

async fn commit(store: &Store, when: Vec<Condition>, then: Vec<Write>) -> Committed {
    store.commit(&Txn { when, then }).await.expect("an answer")
}

fn version(committed: Committed, index: usize) -> Version {
    match committed {
        Committed::Done(versions) => versions[index],
        Committed::Refused => panic!("it was refused"),
    }
}

/// A version that has passed never comes back, not even when the item is deleted and written anew.
pub async fn versions_never_repeat(arena: &Arena) {
    let store = arena.open().await;
    let absent = || Condition::Absent("k/1".into());
    let first = version(commit(&store, vec![absent()], vec![put("k/1", "a")]).await, 0);
    assert_eq!(commit(&store, vec![absent()], vec![put("k/1", "b")]).await, Committed::Refused);
    let is = |version| vec![Condition::Is("k/1".into(), version)];
    let second = version(commit(&store, is(first), vec![put("k/1", "c")]).await, 0);
    assert!(second > first);
    // Both or neither: the second condition is stale, so the first write does not happen either.
    let stale = vec![Condition::Absent("k/2".into()), Condition::Is("k/1".into(), first)];
    let both = vec![put("k/2", "x"), put("k/1", "y")];
    assert_eq!(commit(&store, stale, both).await, Committed::Refused);
    let items = store.items("k/").await.expect("a read");
    assert_eq!(items.len(), 1);
    assert_eq!((items[0].value.as_ref(), items[0].version), (b"c".as_ref(), second));
    commit(&store, vec![], vec![Write::Delete("k/1".into())]).await;
    assert_eq!(store.items("k/").await, Ok(vec![]));
    let third = version(commit(&store, vec![absent()], vec![put("k/1", "d")]).await, 0);
    assert!(third > second, "{third:?} after {second:?}");
    assert_eq!(commit(&store, is(second), vec![put("k/1", "e")]).await, Committed::Refused);
}

/// Claims number 7 as the ids do: the liveness key hangs on the session, the freshness key stays.
async fn claim(session: &Session, fresh: Option<Version>) -> Option<(Version, Version)> {
    let fresh = match fresh {
        Some(version) => Condition::Is("fresh/7".into(), version),
        None => Condition::Absent("fresh/7".into()),
    };
    let txn = Txn {
        when: vec![Condition::Absent("live/7".into()), fresh],
        then: vec![Write::Lease("live/7".into(), Bytes::from("me")), put("fresh/7", "100")],
    };
    match session.commit(&txn).await.expect("an answer") {
        Committed::Done(versions) => Some((versions[0], versions[1])),
        Committed::Refused => None,
    }
}

/// A lease expires; a new holder takes over; the old one's conditional writes all fail.
pub async fn an_old_holder_cannot_write(arena: &Arena) {
    let (ours, theirs) = (arena.open().await, arena.open().await);
    let old = ours.session(arena.session_timeout()).await.expect("a session");
    let new = theirs.session(arena.session_timeout()).await.expect("a session");
    let (live, fresh) = claim(&old, None).await.expect("the first claim");
    assert_eq!(claim(&new, Some(fresh)).await, None, "it is taken");
    let extend = |live, fresh| Txn {
        when: vec![Condition::Is("live/7".into(), live), Condition::Is("fresh/7".into(), fresh)],
        then: vec![put("fresh/7", "200")],
    };
    let extended = old.commit(&extend(live, fresh)).await.expect("an answer");
    let extended = version(extended, 0);
    let delayed = old.commit(&extend(live, fresh)).await;
    assert_eq!(delayed, Ok(Committed::Refused), "an extension that comes late");
    let timeout = old.timeout();
    old.abandon();
    let silent = Instant::now();
    let claimed = loop {
        assert!(silent.elapsed() < SOON, "the lease expires");
        match claim(&new, Some(extended)).await {
            Some(claimed) => break claimed,
            None => sleep(timeout / 20).await,
        }
    };
    assert!(silent.elapsed() > timeout / 2, "not before its time: {:?}", silent.elapsed());
    // The old holder writes through a handle that is still good, so only the conditions stop it.
    assert_eq!(ours.commit(&extend(live, extended)).await, Ok(Committed::Refused));
    assert_eq!(ours.commit(&extend(live, claimed.1)).await, Ok(Committed::Refused));
    let mixed = ours.commit(&extend(claimed.0, extended)).await;
    assert_eq!(mixed, Ok(Committed::Refused));
    new.close().await.expect("a close");
    let items = ours.items("").await.expect("a read");
    let keys: Vec<_> = items.iter().map(|item| item.key.as_str()).collect();
    assert!(!keys.contains(&"live/7") && keys.contains(&"fresh/7"), "{keys:?}");
    let outside = Txn { when: vec![], then: vec![Write::Lease("live/7".into(), Bytes::new())] };
    assert!(matches!(ours.commit(&outside).await, Err(Error::NotConfigured(_))));
}
