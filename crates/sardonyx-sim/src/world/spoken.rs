//! What nodes say and do is judged as they say it: what holds of one process at one moment, and
//! would no longer show in the log.

use sardonyx_core::{
    Command, Entry, JoinProtocol, PeerId, Position, Replica, apply, peer::Standing,
    replica::job::Assignment,
};
use sardonyx_peer::{BULK_MIN, Input};

use super::{STORM, World, name};
use crate::{process::Letter, store::SessionId};

/// What a node hears in one step.
pub(super) enum Heard {
    /// One entry, and the cluster before it.
    One(Box<(Entry, Replica)>),
    /// Entries that it plays one by one, so that a later one may undo what it says of an earlier.
    Several,
    /// Anything else.
    Other,
}

impl Heard {
    pub(super) fn of(input: &Input, replica: &Replica) -> Heard {
        match input {
            Input::Entries(entries) => match entries.as_slice() {
                [entry] => Heard::One(Box::new((entry.clone(), replica.clone()))),
                _ if entries.len() < BULK_MIN => Heard::Several,
                _ => Heard::Other,
            },
            Input::Boot(_)
            | Input::Origin(..)
            | Input::PulseGone(_)
            | Input::TimerFired(_)
            | Input::Say(..)
            | Input::Leave => Heard::Other,
        }
    }
}

impl World {
    /// Of what a node says about jobs, its own replica must take every word: what does not make
    /// sense any more is not to be let out.
    pub(super) fn what_is_said_makes_sense(
        &self,
        session: SessionId,
        commands: &[Command],
    ) -> Result<(), String> {
        let Some(node) = &self.processes[session.process].node else { return Ok(()) };
        for command in commands.iter().filter(|command| !command.is_about_joining()) {
            let position = Position(node.position().map_or(0, |it| it.0 + 1));
            let entry = Entry { position, command: command.clone() };
            // Each for itself: what comes first may well settle what comes after it.
            node.replica().clone().play(&entry).map_err(|why| {
                format!("what is said makes sense: {} says {entry}: {why}", name(session))
            })?;
        }
        Ok(())
    }

    /// Who says that somebody is watched watches it already.
    pub(super) fn what_is_claimed_was_done(
        &self,
        session: SessionId,
        commands: &[Command],
    ) -> Result<(), String> {
        let protocol = self.replica().join_protocol();
        for command in commands {
            let Some(watched) = claimed(command, protocol) else { continue };
            let watchers = self.store.watches.get(watched);
            let is_watched = watchers.is_some_and(|them| them.contains(&session));
            // Of one that is gone already it hears at once, and then there is nothing to watch.
            if !is_watched && self.store.pulses.contains_key(watched) {
                let (who, what) = (name(session), command.name());
                return Err(format!(
                    "what is claimed was done: {who} says {what} and does not watch {watched}"
                ));
            }
        }
        Ok(())
    }

    /// A member does not ask to join; a joiner that was refused gives up and waits; and whoever has
    /// failed often enough has everybody's pulse checked before it asks again.
    pub(super) fn joiners_do_as_they_must(
        &mut self,
        session: SessionId,
        heard: &Heard,
        commands: &[Command],
    ) -> Result<(), String> {
        let Some(node) = &self.processes[session.process].node else { return Ok(()) };
        if let Heard::One(it) = heard
            && let Some(joiner) = refused_joiner(&it.0, &it.1)
            && let Some(peer) = node.peers().find(|peer| peer.id() == joiner)
            && !node.replica().is_joining(joiner)
            && peer.standing() == Standing::Joining
        {
            return Err(format!("a joiner that was refused gives up: {joiner} waits on"));
        }
        for command in commands {
            let Command::PrepareJoinCluster(it) = command else { continue };
            if node.replica().is_member(&it.joiner) {
                return Err(format!("a member does not ask to join: {} does", it.joiner));
            }
            let checks =
                |said: &Command| matches!(said, Command::PeerGc(gc) if gc.peer == it.joiner);
            let before = self.asked.get(&it.joiner).copied().unwrap_or(0);
            let asked = if commands.iter().any(checks) { 0 } else { before + 1 };
            self.asked.insert(it.joiner.clone(), asked);
            // One may be asked for twice without having failed in between.
            if self.plan.gc_every.is_some_and(|every| asked > every + 2) {
                return Err(format!(
                    "who fails again and again has pulses checked: {} does not",
                    it.joiner
                ));
            }
        }
        Ok(())
    }

    /// The right to seal a task, and its end, are for the run that asked: not for a later one of the
    /// same task by the same peer, which has not seen the end of its input.
    pub(super) fn only_the_present_run_speaks(&self, letter: &Letter) -> Result<(), String> {
        let Some(run) = letter.run.filter(|_| self.store.is_new(letter.token)) else {
            return Ok(());
        };
        let (peer, job, task) = if let Command::SealTask(it) = &letter.command {
            (&it.peer, &it.job, &it.task)
        } else if let Command::CompleteTask(it) = &letter.command {
            (&it.peer, &it.job, &it.task)
        } else {
            return Ok(());
        };
        let present = self.replica().assignment(peer);
        let is_later = |now: &Assignment| (&now.job, &now.task) == (job, task) && now.since != run;
        match present.filter(is_later) {
            Some(now) => Err(format!(
                "only the present run speaks for a task: {peer} began at {run}, then at {}",
                now.since
            )),
            None => Ok(()),
        }
    }

    /// A task needs its job: read in the log, or put aside by whoever trimmed it.
    pub(super) fn whoever_runs_a_task_knows_its_job(
        &self,
        session: SessionId,
        task: &Assignment,
    ) -> Result<(), String> {
        let Some(node) = &self.processes[session.process].node else { return Ok(()) };
        let is_known =
            node.jobs().contains_key(&task.job) || self.store.texts.contains_key(&task.job);
        // One that is over by now may be gone with its text.
        let is_live = self.replica().job(&task.job).is_some_and(|job| job.is_live());
        match is_known || !is_live {
            true => Ok(()),
            false => {
                let (who, job) = (name(session), &task.job);
                Err(format!("whoever runs a task knows its job: {who} has no {job}"))
            }
        }
    }

    /// In the calm a process reads when it is woken: nothing that it does keeps it.
    pub(super) fn nothing_keeps_it_from_reading(&self, session: SessionId) -> Result<(), String> {
        let due = self.processes[session.process].reads_by.max(STORM);
        match self.is_calm && self.now > due {
            true => {
                let (who, late) = (name(session), self.now - due);
                Err(format!("nothing keeps a process from reading: {who} is {late} ms late"))
            }
            false => Ok(()),
        }
    }
}

/// The joiner whose notification or acceptance this is, if it was refused.
fn refused_joiner<'a>(entry: &'a Entry, old: &Replica) -> Option<&'a PeerId> {
    // What is claimed of a join is claimed by the second and the third phase.
    claimed(&entry.command, old.join_protocol())?;
    let joiner = entry.command.joiner()?;
    apply(old, entry).1.is_err().then_some(joiner)
}

/// Whom the sender of this claims to watch.
fn claimed(command: &Command, protocol: JoinProtocol) -> Option<&PeerId> {
    if let Command::NotifyJoinCluster(it) = command {
        Some(&it.joiner)
    } else if let Command::NotifyWatchers(it) = command {
        Some(&it.subject)
    } else if let Command::AcceptJoinCluster(it) = command {
        Some(match protocol {
            JoinProtocol::ThreePhase => &it.subject,
            JoinProtocol::TwoPhase => &it.joiner,
        })
    } else {
        None
    }
}
