//! One lane for each peer that has work: the old task is stopped before the new one starts, and
//! the loop of the node waits for neither.
//!
//! The loop says what it wants now, not what to do next. A lane that was busy stopping something
//! goes straight to the newest wish, so nothing piles up.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use sardonyx_core::{PeerId, Position, Replica, command::JobText, replica::job::Assignment};
use sardonyx_queue::Roster;
use sardonyx_store::Store;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
};

use super::{Members, Reports, Task, Tasks, Work, roster::Rosters};
use crate::{
    driver::{Config, Heard},
    trim,
};

/// What a peer should be running.
#[derive(Clone, Debug, Default)]
struct Wish {
    task: Option<Wanted>,
    may_seal: bool,
}

#[derive(Clone, Debug)]
struct Wanted {
    assignment: Assignment,
    job: Option<JobText>,
    roster: watch::Receiver<Roster>,
    members: Members,
}

/// The lanes of one life of a node.
pub(crate) struct Lanes {
    tasks: Arc<dyn Tasks>,
    stop_max: Duration,
    store: Store,
    heard: mpsc::Sender<Heard>,
    lanes: BTreeMap<PeerId, watch::Sender<Wish>>,
    rosters: Rosters,
    running: JoinSet<()>,
}

impl Lanes {
    pub(crate) fn new(config: &Config, store: Store, heard: mpsc::Sender<Heard>) -> Lanes {
        let (tasks, stop_max) = (Arc::clone(&config.tasks), config.task_stop_max);
        let (lanes, rosters, running) = Default::default();
        Lanes { tasks, stop_max, store, heard, lanes, rosters, running }
    }

    /// `peer` is to run this. A job that was submitted before we began to read is looked up. Who
    /// else runs it is said by [`Lanes::tell`], which comes before anybody has begun.
    pub(crate) fn start(&mut self, peer: &PeerId, assignment: Assignment, job: Option<JobText>) {
        let (roster, members) = (self.rosters.of(&assignment), self.rosters.members());
        let wanted = Wanted { assignment, job, roster, members };
        let wish = Wish { task: Some(wanted), may_seal: false };
        match self.lanes.get(peer) {
            Some(lane) => drop(lane.send_replace(wish)),
            None => self.open(peer, wish),
        }
    }

    /// `peer` may seal what it runs.
    pub(crate) fn seal(&mut self, peer: &PeerId, task: &Assignment) {
        if let Some(lane) = self.lanes.get(peer) {
            lane.send_modify(|wish| {
                wish.may_seal |= wish.task.as_ref().is_some_and(|it| it.assignment == *task);
            });
        }
    }

    /// `peer` is to run nothing for now. Its lane stays: what it runs next starts after this has
    /// stopped.
    pub(crate) fn rest(&mut self, peer: &PeerId) {
        if let Some(lane) = self.lanes.get(peer) {
            lane.send_replace(Wish::default());
        }
    }

    /// `peer` is to run nothing ever again. Its lane ends when it has stopped.
    pub(crate) fn stop(&mut self, peer: &PeerId) {
        if let Some(lane) = self.lanes.remove(peer) {
            lane.send_replace(Wish::default());
        }
    }

    /// Whether `peer` is to run exactly this.
    pub(crate) fn is_on(&self, peer: &PeerId, task: &Assignment) -> bool {
        let lane = self.lanes.get(peer);
        lane.is_some_and(|lane| {
            lane.borrow().task.as_ref().is_some_and(|it| it.assignment == *task)
        })
    }

    /// The cluster has changed: tells the tasks who else works on them, and lets go of jobs that
    /// are over.
    pub(crate) fn tell(&mut self, replica: &Replica, position: Position) {
        for job in self.rosters.tell(replica, position) {
            let tasks = Arc::clone(&self.tasks);
            self.spawn(async move { tasks.forget(&job).await });
        }
    }

    /// Runs `work`, which [`Lanes::end`] waits for. What has ended by now is let go of: it would take
    /// its memory until then.
    fn spawn(&mut self, work: impl Future<Output = ()> + Send + 'static) {
        while self.running.try_join_next().is_some() {}
        self.running.spawn(work);
    }

    /// Stops everything, and says whether everything did.
    pub(crate) async fn end(&mut self) -> bool {
        for (_, lane) in std::mem::take(&mut self.lanes) {
            lane.send_replace(Wish::default());
        }
        // A little longer than each of them waits, so that they can say what is stuck.
        let all = async { while self.running.join_next().await.is_some() {} };
        tokio::time::timeout(self.stop_max + Duration::from_secs(1), all).await.is_ok()
    }

