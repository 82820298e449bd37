//! `sardonyx demo` from the outside: a peer is killed, and the counts are right all the same.

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{node::SOON, program::sardonyx};

fn names(ring: &Value) -> Vec<&str> {
    ring.as_array().unwrap().iter().map(|peer| peer.as_str().unwrap()).collect()
}

#[test]
fn a_peer_dies_and_every_word_is_counted_once() {
    for peers in ["3", "8"] {
        let ran = sardonyx(&["demo", "--json", "--peers", peers, "--megabytes", "12"], "");
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let told: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(told["right"], true, "{told}");
        assert_eq!(told["words"], told["expected-words"]);
        assert!(told["dashboard"].as_str().unwrap().starts_with("http://127.0.0.1:"), "{told}");
        assert!(told["words"].as_u64().unwrap() > 1_000_000, "{told}");
        let n: usize = peers.parse().unwrap();
        let ring = &told["ring"];
        let (before, without, after) =
            (names(&ring["before"]), names(&ring["without"]), names(&ring["after"]));
        let killed = told["killed"].as_str().unwrap();
        assert_eq!((before.len(), without.len(), after.len()), (n, n - 1, n), "{ring}");
        assert!(before.contains(&killed) && !without.contains(&killed), "{told}");
        assert!(!after.contains(&killed) && told["ran"].is_string(), "{told}");
        let entries = told["entries"].as_array().unwrap();
        let says = |name: &str, of: &str, peer: &str| {
            entries.iter().any(|it| it["fn"] == name && it["args"][of] == peer)
        };
        assert!(says("leave-cluster", "peer", killed), "the log says that it is gone: {told}");
        let new = after.iter().find(|peer| !before.contains(peer)).unwrap();
        assert!(says("accept-join-cluster", "joiner", new), "and who came: {told}");
    }
}

#[test]
fn a_person_sees_the_ring_before_without_and_after() {
    let ran = sardonyx(&["demo", "--peers", "4", "--megabytes", "8"], "");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(ran.stdout.matches("┌─▶ ").count(), 3, "{}", ran.stdout);
    for part in
        ["is killed", "leave-cluster", "accept-join-cluster n5-1", "most frequent: ", "Right: "]
    {
        assert!(ran.stdout.contains(part), "{part:?} is not in\n{}", ran.stdout);
    }
}

#[test]
fn a_cluster_that_is_kept_runs_until_it_is_stopped() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_sardonyx"))
        .args(["demo", "--keep", "--json", "--peers", "3", "--megabytes", "4"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let told: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(told["right"], true, "{told}");
    assert_eq!(child.try_wait().unwrap(), None, "it goes on");
    let address = told["dashboard"].as_str().unwrap().trim_start_matches("http://");
    let address = address.trim_end_matches('/').parse().unwrap();
    std::net::TcpStream::connect_timeout(&address, SOON).expect("the dashboard is there");
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let begun = Instant::now();
    let ended = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begun.elapsed() > SOON {
            child.kill().unwrap();
            panic!("it does not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(ended.code(), Some(0));
}

#[test]
fn a_dashboard_of_the_demo_is_for_this_machine() {
    let ran = sardonyx(&["demo", "--http", "0.0.0.0:0", "--megabytes", "1"], "");
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
}

#[test]
fn a_demo_has_enough_peers_to_lose_one() {
    for peers in ["2", "65", "x"] {
        let ran = sardonyx(&["demo", "--peers", peers], "");
        assert_eq!(ran.code, Some(2), "{peers}: {}", ran.stderr);
        assert!(ran.stderr.contains("--peers"), "{}", ran.stderr);
    }
}
