//! `configure-cluster`: how this cluster works.

use serde::{Deserialize, Serialize};

use super::{Outcome, Rejected};
use crate::replica::{JobScheduler, JoinProtocol, Limits, Replica};

/// Settles any of the cluster's options. Sent by the first node, or by an operator.
///
/// The first join protocol wins for good, named here or taken by default at the first join: a
/// join in flight would be read in two ways. The scheduler may change at any time. All or
/// nothing: if one option is refused, none is taken.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct ConfigureCluster {
    /// How peers are shared out among jobs.
    pub job_scheduler: Option<JobScheduler>,
    /// How peers join.
    pub join_protocol: Option<JoinProtocol>,
    /// How many members and joiners there may be.
    pub peers_max: Option<u32>,
    /// How many jobs there may be that were not collected.
    pub jobs_max: Option<u32>,
    /// Of how many collected jobs it is remembered how they ended.
    pub outcomes_max: Option<u32>,
}

impl ConfigureCluster {
    pub(super) fn apply(&self, replica: &mut Replica) -> Outcome {
        if let (Some(asked), Some(settled)) = (self.join_protocol, replica.join_protocol)
            && asked != settled
        {
            return Err(Rejected::ProtocolSettled(settled));
        }
        let was = replica.limits;
        let limits = Limits {
            peers_max: self.peers_max.unwrap_or(was.peers_max),
            jobs_max: self.jobs_max.unwrap_or(was.jobs_max),
            outcomes_max: self.outcomes_max.unwrap_or(was.outcomes_max),
        };
        let bounded = [
            ("peers-max", limits.peers_max, replica.n_present()),
            ("jobs-max", limits.jobs_max, replica.jobs.len()),
        ];
        for (limit, max, present) in bounded {
            if (max as usize) < present {
                return Err(Rejected::LimitBelowPresent { limit, present });
            }
        }
        let protocol = self.join_protocol.or(replica.join_protocol);
        let scheduler = self.job_scheduler.unwrap_or(replica.job_scheduler);
        let now = (protocol, scheduler, limits);
        if now == (replica.join_protocol, replica.job_scheduler, replica.limits) {
            return Err(Rejected::NothingNew);
        }
        (replica.join_protocol, replica.job_scheduler, replica.limits) = now;
        replica.forget_old_outcomes();
        replica.plan.forget();
        Ok(())
    }
}
