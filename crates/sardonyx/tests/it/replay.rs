//! `sardonyx replay`, as a person or a script meets it.

use serde_json::{Value, json};

use crate::program::{Ran, sardonyx};

fn join(id: u64, peer: &str) -> String {
    format!("{}\n", json!({"id": id, "fn": "prepare-join-cluster", "args": {"joiner": peer}}))
}

fn lines(ran: &Ran) -> Vec<Value> {
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn settling_joins_peers_by_three_phases() {
    let log = join(0, "a") + &join(1, "b") + &join(2, "c");
    let lines = lines(&sardonyx(&["replay", "--settle"], &log));
    let last = &lines[2];
    assert_eq!(last["replica"]["peers"], json!(["a", "b", "c"]));
    // c's prepare stands at 4, after b's notify and accept: 4 mod 2 is 0, so a observes c.
    assert_eq!(last["replica"]["pairs"], json!({"a": "c", "c": "b", "b": "a"}));
    let said: Vec<_> = last["said"].as_array().unwrap().iter().map(|it| &it["fn"]).collect();
    assert_eq!(said, ["notify-join-cluster", "accept-join-cluster"]);
    assert_eq!(last["said"][0]["id"], 5);
    assert_eq!(last["id"], 2, "the input's id labels its line");
}

#[test]
fn settling_joins_peers_by_two_phases() {
    let log = join(0, "a") + &join(1, "b") + &join(2, "c");
    let lines = lines(&sardonyx(&["replay", "--settle", "--join", "two-phase"], &log));
    // c goes before a, whom b watches.
    assert_eq!(lines[2]["replica"]["pairs"], json!({"a": "b", "b": "c", "c": "a"}));
    assert_eq!(lines[2]["said"][0]["fn"], "notify-watchers");
}

#[test]
fn without_settling_only_what_is_in_the_log_happens() {
    let log = join(0, "a") + &join(7, "b") + &join(8, "c");
    let lines = lines(&sardonyx(&["replay", "--as", "a"], &log));
    assert_eq!(lines[1]["replica"]["prepared"], json!({"a": "b"}));
    assert_eq!(lines[1]["diff"], json!({"prepared": {"a": {"from": null, "to": "b"}}}));
    assert_eq!(lines[1]["effects"], json!([{"effect": "watch", "peer": "b"}]));
    let notify = json!({"joiner": "b", "observer": "a", "subject": "a"});
    assert_eq!(lines[1]["reactions"], json!([{"fn": "notify-join-cluster", "args": notify}]));
    assert_eq!(lines[2]["applied"], false);
    assert_eq!(lines[2]["rejected"], "every member is taken up with another joiner");
    assert_eq!(lines[2]["diff"], json!({}));
}

#[test]
fn a_printed_replica_is_an_origin() {
    let first = lines(&sardonyx(&["replay", "--settle"], &(join(0, "a") + &join(1, "b"))));
    let path = std::env::temp_dir().join(format!("sardonyx-origin-{}.json", std::process::id()));
    std::fs::write(&path, first[1]["replica"].to_string()).unwrap();
    let origin = path.to_str().unwrap();
    let log = json!({"id": 9, "fn": "leave-cluster", "args": {"peer": "a"}}).to_string();
    let ran = sardonyx(&["replay", "--origin", origin, "--as", "a"], &log);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(lines(&ran)[0]["replica"]["peers"], json!(["b"]));
    assert_eq!(lines(&ran)[0]["effects"], json!([{"effect": "stop"}]));
}

#[test]
fn a_malformed_line_is_named_and_nothing_is_half_printed() {
    for (bad, why) in [
        ("{\"id\":1,", "expected {\"id\": 0"),
        ("{\"id\":1,\"fn\":\"join\",\"args\":{}}", "there is no command \"join\""),
        ("{\"id\":-1,\"fn\":\"peer-gc\",\"args\":{}}", "expected u64"),
        ("{\"id\":1,\"fn\":\"peer-gc\",\"args\":{}}", "missing field `peer`"),
    ] {
        let ran = sardonyx(&["replay"], &(join(0, "a") + "\n" + bad + "\n" + &join(2, "b")));
        assert_eq!(ran.code, Some(2), "{bad}");
        assert!(ran.stderr.starts_with("sardonyx: line 3: "), "{}", ran.stderr);
        assert!(ran.stderr.contains(why), "{}", ran.stderr);
        assert_eq!(ran.stdout.lines().count(), 1, "the line before it is shown, whole");
        assert!(ran.stdout.ends_with("}\n"));
    }
}

#[test]
fn a_bad_origin_and_bad_options_are_refused() {
    let ran = sardonyx(&["replay", "--origin", "no-such-file.json"], "");
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("no-such-file.json"), "{}", ran.stderr);
    let ran = sardonyx(&["replay", "--join", "four-phase"], "");
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("two-phase"), "{}", ran.stderr);
}

#[test]
fn ids_that_do_not_grow_get_a_warning() {
    let ran = sardonyx(&["replay"], &(join(5, "a") + &join(4, "b")));
    assert_eq!(ran.code, Some(0));
    assert!(ran.stderr.contains("line 2: id 4 comes after 5"), "{}", ran.stderr);
}
