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

/// Who draws after it has heard of an id draws a larger one, whoever held the block.
#[test]
fn loom_ids_grow_from_thread_to_thread() {
    // Three switches in the middle of something are enough to come between any two looks.
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let shared = shared();
        let heard = Arc::new(loom::sync::atomic::AtomicU64::new(0));
        let (other, told) = (Arc::clone(&shared), Arc::clone(&heard));
        let taker = thread::spawn(move || {
            let first = other.next().map(Id::bits).unwrap_or(0);
            told.store(first, loom::sync::atomic::Ordering::Release);
        });
        // Twice, so that ours is a block with something left in it.
        let mine = [shared.next(), shared.next()].map(|id| id.map(Id::bits).unwrap_or(0));
        let theirs = heard.load(loom::sync::atomic::Ordering::Acquire);
        let next = shared.next().map(Id::bits).unwrap_or(u64::MAX);
        assert!(mine[0] < mine[1] && mine[1] < next, "our own ids grow");
        assert!(theirs < next, "{next:x} after {theirs:x}");
        taker.join().expect("a thread");
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
