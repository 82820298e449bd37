//! Scenarios of the log: one order, nothing lost, nothing twice, no gaps.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use sardonyx_core::{Position, Replica, wire::Unreadable};

use super::{Arena, labelled, read, read_all, soon};
use crate::{Delivery, ENTRY_BYTES_MAX, Error, Origin, Raw, Read, Seen, Start, Store, Token};

/// Many writers at once, readers that come early and late: everybody sees one order.
pub async fn all_readers_see_one_order(arena: &Arena) {
    let early = arena.open().await;
    let mut early = early.subscribe(Start::Origin);
    let acknowledged = write(arena, 4, 250).await;
    let n = acknowledged.len();
    let entries = soon(read(&mut early, n)).await.expect("the log is read");
    for _ in 0..2 {
        assert_eq!(read_all(&arena.open().await, n).await, entries, "a late reader");
    }
    check(&entries, &acknowledged);
    assert_eq!(arena.open().await.end().await, Ok(entries.last().map(|entry| entry.0)));
}

/// The store is restarted under writers and readers; in the end nothing is missing or twice.
pub async fn nothing_is_lost_or_doubled_across_reconnects(arena: &Arena) {
    write_and_compare(arena, 4, 150, 3).await;
}

/// Writes while the arena is disturbed `rounds` times, then compares what three readers saw: one
/// from before the storm, one that began in the middle of it, one from after it.
pub async fn write_and_compare(arena: &Arena, n_writers: usize, n_each: usize, rounds: u32) {
    let early = arena.open().await;
    let mut early = early.subscribe(Start::Origin);
    let weather = Arc::new(Weather::default());
    let storm = async {
        for round in 0..rounds {
            weather.some_appends().await;
            if !arena.disturb(round).await {
                break;
            }
        }
        weather.is_calm.store(true, Ordering::Relaxed);
    };
    // The writers go on until the storm is over, so that all of it hits them.
    let writers = write_until(arena, n_writers, n_each, Arc::clone(&weather));
    let (acknowledged, ()) = tokio::join!(writers, storm);
    let n = acknowledged.len();
    eprintln!("{n} appends acknowledged");
    let entries = soon(read(&mut early, n)).await.expect("the log is read");
    let late = arena.open().await;
    assert_eq!(read_all(&late, n).await, entries, "a late reader");
    check(&entries, &acknowledged);
    // Nothing comes behind: a copy of an append would.
    let last = late.append(&labelled("last")).await.expect("an append");
    let n_stored = count_stored(&late, last).await;
    eprintln!("{} copies of appends that were sent twice", n_stored - n - 1);
    let mut whole = late.subscribe(Start::Origin);
    let all = soon(read(&mut whole, n + 1)).await.expect("the log is read");
    assert_eq!(all[n].1, "last", "an entry was read twice");
}

/// What a storm and its writers tell each other.
#[derive(Debug, Default)]
struct Weather {
    is_calm: AtomicBool,
    n_appends: AtomicUsize,
}

impl Weather {
    /// No storm.
    fn calm() -> Arc<Weather> {
        Arc::new(Weather { is_calm: AtomicBool::new(true), n_appends: AtomicUsize::new(0) })
    }

