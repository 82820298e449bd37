//! `notify-watchers`: two phases, the second entry.

use serde::{Deserialize, Serialize};

use super::{Outcome, Rejected};
use crate::{
    id::PeerId,
    mutant::{self, Mutant},
    replica::{JoinProtocol, Phase, Replica},
};

/// Tells the watcher of `subject` to switch to `joiner`. Sent by the joiner, once it watches the
/// subject itself.
///
/// Who has to switch is computed, not taken from `observer`. Rejected when the joiner is no
/// longer being stitched in before that subject, or has said so before.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct NotifyWatchers {
    /// The peer that wants in.
    pub joiner: PeerId,
    /// Who watched the subject when this was written.
    pub observer: PeerId,
    /// The member that the joiner watches now.
    pub subject: PeerId,
}

impl NotifyWatchers {
    pub(super) fn apply(&self, replica: &mut Replica) -> Outcome {
        if replica.join_protocol() != JoinProtocol::TwoPhase {
            return Err(Rejected::WrongProtocol(replica.join_protocol()));
        }
        if mutant::is_on(Mutant::UncheckedNotify) && !replica.is_joining(&self.joiner) {
            replica.begin_join(&self.subject, &self.joiner);
        }
        let anchor = replica.anchor_in(&self.joiner, Phase::Prepared)?;
        if anchor != self.subject {
            let named = self.subject.clone();
            return Err(Rejected::WrongSubject { expected: anchor, named });
        }
        replica.advance_join(&anchor);
        Ok(())
    }
}
