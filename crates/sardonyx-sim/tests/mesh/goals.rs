//! How fast, in the simulator: round trips of 1 ms, timers of the profile `test`. `MESH_GOAL_RUNS`
//! says how often; what was measured is printed beside its goal.

use std::time::Duration;

use sardonyx_mesh::{Status, Version};
use sardonyx_sim::mesh::World;

use crate::{
    cluster::{TEST, address, agreed, established, secs, settled, well},
    number,
};

const TTL: f64 = 0.9;
const RTT: f64 = 0.001;

fn runs() -> u64 {
    number("MESH_GOAL_RUNS", 60)
}

/// The value below which `part` of a hundred are.
fn at(of: &mut [f64], part: usize) -> f64 {
    of.sort_by(f64::total_cmp);
    of[(of.len() * part / 100).min(of.len() - 1)]
}

fn millis(span: Duration) -> f64 {
    span.as_secs_f64() * 1_000.0
}

/// G3 and G4: a leader dies at a random moment.
#[test]
fn g3_g4_election_and_failover() {
    let (mut elections, mut failovers, mut n_more_rounds) = (Vec::new(), Vec::new(), 0);
    for seed in 1..=runs() {
        let mut world = settled(seed, 5, &[0], TEST);
        world.run(Duration::from_micros(seed * 7_919 % 100_000));
        let round = world.member(0).unwrap().kept().certificate.clone().unwrap().ballot.round;
        world.crash(0);
        let died = world.now();
        let rest = [1, 2, 3, 4];
        let old = world.claim(1).unwrap().version;
        let has_lost = |world: &World, it: usize| world.claim(it).is_none_or(|it| it.version > old);
        let all_lost = |world: &World| rest.iter().all(|it| has_lost(world, *it));
        world.until(secs(3.0), all_lost).unwrap();
        let from = world.now();
        let has_new = |world: &World| {
            rest.iter().all(|it| world.claim(*it).is_some_and(|it| it.version > old))
                && established(world).is_some()
        };
        world.until(secs(3.0), has_new).unwrap();
        well(&world);
        elections.push((world.now() - from).as_secs_f64() / RTT);
        failovers.push(millis(world.now() - died));
        let certificate = world.member(1).unwrap().kept().certificate.clone().unwrap();
        assert_eq!(certificate.version, Version(2));
        n_more_rounds += u32::from(certificate.ballot.round > round + 1);
    }
    let (half, most) = (at(&mut elections, 50), at(&mut elections, 99));
    println!("G3 election, round trips: half {half:.2}, 99 of 100 {most:.2} (goal 5)");
    println!("G3 more than one round: {n_more_rounds} of {} (goal 1 of 100)", runs());
    let (half, most) = (at(&mut failovers, 50), at(&mut failovers, 99));
    println!("G4 failover: half {half:.1} ms, 99 of 100 {most:.1} ms (goal 1040)");
    assert!(most < 1_290.0, "{most}");
}

/// G5: a follower dies at a random moment.
#[test]
fn g5_detection() {
    let (mut suspected, mut removed) = (Vec::new(), Vec::new());
    for seed in 1..=runs() {
        let mut world = settled(seed, 5, &[0], TEST);
        world.run(Duration::from_micros(seed * 7_919 % 100_000));
        world.crash(3);
        let died = world.now();
        let rest = [0, 1, 2, 4];
        let status = |world: &World, it: usize| {
            let row = world.member(it).unwrap().table().get(&address(3)).cloned();
            row.map(|it| it.status)
        };
        let all = |world: &World, wanted: Option<Status>| {
            rest.iter().all(|it| status(world, *it) == wanted)
        };
        world.until(secs(2.0), |world| all(world, Some(Status::Unreachable))).unwrap();
        suspected.push(millis(world.now() - died));
        world.until(secs(2.0), |world| all(world, None)).unwrap();
        removed.push(millis(world.now() - died));
        agreed(&world, &rest, 4);
    }
    let (low, high) = (at(&mut suspected, 0), at(&mut suspected, 99));
    println!("G5 unreachable: {low:.1} to {high:.1} ms (goal 200 to 332)");
    assert!(low >= 199.0 && high <= 332.0);
    let high = at(&mut removed, 99);
    println!("G5 removed: up to {high:.1} ms (goal 947)");
    assert!(high <= 947.0);
}

/// G2: a leader is cut off at a random moment; nobody ever sees two tokens.
#[test]
fn g2_no_two_tokens_when_a_leader_is_cut_off() {
    let mut gaps = Vec::new();
    for seed in 1..=runs() {
        let mut world = settled(seed, 5, &[0], TEST);
        world.run(Duration::from_micros(seed * 7_919 % 100_000));
        world.network.isolate(0, 5);
        world.until(secs(TTL), |world| world.token(0).is_none()).unwrap();
        let lost = world.now();
        world.until(secs(2.0 * TTL), |world| established(world).is_some()).unwrap();
        well(&world);
        gaps.push(millis(world.now() - lost));
    }
    let least = at(&mut gaps, 0);
    println!(
        "G2 time without a token: at least {least:.1} ms in {} cuts (goal: never two)",
        runs()
    );
    assert!(least > 0.0);
}
