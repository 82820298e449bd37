//! Real processes on real stores: one ring of all, of the living, of all again.

use std::time::{Duration, Instant};

use sardonyx_store::{
    Options, Store,
    suite::servers::{EtcdCluster, ZooKeeperEnsemble},
};
use serde_json::Value;

use crate::{
    node::{Node, SOON, Server, alone, ring_of},
    program::sardonyx,
};

/// The session timeout. Everything below is a multiple of it.
const SESSION: Duration = Duration::from_secs(3);

const N_NODES: usize = 4;
const N_PEERS: usize = 50;

fn start(url: &str) -> Node {
    let peers = N_PEERS.to_string();
    Node::start(&["--peers", &peers, "--store", url, "--session", "3s"])
}

fn any(_: &[String]) -> bool {
    true
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap()
}

#[test]
fn a_ring_of_200_on_a_served_store() {
    let _alone = alone();
    let server = Server::start();
    whole_story(server.url());
}

#[test]
fn a_ring_of_200_on_etcd() {
    let _alone = alone();
    let runtime = runtime();
    let etcd = runtime.block_on(EtcdCluster::start(1));
    whole_story(&etcd.url("nodes"));
}

#[test]
fn a_ring_of_200_on_zookeeper() {
    let _alone = alone();
    let runtime = runtime();
    let zookeeper = runtime.block_on(ZooKeeperEnsemble::start(1));
    whole_story(&zookeeper.url("nodes"));
}

fn whole_story(url: &str) {
    let mut nodes: Vec<_> = (0..N_NODES).map(|_| start(url)).collect();
    let all = N_NODES * N_PEERS;
    let took = ring_of(url, all, SOON, any);
    let log = sardonyx(&["log", url], "").stdout;
    println!("{all} joined in {took:?}, {} entries", log.lines().count());
    paused(url, &mut nodes);
    two_killed(url, &mut nodes);
    all_killed(url, &mut nodes);
    for node in &nodes {
        node.signal("TERM");
    }
    let codes: Vec<_> = nodes.iter_mut().map(Node::wait).collect();
    assert_eq!(codes, [Some(0); N_NODES], "a node that is asked to stop leaves");
    ring_of(url, 0, Duration::from_secs(5), any);
}

fn two_killed(url: &str, nodes: &mut [Node]) {
    let dead: Vec<_> = nodes[..2].iter().map(|node| node.life().unwrap()).collect();
    nodes[..2].iter_mut().for_each(Node::kill);
    let of_dead =
        |ids: &[String]| ids.iter().any(|id| dead.iter().any(|life| id.starts_with(life)));
    let took = ring_of(url, (N_NODES - 2) * N_PEERS, 3 * SESSION, |ids| !of_dead(ids));
    println!("two killed: the ring is whole after {took:?}, bound {:?}", 3 * SESSION);
    nodes[0] = start(url);
    nodes[1] = start(url);
    let took = ring_of(url, N_NODES * N_PEERS, SOON, any);
    println!("two restarted: all are in after {took:?}");
}

fn all_killed(url: &str, nodes: &mut [Node]) {
    let dead: Vec<_> = nodes.iter().map(|node| node.life().unwrap()).collect();
    nodes.iter_mut().for_each(Node::kill);
    nodes.iter_mut().for_each(|node| *node = start(url));
    let is_new = |ids: &[String]| !ids.iter().any(|id| dead.iter().any(|it| id.starts_with(it)));
    let took = ring_of(url, N_NODES * N_PEERS, SOON, is_new);
    println!("all killed and restarted: only the new are in after {took:?}");
}

