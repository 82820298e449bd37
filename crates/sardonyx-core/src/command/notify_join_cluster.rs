//! `notify-join-cluster`: three phases, the second.

use serde::{Deserialize, Serialize};

use super::{Outcome, Rejected};
use crate::{
    id::PeerId,
    mutant::{self, Mutant},
    replica::{JoinProtocol, Phase, Replica},
};

/// Tells `joiner` that `observer` watches it. Sent by the observer, once it does.
///
/// Whom the joiner is to watch is computed, not taken from `subject`: the ring may have moved
/// since the command was written.
///
/// Rejected when the joiner is no longer being stitched in by that observer, or was told before.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct NotifyJoinCluster {
    /// The peer that wants in.
    pub joiner: PeerId,
    /// The member that watches it now.
    pub observer: PeerId,
    /// Whom the observer watched when it wrote this.
    pub subject: PeerId,
}

impl NotifyJoinCluster {
    pub(super) fn apply(&self, replica: &mut Replica) -> Outcome {
        if replica.join_protocol() != JoinProtocol::ThreePhase {
            return Err(Rejected::WrongProtocol(replica.join_protocol()));
        }
        if mutant::is_on(Mutant::UncheckedNotify) && !replica.is_joining(&self.joiner) {
            replica.begin_join(&self.observer, &self.joiner);
        }
        let anchor = replica.anchor_in(&self.joiner, Phase::Prepared)?;
        if anchor != self.observer {
            let named = self.observer.clone();
            return Err(Rejected::WrongObserver { expected: anchor, named });
        }
        replica.advance_join(&anchor);
        Ok(())
    }
}
