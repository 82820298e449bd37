//! Any past is what playing from the beginning says it is.

use sardonyx_core::{
    PeerId, TaskId,
    command::{Gc, JobText, KillJob, LeaveCluster, PrepareJoinCluster, SubmitJob},
};

use super::*;

fn peer(name: u64) -> PeerId {
    PeerId::new(&format!("p{name}")).unwrap()
}

fn job(name: &str) -> JobId {
    JobId::new(name).unwrap()
}

fn submit(name: &str) -> Command {
    let tasks = vec![TaskId::new("t").unwrap()];
    SubmitJob { id: job(name), job: JobText::new("{\"catalog\":{\"t\":{}}}"), tasks }.into()
}

/// Peers come and go, jobs too; positions have gaps. Some of it is rejected.
fn log(n: u64) -> Vec<(Position, Option<Command>)> {
    let command = |k: u64| match k % 7 {
        0..3 => Some(PrepareJoinCluster { joiner: peer(k) }.into()),
        3 => Some(LeaveCluster { peer: peer(k - 3) }.into()),
        4 => Some(submit(&format!("j{k}"))),
        5 => Some(KillJob { job: job(&format!("j{}", k - 1)), reason: "enough".into() }.into()),
        _ => None,
    };
    (0..n).map(|k| (Position(k * 3), command(k))).collect()
}

fn played(limits: Limits, log: &[(Position, Option<Command>)]) -> Timeline {
    let mut timeline = Timeline::new(limits);
    log.iter().for_each(|(position, command)| timeline.push(*position, command.clone()));
    timeline
}

/// The slow way.
fn replica_at(log: &[(Position, Option<Command>)], at: Position) -> Replica {
    let mut replica = Replica::new();
    for (position, command) in log.iter().filter(|(position, _)| *position <= at) {
        if let Some(command) = command.clone() {
            let _ = replica.play(&Entry { position: *position, command });
        }
    }
    replica
}

#[test]
fn every_past_is_what_playing_from_the_start_says() {
    let log = log(1_500);
    let timeline = played(Limits { kept: 4, ..Limits::default() }, &log);
    for at in (0..log.len() as u64 * 3 + 7).step_by(97) {
        let (position, replica) = timeline.at(Position(at)).unwrap().replica();
        assert_eq!(replica, replica_at(&log, Position(at)), "at {at}");
        let last = log.iter().map(|(position, _)| *position).rfind(|it| it.0 <= at);
        assert_eq!(position, last);
    }
}

#[test]
fn there_are_never_more_replicas_than_allowed_and_jumps_stay_short() {
    let log = log(10_000);
    for kept in [3, 4, 16] {
        let timeline = played(Limits { kept, ..Limits::default() }, &log);
        assert!(timeline.n_kept() <= kept, "{} of {kept}", timeline.n_kept());
        let longest = 4 * 10_000 / kept as u64 + SPACING;
        for at in (0..30_000).step_by(1_001) {
            let n = timeline.at(Position(at)).unwrap().n_entries();
            assert!(n <= longest, "{n} entries to play, of {longest}");
        }
    }
}

#[test]
fn what_no_longer_fits_is_gone_and_says_so() {
    let log = log(4_000);
    let limits = Limits { entries_bytes: 20_000, ..Limits::default() };
    let timeline = played(limits, &log);
    assert!(timeline.entries_bytes <= 20_000 + 2 * piece::cost(&[0; 64]) * 512);
    let (_, floor) = timeline.floor();
    let first = floor.unwrap();
    assert!(first > Position(0));
    assert_eq!(timeline.at(Position(first.0 - 1)).unwrap_err(), Gone { first });
    assert_eq!(timeline.at(first).unwrap().replica().1, replica_at(&log, first));
    assert_eq!(timeline.at(Position(u64::MAX)).unwrap().replica().1, *timeline.head().1);
}

#[test]
fn a_past_of_one_mebibyte_stays_below_it_and_can_be_told() {
    let usual = Limits { kept: 512, kept_bytes: 160 << 20, entries_bytes: 192 << 20 };
    assert_eq!(Limits::default(), usual);
    // A small cluster: two replicas are kept, however large.
    let command = |k: u64| match k % 2 {
        0 => PrepareJoinCluster { joiner: peer(k) }.into(),
        _ => LeaveCluster { peer: peer(k - 1) }.into(),
    };
    let log: Vec<_> = (0..60_000).map(|k| (Position(k), Some(command(k)))).collect();
    let timeline = played(Limits::of_mib(1), &log);
    assert!(timeline.bytes() <= 1 << 20, "{}", timeline.bytes());
    let first = timeline.floor().1.expect("the oldest are gone");
    assert!(timeline.seq_after(first) < 55_000, "{first}: more than a few are left");
    assert_eq!(timeline.at(first).unwrap().replica().1, replica_at(&log, first));
}

#[test]
fn a_window_tells_what_became_of_each_entry() {
    let log = log(900);
    let timeline = played(Limits::default(), &log);
    let (from, to) = (300, 620);
    let mut seen = Vec::new();
    timeline.window(from, to).play(|it| {
        seen.push(it);
        true
    });
    assert_eq!(seen.len(), 320);
    for it in &seen {
        let (position, command) = &log[it.seq as usize];
        assert_eq!(it.position, *position);
        assert_eq!(it.entry.as_ref().map(|(entry, _)| &entry.command), command.as_ref());
    }
    // A peer that is being stitched in cannot leave; a job that was submitted can be killed.
    assert!(seen.iter().any(|it| matches!(&it.entry, Some((_, Err(_))))));
    assert!(seen.iter().any(|it| matches!(&it.entry, Some((_, Ok(()))))));
    let mut n = 0;
    timeline.window(from, to).play(|_| {
        n += 1;
        n < 5
    });
    assert_eq!(n, 5);
}

#[test]
fn an_origin_is_a_new_beginning() {
    let mut timeline = played(Limits::default(), &log(700));
    timeline.restart(Position(90_000), Replica::new());
    assert_eq!(timeline.at(Position(5)).unwrap_err(), Gone { first: Position(90_000) });
    timeline.push(Position(90_004), Some(PrepareJoinCluster { joiner: peer(1) }.into()));
    let (position, replica) = timeline.at(Position(90_004)).unwrap().replica();
    assert_eq!((position, replica.n_peers()), (Some(Position(90_004)), 1));
    assert_eq!(timeline.at(Position(90_003)).unwrap().replica().1.n_peers(), 0);
    assert_eq!(timeline.seq_after(Position(90_004)), timeline.seq());
}

#[test]
fn jobs_are_remembered_until_nobody_can_ask_for_them() {
    let mut timeline = Timeline::new(Limits::default());
    timeline.push(Position(1), Some(submit("j")));
    timeline.push(Position(2), Some(submit("j")));
    timeline.push(Position(3), Some(KillJob { job: job("j"), reason: "é".repeat(4_000) }.into()));
    let note = timeline.note(&job("j"));
    assert_eq!(note.submitted, Some(Position(1)));
    assert_eq!(note.reason.map(|it| it.len()), Some(REASON_BYTES_MAX));
    timeline.push(Position(4), Some(Gc { caller: peer(0) }.into()));
    assert!(timeline.note(&job("j")).submitted.is_some());
    timeline.restart(Position(9), Replica::new());
    assert_eq!(timeline.note(&job("j")), JobNote::default());
}
