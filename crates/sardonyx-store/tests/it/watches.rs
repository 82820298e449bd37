//! A watch that nobody waits for is over, at the server as well: there are nodes that watch for months.

use std::time::Duration;

use sardonyx_core::PeerId;
use sardonyx_store::{
    Options, Store,
    suite::{run, servers::EtcdCluster},
};

/// Waits until etcd serves so many watches.
async fn until_served(cluster: &EtcdCluster, wanted: u64) {
    let wait = async {
        while cluster.n_watches().await != wanted {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(20), wait).await;
    let served = cluster.n_watches().await;
    waited.unwrap_or_else(|_| panic!("etcd serves {served} watches instead of {wanted}"));
}

#[test]
fn one_who_waits_is_one_watch_and_none_when_it_gives_up() {
    run(async {
        let cluster = EtcdCluster::start(1).await;
        let store = Store::open(&cluster.url("watched"), Options::default()).await.unwrap();
        let session = store.session(Duration::from_secs(60)).await.unwrap();
        let peer = PeerId::new("watched").unwrap();
        session.pulse(&peer).await.unwrap();
        // So long that it looks again by the clock, in case that an event was lost, and then again.
        let wait = tokio::time::timeout(Duration::from_secs(11), store.watch_pulse(&peer));
        let (waited, n_watches) = tokio::join!(wait, async {
            until_served(&cluster, 1).await;
            tokio::time::sleep(Duration::from_millis(10_500)).await;
            cluster.n_watches().await
        });
        assert!(waited.is_err(), "it lives: {waited:?}");
        assert_eq!(n_watches, 1);
        until_served(&cluster, 0).await;
    });
}
