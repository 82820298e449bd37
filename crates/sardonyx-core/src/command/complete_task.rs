//! `complete-task`: a task is done.

use serde::{Deserialize, Serialize};

use super::{Outcome, Rejected};
use crate::{
    id::{JobId, PeerId, TaskId},
    mutant::{self, Mutant},
    replica::{Replica, job::JobOutcome},
};

/// Marks the task as completed and releases its peers, which go on by the plan. When all tasks of
/// a job are, so is the job. Sent by the peer that sealed the task, after it has told everybody
/// downstream.
///
/// Rejected when the task is completed already, when the peer does not run it, or when another
/// peer is sealing it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct CompleteTask {
    /// Who completed it.
    pub peer: PeerId,
    /// The job.
    pub job: JobId,
    /// The task.
    pub task: TaskId,
}

impl CompleteTask {
    pub(super) fn apply(&self, replica: &mut Replica) -> Outcome {
        if mutant::is_on(Mutant::CompletionsByPlace) {
            return replica.complete_by_place(&self.job, &self.task);
        }
        let (job, task) = replica.find_task_of(&self.peer, &self.job, &self.task)?;
        let found = replica.jobs.get(&job).and_then(|job| job.tasks.get(task));
        if let Some(sealer) = found.and_then(|task| task.sealer.as_ref())
            && *sealer != self.peer
        {
            return Err(Rejected::SealedBy(sealer.clone()));
        }
        replica.release_task(job, task);
        replica.plan.forget();
        let Some(found) = replica.jobs.get_mut(&job) else { return Ok(()) };
        found.tasks[task].is_completed = true;
        if found.tasks.iter().all(|task| task.is_completed) {
            replica.end_job(job, JobOutcome::Completed);
        }
        Ok(())
    }
}
