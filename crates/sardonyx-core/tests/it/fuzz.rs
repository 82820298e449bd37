//! Whatever bytes or text come: a command, an entry, a replica, or a clear refusal.

#[path = "../../../../fuzz/harness.rs"]
mod harness;

use harness::Target;
use sardonyx_core::{Command, Entry, Position, Replica, apply, laws, respond, wire};

use crate::{
    garbage::{NAMES, any_command},
    rng::Rng,
    text::peer,
};

/// What some senseless logs lead to.
fn replicas() -> Vec<Replica> {
    let played = |seed: u64| {
        let mut rng = Rng::new(seed);
        let mut replica = Replica::new();
        for at in 0..20 * seed {
            let command = any_command(&mut rng);
            replica.play(&Entry { position: Position(at), command }).ok();
        }
        replica
    };
    (0..8).map(played).collect()
}

/// Applies a command everywhere: the laws hold, a rejection changes nothing, twice is once.
fn try_everywhere(replicas: &[Replica], command: &Command) -> String {
    let mut outcomes = String::new();
    for replica in replicas {
        let entry = Entry { position: Position(500), command: command.clone() };
        let (next, outcome) = apply(replica, &entry);
        laws::check(&next).unwrap_or_else(|broken| panic!("{broken}: {entry}"));
        assert!(outcome.is_ok() || next == *replica, "rejected, yet changed: {entry}");
        assert!(apply(&next, &entry).0 == next, "twice is not once: {entry}");
        for name in NAMES {
            respond(&entry, &outcome, replica, &next, &peer(name));
        }
        outcomes.push_str(&format!("{outcome:?} "));
    }
    outcomes
}

#[test]
fn a_command_in_bytes() {
    let mut rng = Rng::new(1);
    let commands: Vec<Command> = (0..60).map(|_| any_command(&mut rng)).collect();
    let bytes = |it: &Command| wire::command_to_bytes(it).expect("written");
    let replicas = replicas();
    let seeds = commands.iter().map(bytes).collect();
    Target { name: "core-command", seeds, words: &NAMES }.run(
        |input| match wire::command_from_bytes(input) {
            Err(why) => format!("{why:?}"),
            Ok(command) => {
                let again = wire::command_to_bytes(&command).expect("what was read can be written");
                assert_eq!(wire::command_from_bytes(&again), Ok(command.clone()));
                try_everywhere(&replicas, &command)
            }
        },
    );
}

#[test]
fn an_entry_in_json() {
    let mut rng = Rng::new(2);
    let entry = |_| {
        let entry = Entry { position: Position(7), command: any_command(&mut rng) };
        wire::entry_to_json(&entry).into_bytes()
    };
    let seeds: Vec<Vec<u8>> = (0..40).map(entry).collect();
    let replicas = replicas();
    let words = &["null", "{}", "[]", "\"id\"", "\"fn\"", "\"args\"", "1e999", "-1", "\\u0000"];
    Target { name: "core-entry-json", seeds, words }.run(|input| {
        let text = String::from_utf8_lossy(input);
        match wire::entry_from_json(&text) {
            Err(why) => why.to_string(),
            Ok(entry) => {
                let again = wire::entry_from_json(&wire::entry_to_json(&entry));
                assert_eq!(again.as_ref(), Ok(&entry), "what was read can be written");
                try_everywhere(&replicas, &entry.command)
            }
        }
    });
}

#[test]
fn a_replica_in_json() {
    let seeds = replicas().iter().map(|it| wire::replica_to_json(it).into_bytes()).collect();
    let words = &[
        "null",
        "{}",
        "[]",
        "\"a\"",
        "\"peers\"",
        "\"pairs\"",
        "\"prepared\"",
        "\"accepted\"",
        "\"jobs\"",
        "\"allocations\"",
        "\"completed\"",
        "\"sealing\"",
        "4294967296",
        "-1",
        "1e99",
    ];
    let mut rng = Rng::new(3);
    let commands: Vec<Command> = (0..12).map(|_| any_command(&mut rng)).collect();
    Target { name: "core-replica-json", seeds, words }.run(|input| {
        let text = String::from_utf8_lossy(input);
        match wire::replica_from_json(&text) {
            Err(why) => why.to_string(),
            Ok(replica) => {
                laws::check(&replica).unwrap_or_else(|broken| panic!("{broken}"));
                let again = wire::replica_from_json(&wire::replica_to_json(&replica));
                assert!(again.as_ref() == Ok(&replica), "what was read can be written");
                let replicas = [replica];
                commands.iter().map(|it| try_everywhere(&replicas, it)).collect()
            }
        }
    });
}
