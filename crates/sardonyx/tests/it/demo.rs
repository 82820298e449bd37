//! `sardonyx demo` from the outside: a peer is killed, and the counts are right all the same.

use serde_json::Value;

use crate::program::sardonyx;

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
fn a_demo_has_enough_peers_to_lose_one() {
    for peers in ["2", "65", "x"] {
        let ran = sardonyx(&["demo", "--peers", peers], "");
        assert_eq!(ran.code, Some(2), "{peers}: {}", ran.stderr);
        assert!(ran.stderr.contains("--peers"), "{}", ran.stderr);
    }
}
