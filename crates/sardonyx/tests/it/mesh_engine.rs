//! Nodes of the engine in a mesh: each lists all, and only whoever leads does the chores.

use std::{
    net::TcpListener,
    path::Path,
    time::{Duration, Instant},
};

use sardonyx_core::{Command, PeerId, command::PeerGc};
use sardonyx_store::{Options, Store};
use serde_json::Value;

use crate::{
    node::{Node, SOON, Server, alone, ring_of},
    program::sardonyx,
};

const N_NODES: usize = 3;
const N_PEERS: usize = 2;
const TRIM_AFTER: usize = 150;

struct Place {
    mesh: String,
    http: String,
}

/// Ports that were free a moment ago.
fn places() -> Vec<Place> {
    let held: Vec<_> =
        (0..2 * N_NODES).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let at = |index: usize| held[index].local_addr().unwrap().to_string();
    (0..N_NODES).map(|it| Place { mesh: at(2 * it), http: at(2 * it + 1) }).collect()
}

fn start(url: &str, places: &[Place], index: usize, dir: &Path) -> Node {
    let seeds: Vec<_> = places.iter().map(|it| it.mesh.clone()).collect();
    let (peers, trim_after) = (N_PEERS.to_string(), TRIM_AFTER.to_string());
    let data = dir.join(index.to_string()).display().to_string();
    let Place { mesh, http } = &places[index];
    Node::start(&[
        "--peers",
        &peers,
        "--store",
        url,
        "--session",
        "3s",
        "--trim-after",
        &trim_after,
        "--mesh-listen",
        mesh,
        "--seeds",
        &seeds.join(","),
        "--nodes",
        "3",
        "--mesh-data",
        &data,
        "--mesh-http",
        http,
        "--history-max",
        "2",
    ])
}

/// What a node lists.
fn listed(place: &Place) -> Vec<Value> {
    let ran = sardonyx(&["nodes", "--json", "--http", &place.http], "");
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap_or_default();
    answer["nodes"].as_array().cloned().unwrap_or_default()
}

/// Whether every one of `among` is listed, active, with its peers and a worker number of its own, and
/// one of them leads.
fn is_whole(list: &[Value], among: &[&Place]) -> bool {
    let is_listed = |place: &&Place| {
        list.iter().any(|card| {
            let life = card["life"].as_str().unwrap_or_default();
            let peers = card["peers"].as_array().cloned().unwrap_or_default();
            card["address"] == place.mesh.as_str()
                && card["status"] == "active"
                && card["n-peers"] == N_PEERS
                && peers.len() == N_PEERS
                && peers.iter().all(|it| it.as_str().is_some_and(|it| it.starts_with(life)))
                && card["load"]["memory-bytes"].as_u64() > Some(1 << 20)
                && card["http"] == format!("http://{}", place.http)
        })
    };
    let mut numbers: Vec<_> = list.iter().filter_map(|card| card["worker"].as_u64()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    list.len() == among.len()
        && among.iter().all(is_listed)
        && numbers.len() == among.len()
        && list.iter().filter(|card| card["leader"] == true).count() == 1
}

fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(begun.elapsed() < SOON, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn all_list(places: &[&Place]) -> String {
    for place in places {
        let mut last = Vec::new();
        wait_for(&format!("{} lists all", place.mesh), || {
            last = listed(place);
            is_whole(&last, places).then_some(())
        });
    }
    let list = listed(places[0]);
    let leader = list.iter().find(|card| card["leader"] == true).unwrap();
    leader["address"].as_str().unwrap().to_owned()
}

fn lengthen(url: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Store::open(url, Options::default()).await.unwrap();
        let nothing: Command = PeerGc { peer: PeerId::new("nobody").unwrap() }.into();
        for _ in 0..TRIM_AFTER {
            store.append(&nothing).await.unwrap();
        }
    });
}

fn n_of(node: &Node, name: &str) -> usize {
    node.events().iter().filter(|event| event["event"] == name).count()
}

/// When a node did the chores, from its asking for the office to the end of trimming, and in which
/// version. What was cut short by its death ended with its last word.
fn spans(node: &Node) -> Vec<(u64, u64, u64)> {
    let events = node.events();
    let at = |event: &Value| event["at"].as_u64().unwrap();
    let is_end = |event: &&Value| event["event"] == "trimmed" || event["event"] == "not-trimmed";
    let mut spans = Vec::new();
    for (index, event) in events.iter().enumerate() {
        if event["event"] == "collecting" {
            let end = events[index..].iter().find(is_end).or(events.last()).unwrap();
            spans.push((at(event), at(end), event["version"].as_u64().unwrap()));
        }
    }
    spans
}

