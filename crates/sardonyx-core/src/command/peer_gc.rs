//! `peer-gc`: somebody is about to check everybody's pulse.

use serde::{Deserialize, Serialize};

use super::Outcome;
use crate::{id::PeerId, replica::Replica};

/// Makes `peer` check the pulse of every member that is there at this position, and report the
/// dead. Sent by a joiner that makes no progress, or by an operator.
///
/// It changes nothing by itself. It stands in the log so that the check is made against a cluster
/// that everybody can name, and so that a person can see why so many leave at once.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PeerGc {
    /// Who checks.
    pub peer: PeerId,
}

impl PeerGc {
    pub(super) fn apply(&self, _replica: &mut Replica) -> Outcome {
        Ok(())
    }
}
