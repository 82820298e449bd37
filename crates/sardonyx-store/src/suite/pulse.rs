//! Scenarios of pulses: they end when their owner does, and not before.

use std::time::{Duration, Instant};

use super::{Arena, Child, labelled, peer, soon};

/// How much later than a session's timeout its end may be noticed, beside a fifth of the timeout:
/// stores look at their sessions every so often, and these machines are small and busy.
const SLACK: Duration = Duration::from_millis(600);

fn bound(timeout: Duration) -> Duration {
    timeout + timeout / 5 + SLACK
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
    session.abandon();
    let since = Instant::now();
    soon(watcher.watch_pulse(&silent)).await.expect("it ended");
    let took = since.elapsed();
    eprintln!("silent: {took:?} of {timeout:?}");
    assert!(took >= timeout / 2 && took <= bound(timeout), "{took:?} of {timeout:?}");
}

/// kill -9, where other processes can have a pulse at all.
pub async fn a_killed_process_loses_its_pulse(arena: &Arena) {
    let Some(url) = arena.url_for_others() else { return };
    let store = arena.open().await;
    let killed = peer("killed");
    let mut child = Child::holding(url, &killed, arena.session_timeout());
    let timeout = child.granted();
    assert_eq!(store.alive(&killed).await, Ok(true));
    child.signal("KILL");
    let since = Instant::now();
    soon(store.watch_pulse(&killed)).await.expect("it ended");
    let took = since.elapsed();
    eprintln!("killed: {took:?} of {timeout:?}");
    assert!(took <= bound(timeout), "{took:?} of {timeout:?}");
}

/// A process that stands still for longer than its timeout loses its pulse and, when it goes on,
/// hears so before anything else. One that stands still for less does not.
pub async fn a_paused_process_loses_its_pulse(arena: &Arena) {
    let Some(url) = arena.url_for_others() else { return };
    let store = arena.open().await;
    let paused = peer("paused");
    let mut child = Child::holding(url, &paused, arena.session_timeout());
    let timeout = child.granted();
    child.signal("STOP");
    tokio::time::sleep(timeout / 4).await;
    child.signal("CONT");
    tokio::time::sleep(timeout * 5 / 4).await;
    assert_eq!(store.alive(&paused).await, Ok(true), "a short pause");
    child.signal("STOP");
    let since = Instant::now();
    soon(store.watch_pulse(&paused)).await.expect("it ended");
    let took = since.elapsed();
    eprintln!("paused: {took:?} of {timeout:?}");
    assert!(took <= bound(timeout), "{took:?} of {timeout:?}");
    child.signal("CONT");
    let resumed = Instant::now();
    assert_eq!(child.line(), "lost");
    let heard = resumed.elapsed();
    assert!(heard <= Duration::from_secs(2), "it heard after {heard:?}");
}

/// Both cores are busy and the log is full of appends: the pulse goes on.
pub async fn load_ends_no_pulse(arena: &Arena) {
    let (owner, other) = (arena.open().await, arena.open().await);
    let session = owner.session(arena.session_timeout()).await.expect("a session");
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
    while Instant::now() < until {
        assert_eq!(other.alive(&busy).await, Ok(true));
        assert!(!session.is_lost());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    lanes.join_all().await;
    burners.into_iter().for_each(|burner| drop(burner.join()));
    session.close().await.expect("a close");
}