/// Nobody trims who did not take the office, and no two ever at once.
fn check_chores(nodes: &[Node]) -> usize {
    let mut all: Vec<_> = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        let spans = spans(node);
        assert!(n_of(node, "trimmed") <= spans.len(), "{:?}", node.events());
        all.extend(spans.into_iter().map(|(from, to, version)| (from, to, version, index)));
    }
    all.sort_unstable();
    for pair in all.windows(2) {
        let ((_, to, version, by), (from, _, next_version, next)) = (pair[0], pair[1]);
        assert!(version <= next_version, "the office went backwards: {all:?}");
        assert!(by == next || (to <= from && version < next_version), "two at once: {all:?}");
    }
    all.len()
}

fn jobs_expire(url: &str) {
    let job = "name = \"w\"\n[catalog.t]\ntype = \"input\"\nplugin = \"wait\"\n";
    for id in ["one", "two", "three"] {
        let ran = sardonyx(&["submit", "-", "--id", id, "--store", url], job);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let ran = sardonyx(&["kill", id, "--store", url], "");
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    }
    let jobs = || sardonyx(&["jobs", "--json", "--store", url], "").stdout;
    wait_for("three ended jobs are more than two", || {
        let now: Value = serde_json::from_str(&jobs()).unwrap_or_default();
        now["jobs"].as_array().is_some_and(Vec::is_empty).then_some(())
    });
    let ran = sardonyx(&["jobs", "one", "--json", "--store", url], "");
    assert!(ran.stdout.contains("killed"), "how it ended is remembered: {}", ran.stdout);
}

#[test]
fn three_nodes_list_each_other_and_one_of_them_does_the_chores() {
    let _alone = alone();
    let (server, dir) = (Server::start(), tempfile::tempdir().unwrap());
    let (url, places) = (server.url(), places());
    let mut nodes: Vec<_> = (0..N_NODES).map(|it| start(url, &places, it, dir.path())).collect();
    ring_of(url, N_NODES * N_PEERS, SOON, |_| true);
    let everybody: Vec<_> = places.iter().collect();
    let leader = all_list(&everybody);

    lengthen(url);
    let who_trims = |nodes: &[Node]| nodes.iter().position(|node| n_of(node, "trimmed") > 0);
    let first = wait_for("the leader trims", || who_trims(&nodes));
    println!("{leader} led when all were listed, node {first} trimmed");

    nodes[first].kill();
    let killed = Instant::now();
    let others: Vec<_> = (0..N_NODES).filter(|it| *it != first).collect();
    lengthen(url);
    let second = wait_for("another one trims", || {
        others.iter().copied().find(|it| n_of(&nodes[*it], "trimmed") > 0)
    });
    println!("node {second} trimmed {:?} after node {first} was killed", killed.elapsed());
    let rest: Vec<_> = others.iter().map(|it| &places[*it]).collect();
    let leader = all_list(&rest);
    assert_ne!(leader, places[first].mesh);

    jobs_expire(url);
    nodes[first] = {
        let dead = check_chores(&nodes);
        println!("{dead} times, never two at once");
        start(url, &places, first, dir.path())
    };
    all_list(&everybody);
    nodes.iter().for_each(|node| node.signal("TERM"));
    let codes: Vec<_> = nodes.iter_mut().map(Node::wait).collect();
    assert_eq!(codes, [Some(0); N_NODES], "they leave the ring and the mesh");
}

#[test]
fn flags_of_the_mesh_belong_together() {
    let refused = |args: &[&str], expected: &str| {
        let ran = sardonyx(&[&["start", "--store", "memory:"], args].concat(), "");
        assert!(ran.code == Some(2) && ran.stderr.contains(expected), "{args:?}: {}", ran.stderr);
    };
    refused(&["--seeds", "127.0.0.1:1"], "--mesh-listen");
    refused(&["--mesh-listen", "127.0.0.1:1"], "--seeds");
    refused(&["--history-max", "5"], "--mesh-listen");
    let all = ["--mesh-listen", "10.0.0.1:9", "--seeds", "10.0.0.1:9", "--nodes", "1"];
    refused(&all, "give --mesh-key-file or --mesh-tls-ca, or mean it with --mesh-insecure");
    let all = ["--mesh-listen", "127.0.0.1:9", "--seeds", "127.0.0.1:9", "--nodes", "1"];
    refused(&[&all[..], &["--mesh-http", "0.0.0.0:1"]].concat(), "--mesh-http 0.0.0.0:1 is not");
}
