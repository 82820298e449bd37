//! `seal-task`: a peer saw the last of a task's input.

use serde::{Deserialize, Serialize};

use super::{Outcome, Rejected};
use crate::{
    id::{JobId, PeerId, TaskId},
    mutant::{self, Mutant},
    replica::Replica,
};

/// Lets `peer` seal the task, if nobody is sealing it; otherwise releases the peer, which has
/// nothing left to do there. Sent by a peer that holds the last of the task's input.
///
/// From then on the task takes nobody new. The right to seal ends when its holder leaves the task,
/// for whatever reason; the next one to ask gets it.
///
/// Rejected when the peer does not run the task, or has the right already.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SealTask {
    /// Who asks.
    pub peer: PeerId,
    /// The job.
    pub job: JobId,
    /// The task.
    pub task: TaskId,
}

impl SealTask {
    pub(super) fn apply(&self, replica: &mut Replica) -> Outcome {
        let (job, task) = replica.find_task_of(&self.peer, &self.job, &self.task)?;
        let found = replica.jobs.get(&job).and_then(|job| job.tasks.get(task));
        let others = found.is_some_and(|task| task.peers.len() > 1);
        match found.and_then(|task| task.sealer.as_ref()) {
            None if others && mutant::is_on(Mutant::SealedByTheLast) => replica.release(&self.peer),
            Some(sealer) if *sealer == self.peer => return Err(Rejected::NothingNew),
            Some(_) => replica.release(&self.peer),
            None => {
                let found = replica.jobs.get_mut(&job).and_then(|job| job.tasks.get_mut(task));
                if let Some(task) = found {
                    task.sealer = Some(self.peer.clone());
                }
            }
        }
        replica.plan.forget();
        Ok(())
    }
}
