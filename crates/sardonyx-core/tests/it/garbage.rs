//! Logs full of garbage: whatever a client can write, every law holds and nothing panics.

use sardonyx_core::{
    Command, Entry, JobScheduler, JoinProtocol, PeerId, Position, Replica, apply,
    command::{
        AbortJoinCluster, AcceptJoinCluster, ConfigureCluster, LeaveCluster, NotifyJoinCluster,
        NotifyWatchers, PeerGc, PrepareJoinCluster,
    },
    laws, reactions, respond, wire,
};

use crate::{
    rng::{Rng, number},
    text::peer,
};

/// Few names, so that commands meet.
pub const NAMES: [&str; 9] = ["a", "b", "c", "d", "e", "f", "g", "h", "ü"];

const ENTRIES_PER_LOG: u64 = 200;

#[test]
fn any_log_keeps_the_laws() {
    let entries = number("FUZZ_ENTRIES", 40_000);
    let first_seed = number("FUZZ_SEED", 1);
    let logs = entries.div_ceil(ENTRIES_PER_LOG);
    let mut applied = 0;
    for seed in first_seed..first_seed + logs {
        applied += one_log(seed);
    }
    println!("{} entries in {logs} logs, {applied} of them applied", logs * ENTRIES_PER_LOG);
    // A generator that only makes nonsense would test nothing.
    assert!(applied * 5 > entries, "only {applied} of {entries} entries made sense");
}

fn one_log(seed: u64) -> u64 {
    let mut rng = Rng::new(seed);
    let protocol = *rng.pick(&[None, Some(JoinProtocol::TwoPhase), Some(JoinProtocol::ThreePhase)]);
    let mut replica = Replica::configured(protocol, None);
    let mut said: Vec<Command> = Vec::new();
    let mut position = Position(rng.next() % 1_000);
    let mut applied = 0;
    for _ in 0..ENTRIES_PER_LOG {
        let command = match said.is_empty() || rng.chance(40) {
            true => any_command(&mut rng),
            false => said.swap_remove(rng.below(said.len())),
        };
        let entry = Entry { position, command };
        let (next, outcome) = apply(&replica, &entry);
        let at = || format!("seed {seed}, entry {entry}\nfrom {replica}\nto   {next}");
        laws::check(&next).unwrap_or_else(|broken| panic!("{broken}\n{}", at()));
        assert!(outcome.is_ok() || next == replica, "rejected, yet changed\n{}", at());
        let (twice, _) = apply(&next, &entry);
        assert!(twice == next, "twice is not once\n{}", at());
        for name in NAMES {
            let me = peer(name);
            let response = respond(&entry, &outcome, &replica, &next, &me);
            assert_eq!(response.commands, reactions(&entry, &outcome, &replica, &next, &me));
            said.extend(response.commands);
        }
        said.truncate(20);
        applied += u64::from(outcome.is_ok());
        replica = next;
        position = Position(position.0 + 1 + rng.next() % 3);
    }
    applied
}

/// A command that a confused or hostile client could write.
pub fn any_command(rng: &mut Rng) -> Command {
    let joiner = any_peer(rng);
    let (observer, subject) = (any_peer(rng), any_peer(rng));
    match rng.below(20) {
        0 => any_configuration(rng).into(),
        1..=9 => PrepareJoinCluster { joiner }.into(),
        10 => NotifyJoinCluster { joiner, observer, subject }.into(),
        11 => NotifyWatchers { joiner, observer, subject }.into(),
        12 => AcceptJoinCluster { joiner, observer, subject }.into(),
        13 => AbortJoinCluster { joiner }.into(),
        14..=18 => LeaveCluster { peer: joiner }.into(),
        _ => PeerGc { peer: joiner }.into(),
    }
}

fn any_peer(rng: &mut Rng) -> PeerId {
    peer(NAMES[rng.below(NAMES.len())])
}

fn any_configuration(rng: &mut Rng) -> ConfigureCluster {
    let schedulers = [JobScheduler::Greedy, JobScheduler::RoundRobin, JobScheduler::Percentage];
    let protocols = [JoinProtocol::TwoPhase, JoinProtocol::ThreePhase];
    ConfigureCluster {
        job_scheduler: rng.chance(50).then(|| *rng.pick(&schedulers)),
        join_protocol: rng.chance(50).then(|| *rng.pick(&protocols)),
        peers_max: rng.chance(50).then(|| rng.below(12) as u32),
    }
}

#[test]
fn any_bytes_are_a_command_or_unreadable() {
    let mut rng = Rng::new(7);
    for _ in 0..20_000 {
        let mut bytes = match rng.chance(50) {
            true => wire::command_to_bytes(&any_command(&mut rng)).unwrap(),
            false => Vec::new(),
        };
        for _ in 0..rng.below(8) {
            let at = rng.below(bytes.len() + 1);
            bytes.insert(at, rng.next() as u8);
        }
        if let Ok(command) = wire::command_from_bytes(&bytes) {
            let again = wire::command_to_bytes(&command).unwrap();
            assert_eq!(wire::command_from_bytes(&again), Ok(command));
        }
        let text = String::from_utf8_lossy(&bytes);
        _ = wire::entry_from_json(&text);
        _ = wire::replica_from_json(&text);
    }
}