    /// Waits until some more appends got through.
    async fn some_appends(&self) {
        let before = self.n_appends.load(Ordering::Relaxed);
        let some = async {
            while self.n_appends.load(Ordering::Relaxed) < before + 40 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        soon(some).await;
    }
}

/// How many entries are stored up to `last`, copies included.
async fn count_stored(store: &Store, last: Position) -> usize {
    let mut tail = store.backend().tail(None);
    let mut n = 0;
    loop {
        let Ok(Read::Entries(entries)) = soon(tail.next()).await else { panic!("no entries") };
        n += entries.len();
        if entries.last().is_some_and(|entry| entry.position >= last) {
            return n;
        }
    }
}

async fn write(arena: &Arena, n_writers: usize, n_each: usize) -> BTreeMap<String, Position> {
    write_until(arena, n_writers, n_each, Weather::calm()).await
}

/// Each writer has its own handle and four appends in flight, makes at least `n_each` appends and
/// stops when it is calm. Returns what was acknowledged, and where.
async fn write_until(
    arena: &Arena,
    n_writers: usize,
    n_each: usize,
    weather: Arc<Weather>,
) -> BTreeMap<String, Position> {
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..n_writers {
        let store = arena.open().await;
        for lane in 0..4 {
            let (store, weather) = (store.clone(), Arc::clone(&weather));
            writers.spawn(async move {
                let mut acknowledged = Vec::new();
                for n in 0.. {
                    if n >= n_each.div_ceil(4) && weather.is_calm.load(Ordering::Relaxed) {
                        break;
                    }
                    let label = format!("{writer}-{lane}-{n:06}");
                    let position = store.append(&labelled(&label)).await;
                    acknowledged.push((label, position.expect("the append gets through")));
                    weather.n_appends.fetch_add(1, Ordering::Relaxed);
                }
                acknowledged
            });
        }
    }
    writers.join_all().await.into_iter().flatten().collect()
}

/// What was read is what was acknowledged, at no later place, each writer's in its order.
fn check(entries: &[(Position, String)], acknowledged: &BTreeMap<String, Position>) {
    assert!(entries.is_sorted_by(|a, b| a.0 < b.0), "positions grow");
    let labels: BTreeSet<_> = entries.iter().map(|(_, label)| label).collect();
    assert_eq!(labels.len(), entries.len(), "an entry was read twice");
    assert_eq!(labels, acknowledged.keys().collect(), "read is what was acknowledged");
    let mut lanes: BTreeMap<&str, &str> = BTreeMap::new();
    for (position, label) in entries {
        assert!(*position <= acknowledged[label], "{label} stands at or before {position}");
        let (lane, n) = label.rsplit_once('-').expect("a label of ours");
        assert!(lanes.insert(lane, n).is_none_or(|before| before < n), "{lane} in its order");
    }
}

/// The same entry sent twice, as after a lost answer.
pub async fn a_second_copy_is_read_once(arena: &Arena) {
    let store = arena.open().await;
    let start = end_of_log(&store).await;
    let token = Token { writer: 77, number: 1 };
    let mut entry = token.to_bytes().to_vec();
    let command = sardonyx_core::wire::command_to_bytes(&labelled("copied")).expect("a command");
    entry.extend(command);
    for _ in 0..3 {
        store.backend().append(token, entry.clone().into()).await.expect("an append");
    }
    store.append(&labelled("behind the copies")).await.expect("an append");
    let mut subscription = store.subscribe(start);
    let read = soon(read(&mut subscription, 2)).await.expect("the log is read");
    let labels: Vec<_> = read.iter().map(|(_, label)| label.as_str()).collect();
    assert_eq!(labels, ["copied", "behind the copies"]);
}

/// Bytes that are no command reach the reader as that, and the next entry comes as usual.
pub async fn what_is_unreadable_is_handed_over(arena: &Arena) {
    let store = arena.open().await;
    let start = end_of_log(&store).await;
    store.append_bytes(&[200, 1, 2, 3]).await.expect("an append");
    store.append_bytes(&[]).await.expect("an append");
    store.append(&labelled("readable")).await.expect("an append");
    let mut subscription = store.subscribe(start);
    let mut commands = Vec::new();
    while commands.len() < 3 {
        if let Delivery::Entry { command, .. } = soon(subscription.next()).await.expect("a read") {
            commands.push(command);
        }
    }
    assert_eq!(commands[0], Err(Unreadable::Newer(200)));
    assert_eq!(commands[1], Err(Unreadable::Empty));
    assert_eq!(commands[2], Ok(labelled("readable")));
}

/// The limit is the store's, not the server's: the largest entry goes through, one byte more is
/// refused before it is sent.
pub async fn what_is_too_large_is_refused(arena: &Arena) {
    let store = arena.open().await;
    let largest = vec![1; ENTRY_BYTES_MAX - Token::BYTES];
    store.append_bytes(&largest).await.expect("the largest entry");
    let too_large = vec![1; largest.len() + 1];
    let refused = store.append_bytes(&too_large).await;
    assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
}

/// Origins race; the one at the latest position stays, whole.
pub async fn the_latest_origin_wins(arena: &Arena) {
    let mut racers = tokio::task::JoinSet::new();
    let store = arena.open().await;
    let base = store.append(&labelled("base")).await.expect("an append").0 + 1;
    for n in [3, 1, 7, 5, 2, 6, 4, 0] {
        let store = arena.open().await;
        racers.spawn(async move {
            let origin = Origin {
                position: Position(base + n),
                replica: Replica::new(),
                seen: Seen::default(),
            };
            (n, store.set_origin(&origin).await.expect("a race"))
        });
    }
    let results: BTreeMap<_, _> = racers.join_all().await.into_iter().collect();
    assert!(results[&7], "the latest wins: {results:?}");
    let origin = store.origin().await.expect("a read").expect("an origin");
    assert_eq!(origin.position, Position(base + 7));
    assert_eq!(origin.replica, Replica::new());
}

/// A reader stands still while the log is trimmed past it: it is handed the origin, and goes on
/// behind it without a gap. A reader that was nearer sees every entry.
pub async fn a_trimmed_reader_takes_the_origin(arena: &Arena) {
    let store = arena.open().await;
    let start = store.append(&labelled("start")).await.expect("an append");
    // Positions so far may lie before an origin of another scenario.
    let start = match store.origin().await.expect("a read") {
        Some(origin) => start.max(origin.position),
        None => start,
    };
    let mut positions = Vec::new();
    while positions.len() < 20 {
        let position = store.append(&labelled("entry")).await.expect("an append");
        if position > start {
            positions.push(position);
        }
    }
    let mut slow = store.backend().tail(Some(start));
    let mut near = store.backend().tail(Some(positions[14]));
    let origin = Origin { position: positions[14], replica: Replica::new(), seen: Seen::default() };
    assert!(store.set_origin(&origin).await.expect("an origin"), "it is the latest");
    store.trim().await.expect("a trim");
    assert_eq!(soon(slow.next()).await, Ok(Read::Trimmed), "the entries behind it are gone");
    let mut read = Vec::new();
    while read.len() < 5 {
        let Ok(Read::Entries(entries)) = soon(near.next()).await else { panic!("no entries") };
        read.extend(entries.iter().map(|Raw { position, .. }| *position));
    }
    assert_eq!(read, positions[15..]);
    let mut subscription = store.subscribe(Start::After(Some(start), Seen::default()));
    let first = soon(subscription.next()).await.expect("a read");
    assert_eq!(first, Delivery::Origin(Box::new(origin)));
    let behind = soon(super::read(&mut subscription, 5)).await.expect("the log is read");
    let behind: Vec<_> = behind.iter().map(|(position, _)| *position).collect();
    assert_eq!(behind, positions[15..]);
    store.trim().await.expect("trimming again changes nothing");
}

/// Where a reader starts that wants only what comes now.
async fn end_of_log(store: &Store) -> Start {
    let last = store.append(&labelled("here")).await.expect("an append");
    Start::After(Some(last), Seen::default())
}
