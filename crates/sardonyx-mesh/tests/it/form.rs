//! Forming, joining, leaving: what a cluster does on a good day.

use std::time::{Duration, Instant};

use sardonyx_mesh::{Change, Mesh, Quality, Reason, Seen, StartError, Status, Store, Version};

use crate::cluster::{Cluster, Kind, SOON, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn three_nodes_find_each_other_whatever_is_between_them() {
    for kind in [Kind::Memory, Kind::Tcp, Kind::Tls] {
        let cluster = Cluster::started(kind, 3, 1).await;
        let view = cluster.node(0).members();
        assert_eq!(view.version, Version(1), "{kind:?}");
        eventually("a follower hears that its leader may act", || {
            let leader = cluster.node(2).leader().expect("a leader");
            leader.quality == Quality::Established && leader.token.is_none()
        })
        .await;
        let index = cluster.leader(0);
        let token = cluster.node(index).fencing_token().expect("it leads and may act");
        assert_eq!(token.version, Version(1));
    }
}

/// All are seeds and start at the same moment: each leads for a moment, and one does in the end.
#[tokio::test(flavor = "multi_thread")]
async fn five_seeds_at_once_become_one_cluster() {
    let mut cluster = Cluster::new(Kind::Tcp, 5, 5);
    let starts = (0..5).map(|index| tokio::spawn(Mesh::start(cluster.options(index))));
    let starts: Vec<_> = starts.collect();
    for (index, start) in starts.into_iter().enumerate() {
        cluster.nodes[index] = Some(start.await.expect("no panic").expect("it starts"));
    }
    cluster.agree().await;
}

/// Once it is quiet, both ends of a pair hold the same connection.
#[tokio::test(flavor = "multi_thread")]
async fn a_pair_has_one_connection_and_both_hold_it() {
    let cluster = Cluster::started(Kind::Tcp, 3, 3).await;
    let is_right = || {
        cluster.living().all(|mesh| {
            let me = &mesh.node().address;
            mesh.connected().iter().all(|(peer, is_mine)| {
                let there = cluster.node(cluster.index_of(peer)).connected();
                let theirs = there.iter().find(|(it, _)| it == me).map(|(_, is_mine)| *is_mine);
                theirs == Some(!is_mine)
            })
        })
    };
    // Followers need not keep one among themselves, but all keep one with the leader.
    let leader = cluster.leader(0);
    let is_connected = || cluster.node(leader).connected().len() == 2;
    eventually("one connection a pair", || is_right() && is_connected()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_that_leaves_is_removed_without_being_missed() {
    let mut cluster = Cluster::started(Kind::Memory, 3, 1).await;
    let leader = cluster.leader(0);
    let gone = (leader + 1) % 3;
    let mut watch = cluster.node(leader).watch();
    let address = cluster.address(gone).clone();
    cluster.node(gone).leave().await.expect("it was heard");
    cluster.nodes[gone] = None;
    let mut walk = Vec::new();
    while walk.last() != Some(&Status::Removed) {
        let seen = tokio::time::timeout(SOON, watch.next()).await.expect("in time");
        let Some(Seen::Change(change)) = seen else { panic!("a change") };
        if let Change::Member { row, reason, .. } = &*change
            && row.node.address == address
        {
            assert_eq!(*reason, Reason::Left, "{}", sardonyx_mesh::describe(&change));
            walk.push(row.status);
        }
    }
    assert_eq!(walk, [Status::Leaving, Status::Removed]);
    cluster.agree().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_leaves_hands_over_first() {
    let mut cluster = Cluster::started(Kind::Memory, 3, 2).await;
    let leader = cluster.leader(0);
    let version = cluster.node(leader).members().version;
    let begun = Instant::now();
    cluster.node(leader).leave().await.expect("it was heard");
    cluster.nodes[leader] = None;
    cluster.agree().await;
    let other = (leader + 1) % 3;
    assert!(cluster.node(other).members().version > version);
    // Nobody had to wait for the silence of ttl-timeout.
    println!("handed over and left in {:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lead_can_be_handed_to_somebody() {
    let cluster = Cluster::started(Kind::Memory, 3, 1).await;
    let leader = cluster.leader(0);
    let to = (leader + 1) % 3;
    let stranger = "127.0.0.1:1".parse().expect("an address");
    let refused = cluster.node(leader).transfer_leadership(stranger).await;
    assert!(refused.is_err(), "nobody is there");
    let not_leader = cluster.node(to).transfer_leadership(cluster.address(leader).clone()).await;
    assert!(not_leader.is_err(), "it does not lead");
    let before = cluster.node(leader).members().version;
    cluster.node(leader).transfer_leadership(cluster.address(to).clone()).await.expect("granted");
    println!("{leader} was asked to hand over to {to}, {}", cluster.address(to));
    eventually("the other leads", || cluster.node(to).fencing_token().is_some()).await;
    cluster.agree().await;
    assert_eq!((cluster.leader(0), cluster.node(0).members().version), (to, before.next()));
}

/// Identity is an address and a life: the same address comes back at once, as somebody new.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_restarts_is_back_at_once_with_a_new_life() {
    let mut cluster = Cluster::started(Kind::Tcp, 3, 1).await;
    let leader = cluster.leader(0);
    let again = (leader + 1) % 3;
    let before = cluster.node(again).node().clone();
    cluster.crash(again).await;
    let begun = Instant::now();
    cluster.start(again).await;
    let now = cluster.node(again).node().clone();
    assert!(now.incarnation > before.incarnation);
    eventually("active everywhere with its new life", || {
        cluster.living().all(|mesh| {
            let view = mesh.members();
            view.members.iter().any(|row| row.node == now && row.status == Status::Active)
                && view.members.iter().all(|row| row.node != before)
        })
    })
    .await;
    println!("active again after {:?}", begun.elapsed());
}

/// Everybody is killed and comes back: with files the version goes on, without it begins again.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_restart_of_all_the_version_goes_on() {
    let mut cluster = Cluster::started(Kind::Tcp, 3, 2).await;
    let before = cluster.node(0).members();
    for index in 0..3 {
        cluster.crash(index).await;
    }
    for index in 0..3 {
        cluster.start(index).await;
    }
    cluster.agree().await;
    let after = cluster.node(0).members();
    assert!(after.version > before.version, "{} after {}", after.version, before.version);
    assert_eq!(after.cluster, before.cluster);
}

/// A fourth node where three vote: in, but it does not count.
#[tokio::test(flavor = "multi_thread")]
async fn one_more_than_the_nodes_is_an_observer_or_refused() {
    let mut cluster = Cluster::new(Kind::Memory, 4, 1);
    cluster.n_voters = Some(3);
    let start = |cluster: &Cluster, index: usize| {
        let mut options = cluster.options(index);
        options.config.nodes = 3;
        options.store = Store::UnsafeVolatileVotes;
        Mesh::start(options)
    };
    for index in 0..3 {
        cluster.nodes[index] = Some(start(&cluster, index).await.expect("it starts"));
    }
    cluster.agree().await;
    let voters = cluster.node(0).status().await.voters;
    cluster.nodes[3] = Some(start(&cluster, 3).await.expect("it starts"));
    cluster.agree().await;
    assert_eq!(cluster.node(3).status().await.voters, voters, "the same three vote");
}

#[tokio::test]
async fn a_store_belongs_to_one_node() {
    let mut cluster = Cluster::new(Kind::Memory, 2, 1);
    cluster.start(0).await;
    let mut second = cluster.options(0);
    let in_use = Mesh::start(second.clone()).await.expect_err("in use").to_string();
    assert!(in_use.contains("in use"), "{in_use}");
    eventually("its life is on the disk", || cluster.node(0).leader().is_some()).await;
    cluster.crash(0).await;
    second.config.address = cluster.address(1).clone();
    let other = Mesh::start(second).await.expect_err("another's");
    assert!(matches!(other, StartError::OtherStore { .. }), "{other}");
    tokio::time::sleep(Duration::ZERO).await;
}
