//! Scenarios of pulses: they end when their owner does, and not before.

use std::time::{Duration, Instant};

use super::{Arena, Child, labelled, peer, soon, stalls::Stalls};
use crate::{Session, Store};

/// How much later than a session's timeout its end may be noticed, beside a fifth of the timeout:
/// stores look at their sessions every so often, and these machines are small and busy.
const SLACK: Duration = Duration::from_millis(600);

/// Checks that an end was noticed in time. Where the machine stood still, so may have the store,
/// this test, and whoever should have told the other, one after the other.
fn check_in_time(what: &str, took: Duration, timeout: Duration, stalls: &Stalls) {
    let stall = stalls.longest();
    let bound = timeout + timeout / 5 + SLACK + 4 * stall;
    eprintln!("{what}: {took:?} of {timeout:?}, stalls up to {stall:?}");
    assert!(took <= bound, "{what}: {took:?} of {timeout:?}, stalls up to {stall:?}");
}

/// More watches than any store serves at once for one client.
const WATCHES: usize = 4_096;

const WATCHES_AT_ONCE: usize = 256;

/// The timeout of a session that ends if its store does not hear it, and not if the machine stands still
/// for a moment: less than it takes to give up a connection without answers.
const STAYS: Duration = Duration::from_secs(8);

/// How often something is tried that a machine which stands still can spoil.
const TRIES: u32 = 6;

/// Whether the machine stood still for so long that a session may have ended without a fault of
/// anybody; said aloud, since the try then counts for nothing.
fn is_void(what: &str, try_: u32, timeout: Duration, stalls: &Stalls) -> bool {
    let stall = stalls.longest();
    let is_void = stall > timeout / 8 && try_ + 1 < TRIES;
    if is_void {
        eprintln!("{what}: void, the machine stood still for {stall:?}; once more");
    }
    is_void
}

/// Whoever stops waiting leaves nothing behind: peers come and go beside one who stays, and each time
/// somebody else watches it.
pub async fn watches_that_were_given_up_are_over(arena: &Arena) {
    let store = arena.open().await;
    let session = store.session(STAYS).await.expect("a session");
    let stays = peer("stays");
    session.pulse(&stays).await.expect("a pulse");
    let mut n_given_up = 0;
    while n_given_up <= WATCHES {
        let mut watches = tokio::task::JoinSet::new();
        for _ in 0..WATCHES_AT_ONCE {
            let (store, stays) = (store.clone(), stays.clone());
            watches.spawn(async move { store.watch_pulse(&stays).await });
        }
        // So that the last of them has been asked for.
        tokio::time::sleep(Duration::from_millis(100)).await;
        n_given_up += watches.len();
        watches.shutdown().await;
    }
    assert_eq!(soon(store.alive(&stays)).await, Ok(true), "after {n_given_up} watches");
    session.end_pulse(&stays).await.expect("an end");
    soon(store.watch_pulse(&stays)).await.expect("it ended");
}

/// Ended on purpose, closed, dropped, or silent.
pub async fn a_pulse_ends_with_its_owner(arena: &Arena) {
    let (owner, watcher) = (arena.open().await, arena.open().await);
    let session = owner.session(arena.session_timeout()).await.expect("a session");
    let [ended, closed, dropped, silent] = ["ended", "closed", "dropped", "silent"].map(peer);
    assert_eq!(watcher.alive(&ended).await, Ok(false));
    soon(watcher.watch_pulse(&ended)).await.expect("nothing to wait for");

    session.pulse(&ended).await.expect("a pulse");
    session.pulse(&ended).await.expect("a pulse again");
    session.pulse(&closed).await.expect("a pulse");
    assert_eq!(watcher.alive(&ended).await, Ok(true));
    session.end_pulse(&ended).await.expect("an end");
    soon(watcher.watch_pulse(&ended)).await.expect("it ended");
    assert_eq!(watcher.alive(&closed).await, Ok(true), "the other one goes on");

    let watching = watcher.watch_pulse(&closed);
    let (end, close) = tokio::join!(soon(watching), session.close());
    end.and(close).expect("it ended");

    let session = owner.session(arena.session_timeout()).await.expect("a session");
    session.pulse(&dropped).await.expect("a pulse");
    drop(session);
    soon(watcher.watch_pulse(&dropped)).await.expect("it ended");

    let session = owner.session(arena.session_timeout()).await.expect("a session");
    let timeout = session.timeout();
    session.pulse(&silent).await.expect("a pulse");
    let (stalls, since) = (Stalls::measure(), Instant::now());
    session.abandon();
    soon(watcher.watch_pulse(&silent)).await.expect("it ended");
    let took = since.elapsed();
    check_in_time("silent", took, timeout, &stalls);
    assert!(took + 4 * stalls.longest() >= timeout / 2, "{took:?} of {timeout:?}");
}

