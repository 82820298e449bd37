//! Three servers: the leader is killed, and cut off, under four writers.

use sardonyx_store::suite::{Arena, run, write_and_compare};

#[test]
fn etcd_loses_its_leader() {
    run(async { write_and_compare(&Arena::etcd(3).await, 4, 2500, 2).await });
}

#[test]
fn zookeeper_loses_its_leader() {
    run(async { write_and_compare(&Arena::zookeeper(3).await, 4, 2500, 2).await });
}
