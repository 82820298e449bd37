//! Three servers in networks of their own: the leader is killed, cut off from everybody, and cut
//! off from the other servers only, under four writers.

use std::sync::Arc;

use sardonyx_store::suite::{
    Arena,
    servers::{Ensemble, Kind, Network},
    write_and_compare,
};

fn is_partitioned<K: Kind + Default>() {
    let Some(network) = Network::make(3) else { return };
    network.run(|| async {
        let servers = Ensemble::start_as(K::default(), 3, Some(Arc::clone(&network))).await;
        write_and_compare(&Arena::on(servers), 4, 2500, 3).await;
    });
}

#[test]
fn etcd_is_partitioned() {
    is_partitioned::<sardonyx_store::suite::servers::EtcdServer>();
}

#[test]
fn zookeeper_is_partitioned() {
    is_partitioned::<sardonyx_store::suite::servers::ZooKeeperServer>();
}