/// kill -9, where other processes can have a pulse at all.
pub async fn a_killed_process_loses_its_pulse(arena: &Arena) {
    let Some(url) = arena.url_for_others() else { return };
    let store = arena.open().await;
    let killed = peer("killed");
    let mut child = Child::holding(url, &killed, arena.session_timeout());
    let timeout = child.granted();
    assert_eq!(store.alive(&killed).await, Ok(true));
    let (stalls, since) = (Stalls::measure(), Instant::now());
    child.signal("KILL");
    soon(store.watch_pulse(&killed)).await.expect("it ended");
    check_in_time("killed", since.elapsed(), timeout, &stalls);
}

/// A process that stands still for longer than its timeout loses its pulse and, when it goes on,
/// hears so before anything else. One that stands still for less does not.
pub async fn a_paused_process_loses_its_pulse(arena: &Arena) {
    let Some(url) = arena.url_for_others() else { return };
    let store = arena.open().await;
    let paused = peer("paused");
    let mut try_ = 0;
    let (mut child, timeout) = loop {
        let mut child = Child::holding(url, &paused, arena.session_timeout());
        let timeout = child.granted();
        let stalls = Stalls::measure();
        child.signal("STOP");
        tokio::time::sleep(timeout / 4).await;
        child.signal("CONT");
        tokio::time::sleep(timeout * 5 / 4).await;
        let is_alive = store.alive(&paused).await.expect("an answer");
        if is_alive {
            break (child, timeout);
        }
        assert!(is_void("a short pause", try_, timeout, &stalls), "a short pause ends nothing");
        try_ += 1;
    };
    let (stalls, since) = (Stalls::measure(), Instant::now());
    child.signal("STOP");
    soon(store.watch_pulse(&paused)).await.expect("it ended");
    check_in_time("paused", since.elapsed(), timeout, &stalls);
    let resumed = Instant::now();
    child.signal("CONT");
    assert_eq!(child.line(), "lost");
    let heard = resumed.elapsed();
    assert!(heard <= Duration::from_secs(2) + 4 * stalls.longest(), "it heard after {heard:?}");
}

/// Both cores are busy and the log is full of appends: the pulse goes on.
pub async fn load_ends_no_pulse(arena: &Arena) {
    let (owner, other) = (arena.open().await, arena.open().await);
    for try_ in 0..TRIES {
        let session = owner.session(arena.session_timeout()).await.expect("a session");
        let stalls = Stalls::measure();
        if goes_on_under_load(&session, &other).await {
            return session.close().await.expect("a close");
        }
        let is_void = is_void("load", try_, session.timeout(), &stalls);
        assert!(is_void, "the pulse ended, with stalls up to {:?}", stalls.longest());
    }
}

/// Whether the pulse goes on for three timeouts.
async fn goes_on_under_load(session: &Session, other: &Store) -> bool {
    let busy = peer("busy");
    session.pulse(&busy).await.expect("a pulse");
    let until = Instant::now() + 3 * session.timeout();
    let burners = [(); 2].map(|()| {
        std::thread::spawn(move || {
            let mut n = 1_u64;
            while Instant::now() < until {
                n = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ n >> 7;
            }
            n
        })
    });
    let mut lanes = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let other = other.clone();
        lanes.spawn(async move {
            while Instant::now() < until {
                other.append(&labelled("load")).await.expect("an append");
            }
        });
    }
    let mut goes_on = true;
    while goes_on && Instant::now() < until {
        goes_on = other.alive(&busy).await.expect("an answer") && !session.is_lost();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    lanes.join_all().await;
    burners.into_iter().for_each(|burner| drop(burner.join()));
    goes_on
}
