//! `volunteer-for-task`: peers ask for the tasks that the plan gives them.

use alloc::{sync::Arc, vec::Vec};

use serde::{Deserialize, Serialize};

use super::{Command, Outcome, Rejected};
use crate::{
    id::{PeerId, Position},
    mutant::{self, Mutant},
    replica::Replica,
};

/// How many peers may volunteer in one entry.
pub const VOLUNTEERS_MAX: usize = 10_000;

/// Gives each of `peers` exactly the task that the plan has for it, and takes it from its old one;
/// or makes it idle, if the plan has nothing for it. Sent by a node for those of its peers that
/// the plan gives another task than they have.
///
/// The plan is asked anew for each. Rejected when it moves none of them, as happens when something
/// else changed in between, and for ghosts, which are no members.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct VolunteerForTask {
    /// Peers of one node.
    pub peers: Vec<PeerId>,
}

impl VolunteerForTask {
    pub(super) fn apply(&self, replica: &mut Replica, position: Position) -> Outcome {
        if self.peers.len() > VOLUNTEERS_MAX {
            return Err(Rejected::TooManyVolunteers(self.peers.len()));
        }
        let mut moved = false;
        for peer in &self.peers {
            moved |= carry_out(replica, peer, position);
        }
        if moved { Ok(()) } else { Err(Rejected::NobodyMoves) }
    }
}

/// Moves `peer` where the plan wants it. Says whether it moved.
fn carry_out(replica: &mut Replica, peer: &PeerId, position: Position) -> bool {
    let mut plan = replica.plan();
    if mutant::is_on(Mutant::Ghosts) && !replica.is_member(peer) {
        return replica.assign_ghost(peer, position);
    }
    let Some(&target) = plan.moves.get(peer) else { return false };
    // The replica lets go of the plan first, so that it is changed in place and not copied.
    replica.plan.forget();
    Arc::make_mut(&mut plan).moves.remove(peer);
    match target {
        Some(target) => replica.assign(peer, target.job, target.task, position),
        None => replica.release(peer),
    }
    replica.plan.keep(plan);
    true
}

impl VolunteerForTask {
    /// One entry for all volunteers among `commands`, which are those of one node's peers. The
    /// others stay as they are, and in order.
    pub fn gather(commands: Vec<Command>) -> Vec<Command> {
        let mut peers = Vec::new();
        let mut gathered: Vec<Command> = Vec::new();
        for command in commands {
            if let Command::VolunteerForTask(it) = command {
                peers.extend(it.peers);
            } else {
                gathered.push(command);
            }
        }
        let entries = peers.chunks(VOLUNTEERS_MAX).map(|peers| peers.to_vec());
        gathered.extend(entries.map(|peers| VolunteerForTask { peers }.into()));
        gathered
    }
}
