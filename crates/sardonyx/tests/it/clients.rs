//! The commands of people: submit, jobs, kill, gc, peers; what they print and how they fail.

use serde_json::Value;

use crate::{
    node::{Node, SOON, Server, ring_of},
    program::{Ran, sardonyx},
};

const JOB: &str = "name = \"nap\"\nworkflow = [[\"in\", \"out\"]]\n\
    [catalog.in]\ntype = \"input\"\nplugin = \"wait\"\n\
    [catalog.out]\ntype = \"output\"\nplugin = \"wait\"\n";

fn json(ran: &Ran) -> Value {
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

#[test]
fn a_job_is_submitted_waits_runs_is_killed_and_collected() {
    let server = Server::start();
    let url = server.url();
    let with = |args: &[&str], stdin: &str| sardonyx(&[args, &["--store", url]].concat(), stdin);
    let covered = format!("partial-coverage-protection = true\n{JOB}");
    let said = json(&with(&["submit", "-", "--id", "j", "--json"], &covered));
    assert_eq!((&said["applied"], &said["what"]), (&true.into(), &"j".into()));
    let jobs = json(&with(&["jobs", "--json"], ""));
    assert_eq!(jobs["jobs"][0]["waiting"], "needs 2 peers, 0 available");
    let shown = with(&["jobs"], "").stdout;
    assert_eq!(shown, "j  pending  0 of 2 tasks done, 0 peers; needs 2 peers, 0 available\n");

    let again = with(&["submit", "-", "--id", "j"], &covered);
    assert_eq!(again.code, Some(2));
    assert_eq!(again.stderr, "sardonyx: rejected at entry 1: there is a job j already\n");

    let _node = Node::start(&["--peers", "2", "--store", url]);
    ring_of(url, 2, SOON, |_| true);
    let begun = std::time::Instant::now();
    while json(&with(&["jobs", "j", "--json"], ""))["state"] != "running" {
        assert!(begun.elapsed() < SOON, "it runs");
    }
    let killed = with(&["kill", "j", "--reason", "enough"], "");
    assert_eq!(killed.code, Some(0), "{}", killed.stderr);
    assert!(killed.stdout.starts_with("kill j: applied at entry "), "{}", killed.stdout);
    let over = with(&["kill", "j"], "");
    assert_eq!(over.code, Some(2));
    assert!(over.stderr.ends_with(": job j is killed\n"), "{}", over.stderr);
    assert_eq!(with(&["kill", "nosuch"], "").code, Some(2));

    let gc = json(&with(&["gc", "--json"], ""));
    assert_eq!(gc["jobs"], 1);
    assert!(gc["origin"].is_u64());
    assert_eq!(with(&["jobs"], "").stdout, "j  killed  collected\n");
    assert_eq!(json(&with(&["jobs", "j", "--json"], ""))["state"], "killed");
    assert_eq!(with(&["jobs", "nosuch"], "").code, Some(2));
    let log = sardonyx(&["log", url, "--json"], "");
    assert!(log.stderr.contains("are trimmed"), "{}", log.stderr);
    ring_of(url, 2, SOON, |_| true);
}

#[test]
fn everything_wrong_with_a_job_is_said_at_once_and_nothing_is_appended() {
    let server = Server::start();
    let bad = JOB.replace("type = \"output\"", "type = \"sink\"").replace("name", "nmae");
    let ran = sardonyx(&["submit", "-", "--store", server.url()], &bad);
    assert_eq!(ran.code, Some(2));
    assert_eq!(
        ran.stderr,
        "sardonyx: - cannot run:\n  \
         catalog.out.type: write \"input\", \"function\" or \"output\"\n  \
         name: write a text: name = \"word-count\"\n  \
         nmae: there is no such key; the keys are name, workflow, catalog, task-scheduler, \
         percentage, partial-coverage-protection, flow\n"
    );
    assert_eq!(sardonyx(&["log", server.url()], "").stdout, "");
    let checked = sardonyx(&["submit", "-", "--check"], JOB);
    assert_eq!(checked.stdout, "nap: no faults; tasks in, out\n");
}

#[test]
fn a_node_that_serves_its_directory_lets_others_in() {
    let dir = tempfile::Builder::new().prefix("sardonyx-").tempdir().unwrap();
    let store = format!("embedded:{}", dir.path().display());
    let args = ["--store", &store, "--cluster", "c1", "--listen", "127.0.0.1:0", "--peers", "3"];
    let mut node = Node::start(&args);
    let begun = std::time::Instant::now();
    let url = loop {
        let events = node.events();
        if let Some(url) = events.first().and_then(|start| start["serves"].as_str()) {
            break url.to_owned();
        }
        assert!(begun.elapsed() < SOON, "it says where");
    };
    let _other = Node::start(&["--store", &url, "--peers", "2"]);
    ring_of(&url, 5, SOON, |_| true);
    let second = sardonyx(&["start", "--store", &format!("{store}/c1")], "");
    assert_eq!(second.code, Some(2), "{}", second.stderr);
    node.signal("INT");
    assert_eq!(node.wait(), Some(0));
    assert!(dir.path().join("c1").is_dir());
}

#[test]
fn mistakes_are_told_before_anything_starts() {
    let cases: [(&[&str], &str); 4] = [
        (&["start", "--peers", "0", "--store", "memory:"], "a node has at least one peer"),
        (&["start", "--store", "etcd://a:1/x", "--cluster", "y"], "leave one of the two out"),
        (&["start", "--store", "memory:", "--listen", "127.0.0.1:0"], "serves a directory"),
        (&["peers", "--store", "embedded:/nonexistent/sardonyx"], "there is no store in"),
    ];
    for (args, expected) in cases {
        let ran = sardonyx(args, "");
        assert_eq!(ran.code, Some(2), "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(expected), "{args:?}: {}", ran.stderr);
    }
    let ran = sardonyx(&["start", "--session", "soon"], "");
    assert!(ran.stderr.contains("write 500ms, 2s, 5m or 1h"), "{}", ran.stderr);
}

/// Nothing is wrong with what was given: whoever looks after the node may start it again.
#[test]
fn queues_that_cannot_be_reached_are_the_worlds_fault() {
    let nobody = "nats://127.0.0.1:1/jobs";
    let ran = sardonyx(&["start", "--store", "memory:", "--queues", nobody], "");
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("does NATS run there"), "{}", ran.stderr);
}

#[test]
fn a_node_whose_store_is_gone_still_stops_when_it_is_asked_to() {
    let server = Server::start();
    let args = ["--store", server.url(), "--peers", "3", "--session", "2s", "--leave", "1s"];
    let mut node = Node::start(&args);
    ring_of(server.url(), 3, SOON, |_| true);
    drop(server);
    node.signal("TERM");
    assert_eq!(node.wait(), Some(0));
}

#[test]
fn a_node_goes_on_when_nobody_reads_what_it_says() {
    use std::process::{Command, Stdio};
    let server = Server::start();
    let mut node = Command::new(env!("CARGO_BIN_EXE_sardonyx"))
        .args(["start", "--peers", "3", "--session", "2s", "--json", "--store", server.url()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    let mut out = std::io::BufReader::new(node.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut out, &mut first).unwrap();
    drop(out);
    ring_of(server.url(), 3, SOON, |_| true);
    let pid = node.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(node.wait().unwrap().code(), Some(0));
    ring_of(server.url(), 0, SOON, |_| true);
}

#[test]
fn nodes_that_disagree_exit_with_3() {
    let server = Server::start();
    let is_checkpoint = |at: &u64| sardonyx_peer::is_checkpoint(sardonyx_core::Position(*at));
    let at = (50..).find(is_checkpoint).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let store = runtime.block_on(async {
        let options = sardonyx_store::Options::default();
        let store = sardonyx_store::Store::open(server.url(), options).await.unwrap();
        let lie = sardonyx_store::Write::Put(format!("digest/{at:020}"), "00ff liar".into());
        store.commit(&sardonyx_store::Txn { when: vec![], then: vec![lie] }).await.unwrap();
        store
    });
    let mut node = Node::start(&["--store", server.url(), "--session", "2s"]);
    ring_of(server.url(), 1, SOON, |_| true);
    runtime.block_on(async {
        let peer = sardonyx_core::PeerId::new("nobody").unwrap();
        let nothing = sardonyx_core::command::PeerGc { peer }.into();
        while store.append(&nothing).await.unwrap().0 <= at {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    });
    assert_eq!(node.wait(), Some(3));
}

/// An append whose answer was lost stands in the log twice; the second copy is handed to nobody.
#[test]
fn a_log_that_ends_with_a_copy_is_read_to_its_end() {
    use sardonyx_store::{Options, Store, Token};
    let dir = tempfile::Builder::new().prefix("sardonyx-").tempdir().unwrap();
    let url = format!("embedded:{}", dir.path().display());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Store::open(&url, Options::default()).await.unwrap();
        let joiner = sardonyx_core::PeerId::new("a").unwrap();
        let join = sardonyx_core::command::PrepareJoinCluster { joiner }.into();
        let token = Token { writer: 7, number: 1 };
        let mut entry = token.to_bytes().to_vec();
        entry.extend(sardonyx_core::wire::command_to_bytes(&join).unwrap());
        for _ in 0..2 {
            store.backend().append(token, entry.clone().into()).await.unwrap();
        }
        store.close().await;
    });
    let log = sardonyx(&["log", &url], "");
    assert_eq!(log.stdout.lines().count(), 1, "{}", log.stdout);
    let replica = sardonyx(&["replica", &url, "--json"], "");
    assert!(replica.stdout.contains("\"peers\":[\"a\"]"), "{}", replica.stdout);
    let peers = sardonyx(&["peers", "--store", &url], "");
    assert!(peers.stdout.starts_with("1 peers in one ring"), "{}", peers.stdout);
}

/// What a node is called is an id that it made with its worker number.
#[test]
fn a_nodes_name_says_which_number_made_it() {
    let server = Server::start();
    let url = server.url();
    let mut node = Node::start(&["--peers", "1", "--store", url]);
    ring_of(url, 1, SOON, |_| true);
    let workers = || json(&sardonyx(&["ids", "workers", "--json", "--store", url], ""));
    assert_eq!(workers()["state"], "held");
    let name = node.life().unwrap();
    let parts = json(&sardonyx(&["ids", "decode", "--form", "base32", &name], ""));
    assert_eq!(parts["worker"], workers()["number"]);
    node.signal("TERM");
    assert_eq!(node.wait(), Some(0));
    assert_eq!(workers()["state"], "free", "it is given back at once");
}
