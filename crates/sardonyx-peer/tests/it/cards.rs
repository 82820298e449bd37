//! Every node of a mesh knows every other one.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use sardonyx_core::{Entry, PeerId, Position, Replica, command::PrepareJoinCluster};
use sardonyx_mesh::{Address, Config, Mesh, Network, Options, Profile, Status, Store, memory::Hub};
use sardonyx_peer::{About, NodeCard, Nodes, View};
use tokio::sync::watch;

use crate::world::{SOON, run};

struct Member {
    mesh: Arc<Mesh>,
    nodes: Nodes,
    view: watch::Sender<View>,
}

fn address(index: u16) -> Address {
    Address::new("10.0.0.1", 7_400 + index).unwrap()
}

async fn start(hub: &Hub, index: u16, of: u16) -> Member {
    let config = Config {
        nodes: u32::from(of),
        address: address(index),
        name: format!("row {index}"),
        cluster: "cards".into(),
        seeds: (0..of).map(address).collect(),
        voters: None,
        observer: false,
        found_by_itself: true,
        timers: Profile::Test.timers(),
    };
    let (network, store) = (Network::Memory(hub.clone()), Store::UnsafeVolatileVotes);
    let mesh = Mesh::start(Options { config, network, key: None, store }).await.unwrap();
    let mesh = Arc::new(mesh);
    let (view, seen) = watch::channel(View::default());
    let worker = move || Some(u32::from(index));
    let name = format!("node {index}");
    let about = About { name, view: seen, worker: Arc::new(worker), http: None };
    Member { nodes: Nodes::in_mesh(about, &mesh), mesh, view }
}

/// A node whose life has one peer, which is in.
fn lives(member: &Member, life: &str) {
    let joiner = PeerId::new(&format!("{life}-1")).unwrap();
    let mut replica = Replica::new();
    let command = PrepareJoinCluster { joiner }.into();
    replica.play(&Entry { position: Position(0), command }).unwrap();
    member.view.send_replace(View { life: life.into(), replica, ..View::default() });
}

async fn until(what: &str, member: &Member, is_so: impl Fn(&[NodeCard]) -> bool) {
    let begun = Instant::now();
    while !is_so(&member.nodes.list()) {
        assert!(begun.elapsed() < SOON, "{what}: {:?}", member.nodes.list());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn are_whole(list: &[NodeCard], lives: &[&str]) -> bool {
    let of = |(index, card): (usize, &NodeCard)| {
        card.address == Some(address(index as u16))
            && card.name == format!("node {index}")
            && card.status == Some(Status::Active)
            && card.life == lives[index]
            && card.worker == Some(index as u32)
            && card.n_peers == 1
            && card.peers.iter().all(|peer| peer.as_str() == format!("{}-1", lives[index]))
            && card.load.memory_bytes > 0
    };
    list.len() == lives.len()
        && list.iter().enumerate().all(of)
        && list.iter().filter(|card| card.leader).count() == 1
}

#[test]
fn every_node_lists_every_node_and_what_changes_reaches_all() {
    run(async {
        let hub = Hub::new();
        let mut members = Vec::new();
        for index in 0..3 {
            members.push(start(&hub, index, 3).await);
        }
        let mut names = vec!["a", "b", "c"];
        for (member, life) in members.iter().zip(&names) {
            lives(member, life);
        }
        for member in &members {
            until("all are listed", member, |list| are_whole(list, &names)).await;
        }
        names[1] = "d";
        lives(&members[1], "d");
        for member in &members {
            until("the new life is known", member, |list| are_whole(list, &names)).await;
        }
        let gone = members.pop().unwrap();
        gone.mesh.leave().await.unwrap();
        for member in &members {
            until("who left is gone", member, |list| list.len() == 2).await;
        }
    });
}
