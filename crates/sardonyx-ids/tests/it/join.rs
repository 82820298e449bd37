//! Joining, leaving, capacity and the operator's commands, on every store.

use std::time::{Duration, Instant};

use sardonyx_ids::{Config, Ids, Layout, NoIds, admin, lease::Problem};
use sardonyx_store::suite::Arena;

use super::{SOON, all_differ, config, draw, join, moved, narrow, run, worker};

/// Everything that does not need a broken server, one after the other on one store.
async fn all(arena: Arena) {
    let (ours, theirs) = (arena.open().await, arena.open().await);
    let lease = arena.session_timeout();
    let a = join(&ours, narrow(lease)).await;
    let b = join(&theirs, narrow(lease)).await;
    assert_ne!(worker(&a), worker(&b));
    let mut ids = draw(&a, 5000).await;
    assert!(ids.is_sorted(), "ids of one handle grow");
    ids.extend(draw(&b, 5000).await);

    // R22: another layout is refused, and says which is right.
    let other = Ids::join(&ours, config(lease)).await.err();
    assert!(matches!(&other, Some(NoIds::NotReady(Problem::OtherLayout { .. }))), "{other:?}");

    // R23: the third waits and says so; a clean stop lets it in at once.
    let c = Ids::start(&ours, narrow(lease)).expect("a layout");
    let full = |it: &sardonyx_ids::Status| it.problem == Some(Problem::AtCapacity { workers: 2 });
    let mut status = c.watch();
    tokio::time::timeout(SOON, status.wait_for(full)).await.expect("soon").expect("a status");
    assert!(matches!(c.next(), Err(NoIds::NotReady(Problem::AtCapacity { workers: 2 }))));
    let number = worker(&a);
    a.leave().await;
    let left = Instant::now();
    tokio::time::timeout(SOON, c.ready()).await.expect("soon").expect("a number");
    assert!(left.elapsed() < Duration::from_secs(2), "{:?}", left.elapsed());
    assert_eq!(worker(&c), number);
    ids.extend(draw(&c, 5000).await);

    // What the operator sees.
    let overview = admin::overview(&ours).await.expect("a listing");
    assert_eq!(overview.layout, Some(narrow(lease).layout));
    assert!(overview.numbers.iter().all(|it| it.holder.is_some() && it.until.is_some()));

    // R13d: a number is retired under its holder, which has to wait for another.
    let now = c.status()[0].now;
    admin::retire(&ours, number, now).await.expect("a retirement");
    let mut status = c.watch();
    let out = status.wait_for(|it| it.worker.is_none());
    tokio::time::timeout(SOON, out).await.expect("soon").expect("a status");
    assert!(c.next().is_err());
    admin::restore(&ours, number).await.expect("a restoration");
    tokio::time::timeout(SOON, c.ready()).await.expect("soon").expect("a number");
    ids.extend(draw(&c, 5000).await);

    // R18: behind a floor.
    c.leave().await;
    let floor = b.status()[0].now + 1500;
    assert_eq!(admin::raise_floor(&ours, floor).await, Ok(floor));
    assert_eq!(admin::raise_floor(&ours, floor - 1000).await, Ok(floor));
    let d = join(&ours, narrow(lease)).await;
    ids.extend(draw(&b, 100).await);
    let id = d.next_wait().await.expect("an id");
    assert!(d.layout().decode(id).time >= floor);
    ids.push(id.bits());
    ids.extend(draw(&d, 5000).await);
    all_differ(ids);
    d.leave().await;
    b.leave().await;
}

#[test]
fn memory() {
    run(async { all(Arena::memory().await).await });
}

#[test]
fn embedded() {
    run(async { all(Arena::embedded().await).await });
}

#[test]
fn remote() {
    run(async { all(Arena::remote().await).await });
}

#[test]
fn etcd() {
    run(async { all(Arena::etcd(1).await).await });
}

#[test]
fn zookeeper() {
    run(async { all(Arena::zookeeper(1).await).await });
}

/// R13: a clock ten years ahead is refused while others are there, and writes nothing.
#[test]
fn a_poisoned_clock_never_writes() {
    run(async {
        let arena = Arena::memory().await;
        let store = arena.open().await;
        let good = join(&store, config(arena.session_timeout())).await;
        let source = moved(10 * sardonyx_ids::YEAR as i64);
        let bad = Config { source, ..config(arena.session_timeout()) };
        let bad = Ids::start(&store, bad).expect("a layout");
        let mut status = bad.watch();
        let refused = status.wait_for(|it| matches!(it.problem, Some(Problem::ClockAhead { .. })));
        tokio::time::timeout(SOON, refused).await.expect("soon").expect("a status");
        let overview = admin::overview(&store).await.expect("a listing");
        assert_eq!(overview.numbers.len(), 1, "{overview:?}");
        good.leave().await;
    });
}

/// R14, R15: an hour back, in full flight: nobody is refused, nothing is repeated.
#[test]
fn a_step_back_is_ridden_out() {
    run(async {
        let arena = Arena::memory().await;
        let store = arena.open().await;
        let source = moved(0);
        let config = Config { source: source.clone(), ..config(arena.session_timeout()) };
        let ids = join(&store, config).await;
        let mut drawn = Vec::new();
        for step in [-1, -1000, -3_600_000] {
            source.0.fetch_add(step, std::sync::atomic::Ordering::Relaxed);
            let until = Instant::now() + Duration::from_millis(1500);
            while Instant::now() < until {
                drawn.push(ids.next_wait().await.expect("no refusal").bits());
            }
        }
        assert!(drawn.is_sorted());
        all_differ(drawn);
        ids.leave().await;
    });
}

/// Several numbers in one process, and many processes at once.
#[test]
fn sixty_four_join_at_once_for_sixty_four_numbers() {
    run(async {
        let arena = Arena::memory().await;
        let store = arena.open().await;
        let layout = Layout { worker_bits: 6, sequence_bits: 16, ..Layout::default() };
        let config = Config { layout, workers: 16, ..config(Duration::from_secs(10)) };
        let joins = (0..4).map(|_| join(&store, config.clone()));
        let mut all = Vec::new();
        for joining in joins {
            all.push(joining.await);
        }
        let mut numbers: Vec<_> =
            all.iter().flat_map(Ids::status).filter_map(|it| it.worker).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 64);
        let calls: u64 = all.iter().map(Ids::calls).sum();
        assert!(calls < 64 * 8, "{calls} calls");
    });
}
