//! `kill-job`: a job is to end.

use alloc::string::String;

use serde::{Deserialize, Serialize};

use super::Outcome;
use crate::{
    id::JobId,
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
        let job = replica.find_live_job(&self.job)?;
        replica.end_job(job, JobOutcome::Killed);
        Ok(())
    }
}
