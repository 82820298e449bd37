//! What holds of every plan, on random clusters.

use std::collections::BTreeSet;

use sardonyx_core::{Entry, PeerId, Position, Replica, apply, command::VolunteerForTask, laws};

use super::{
    cluster::any_cluster,
    twin::{self, Allocation, Job},
};
use crate::rng::{Rng, number};

/// Runs `check` on as many random clusters as asked for, and says which seed failed.
fn on_random_clusters(check: impl Fn(&mut Rng, &Replica)) {
    let first_seed = number("SCHEDULE_SEED", 1);
    let clusters = number("SCHEDULE_CLUSTERS", 2_000);
    for seed in first_seed..first_seed + clusters {
        let mut rng = Rng::new(seed);
        let replica = any_cluster(&mut rng);
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            check(&mut rng, &replica);
        }));
        assert!(caught.is_ok(), "SCHEDULE_SEED={seed}\n{replica}");
    }
}

/// What the plan wants every peer to run, and what it runs now.
fn planned(replica: &Replica) -> Allocation {
    let mut after = replica.clone();
    let movers: Vec<_> = replica.plan().movers().cloned().collect();
    let mut allocation = present(replica);
    // Each mover alone, so that no move can change what the plan wants of another.
    for mover in movers {
        after.clone_from(replica);
        let outcome = volunteer(&mut after, &mover, 1_000);
        assert_eq!(outcome, Ok(()), "{mover} is moved by the plan, but not by its volunteer");
        allocation.insert(mover.to_string(), present(&after)[mover.as_str()].clone());
    }
    allocation
}

fn present(replica: &Replica) -> Allocation {
    let place = |peer: &PeerId| {
        let assignment = replica.assignment(peer)?;
        Some((assignment.job.to_string(), assignment.task.to_string()))
    };
    replica.peers().map(|peer| (peer.to_string(), place(peer))).collect()
}

fn volunteer(replica: &mut Replica, peer: &PeerId, at: u64) -> sardonyx_core::Outcome {
    let command = VolunteerForTask { peers: vec![peer.clone()] }.into();
    replica.play(&Entry { position: Position(at), command })
}

/// Everybody whom the plan moves volunteers, in any order, until it moves nobody. Returns how many
/// moved.
fn carry_out(rng: &mut Rng, replica: &mut Replica) -> usize {
    let mut moved = 0;
    loop {
        let movers: Vec<_> = replica.plan().movers().cloned().collect();
        if movers.is_empty() {
            return moved;
        }
        volunteer(replica, rng.pick(&movers), 2_000 + moved as u64).unwrap();
        laws::check(replica).unwrap();
        moved += 1;
        assert!(moved <= 1_000, "it never comes to rest");
    }
}

#[test]
fn the_plan_is_what_its_slow_twin_says() {
    on_random_clusters(|_, replica| {
        assert_eq!(planned(replica), twin::plan(&twin::look(replica)));
    });
}

/// A plan that is kept while others carry it out is the plan that would be made anew.
#[test]
fn a_kept_plan_is_a_new_plan() {
    on_random_clusters(|rng, replica| {
        let mut replica = replica.clone();
        for at in 0.. {
            let movers: Vec<_> = replica.plan().movers().cloned().collect();
            if movers.is_empty() {
                break;
            }
            volunteer(&mut replica, rng.pick(&movers), at).unwrap();
            assert_eq!(planned(&replica), twin::plan(&twin::look(&replica)), "after {at} moves");
        }
    });
}

/// Carried out in whatever order, a plan moves exactly those whom it first named to where it named,
/// and then it wants nothing more.
#[test]
fn carrying_the_plan_out_changes_nothing_more() {
    on_random_clusters(|rng, replica| {
        let mut settled = replica.clone();
        let moved = carry_out(rng, &mut settled);
        assert_eq!(moved, replica.plan().movers().count());
        assert_eq!(present(&settled), planned(replica));
        assert_eq!(present(&settled), twin::plan(&twin::look(&settled)));
    });
}

