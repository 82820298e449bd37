//! The shared block in every order that the memory model allows.

use loom::{sync::Arc, thread};

use crate::{Clock, EPOCH, Id, Layout, Shared, Slack};

struct Still;

impl Clock for Still {
    fn now(&self) -> u64 {
        EPOCH + 5
    }
}

fn shared() -> Arc<Shared<Still>> {
    let shared = Shared::new(Layout::default(), Slack::default(), Still);
    shared.open(1, EPOCH + 5, EPOCH + 100);
    Arc::new(shared)
}

fn all_differ(mut ids: Vec<Id>) {
    let n = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), n, "an id twice");
}

#[test]
fn loom_two_takers() {
    loom::model(|| {
        let shared = shared();
        let other = Arc::clone(&shared);
        let taker = thread::spawn(move || [other.next(), other.next()]);
        let mut ids = vec![shared.next(), shared.next()];
        ids.extend(taker.join().expect("a thread"));
        all_differ(ids.into_iter().flatten().collect());
    });
}

#[test]
fn loom_a_taker_and_a_new_term() {
    loom::model(|| {
        let shared = shared();
        let other = Arc::clone(&shared);
        let keeper = thread::spawn(move || {
            let used = other.seal();
            other.open(2, EPOCH + 5, EPOCH + 100);
            (used, other.next())
        });
        let mut ids = vec![shared.next(), shared.next()];
        let (used, id) = keeper.join().expect("a thread");
        ids.push(id);
        let layout = shared.layout();
        for id in ids.iter().flatten() {
            let parts = layout.decode(*id);
            assert!(parts.worker == 2 || parts.time < used, "an id of a sealed term");
        }
        all_differ(ids.into_iter().flatten().collect());
    });
}
