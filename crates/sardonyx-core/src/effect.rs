//! Effects: what a peer must do to the world, as data.
//!
//! They are found in the difference of two replicas, over any number of entries. A peer that
//! catches up over ten thousand entries does once what is left to do, and no command can forget
//! an effect. See docs/decisions/0001-effects-come-from-the-difference.md.

use alloc::vec::Vec;

use crate::{
    id::{PeerId, Position},
    mutant::{self, Mutant},
    replica::{Phase, Replica, job::Assignment},
};

/// Something to be done, once or several times: every effect is idempotent.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Effect {
    /// Watch this pulse. If it is absent already, that is its end: say so at once.
    Watch(PeerId),
    /// This pulse is no longer our concern.
    Unwatch(PeerId),
    /// Look once whether this pulse is there, and say so if it is not.
    Probe(PeerId),
    /// Wait for a random while that grows with the attempts, then wake the peer.
    BackOff,
    /// Stop this task. Comes before the start of another one.
    StopTask(Assignment),
    /// Start this task.
    StartTask(Assignment),
    /// The right to seal this task is ours.
    SealTask(Assignment),
    /// Store the replica at this position as the origin, then trim the log up to it.
    TrimLog(Position),
    /// Stop everything that runs under this id. Coming back means coming back under a new one.
    Stop,
}

/// What `me` must do because the cluster went from `old` to `new`.
pub fn effects(old: &Replica, new: &Replica, me: &PeerId) -> Vec<Effect> {
    if old.is_member(me) && !new.is_member(me) && !mutant::is_on(Mutant::NoSelfStop) {
        return Vec::from([Effect::Stop]);
    }
    let mut effects = match mutant::is_on(Mutant::EdgeWatches) {
        true => edge_watches(old, new, me),
        false => watches(old, new, me),
    };
    effects.extend(tasks(old, new, me));
    if let Some(origin) = &new.origin
        && origin.owner == *me
        && old.origin.as_ref() != Some(origin)
    {
        effects.push(Effect::TrimLog(origin.position));
    }
    effects
}

fn watches(old: &Replica, new: &Replica, me: &PeerId) -> Vec<Effect> {
    let (was, now) = (old.watches(me), new.watches(me));
    let begin = now.difference(&was).cloned().map(Effect::Watch);
    let end = was.difference(&now).cloned().map(Effect::Unwatch);
    begin.chain(end).collect()
}

fn tasks(old: &Replica, new: &Replica, me: &PeerId) -> Vec<Effect> {
    let (was, now) = (old.assignment(me), runs(old, new, me));
    let was_sealing = was == now && old.is_sealing(me);
    let seals = (new.is_sealing(me) && !was_sealing).then(|| now.clone()).flatten();
    let moves = was != now;
    let goes_on = now.is_none() && mutant::is_on(Mutant::TaskOutlivesGrant);
    let stop = was.filter(|_| moves && !goes_on).map(Effect::StopTask);
    let start = now.filter(|_| moves).map(Effect::StartTask);
    stop.into_iter().chain(start).chain(seals.map(Effect::SealTask)).collect()
}

/// What `me` runs now. It is looked up; the documents compare the lists of all tasks, and the first
/// that has changed need not be the one that `me` is on.
fn runs(old: &Replica, new: &Replica, me: &PeerId) -> Option<Assignment> {
    let now = new.assignment(me)?;
    if !mutant::is_on(Mutant::TaskByShape) || old.assignment(me).as_ref() == Some(&now) {
        return Some(now);
    }
    for (job, was) in new.jobs().filter_map(|job| Some((job, old.job(job.id())?))) {
        let lists = job.allocations().zip(was.allocations());
        for ((task, peers), (_, were)) in lists {
            if !peers.eq(were) {
                return Some(Assignment { job: job.id().clone(), task: task.clone(), ..now });
            }
        }
    }
    Some(now)
}

/// Watches as the documents change them, command by command. Kept as a mutant: it loses the watch
/// on a member that takes the place of one that left between notify and accept.
fn edge_watches(old: &Replica, new: &Replica, me: &PeerId) -> Vec<Effect> {
    let mut effects = Vec::new();
    let joiner = |replica: &Replica| replica.joins.get(me).map(|join| join.joiner.clone());
    if joiner(old) != joiner(new) {
        effects.extend(joiner(new).map(Effect::Watch));
    }
    let anchor = |replica: &Replica| replica.anchors.get(me).cloned();
    if anchor(old) != anchor(new) {
        effects.extend(anchor(new).map(Effect::Watch));
    }
    let notified = |replica: &Replica| replica.anchor_in(me, Phase::Accepted).ok();
    if let Some(at) = notified(new)
        && notified(old).is_none()
    {
        effects.push(Effect::Watch(new.successor(&at).clone()));
    }
    let (was, now) = (old.successor(me), new.successor(me));
    if was != me && now != me && was != now && !new.is_member(was) {
        effects.push(Effect::Watch(now.clone()));
    }
    effects
}
