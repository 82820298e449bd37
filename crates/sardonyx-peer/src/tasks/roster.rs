//! Who works on which task: what the queues need to fence those who no longer do, and to deal out
//! partitions.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use sardonyx_core::{JobId, PeerId, Position, Replica, TaskId, replica::job::Assignment};
use sardonyx_queue::{Owner, Roster};
use sardonyx_task::pipeline::Census;
use tokio::sync::watch;

/// Who is in the cluster now, for tasks to ask.
#[derive(Clone, Debug, Default)]
pub struct Members(Arc<Mutex<Replica>>);

impl Members {
    fn are_those_of(&self, replica: &Replica) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = replica.clone();
    }
}

impl Census for Members {
    fn is_here(&self, peer: &str) -> bool {
        let replica = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        PeerId::new(peer).is_ok_and(|peer| replica.is_member(&peer))
    }
}

/// The rosters of all tasks that this node works on.
#[derive(Debug, Default)]
pub(super) struct Rosters {
    all: BTreeMap<(JobId, TaskId), watch::Sender<Roster>>,
    members: Members,
}

impl Rosters {
    /// The roster of a task, as it changes.
    pub(super) fn of(&mut self, task: &Assignment) -> watch::Receiver<Roster> {
        let key = (task.job.clone(), task.task.clone());
        self.all.entry(key).or_default().subscribe()
    }

    /// Who is in the cluster, as it changes.
    pub(super) fn members(&self) -> Members {
        self.members.clone()
    }

    /// Writes down who works on what now. Says which jobs are over: nobody need ask for their
    /// rosters again.
    pub(super) fn tell(&mut self, replica: &Replica, position: Position) -> BTreeSet<JobId> {
        self.members.are_those_of(replica);
        let is_live = |job: &JobId| replica.job(job).is_some_and(|job| job.is_live());
        for ((job, task), sender) in &self.all {
            if is_live(job) {
                write(sender, owners(replica, job, task), position);
            }
        }
        let over = self.all.extract_if(.., |(job, _), _| !is_live(job));
        over.map(|((job, _), _)| job).collect()
    }
}

/// A roster with the same owners is no news, however many entries later. But it is written down: whoever
/// looks next must see that nobody came in between and stayed.
fn write(sender: &watch::Sender<Roster>, owners: Vec<Owner>, position: Position) {
    sender.send_if_modified(|roster| {
        let has_changed = roster.owners != owners;
        *roster = Roster { at: position.0, owners };
        has_changed
    });
}

fn owners(replica: &Replica, job: &JobId, task: &TaskId) -> Vec<Owner> {
    let Some(job) = replica.job(job) else { return Vec::new() };
    let peers = job.allocations().find(|(id, _)| *id == task).map(|(_, peers)| peers);
    let owner = |peer: &PeerId| {
        let since = replica.assignment(peer)?.since;
        Some(Owner { peer: peer.to_string(), epoch: since.0 })
    };
    peers.into_iter().flatten().filter_map(owner).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_owners_are_no_news_and_are_known_to_be_so_until_now() {
        let (sender, mut seen) = watch::channel(Roster::default());
        let owners = vec![Owner { peer: "a".into(), epoch: 3 }];
        write(&sender, owners.clone(), Position(3));
        assert!(seen.has_changed().expect("its sender is there"));
        assert_eq!(seen.borrow_and_update().at, 3);
        write(&sender, owners.clone(), Position(9));
        assert!(!seen.has_changed().expect("its sender is there"));
        assert_eq!(*seen.borrow(), Roster { at: 9, owners });
    }
}
