//! What holds of every replica, whatever the log says. Checked after every entry in every test.

use alloc::{format, string::String, vec::Vec};
use core::fmt;

use super::{Replica, job::JobOutcome};

/// A law that does not hold, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The name of the law.
    pub law: &'static str,
    /// What was found instead.
    pub found: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.law, self.found)
    }
}

impl core::error::Error for Broken {}

type Law = fn(&Replica) -> Result<(), String>;

/// Every law by name. A new one is added here and is then checked everywhere.
pub const LAWS: &[(&str, Law)] = &[
    ("ring-is-one-cycle", ring_is_one_cycle),
    ("links-agree", links_agree),
    ("seats-are-the-members", seats_are_the_members),
    ("anchors-are-members-and-joiners-are-not", anchors_are_members_and_joiners_are_not),
    ("a-joiner-joins-once", a_joiner_joins_once),
    ("free-is-who-could-take-a-joiner", free_is_who_could_take_a_joiner),
    ("members-stay-within-the-limit", members_stay_within_the_limit),
    ("slots-agree", slots_agree),
    ("ended-jobs-and-tasks-run-nothing", ended_jobs_and_tasks_run_nothing),
    ("tasks-stay-within-their-limits", tasks_stay_within_their_limits),
    ("only-peers-of-a-task-seal-it", only_peers_of_a_task_seal_it),
    ("jobs-are-found-by-id", jobs_are_found_by_id),
];

/// The first law that `replica` breaks, if any.
pub fn check(replica: &Replica) -> Result<(), Broken> {
    for (law, holds) in LAWS {
        holds(replica).map_err(|found| Broken { law, found })?;
    }
    Ok(())
}

fn ensure(holds: bool, found: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(found()) }
}

/// Two or more members are one ring; one member is none.
fn ring_is_one_cycle(replica: &Replica) -> Result<(), String> {
    if replica.n_peers() < 2 {
        return ensure(replica.pairs().next().is_none(), || "a pair without two members".into());
    }
    let Some(start) = replica.peers_by_id().next() else { return Ok(()) };
    // Whoever comes back to the start for the first time has met as many members as it took steps.
    let (mut at, mut steps) = (start, 0);
    loop {
        let next = replica.members.get(at).and_then(|member| member.watches.as_ref());
        at = next.ok_or_else(|| format!("{at} watches nobody, or is no member"))?;
        steps += 1;
        if at == start || steps > replica.n_peers() {
            break;
        }
    }
    ensure(at == start && steps == replica.n_peers(), || {
        format!("from {start} the ring takes {steps} steps around {} members", replica.n_peers())
    })
}

/// Who watches me is who says to watch me.
fn links_agree(replica: &Replica) -> Result<(), String> {
    for (watcher, watched) in replica.pairs() {
        let back = replica.members.get(watched).and_then(|member| member.watched_by.as_ref());
        ensure(back == Some(watcher), || {
            format!("{watcher} watches {watched}, which is watched by {back:?}")
        })?;
    }
    Ok(())
}

/// The join order lists every member once.
fn seats_are_the_members(replica: &Replica) -> Result<(), String> {
    ensure(replica.seats.len() == replica.n_peers(), || {
        format!("{} seats for {} members", replica.seats.len(), replica.n_peers())
    })?;
    for (seat, peer) in replica.seats.iter() {
        let sits = replica.members.get(peer).map(|member| member.seat);
        ensure(sits == Some(*seat), || format!("{peer} has seat {seat} but sits at {sits:?}"))?;
    }
    Ok(())
}

/// A join goes from somebody outside to somebody inside.
fn anchors_are_members_and_joiners_are_not(replica: &Replica) -> Result<(), String> {
    for (anchor, join) in replica.joins.iter() {
        ensure(replica.is_member(anchor), || format!("{anchor} stitches but is no member"))?;
        ensure(!replica.is_member(&join.joiner), || format!("{} joins twice", join.joiner))?;
    }
    Ok(())
}

/// A joiner is in one phase, at one anchor.
fn a_joiner_joins_once(replica: &Replica) -> Result<(), String> {
    ensure(replica.joins.len() == replica.anchors.len(), || {
        format!("{} joins but {} joiners", replica.joins.len(), replica.anchors.len())
    })?;
    for (joiner, anchor) in replica.anchors.iter() {
        let at_anchor = replica.joins.get(anchor).map(|join| &join.joiner);
        ensure(at_anchor == Some(joiner), || {
            format!("{joiner} joins at {anchor}, which takes {at_anchor:?}")
        })?;
    }
    Ok(())
}

