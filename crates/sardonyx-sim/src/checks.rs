//! The judgement: what must hold once it is calm.

use std::collections::{BTreeMap, BTreeSet};

use sardonyx_core::{JobScheduler, PeerId, peer::Standing};

use crate::{
    twins::peers_needed,
    world::{READ_MAX, World},
};

/// A check by name, and what it found wrong.
pub type Check = fn(&World) -> Result<(), String>;

/// Every check. A new one is added here.
pub const CHECKS: &[(&str, Check)] = &[
    ("one ring of exactly the living", one_ring_of_exactly_the_living),
    ("everybody is where the log is", everybody_is_where_the_log_is),
    ("every death would be seen", every_death_would_be_seen),
    ("nobody dead has work", nobody_dead_has_work),
    ("everybody runs what the log says", everybody_runs_what_the_log_says),
    ("every job that can be finished is", every_job_that_can_be_finished_is),
    ("the log is bounded", the_log_is_bounded),
    ("the log is trimmed by itself", the_log_is_trimmed_by_itself),
    ("everybody is in soon", everybody_is_in_soon),
    ("joins are cheap in fair weather", joins_are_cheap_in_fair_weather),
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

fn nobody_dead_has_work(world: &World) -> Result<(), String> {
    let living = living(world);
    for job in world.replica().jobs() {
        for (task, mut peers) in job.allocations() {
            if let Some(dead) = peers.find(|peer| !living.contains(*peer)) {
                return Err(format!("{dead} is to run {task} of {}", job.id()));
            }
        }
    }
    Ok(())
}

fn everybody_runs_what_the_log_says(world: &World) -> Result<(), String> {
    let running: BTreeMap<_, _> = world.running().collect();
    for peer in living(world) {
        let (runs, says) = (running.get(&peer).copied(), world.replica().assignment(&peer));
        if says.as_ref() != runs {
            return Err(format!("{peer} runs {runs:?}, the log says {says:?}"));
        }
    }
    Ok(())
}

/// A job that needs no more peers than there are gets them sooner or later; under shares, one that
/// has peers finishes. What is left has nobody.
fn every_job_that_can_be_finished_is(world: &World) -> Result<(), String> {
    let replica = world.replica();
    for job in replica.jobs().filter(|job| job.is_live()) {
        let may_wait = replica.job_scheduler() == JobScheduler::Percentage;
        if job.n_peers() > 0 || (peers_needed(job) <= replica.n_peers() && !may_wait) {
            let why = replica.waiting(job);
            return Err(format!("{} is {:?}: {why:?}", job.id(), job.state()));
        }
    }
    Ok(())
}

/// No run of a seed takes so many entries, however many peers it starts: whoever says more will not
/// come to an end.
pub const ENTRIES_MAX: usize = 20_000;

/// A cluster that talks to itself for ever is as broken as one that is silent.
fn the_log_is_bounded(world: &World) -> Result<(), String> {
    let max = 200 + 15 * world.boots() + 5 * world.steps();
    match world.log_length() > max {
        true => Err(format!("{} entries for {} boots", world.log_length(), world.boots())),
        false => Ok(()),
    }
}

/// Nodes count the same entries, and when there are enough the oldest member's trims. One that took an
/// origin has counted fewer, by what lay between the `gc` and the origin: at most what is read at
/// once.
fn the_log_is_trimmed_by_itself(world: &World) -> Result<(), String> {
    let Some((trim_after, since)) = world.trim_after() else { return Ok(()) };
    match since > trim_after + trim_after / 5 + READ_MAX && world.replica().n_peers() > 0 {
        true => Err(format!("{since} entries since the last gc, one is due after {trim_after}")),
        false => Ok(()),
    }
}

/// How long after a storm the last joiner may be let in, in milliseconds: twice the longest wait, and
/// some more for the joining.
pub const JOINED_WITHIN_MAX: u64 = 30_000;

/// How much longer for each that joined: joins stand in the log one behind the other, and where ten
/// thousand start at once that is what takes the time.
pub const JOINED_WITHIN_EACH: u64 = 1;

fn everybody_is_in_soon(world: &World) -> Result<(), String> {
    let after = world.joined_after();
    let max = JOINED_WITHIN_MAX + JOINED_WITHIN_EACH * world.boots() as u64;
    match after > max {
        true => Err(format!("the last was let in {after} ms after the storm")),
        false => Ok(()),
    }
}

/// Where many start together and nothing goes wrong, a join takes so many entries on average.
pub const ENTRIES_PER_JOIN_MAX: usize = 6;

fn joins_are_cheap_in_fair_weather(world: &World) -> Result<(), String> {
    let (entries, joins) = (world.log_length(), world.boots());
    match world.is_fair() && entries > 10 + ENTRIES_PER_JOIN_MAX * joins {
        true => Err(format!("{entries} entries for {joins} joins")),
        false => Ok(()),
    }
}