    fn open(&mut self, peer: &PeerId, wish: Wish) {
        let (sender, wishes) = watch::channel(wish);
        self.lanes.insert(peer.clone(), sender);
        let lane = Lane {
            peer: peer.clone(),
            tasks: Arc::clone(&self.tasks),
            stop_max: self.stop_max,
            store: self.store.clone(),
            heard: self.heard.clone(),
            running: None,
        };
        self.spawn(lane.run(wishes));
    }
}

struct Running {
    assignment: Assignment,
    task: Box<dyn Task>,
    is_sealing: bool,
}

struct Lane {
    peer: PeerId,
    tasks: Arc<dyn Tasks>,
    stop_max: Duration,
    store: Store,
    heard: mpsc::Sender<Heard>,
    running: Option<Running>,
}

impl Lane {
    async fn run(mut self, mut wishes: watch::Receiver<Wish>) {
        loop {
            let wish = wishes.borrow_and_update().clone();
            let wanted = wish.task.as_ref().map(|it| &it.assignment);
            if self.running.as_ref().map(|it| &it.assignment) != wanted {
                if !self.stop().await {
                    return;
                }
                if let Some(wanted) = wish.task {
                    // A newer wish, or the end, need not wait for this one to begin.
                    tokio::select! {
                        () = self.start(wanted) => {}
                        changed = wishes.changed() => match changed {
                            Ok(()) => continue,
                            Err(_) => return,
                        },
                    }
                }
            }
            if let Some(running) =
                self.running.as_mut().filter(|it| wish.may_seal && !it.is_sealing)
            {
                running.is_sealing = true;
                running.task.seal().await;
            }
            if wishes.changed().await.is_err() {
                self.stop().await;
                return;
            }
        }
    }

    async fn start(&mut self, Wanted { assignment, job, roster, members }: Wanted) {
        let reports = Reports {
            peer: self.peer.clone(),
            assignment: assignment.clone(),
            heard: self.heard.clone(),
        };
        let job = match job {
            Some(job) => Some(job),
            None => trim::job_text(&self.store, &assignment.job).await,
        };
        // Gone means that the job is over, and that we are about to read so.
        let Some(job) = job else { return };
        let (peer, assigned) = (self.peer.clone(), assignment.clone());
        let work = Work { peer, assignment: assigned, job, roster, members };
        match self.tasks.start(work, reports.clone()).await {
            Ok(task) => {
                self.running =
                    Some(Running { assignment: assignment.clone(), task, is_sealing: false });
                self.tell(Heard::Started(self.peer.clone(), assignment)).await;
            }
            Err(why) => reports.failed(why).await,
        }
    }

    /// Stops what runs. False: it did not stop.
    async fn stop(&mut self) -> bool {
        let Some(Running { assignment, task, .. }) = self.running.take() else { return true };
        let stopped = tokio::time::timeout(self.stop_max, task.stop()).await.is_ok();
        match stopped {
            true => self.tell(Heard::Stopped(self.peer.clone(), assignment)).await,
            // Must be heard, however long it takes: this process is not to go on.
            false => drop(self.heard.send(Heard::Stuck(self.peer.clone(), assignment)).await),
        }
        stopped
    }

    async fn tell(&mut self, heard: Heard) {
        // While everything ends nobody listens any more; the end itself is noticed by joining.
        let patience = Duration::from_secs(1);
        let _ = tokio::time::timeout(patience, self.heard.send(heard)).await;
    }
}

#[cfg(test)]
mod tests {
    use sardonyx_core::{JobId, TaskId};

    use super::*;
    use crate::tasks::WaitTasks;

    /// A node that stays while jobs come and go does not keep something of each.
    #[tokio::test]
    async fn a_job_that_is_over_leaves_nothing_behind() {
        let store = Store::open("memory:", sardonyx_store::Options::default()).await.unwrap();
        let config = Config::new(Arc::new(WaitTasks::new(&store)));
        let (heard, _hears) = mpsc::channel(1);
        let mut lanes = Lanes::new(&config, store, heard);
        for n in 0..100 {
            let (job, task) = (JobId::new(&format!("job-{n}")), TaskId::new("task"));
            let (job, task, since) = (job.unwrap(), task.unwrap(), Position(n));
            let _roster = lanes.rosters.of(&Assignment { job, task, since });
            // A cluster that does not know the job: it is over, and forgotten on the side.
            lanes.tell(&Replica::new(), Position(n));
            assert!(!lanes.running.is_empty());
            tokio::task::yield_now().await;
        }
        assert!(lanes.running.len() < 5, "{} of 100 are kept", lanes.running.len());
    }
}
