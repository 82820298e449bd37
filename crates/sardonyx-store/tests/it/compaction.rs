//! Who makes etcd forget: nobody, unless the URL says that this etcd is ours alone.

use sardonyx_core::{Position, Replica};
use sardonyx_store::{
    Delivery, Options, Origin, Seen, Start, Store,
    suite::{labelled, run, servers::EtcdCluster},
};

/// Appends, sets the origin to the last entry but one and trims; returns the last position.
async fn trim(store: &Store) -> Position {
    let mut positions = Vec::new();
    for _ in 0..20 {
        positions.push(store.append(&labelled("entry")).await.unwrap());
    }
    let origin = Origin { position: positions[18], replica: Replica::new(), seen: Seen::default() };
    assert!(store.set_origin(&origin).await.unwrap());
    store.trim().await.unwrap();
    positions[19]
}

#[test]
fn trimming_compacts_only_an_etcd_that_is_ours() {
    run(async {
        let cluster = EtcdCluster::start(1).await;
        let shared = Store::open(&cluster.url("shared"), Options::default()).await.unwrap();
        trim(&shared).await;
        assert!(cluster.remembers(2).await, "others may need the past");
        let url = format!("{}?compact=true", cluster.url("ours"));
        let ours = Store::open(&url, Options::default()).await.unwrap();
        let mut reader = ours.subscribe(Start::Origin);
        let last = trim(&ours).await;
        assert!(!cluster.remembers(2).await, "what was deleted takes no room any more");
        // Readers of both stores go on across it, and so does who trims again.
        ours.trim().await.unwrap();
        let next = ours.append(&labelled("next")).await.unwrap();
        let mut seen = Vec::new();
        while seen.last() != Some(&next) {
            match reader.next().await.unwrap() {
                Delivery::Entry { position, .. } => seen.push(position),
                Delivery::Origin(origin) => seen.push(origin.position),
            }
        }
        assert!(seen.contains(&last) && seen.is_sorted(), "{seen:?}");
        shared.append(&labelled("shared")).await.unwrap();
    });
}
