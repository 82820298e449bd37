//! Logs full of garbage: whatever a client can write, every law holds and nothing panics.

use sardonyx_core::{
    Command, Entry, JobId, JobScheduler, JoinProtocol, PeerId, Position, Replica, TaskId, apply,
    command::{
        AbortJoinCluster, AcceptJoinCluster, CompleteTask, ConfigureCluster, Gc, JobText, KillJob,
        LeaveCluster, NotifyJoinCluster, NotifyWatchers, PeerGc, PrepareJoinCluster, SealTask,
        SubmitJob, VolunteerForTask,
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
    match rng.below(40) {
        0 => any_configuration(rng).into(),
        1..=12 => PrepareJoinCluster { joiner }.into(),
        13 => NotifyJoinCluster { joiner, observer, subject }.into(),
        14 => NotifyWatchers { joiner, observer, subject }.into(),
        15 => AcceptJoinCluster { joiner, observer, subject }.into(),
        16 => AbortJoinCluster { joiner }.into(),
        17..=22 => LeaveCluster { peer: joiner }.into(),
        23 => PeerGc { peer: joiner }.into(),
        24..=28 => any_job(rng).into(),
        29..=31 => VolunteerForTask { peers: vec![joiner, observer, subject] }.into(),
        32..=34 => SealTask { peer: joiner, job: any_job_id(rng), task: any_task(rng) }.into(),
        35..=37 => CompleteTask { peer: joiner, job: any_job_id(rng), task: any_task(rng) }.into(),
        38 => KillJob { job: any_job_id(rng), reason: String::new() }.into(),
        _ => Gc { caller: joiner }.into(),
    }
}

fn any_job_id(rng: &mut Rng) -> JobId {
    JobId::new(["j1", "j2", "j3", "j4", "j5"][rng.below(5)]).unwrap()
}

fn any_task(rng: &mut Rng) -> TaskId {
    TaskId::new(["t1", "t2", "t3"][rng.below(3)]).unwrap()
}

fn any_job(rng: &mut Rng) -> SubmitJob {
    let tasks: Vec<_> = (0..rng.below(4)).map(|_| any_task(rng)).collect();
    let number = |rng: &mut Rng| match rng.chance(40) {
        true => rng.below(5).to_string(),
        false => "null".into(),
    };
    let percentage = |rng: &mut Rng| match rng.chance(60) {
        true => format!("{}.{}", rng.below(103), rng.below(1_000)),
        false => "null".into(),
    };
    let entries: Vec<_> = ["t1", "t2", "t3"]
        .iter()
        .map(|task| {
            let (min, max, share) = (number(rng), number(rng), percentage(rng));
            format!(r#""{task}":{{"min-peers":{min},"max-peers":{max},"percentage":{share}}}"#)
        })
        .collect();
    let scheduler = ["greedy", "round-robin", "percentage", "bogus"][rng.below(4)];
    let (share, covered) = (percentage(rng), rng.chance(30));
    let catalog = entries.join(",");
    let job = format!(
        r#"{{"task-scheduler":"{scheduler}","percentage":{share},
            "partial-coverage-protection":{covered},"catalog":{{{catalog}}}}}"#
    );
    SubmitJob { id: any_job_id(rng), job: JobText::new(&job), tasks }
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
        jobs_max: rng.chance(30).then(|| rng.below(6) as u32),
        outcomes_max: rng.chance(30).then(|| rng.below(4) as u32),
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