/// One node stands still for three timeouts while it holds a task. Somebody else takes it over and
/// finishes it; back again, the node has new ids and does nothing under the old ones.
fn paused(url: &str, nodes: &mut [Node]) {
    let job = "name = \"slot\"\n[catalog.only]\ntype = \"input\"\nplugin = \"wait\"\n\
               cell = \"go\"\nmax-peers = 1\n";
    let ran = sardonyx(&["submit", "-", "--id", "slot", "--store", url, "--json"], job);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let holder = held_by(url, |_| true);
    let old = holder.split_once('-').unwrap().0.to_owned();
    let node = nodes.iter_mut().find(|node| node.life().as_ref() == Some(&old)).unwrap();
    let n_before = node.events().len();
    node.signal("STOP");
    let stopped_at = Instant::now();
    let other = held_by(url, |peer| !peer.starts_with(&old));
    runtime().block_on(async {
        let store = Store::open(url, Options::default()).await.unwrap();
        store.fill_cell("go", "now").await.unwrap();
    });
    wait_for("the other has finished it", || job_state(url) == "completed");
    std::thread::sleep((3 * SESSION).saturating_sub(stopped_at.elapsed()));
    node.signal("CONT");
    let is_new = |ids: &[String]| !ids.iter().any(|id| id.starts_with(&old));
    let took = ring_of(url, N_NODES * N_PEERS, SOON, is_new);
    println!("paused for {:?}: back under new ids after {took:?}", 3 * SESSION);
    let since = node.events().split_off(n_before);
    let began = since.iter().position(|event| event["event"] == "began").unwrap();
    let started = |event: &Value| event["event"] == "task-started";
    assert!(!since[..began].iter().any(started), "it did something before it came back: {since:?}");
    let stopped = |event: &Value| event["event"] == "task-stopped" && event["peer"] == *holder;
    assert!(since[..began].iter().any(stopped), "what it held was not stopped first: {since:?}");
    assert_ne!(node.life().unwrap(), old);
    says_nothing_more(url, &old, &other);
}

/// After `leave-cluster` the log has nothing that an old id says, and the task was finished by
/// whom the log gave it to.
fn says_nothing_more(url: &str, old: &str, other: &str) {
    let ran = sardonyx(&["log", url, "--json"], "");
    let mut left: Vec<String> = Vec::new();
    let (mut n_sealed, mut n_completed) = (0, 0);
    for line in ran.stdout.lines() {
        let entry: Value = serde_json::from_str(line).unwrap();
        let args = &entry["args"];
        match entry["fn"].as_str().unwrap() {
            "leave-cluster" => left.extend(args["peer"].as_str().map(str::to_owned)),
            "seal-task" | "complete-task" => {
                let peer = args["peer"].as_str().unwrap();
                assert_eq!(peer, other, "{line}");
                n_sealed += usize::from(entry["fn"] == "seal-task");
                n_completed += usize::from(entry["fn"] == "complete-task");
            }
            "volunteer-for-task" => {
                let peers = args["peers"].as_array().unwrap();
                let is_ghost = |it: &Value| left.iter().any(|left| it == left.as_str());
                assert!(!peers.iter().any(is_ghost), "{line}");
            }
            _ => {}
        }
    }
    assert!(left.iter().any(|peer| peer.starts_with(old)), "its peers were reported dead");
    assert_eq!((n_sealed, n_completed), (1, 1));
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < SOON, "{what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn job(url: &str) -> Value {
    let ran = sardonyx(&["jobs", "slot", "--json", "--store", url], "");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

fn job_state(url: &str) -> String {
    job(url)["state"].as_str().unwrap().to_owned()
}

/// Waits until the one slot of the job is held by somebody as wanted. It is never held by two.
fn held_by(url: &str, is_wanted: impl Fn(&str) -> bool) -> String {
    let begun = Instant::now();
    loop {
        let job = job(url);
        let holders = job["allocations"]["only"].as_array().unwrap();
        assert!(holders.len() <= 1, "two hold one slot: {holders:?}");
        if let Some(holder) = holders.first().and_then(Value::as_str).filter(|it| is_wanted(it)) {
            return holder.to_owned();
        }
        assert!(begun.elapsed() < SOON, "nobody holds it: {job}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
