//! Broken servers under running generators.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use sardonyx_ids::{Config, Ids, lease::Terms};
use sardonyx_store::suite::{Arena, servers::EtcdCluster};

use super::{SOON, all_differ, config, join, moved, narrow, run, worker};

/// R2, R8, R11, R13, R14: a killed leader, an outage of ten seconds, and an hour back: no request is
/// refused, the number is kept, and somebody whose clock is ten years ahead writes nothing meanwhile.
#[test]
fn a_killed_leader_an_outage_and_an_hour_back_refuse_nobody() {
    run(async {
        let cluster = EtcdCluster::start(3).await;
        let url = cluster.url("ids");
        let store = sardonyx_store::Store::open(&url, Default::default()).await;
        let store = store.expect("etcd answers");
        // The usual terms: what people get.
        let usual = || Config { terms: Terms::default(), ..Config::default() };
        let source = moved(0);
        let ids = join(&store, Config { source: source.clone(), ..usual() }).await;
        let ahead = moved(10 * sardonyx_ids::YEAR as i64);
        let poisoned = Ids::start(&store, Config { source: ahead, ..usual() }).expect("a layout");
        let before = worker(&ids);
        let is_over = AtomicBool::new(false);
        let pass = |seconds| tokio::time::sleep(Duration::from_secs(seconds));
        let faults = async {
            pass(1).await;
            let leader = cluster.leader().await.expect("a leader");
            cluster.kill(leader);
            pass(3).await;
            cluster.restart(leader).await;
            pass(3).await;
            (0..3).for_each(|node| cluster.kill(node));
            pass(10).await;
            tokio::join!(cluster.restart(0), cluster.restart(1), cluster.restart(2));
            pass(3).await;
            source.0.fetch_sub(3_600_000, Ordering::Relaxed);
            pass(5).await;
            is_over.store(true, Ordering::Relaxed);
        };
        let draw = async {
            let mut drawn = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                drawn.push(ids.next_wait().await.expect("no refusal").bits());
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            drawn
        };
        let ((), drawn) = tokio::join!(faults, draw);
        println!("{} ids, none refused", drawn.len());
        assert_eq!(worker(&ids), before, "it kept its number");
        assert!(drawn.is_sorted());
        all_differ(drawn);
        let overview = sardonyx_ids::admin::overview(&store).await.expect("a listing");
        assert_eq!(overview.numbers.len(), 1, "the poisoned clock has written: {overview:?}");
        assert_eq!(poisoned.status()[0].worker, None);
        ids.leave().await;
    });
}

/// R1: a holder whose session ended goes on below its mark only, while others take its place.
#[test]
fn a_holder_that_is_cut_off_stops_at_its_mark() {
    run(async {
        let arena = Arena::remote().await;
        let store = arena.open().await;
        let ids = join(&store, narrow(arena.session_timeout())).await;
        let mut drawn = Vec::new();
        for round in 0..3 {
            let begun = Instant::now();
            assert!(arena.disturb(round).await);
            while begun.elapsed() < Duration::from_secs(2) {
                drawn.extend(ids.next().map(sardonyx_ids::Id::bits));
                let status = &ids.status()[0];
                let last = drawn.last().and_then(|it| sardonyx_ids::Id::from_bits(*it));
                let time = last.map_or(0, |id| ids.layout().decode(id).time);
                assert!(status.until == 0 || time < status.until.max(status.now + 4000));
                tokio::task::yield_now().await;
            }
        }
        all_differ(drawn);
        tokio::time::timeout(SOON, ids.ready()).await.expect("soon").expect("a number");
        ids.leave().await;
    });
}

/// A crash: the number comes back after the lease, or the window.
#[test]
fn a_crashed_holder_is_replaced() {
    run(async {
        let arena = Arena::etcd(1).await;
        let lease = arena.session_timeout();
        let store = arena.open().await;
        let a = join(&store, narrow(lease)).await;
        let doomed =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let doomed = doomed.expect("a runtime");
        let (other, terms) = (arena.open().await, narrow(lease));
        let crashed = doomed.spawn(async move { Ids::join(&other, terms).await });
        let crashed = crashed.await.expect("a task").expect("a number");
        let (number, mut drawn) = (worker(&crashed), super::draw(&crashed, 1000).await);
        // Everything of that process stands still from here on.
        doomed.shutdown_background();
        let begun = Instant::now();
        let b = join(&store, narrow(lease)).await;
        let waited = begun.elapsed();
        assert_eq!(worker(&b), number);
        let bound = lease.max(Duration::from_millis(config(lease).terms.window));
        assert!(waited < bound + Duration::from_secs(2), "{waited:?}");
        drawn.extend(super::draw(&b, 1000).await);
        drawn.extend(super::draw(&a, 1000).await);
        all_differ(drawn);
    });
}
