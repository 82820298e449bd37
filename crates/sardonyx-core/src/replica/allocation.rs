//! Who runs what: giving a peer a task, taking it away, ending jobs.
//!
//! A peer's [`Slot`] and the task's list of peers say the same thing twice, so that both questions
//! are cheap; only this file writes either (`laws::slots_agree`).

use super::{
    Replica,
    job::{Assignment, Job, JobOutcome, Slot},
};
use crate::{
    command::Rejected,
    id::{JobId, PeerId, Position, TaskId},
    mutant::{self, Mutant},
};

impl Replica {
    /// The job of that id, unless it was collected.
    pub fn job(&self, id: &JobId) -> Option<&Job> {
        self.jobs.get(self.job_places.get(id)?)
    }

    /// All jobs that were not collected, in the order of submission.
    pub fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.jobs.values()
    }

    /// How each collected job ended, oldest first.
    pub fn outcomes(&self) -> impl Iterator<Item = (&JobId, JobOutcome)> {
        self.outcomes.values().map(|(id, outcome)| (id, *outcome))
    }

    /// How the collected job of that id ended, as far as it is remembered.
    pub fn outcome(&self, job: &JobId) -> Option<JobOutcome> {
        let (_, outcome) = self.outcomes.get(self.collected.get(job)?)?;
        Some(*outcome)
    }

    /// What `peer` runs.
    pub fn assignment(&self, peer: &PeerId) -> Option<Assignment> {
        let slot = self.slot(peer)?;
        let job = self.jobs.get(&slot.job)?;
        let (task, _) = job.terms.tasks.get(slot.task)?;
        Some(Assignment { job: job.id.clone(), task: task.clone(), since: slot.since })
    }

    pub(crate) fn slot(&self, peer: &PeerId) -> Option<&Slot> {
        self.members.get(peer)?.slot.as_ref()
    }

    /// Whether `peer` may seal the task that it runs.
    pub(crate) fn is_sealing(&self, peer: &PeerId) -> bool {
        let Some(slot) = self.slot(peer) else { return false };
        let task = self.jobs.get(&slot.job).and_then(|job| job.tasks.get(slot.task));
        task.and_then(|task| task.sealer.as_ref()) == Some(peer)
    }

    /// The place of a live job and of the unfinished task that `peer` runs there.
    pub(crate) fn find_task_of(
        &self,
        peer: &PeerId,
        job: &JobId,
        task: &TaskId,
    ) -> Result<(u64, usize), Rejected> {
        let place = self.find_live_job(job)?;
        let found = self.jobs.get(&place);
        let index = found.and_then(|job| job.task_index(task));
        let index = index.ok_or_else(|| Rejected::UnknownTask(job.clone(), task.clone()))?;
        if found.is_some_and(|job| job.tasks[index].is_completed) {
            return Err(Rejected::TaskCompleted(job.clone(), task.clone()));
        }
        match self.slot(peer) {
            Some(slot) if (slot.job, slot.task) == (place, index) => Ok((place, index)),
            _ => Err(Rejected::NotOnTask(peer.clone(), task.clone())),
        }
    }

    pub(crate) fn find_live_job(&self, job: &JobId) -> Result<u64, Rejected> {
        let unknown = || match self.collected.get(job).and_then(|at| self.outcomes.get(at)) {
            Some((_, outcome)) => Rejected::JobEnded(job.clone(), *outcome),
            None => Rejected::UnknownJob(job.clone()),
        };
        let place = self.job_places.get(job).ok_or_else(unknown)?;
        match self.jobs.get(place).and_then(|job| job.outcome) {
            Some(outcome) => Err(Rejected::JobEnded(job.clone(), outcome)),
            None => Ok(*place),
        }
    }

    pub(crate) fn add_job(&mut self, job: Job) {
        let place = self.jobs.last().map_or(0, |(last, _)| last + 1);
        self.job_places.insert(job.id.clone(), place);
        self.jobs.insert(place, job);
        self.plan.forget();
    }

    /// Gives `peer` a task and takes it from its old one. The plan stays as it is: this is how a
    /// plan is carried out.
    pub(crate) fn assign(&mut self, peer: &PeerId, job: u64, task: usize, since: Position) {
        self.release(peer);
        let Some(found) = self.jobs.get_mut(&job).and_then(|job| job.tasks.get_mut(task)) else {
            return;
        };
        let ticket = found.peers.last().map_or(0, |(last, _)| last + 1);
        found.peers.insert(ticket, peer.clone());
        if let Some(member) = self.members.get_mut(peer) {
            member.slot = Some(Slot { job, task, ticket, since });
            self.idle.remove(&member.seat);
        }
    }

    /// Takes `peer` from its task. If it was to seal that task, somebody else may ask now.
    pub(crate) fn release(&mut self, peer: &PeerId) {
        let Some(slot) = self.slot(peer).cloned() else { return };
        if let Some(member) = self.members.get_mut(peer) {
            member.slot = None;
            self.idle.insert(member.seat, ());
        }
        let job = self.jobs.get_mut(&slot.job);
        if let Some(task) = job.and_then(|job| job.tasks.get_mut(slot.task)) {
            task.peers.remove(&slot.ticket);
            if task.sealer.as_ref() == Some(peer) && !mutant::is_on(Mutant::SealOutlivesSealer) {
                task.sealer = None;
            }
        }
    }

    /// Takes every peer from a task.
    pub(crate) fn release_task(&mut self, job: u64, task: usize) {
        let found = self.jobs.get_mut(&job).and_then(|job| job.tasks.get_mut(task));
        let Some(task) = found else { return };
        if !mutant::is_on(Mutant::SealOutlivesTask) {
            task.sealer = None;
        }
        for peer in core::mem::take(&mut task.peers).values() {
            if let Some(member) = self.members.get_mut(peer) {
                member.slot = None;
                self.idle.insert(member.seat, ());
            }
        }
    }

    /// Takes every peer from a job.
    pub(crate) fn release_job(&mut self, job: u64) {
        let n_tasks = self.jobs.get(&job).map_or(0, |job| job.tasks.len());
        for task in 0..n_tasks {
            self.release_task(job, task);
        }
    }

    pub(crate) fn end_job(&mut self, job: u64, outcome: JobOutcome) {
        self.release_job(job);
        if let Some(job) = self.jobs.get_mut(&job) {
            job.outcome = Some(outcome);
        }
        self.plan.forget();
    }

    /// Clears the protected jobs that can no longer be covered: they run whole or not at all.
    pub(crate) fn release_uncovered(&mut self) {
        let runs_protected =
            |job: &Job| job.is_live() && job.terms.partial_coverage_protection && job.n_peers() > 0;
        if !self.jobs.values().any(runs_protected) || mutant::is_on(Mutant::CoverageKept) {
            return;
        }
        let plan = self.plan();
        let running = self.jobs.iter().filter(|(_, job)| runs_protected(job));
        let uncovered = running.filter(|(place, _)| plan.n_peers_of(**place) == 0);
        let uncovered: alloc::vec::Vec<u64> = uncovered.map(|(place, _)| *place).collect();
        for &job in &uncovered {
            self.release_job(job);
        }
        if !uncovered.is_empty() {
            self.plan.forget();
        }
    }

    /// What the rules are against, for when one is switched off: a task for somebody who is not in.
    pub(crate) fn assign_ghost(&mut self, peer: &PeerId, since: Position) -> bool {
        let open = self.jobs.iter().find(|(_, job)| job.is_live()).map(|(place, _)| *place);
        let Some(job) = open else { return false };
        self.assign(peer, job, 0, since);
        true
    }

    /// What the rules are against: the named task ends, and as many tasks from the first count as
    /// done as have ended.
    pub(crate) fn complete_by_place(&mut self, id: &JobId, task: &TaskId) -> Result<(), Rejected> {
        let place = self.find_live_job(id)?;
        let named = self.jobs.get(&place).and_then(|job| job.task_index(task));
        let named = named.ok_or_else(|| Rejected::UnknownTask(id.clone(), task.clone()))?;
        self.release_task(place, named);
        self.plan.forget();
        let Some(job) = self.jobs.get_mut(&place) else { return Ok(()) };
        if let Some(next) = job.tasks.iter_mut().find(|task| !task.is_completed) {
            next.is_completed = true;
        }
        if job.tasks.iter().all(|task| task.is_completed) {
            self.end_job(place, JobOutcome::Completed);
        }
        Ok(())
    }

    /// What the rules are against: nobody knows any more what it runs.
    pub(crate) fn forget_slots(&mut self) {
        let peers: alloc::vec::Vec<_> = self.members.keys().cloned().collect();
        for peer in &peers {
            if let Some(member) = self.members.get_mut(peer) {
                member.slot = None;
            }
        }
    }

    /// Moves every ended job to the outcomes, and forgets the oldest outcomes beyond the limit.
    pub(crate) fn collect_jobs(&mut self) {
        let ended = self.jobs.iter().filter_map(|(place, job)| Some((*place, job.outcome?)));
        for (place, outcome) in ended.collect::<alloc::vec::Vec<_>>() {
            if let Some(job) = self.jobs.remove(&place) {
                self.job_places.remove(&job.id);
                self.remember_outcome(job.id, outcome);
            }
        }
    }

    pub(crate) fn remember_outcome(&mut self, job: JobId, outcome: JobOutcome) {
        let at = self.outcomes.last().map_or(0, |(last, _)| last + 1);
        self.collected.insert(job.clone(), at);
        self.outcomes.insert(at, (job, outcome));
        self.forget_old_outcomes();
    }

    pub(crate) fn forget_old_outcomes(&mut self) {
        while self.outcomes.len() > self.limits.outcomes_max as usize {
            let Some((&oldest, _)) = self.outcomes.nth(0) else { return };
            if let Some((job, _)) = self.outcomes.remove(&oldest) {
                self.collected.remove(&job);
            }
        }
    }
}
