//! Who works on a task's queues.

use serde::{Deserialize, Serialize};

/// A task of a job, as the queues know it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Place {
    /// The job.
    pub job: String,
    /// The task.
    pub task: String,
}

/// Who works on a task: a peer, since an entry of the log. The same peer on the same task again is
/// another owner.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Owner {
    /// The peer.
    pub peer: String,
    /// The position of the entry that gave it the task.
    pub epoch: u64,
}

/// Who works on a task, as of an entry of the log. Of two rosters the one with the higher position
/// holds.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Roster {
    /// The position of the newest entry that it takes into account.
    pub at: u64,
    /// In the order of assignment.
    pub owners: Vec<Owner>,
}

impl Roster {
    /// Whose a partition is: the owners take turns.
    pub fn owner_of(&self, partition: u16) -> Option<&Owner> {
        let n_owners = self.owners.len();
        (n_owners > 0).then(|| &self.owners[usize::from(partition) % n_owners])
    }
}
