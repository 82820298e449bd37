//! `leave-cluster`: a peer is gone.

use serde::{Deserialize, Serialize};

use super::{Outcome, Rejected};
use crate::{id::PeerId, replica::Replica};

/// Removes `peer` and closes the ring: whoever watched it now watches whom it watched. Sent by
/// whoever saw its pulse end, or by the peer itself when it is stopped on purpose.
///
/// Joins that cannot go on without it are forgotten, and those joiners must prepare again;
/// keeping one half joined would leave it unwatched. The same command reports a dead joiner, so
/// that it does not matter whether its acceptance was faster than the report.
///
/// Rejected when the peer is unknown, which is normal: two observers may report one death.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct LeaveCluster {
    /// The peer that is gone.
    pub peer: PeerId,
}

impl LeaveCluster {
    pub(super) fn apply(&self, replica: &mut Replica) -> Outcome {
        if !replica.is_member(&self.peer) && !replica.is_joining(&self.peer) {
            return Err(Rejected::UnknownPeer(self.peer.clone()));
        }
        replica.forget_joins_through(&self.peer);
        replica.unstitch(&self.peer);
        Ok(())
    }
}