/// A peer moves only because its task has one too many, or another has one too few.
#[test]
fn no_plan_moves_more_peers_than_the_numbers_force() {
    on_random_clusters(|_, replica| {
        let (now, then) = (present(replica), planned(replica));
        let moved = now.iter().filter(|(peer, place)| then[*peer] != **place).count();
        let count = |allocation: &Allocation| {
            let mut counts = std::collections::BTreeMap::<_, i64>::new();
            for place in allocation.values().flatten() {
                *counts.entry(place.clone()).or_default() += 1;
            }
            counts
        };
        let (before, after) = (count(&now), count(&then));
        let places: BTreeSet<_> = before.keys().chain(after.keys()).collect();
        let difference = |place| {
            after.get(place).copied().unwrap_or(0) - before.get(place).copied().unwrap_or(0)
        };
        let gaps: i64 = places.iter().map(|place| difference(*place).max(0)).sum();
        let surplus: i64 = places.iter().map(|place| (-difference(*place)).max(0)).sum();
        assert_eq!(moved as i64, gaps.max(surplus));
    });
}

#[test]
fn bounds_hold_and_coverage_is_all_or_nothing() {
    on_random_clusters(|rng, replica| {
        let mut settled = replica.clone();
        carry_out(rng, &mut settled);
        for job in twin::look(&settled).jobs {
            let n = job.present();
            assert!(n == 0 || (job.low() <= n && n <= job.high()), "{job:?}");
            for task in &job.tasks {
                let n_task = task.peers.len();
                let fits = task.must <= n_task && n_task <= task.high;
                assert!(n == 0 || fits, "{task:?} of {job:?}");
            }
        }
    });
}

#[test]
fn round_robin_is_even_among_the_unbounded() {
    on_random_clusters(|rng, replica| {
        let mut settled = replica.clone();
        carry_out(rng, &mut settled);
        let seen = twin::look(&settled);
        let is_free = |job: &&Job| job.low() == 0 && job.high() == usize::MAX;
        let sizes: Vec<_> = seen.jobs.iter().filter(is_free).map(Job::present).collect();
        if seen.scheduler == "round-robin" && !sizes.is_empty() {
            let spread = sizes.iter().max().unwrap() - sizes.iter().min().unwrap();
            assert!(spread <= 1, "{sizes:?}");
        }
    });
}

/// Nobody is idle while a job has room, unless jobs are given shares and nobody asked for more.
#[test]
fn nobody_is_idle_while_a_job_has_room() {
    on_random_clusters(|rng, replica| {
        let mut settled = replica.clone();
        carry_out(rng, &mut settled);
        let seen = twin::look(&settled);
        let idle = present(&settled).values().filter(|place| place.is_none()).count();
        if seen.scheduler != "percentage" && idle > 0 {
            for job in &seen.jobs {
                let n = job.present();
                let could = if n == 0 { job.low().max(1) } else { 1 };
                assert!(n >= job.high() || could > idle, "{idle} idle, yet {job:?}");
            }
        }
    });
}

/// A leave under round robin moves at most one peer between jobs without bounds.
#[test]
fn a_leave_moves_at_most_one_peer_under_round_robin() {
    on_random_clusters(|rng, replica| {
        let mut settled = replica.clone();
        carry_out(rng, &mut settled);
        let seen = twin::look(&settled);
        let is_plain = |job: &Job| {
            let is_sealing = job.tasks.iter().any(|task| task.sealer.is_some());
            let is_bounded = job.low() > 0 || job.high() < usize::MAX;
            !is_sealing && !is_bounded && job.scheduler == "greedy"
        };
        let is_plain = seen.scheduler == "round-robin" && seen.jobs.iter().all(is_plain);
        if !is_plain || seen.peers.is_empty() {
            return;
        }
        let peer = PeerId::new(&seen.peers[rng.below(seen.peers.len())]).unwrap();
        let command = sardonyx_core::command::LeaveCluster { peer }.into();
        let (left, _) = apply(&settled, &Entry { position: Position(5_000), command });
        assert!(left.plan().movers().count() <= 1, "{settled}");
    });
}
