//! Broken servers under running generators.

use std::time::{Duration, Instant};

use sardonyx_ids::{Config, Ids, lease::Terms};
use sardonyx_store::suite::{Arena, servers::EtcdCluster};

use super::{SOON, all_differ, config, join, narrow, run, worker};

/// R2, R8, R11: a killed leader and an outage of ten seconds; no request is refused.
#[test]
fn an_outage_of_ten_seconds_refuses_nobody() {
    run(async {
        let cluster = EtcdCluster::start(1).await;
        let url = cluster.url("ids");
        let store = sardonyx_store::Store::open(&url, Default::default()).await;
        let store = store.expect("etcd answers");
        // The usual terms: what people get.
        let ids = join(&store, Config { terms: Terms::default(), ..Config::default() }).await;
        let before = worker(&ids);
        let begun = Instant::now();
        let mut drawn = Vec::new();
        let (mut is_down, mut is_back) = (false, false);
        while begun.elapsed() < Duration::from_secs(22) {
            drawn.push(ids.next_wait().await.expect("no refusal").bits());
            tokio::time::sleep(Duration::from_millis(2)).await;
            if !is_down && begun.elapsed() > Duration::from_secs(1) {
                cluster.kill(0);
                is_down = true;
            }
            if is_down && !is_back && begun.elapsed() > Duration::from_secs(11) {
                cluster.restart(0).await;
                is_back = true;
            }
        }
        assert_eq!(worker(&ids), before, "it kept its number");
        assert!(drawn.is_sorted());
        all_differ(drawn);
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
