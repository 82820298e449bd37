//! `leave-cluster`: a peer is gone.

use serde::{Deserialize, Serialize};

use super::{Outcome, Rejected};
use crate::{
    id::PeerId,
    mutant::{self, Mutant},
    replica::Replica,
};

/// Takes `peer` out of the ring, of its task, and of every join that it was part of. Sent by
/// whoever saw its pulse end, or by the peer itself when it is stopped on purpose.
///
/// Its neighbours in the ring are tied together. A joiner whose join went through it starts over:
/// half a join would be a peer that nobody looks after. A dead joiner is reported by this command
/// as well, so that nothing depends on whether the report or the acceptance came first.
///
/// Rejected when nobody knows the peer any more. That happens all the time, since a death may have
/// several witnesses.
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
        if !mutant::is_on(Mutant::JoinsOutliveLeave) {
            replica.forget_joins_through(&self.peer);
        }
        replica.unstitch(&self.peer);
        Ok(())
    }
}
