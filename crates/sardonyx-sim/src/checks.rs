//! The judgement: what must hold once it is calm.

use std::collections::BTreeSet;

use sardonyx_core::{PeerId, peer::Standing, replica::job::JobState};

use crate::world::World;

/// A check by name, and what it found wrong.
pub type Check = fn(&World) -> Result<(), String>;

/// Every check. A new one is added here.
pub const CHECKS: &[(&str, Check)] = &[
    ("one ring of exactly the living", one_ring_of_exactly_the_living),
    ("everybody is where the log is", everybody_is_where_the_log_is),
    ("every death would be seen", every_death_would_be_seen),
    ("everybody runs what the log says", everybody_runs_what_the_log_says),
    ("all jobs are over", all_jobs_are_over),
    ("the log is bounded", the_log_is_bounded),
];

/// The first check that fails, if any.
pub fn judge(world: &World) -> Result<(), String> {
    for (name, check) in CHECKS {
        check(world).map_err(|why| format!("{name}: {why}"))?;
    }
    Ok(())
}

fn living(world: &World) -> BTreeSet<PeerId> {
    world.nodes().flat_map(|node| node.peers()).map(|peer| peer.id().clone()).collect()
}

fn one_ring_of_exactly_the_living(world: &World) -> Result<(), String> {
    let members: BTreeSet<_> = world.replica().peers().cloned().collect();
    let living = living(world);
    if members != living {
        return Err(format!("members {members:?}, living {living:?}"));
    }
    let outside =
        world.nodes().flat_map(|node| node.peers()).find(|it| it.standing() != Standing::Member);
    outside.map_or(Ok(()), |peer| Err(format!("{} is {:?}", peer.id(), peer.standing())))
}

fn everybody_is_where_the_log_is(world: &World) -> Result<(), String> {
    let behind = world.nodes().find(|node| node.replica() != world.replica());
    behind.map_or(Ok(()), |node| Err(format!("one is at {:?}", node.position())))
}

fn every_death_would_be_seen(world: &World) -> Result<(), String> {
    for node in world.nodes() {
        let watching: BTreeSet<_> = node.watching().cloned().collect();
        for peer in node.peers() {
            let wanted = world.replica().watches(peer.id());
            if !wanted.is_subset(&watching) {
                return Err(format!("{} misses one of {wanted:?}", peer.id()));
            }
        }
    }
    Ok(())
}

fn everybody_runs_what_the_log_says(world: &World) -> Result<(), String> {
    for (peer, runs) in world.running() {
        let says = world.replica().assignment(peer);
        if says.as_ref() != Some(runs) {
            return Err(format!("{peer} runs {runs:?}, the log says {says:?}"));
        }
    }
    Ok(())
}

fn all_jobs_are_over(world: &World) -> Result<(), String> {
    let is_over = |state| matches!(state, JobState::Completed | JobState::Killed);
    let open = world.replica().jobs().find(|job| !is_over(job.state()));
    open.map_or(Ok(()), |job| {
        let why = world.replica().waiting(job);
        Err(format!("{} is {:?}: {why:?}", job.id(), job.state()))
    })
}

/// A cluster that talks to itself for ever is as broken as one that is silent.
fn the_log_is_bounded(world: &World) -> Result<(), String> {
    let max = 400 + 60 * world.boots();
    match world.log_length() > max {
        true => Err(format!("{} entries for {} boots", world.log_length(), world.boots())),
        false => Ok(()),
    }
}
