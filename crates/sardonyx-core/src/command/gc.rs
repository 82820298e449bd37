//! `gc`: what is over may be forgotten.

use serde::{Deserialize, Serialize};

use super::Outcome;
use crate::{
    id::{PeerId, Position},
    replica::{Origin, Replica},
};

/// Moves ended jobs to the outcomes, and names the place up to which the log is superfluous. Sent
/// by a client or by the mesh leader, under an id of its own.
///
/// Whoever `caller` is then stores the replica as the origin and trims the log: that is an effect,
/// found in the difference like any other, and nobody else's business.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Gc {
    /// Who asks, and is to trim.
    pub caller: PeerId,
}

impl Gc {
    pub(super) fn apply(&self, replica: &mut Replica, position: Position) -> Outcome {
        replica.collect_jobs();
        replica.origin = Some(Origin { position, owner: self.caller.clone() });
        Ok(())
    }
}
