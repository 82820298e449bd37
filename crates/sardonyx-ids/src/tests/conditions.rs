//! Every condition of every transaction: where it alone does not hold, the transaction is refused;
//! without it, it is carried out. So none of them can be left out unnoticed.

use sardonyx_store::{Txn, Version, Write};

use super::world::{FakeStore, keys};
use crate::{
    layout::EPOCH,
    lease::{
        Answer,
        record::{FLOOR, Fresh, Live, retired_key},
        write::{self, Basis, Hold},
    },
};

fn live() -> Live {
    Live { owner: "a".into(), name: String::new(), since: EPOCH }
}

fn fresh(until: u64) -> Fresh {
    Fresh {
        until,
        from: EPOCH,
        owner: "a".into(),
        attempt: "1".into(),
        offset: 0,
        is_released: false,
    }
}

fn put(store: &mut FakeStore, key: &str) -> Version {
    let then = vec![Write::Put(key.into(), bytes::Bytes::from_static(b"1"))];
    match store.commit(&Txn { when: vec![], then }, None) {
        Answer::Done(versions) => versions[0],
        other => panic!("{other:?}"),
    }
}

/// Only the condition on `key` does not hold in `store`.
fn only_one_refuses(mut store: FakeStore, txn: &Txn, session: Option<u32>, key: &str) {
    assert_eq!(store.commit(txn, session), Answer::Refused, "{key}");
    let when: Vec<_> = txn.when.iter().filter(|it| it.key() != key).cloned().collect();
    assert_eq!(when.len() + 1, txn.when.len(), "{key} is asked once");
    let weaker = Txn { when, then: txn.then.clone() };
    assert!(matches!(store.commit(&weaker, session), Answer::Done(_)), "{key}");
}

#[test]
fn each_condition_of_a_claim() {
    let ((live_key, fresh_key), retired) = (keys(5), retired_key(5));
    for broken in [live_key.as_str(), &fresh_key, FLOOR, &retired] {
        let mut store = FakeStore::default();
        let session = Some(store.open_session());
        let (fresh_version, floor) = (put(&mut store, &fresh_key), put(&mut store, FLOOR));
        let basis = Basis { number: 5, live: None, fresh: Some(fresh_version), floor: Some(floor) };
        let txn = write::claim(basis, &live(), &fresh(EPOCH + 9));
        assert!(matches!(store.clone().commit(&txn, session), Answer::Done(_)));
        put(&mut store, broken);
        only_one_refuses(store, &txn, session, broken);
    }
}

#[test]
fn each_condition_of_an_extension_and_a_release() {
    let (live_key, fresh_key) = keys(5);
    for broken in [&live_key, &fresh_key] {
        let mut store = FakeStore::default();
        let live = put(&mut store, &live_key);
        let hold = Hold { number: 5, live, fresh: put(&mut store, &fresh_key) };
        let extend = write::extend(hold, &fresh(EPOCH + 9));
        let release = write::release(hold, &fresh(EPOCH + 9));
        put(&mut store, broken);
        only_one_refuses(store.clone(), &extend, None, broken);
        only_one_refuses(store, &release, None, broken);
    }
}

/// R7: an extension that was delayed past a newer one, a clean stop, a successor with a slow clock.
#[test]
fn a_late_extension_does_not_move_the_mark() {
    let (live_key, fresh_key) = keys(5);
    let mut store = FakeStore::default();
    let live = put(&mut store, &live_key);
    let hold = Hold { number: 5, live, fresh: put(&mut store, &fresh_key) };
    let late = write::extend(hold, &fresh(EPOCH + 1000));
    let Answer::Done(done) = store.commit(&write::extend(hold, &fresh(EPOCH + 2000)), None) else {
        panic!("the first extension");
    };
    assert_eq!(store.commit(&late, None), Answer::Refused);
    let hold = Hold { fresh: done[0], ..hold };
    let release = write::release(hold, &fresh(EPOCH + 1500));
    assert!(matches!(store.commit(&release, None), Answer::Done(_)));
    assert_eq!(store.commit(&late, None), Answer::Refused);
    assert_eq!(store.mark(5), EPOCH + 1500);
}