/// The kept candidates are the computed ones.
fn free_is_who_could_take_a_joiner(replica: &Replica) -> Result<(), String> {
    let computed = || replica.peers_by_id().filter(|peer| replica.is_candidate(peer));
    ensure(replica.free.keys().eq(computed()), || {
        let kept: Vec<_> = replica.free.keys().collect();
        format!("kept {kept:?}, computed {:?}", computed().collect::<Vec<_>>())
    })
}

/// `configure-cluster` refuses a limit below what is there, and joins stop at the limit.
fn members_stay_within_the_limit(replica: &Replica) -> Result<(), String> {
    let (present, max) = (replica.n_present(), replica.limits.peers_max as usize);
    ensure(present <= max, || format!("{present} members and joiners, {max} allowed"))
}

/// A peer is on the list of the one task that it has, and of no other.
fn slots_agree(replica: &Replica) -> Result<(), String> {
    let mut listed = 0;
    for (place, job) in replica.jobs.iter() {
        for (index, task) in job.tasks.iter().enumerate() {
            for (ticket, peer) in task.peers.iter() {
                let slot = replica.slot(peer);
                let agrees = slot.is_some_and(|slot| {
                    (slot.job, slot.task, slot.ticket) == (*place, index, *ticket)
                });
                ensure(agrees, || format!("{peer} is on task {index} of {}: {slot:?}", job.id))?;
                listed += 1;
            }
        }
    }
    let slots = replica.members.values().filter(|member| member.slot.is_some()).count();
    ensure(listed == slots, || format!("{listed} peers on tasks, {slots} with a task"))?;
    let idle = replica.seats.iter().filter(|(_, peer)| replica.slot(peer).is_none());
    ensure(replica.idle.keys().eq(idle.map(|(seat, _)| seat)), || "idle is not who is".into())
}

fn ended_jobs_and_tasks_run_nothing(replica: &Replica) -> Result<(), String> {
    for job in replica.jobs() {
        let all_done = job.tasks.iter().all(|task| task.is_completed);
        ensure(all_done == (job.outcome == Some(JobOutcome::Completed)), || {
            format!("{} is {:?}, all its tasks done: {all_done}", job.id, job.outcome)
        })?;
        for task in job.tasks.iter().filter(|task| !job.is_live() || task.is_completed) {
            ensure(task.peers.is_empty(), || format!("{} runs after its end", job.id))?;
        }
    }
    Ok(())
}

fn tasks_stay_within_their_limits(replica: &Replica) -> Result<(), String> {
    for job in replica.jobs() {
        for ((id, limits), task) in job.terms.tasks.iter().zip(&job.tasks) {
            let max = limits.max_peers.map_or(usize::MAX, |max| max as usize);
            let n = task.peers.len();
            ensure(n <= max, || format!("{n} peers on {id} of {}, max-peers {max}", job.id))?;
        }
    }
    Ok(())
}

fn only_peers_of_a_task_seal_it(replica: &Replica) -> Result<(), String> {
    for job in replica.jobs() {
        for task in &job.tasks {
            let sealer = task.sealer.as_ref();
            let is_there = |peer| task.peers.values().any(|it| it == peer);
            ensure(sealer.is_none_or(is_there), || format!("{sealer:?} seals from afar"))?;
        }
    }
    Ok(())
}

fn jobs_are_found_by_id(replica: &Replica) -> Result<(), String> {
    let by_id = replica.job_places.len() == replica.jobs.len()
        && replica.jobs.iter().all(|(place, job)| replica.job_places.get(&job.id) == Some(place));
    let collected = replica.collected.len() == replica.outcomes.len()
        && replica.outcomes.iter().all(|(at, (id, _))| replica.collected.get(id) == Some(at));
    let within = replica.jobs.len() <= replica.limits.jobs_max as usize
        && replica.outcomes.len() <= replica.limits.outcomes_max as usize;
    ensure(by_id && collected && within, || format!("{:?}", replica.job_places))
}
