//! `prepare-join-cluster`: a peer wants in.

use serde::{Deserialize, Serialize};

use super::{Outcome, Rejected};
use crate::{
    id::{PeerId, Position},
    mutant::{self, Mutant},
    replica::Replica,
};

/// Chooses the member at which `joiner` will be stitched in. Sent by the joiner.
///
/// The first peer of an empty cluster joins at once. Otherwise the choice falls on the candidate
/// whose rank is the position modulo their number, so that every peer chooses the same.
///
/// Rejected when the joiner is in already, or half in, and when every member is taken up with
/// another joiner. The joiner then aborts and tries again later; meanwhile it looks whether one
/// of those members is dead, because a cluster that died in the middle of joins would otherwise
/// refuse everybody for ever.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PrepareJoinCluster {
    /// The peer that wants in.
    pub joiner: PeerId,
}

impl PrepareJoinCluster {
    pub(super) fn apply(&self, replica: &mut Replica, position: Position) -> Outcome {
        let is_unchecked = mutant::is_on(Mutant::PreparedTwice);
        if replica.is_member(&self.joiner) && !is_unchecked {
            return Err(Rejected::AlreadyMember(self.joiner.clone()));
        }
        if replica.is_joining(&self.joiner) && !is_unchecked {
            return Err(Rejected::AlreadyJoining(self.joiner.clone()));
        }
        if replica.n_present() >= replica.limits.peers_max as usize {
            return Err(Rejected::ClusterFull(replica.limits.peers_max));
        }
        if replica.n_peers() == 0 {
            replica.found(&self.joiner);
        } else {
            let anchor = replica.pick_anchor(position).ok_or(Rejected::NoCandidate)?.clone();
            replica.begin_join(&anchor, &self.joiner);
        }
        replica.join_protocol = Some(replica.join_protocol());
        Ok(())
    }
}
