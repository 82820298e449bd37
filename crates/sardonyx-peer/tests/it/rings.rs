//! Joining, leaving, being thrown out, disagreeing.

use std::time::Duration;

use sardonyx_core::{Command, PeerId, Position, command::LeaveCluster, command::PeerGc};
use sardonyx_peer::{CHECKPOINT_EVERY, Event, Fatal, is_checkpoint};
use sardonyx_store::{Txn, Write};

use crate::world::{Node, client, is_healthy, memory, run};

#[test]
fn nodes_form_one_ring_and_leave_it_when_they_are_stopped() {
    run(async {
        let store = memory().await;
        let mut nodes: Vec<_> = [3, 5, 1].map(|n| Node::start(&store, n)).into();
        for node in &nodes {
            node.sees("one ring of nine", |replica| replica.n_peers() == 9).await;
        }
        is_healthy(&store, client(&store).await.replica()).await;
        let mut first = nodes.remove(0);
        first.driver.stop();
        first.driver.ended().await.unwrap();
        assert!(first.events().contains(&Event::Leaving(3)));
        let after = client(&store).await;
        assert_eq!(after.replica().n_peers(), 6, "it has left before it stopped");
        is_healthy(&store, after.replica()).await;
        for node in &mut nodes {
            node.driver.stop();
            node.driver.ended().await.unwrap();
        }
        assert_eq!(client(&store).await.replica().n_present(), 0);
        assert!(store.items("node/").await.unwrap().is_empty(), "nobody says that he is here");
    });
}

#[test]
fn a_node_that_is_cut_off_is_found_dead_and_the_ring_closes() {
    run(async {
        let store = memory().await;
        let (stays, goes) = (Node::start(&store, 4), Node::start(&store, 4));
        stays.sees("all are in", |replica| replica.n_peers() == 8).await;
        drop(goes);
        stays.sees("the dead are out", |replica| replica.n_peers() == 4).await;
        is_healthy(&store, client(&store).await.replica()).await;
    });
}

#[test]
fn a_whole_cluster_that_died_does_not_keep_new_nodes_out() {
    run(async {
        let store = memory().await;
        let old: Vec<_> = (0..3).map(|_| Node::start(&store, 4)).collect();
        old[0].sees("all are in", |replica| replica.n_peers() == 12).await;
        let dead: Vec<_> = client(&store).await.replica().peers().cloned().collect();
        drop(old);
        let new = Node::start(&store, 4);
        new.sees("only the living are in", |replica| {
            replica.n_peers() == 4 && !dead.iter().any(|peer| replica.is_member(peer))
        })
        .await;
    });
}

#[test]
fn a_peer_that_is_thrown_out_comes_back_under_another_id() {
    run(async {
        let store = memory().await;
        let node = Node::start(&store, 2);
        node.is_in(2).await;
        let mut client = client(&store).await;
        let thrown_out = client.replica().peers().next().unwrap().clone();
        client.say(&LeaveCluster { peer: thrown_out.clone() }.into()).await.unwrap();
        node.sees("two again, but not that one", |replica| {
            replica.n_peers() == 2 && !replica.is_member(&thrown_out)
        })
        .await;
        node.until("it is told", |events| events.contains(&Event::Left(thrown_out.clone()))).await;
        assert!(!store.alive(&thrown_out).await.unwrap());
        let events = node.events();
        let again = events.iter().any(|event| matches!(event, Event::Again(..)));
        assert!(!again, "the node itself goes on");
    });
}

/// Says nothings until the log has so many entries, one at a time so that nobody reads in bulk.
async fn lengthen(store: &sardonyx_store::Store, up_to: u64) {
    let nothing: Command = PeerGc { peer: PeerId::new("nobody").unwrap() }.into();
    while store.append(&nothing).await.unwrap().0 < up_to {
        tokio::time::sleep(Duration::from_micros(300)).await;
    }
}

#[test]
fn nodes_that_agree_go_on_and_leave_few_digests_behind() {
    run(async {
        let store = memory().await;
        let nodes = [Node::start(&store, 1), Node::start(&store, 1)];
        nodes[0].sees("both are in", |replica| replica.n_peers() == 2).await;
        lengthen(&store, 9 * CHECKPOINT_EVERY).await;
        for node in &nodes {
            let mut view = node.driver.view();
            view.wait_for(|view| view.position.is_some_and(|at| at.0 >= 9 * CHECKPOINT_EVERY))
                .await
                .unwrap();
        }
        let n_digests = store.items("digest/").await.unwrap().len();
        // Four each, and one more while two comparisons are under way.
        assert!((1..=10).contains(&n_digests), "{n_digests} digests");
    });
}

#[test]
fn a_node_that_disagrees_stops_and_says_so() {
    run(async {
        let store = memory().await;
        let at = (50..).find(|at| is_checkpoint(Position(*at))).unwrap();
        let lie = Write::Put(format!("digest/{at:020}"), "00ff somebody".into());
        store.commit(&Txn { when: vec![], then: vec![lie] }).await.unwrap();
        let mut node = Node::start(&store, 2);
        node.is_in(2).await;
        lengthen(&store, at + 1).await;
        let ended = node.driver.ended().await;
        let Err(Fatal::Diverged { position, theirs, who, .. }) = ended else {
            panic!("it ends with {ended:?}");
        };
        assert_eq!((position.0, theirs.as_str(), who.as_str()), (at, "00ff", "somebody"));
        let left: Vec<_> = client(&store).await.replica().peers().cloned().collect();
        for peer in left {
            assert!(!store.alive(&peer).await.unwrap(), "{peer} still has a pulse");
        }
    });
}

#[test]
fn fifty_peers_join_in_few_entries() {
    run(async {
        let store = memory().await;
        let node = Node::start(&store, 50);
        node.is_in(50).await;
        let end = store.end().await.unwrap().unwrap().0 + 1;
        assert!(end <= 6 * 50, "{end} entries for 50 peers");
    });
}
