//! `abort-join-cluster`: a join is given up.

use serde::{Deserialize, Serialize};

use super::{Outcome, Rejected};
use crate::{id::PeerId, replica::Replica};

/// Forgets the join of `joiner`. Sent by the joiner, or by whoever finds it dead.
///
/// When the joiner sees it, it waits for a while and prepares again; also when it is rejected,
/// which is what happens to a joiner that was never taken up.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct AbortJoinCluster {
    /// The peer that is no longer being stitched in.
    pub joiner: PeerId,
}

impl AbortJoinCluster {
    pub(super) fn apply(&self, replica: &mut Replica) -> Outcome {
        if replica.is_member(&self.joiner) {
            return Err(Rejected::AlreadyMember(self.joiner.clone()));
        }
        let anchor = replica.anchors.get(&self.joiner).cloned();
        let anchor = anchor.ok_or_else(|| Rejected::NotJoining(self.joiner.clone()))?;
        replica.end_join(&anchor);
        Ok(())
    }
}
