//! `submit-job`: a client has work.

use alloc::{string::String, sync::Arc, vec::Vec};

use serde::{Deserialize, Deserializer, Serialize, Serializer, ser};
use serde_json::value::RawValue;

use super::{Outcome, Rejected};
use crate::{
    id::{JobId, TaskId},
    mutant::{self, Mutant},
    replica::{Replica, job::Job},
    wire::terms_from_json,
};

/// Adds a job behind all others. Sent by a client, which has checked it whole.
///
/// The cluster reads from `job` only how peers are to be shared out: `task-scheduler`,
/// `percentage`, `partial-coverage-protection`, and for each task in `catalog` its `min-peers`,
/// `max-peers` and `percentage`. The rest is kept as it was written, for those who run the tasks.
///
/// Rejected when there is or was a job of that id, so that submitting again is harmless; when its
/// terms make no sense; and when the cluster has as many jobs as it may have.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SubmitJob {
    /// The new job's id.
    pub id: JobId,
    /// The job, as its author wrote it.
    pub job: JobText,
    /// Its tasks in topological order.
    pub tasks: Vec<TaskId>,
}

impl SubmitJob {
    pub(super) fn apply(&self, replica: &mut Replica) -> Outcome {
        let is_present =
            replica.job_places.contains(&self.id) && !mutant::is_on(Mutant::SubmittedTwice);
        let was_there = replica.collected.contains(&self.id) && !mutant::is_on(Mutant::NoTombstone);
        if is_present || was_there {
            return Err(Rejected::KnownJob(self.id.clone()));
        }
        let terms = terms_from_json(self.job.as_str(), &self.tasks).map_err(Rejected::BadJob)?;
        terms.check().map_err(Rejected::BadJob)?;
        if replica.jobs.len() >= replica.limits.jobs_max as usize {
            return Err(Rejected::TooManyJobs(replica.limits.jobs_max));
        }
        replica.add_job(Job::new(self.id.clone(), terms));
        Ok(())
    }
}

/// A job as JSON on one line, untouched but for line breaks between its parts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobText(Arc<str>);

impl JobText {
    /// Takes JSON as it is. Whether it is a job is asked when it is submitted.
    pub fn new(json: &str) -> JobText {
        // No JSON string has a line break in it, so every one of these stands between two parts.
        JobText(Arc::from(json.replace(['\n', '\r'], " ")))
    }

    /// The JSON.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Serialize for JobText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !serializer.is_human_readable() {
            return serializer.serialize_str(&self.0);
        }
        // Bytes from the log may hold anything; what is not JSON is shown as the text it is.
        match serde_json::from_str::<&RawValue>(&self.0) {
            Ok(raw) => raw.serialize(serializer),
            Err(_) => Serialize::serialize(&*self.0, serializer),
        }
        .map_err(ser::Error::custom)
    }
}

impl<'de> Deserialize<'de> for JobText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match deserializer.is_human_readable() {
            true => {
                let raw = alloc::boxed::Box::<RawValue>::deserialize(deserializer)?;
                Ok(JobText::new(raw.get()))
            }
            false => Ok(JobText::new(&String::deserialize(deserializer)?)),
        }
    }
}
