//! `kill-job`: a job is to end.

use alloc::string::String;

use serde::{Deserialize, Serialize};

use super::Outcome;
use crate::{
    id::JobId,
    mutant::{self, Mutant},
    replica::{Replica, job::JobOutcome},
};

/// Ends the job and releases all its peers. Sent by a client, or by a peer whose task failed for
/// good.
///
/// Rejected when there is no such job, or it is over.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct KillJob {
    /// The job.
    pub job: JobId,
    /// Why, for whoever reads the log.
    #[serde(default)]
    pub reason: String,
}

impl KillJob {
    pub(super) fn apply(&self, replica: &mut Replica) -> Outcome {
        let again = replica.job_places.get(&self.job).copied();
        let again = again.filter(|_| mutant::is_on(Mutant::EndedTwice));
        let job = again.map_or_else(|| replica.find_live_job(&self.job), Ok)?;
        replica.end_job(job, JobOutcome::Killed);
        if mutant::is_on(Mutant::KillForgetsOthers) {
            replica.forget_slots();
        }
        Ok(())
    }
}
