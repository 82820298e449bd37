//! `accept-join-cluster`: the joiner is in.

use serde::{Deserialize, Serialize};

use super::{Outcome, Rejected};
use crate::{
    id::PeerId,
    mutant::{self, Mutant},
    replica::{JoinProtocol, Phase, Replica},
};

/// Stitches `joiner` into the ring, between `observer` and whom that one watches now. Sent by the
/// joiner in three phases, by the observer in two: by the last of the two that had to begin
/// watching.
///
/// Rejected when the join is not, or no longer, in its last phase, or in other hands. That guard
/// is what keeps a peer dead whose own acceptance was still on its way when it died.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct AcceptJoinCluster {
    /// The peer that is in from here on.
    pub joiner: PeerId,
    /// The member that watches it.
    pub observer: PeerId,
    /// Whom the joiner watched when this was written.
    pub subject: PeerId,
}

impl AcceptJoinCluster {
    pub(super) fn apply(&self, replica: &mut Replica) -> Outcome {
        if mutant::is_on(Mutant::NoGuards) {
            if let Some(anchor) = replica.anchors.get(&self.joiner).cloned() {
                replica.end_join(&anchor);
            }
            replica.stitch(&self.observer, &self.joiner);
            return Ok(());
        }
        let anchor = replica.anchor_in(&self.joiner, Phase::Accepted)?;
        let watcher = match replica.join_protocol() {
            JoinProtocol::ThreePhase => anchor.clone(),
            JoinProtocol::TwoPhase => replica.predecessor(&anchor).clone(),
        };
        if watcher != self.observer {
            let named = self.observer.clone();
            return Err(Rejected::WrongObserver { expected: watcher, named });
        }
        replica.end_join(&anchor);
        replica.stitch(&watcher, &self.joiner);
        Ok(())
    }
}
