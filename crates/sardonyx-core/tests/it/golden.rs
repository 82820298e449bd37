//! The public forms, byte by byte. A line that changes is a format that changes: write a decision
//! record first, then run with UPDATE=1.

use std::{collections::BTreeSet, fmt::Write as _, fs, path::PathBuf};

use sardonyx_core::{Command, Entry, Position, Replica, wire};

use crate::text;

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/wire").join(name)
}

fn check(name: &str, actual: &str) {
    let path = path(name);
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, actual).unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), actual, "{name} pins a public form");
}

/// `NAME | JSON | BYTES` for each line's JSON.
#[test]
fn commands_have_these_forms() {
    let golden = fs::read_to_string(path("v1.txt")).unwrap();
    let mut actual = String::new();
    let mut named = BTreeSet::new();
    for line in golden.lines() {
        let [name, json, _] = line.splitn(3, " | ").collect::<Vec<_>>()[..] else {
            panic!("expected NAME | JSON | BYTES, not {line:?}");
        };
        let entry = wire::entry_from_json(json).unwrap();
        assert_eq!(entry.command.name(), name);
        let bytes = wire::command_to_bytes(&entry.command).unwrap();
        assert_eq!(wire::command_from_bytes(&bytes).unwrap(), entry.command);
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        _ = writeln!(actual, "{name} | {} | {hex}", wire::entry_to_json(&entry));
        named.insert(entry.command.name());
    }
    check("v1.txt", &actual);
    assert_eq!(named, BTreeSet::from(Command::NAMES), "every command has its golden line");
}

#[test]
fn a_replica_has_this_form() {
    let mut replica = Replica::new();
    let log = [
        "configure-cluster peers-max=7",
        "prepare-join-cluster a",
        "prepare-join-cluster b",
        "notify-join-cluster b observer=a subject=a",
        "accept-join-cluster b observer=a subject=a",
        "prepare-join-cluster c",
        "notify-join-cluster c observer=b subject=a",
        "prepare-join-cluster d",
    ];
    let mut actual = String::new();
    for (position, line) in log.iter().enumerate() {
        let command = match line.strip_prefix("configure-cluster peers-max=") {
            Some(max) => text::command(&format!(r#"configure-cluster {{"peers-max":{max}}}"#)),
            None => text::command(line),
        };
        let entry = Entry { position: Position(position as u64), command };
        replica.play(&entry).unwrap_or_else(|why| panic!("{line}: {why}"));
        _ = writeln!(actual, "{}", wire::replica_to_json(&replica));
    }
    check("replica.txt", &actual);
}

#[test]
fn bad_bytes_say_what_is_wrong() {
    let why = |bytes: &[u8]| wire::command_from_bytes(bytes).unwrap_err().to_string();
    assert_eq!(why(&[]), "an empty entry");
    assert_eq!(why(&[2]), "an entry of format 2, but this build reads up to 1: upgrade it");
    assert_eq!(why(&[1, 99]), "not a command of format 1");
    let large = vec![1; wire::COMMAND_BYTES_MAX + 1];
    assert!(why(&large).starts_with("a command has at most 1048576 bytes"));
}

#[test]
fn bad_json_says_what_to_write() {
    let why = |text: &str| wire::entry_from_json(text).unwrap_err().to_string();
    let unknown = why(r#"{"id":1,"fn":"join","args":{}}"#);
    assert!(unknown.contains("there is no command \"join\""), "{unknown}");
    assert!(unknown.contains("prepare-join-cluster"), "{unknown}");
    let missing = why(r#"{"id":1,"fn":"leave-cluster","args":{}}"#);
    assert!(missing.contains("args of leave-cluster: missing field `peer`"), "{missing}");
    let extra = why(r#"{"id":1,"fn":"leave-cluster","args":{"peer":"a","why":"x"}}"#);
    assert!(extra.contains("unknown field `why`"), "{extra}");
    let torn = why(r#"{"id":1,"fn":"#);
    assert!(torn.contains(r#"expected {"id": 0, "fn": "#), "{torn}");
    let empty_id = why(r#"{"id":1,"fn":"leave-cluster","args":{"peer":""}}"#);
    assert!(empty_id.contains("at least one character"), "{empty_id}");
}

#[test]
fn an_impossible_origin_is_refused() {
    let why = |text: &str| wire::replica_from_json(text).unwrap_err().to_string();
    assert_eq!(why(r#"{"peers":["a","a"]}"#), "peers names a twice");
    assert_eq!(
        why(r#"{"peers":["a"],"pairs":{"a":"b","b":"a"}}"#),
        "pairs names b, which is not in peers"
    );
    assert_eq!(
        why(r#"{"peers":["a","b","c"],"pairs":{"a":"b","b":"a"}}"#),
        "no such cluster: ring-is-one-cycle: from a the ring takes 2 steps around 3 members"
    );
    assert!(why(r#"{"peers":["a"],"prepared":{"b":"c"}}"#).contains("b stitches but is no member"));
    assert!(why(r#"{"piers":["a"]}"#).contains("unknown field `piers`"));
}

#[test]
fn an_id_of_the_longest_length_is_taken_and_one_more_is_not() {
    let max = sardonyx_core::id::ID_BYTES_MAX;
    let entry = |length: usize| {
        let id = "x".repeat(length);
        wire::entry_from_json(&format!(r#"{{"id":0,"fn":"peer-gc","args":{{"peer":"{id}"}}}}"#))
    };
    assert!(entry(max).is_ok());
    assert!(entry(max + 1).unwrap_err().to_string().contains("at most 255 bytes"));
}
