//! Tasks, as a node sees them: something that is started, may seal, and is stopped.
//!
//! What a task does with data is not this crate's business. A node tells it three things (start,
//! seal, stop) and hears three things from it ([`Reports`]): that its input has ended, that it has
//! told everybody downstream, or that it failed for good.

mod data;
mod lane;
mod roster;
mod wait;

use async_trait::async_trait;
use sardonyx_core::{JobId, PeerId, TaskId, command::JobText, replica::job::Assignment};
use sardonyx_queue::Roster;
use tokio::sync::{mpsc, watch};

pub use data::DataTasks;
pub(crate) use lane::Lanes;
pub use roster::Members;
pub use wait::WaitTasks;

use crate::driver::Heard;

/// Starts tasks. One for all peers of a node.
#[async_trait]
pub trait Tasks: Send + Sync {
    /// Starts a task. `Err` says why it can never run here; the job is then killed for that
    /// reason. Dropped before it returns, it must leave nothing running.
    async fn start(&self, work: Work, reports: Reports) -> Result<Box<dyn Task>, String>;

    /// A job that was worked on here is over: what was kept for it can go. Heard at least once by
    /// every node that had a task of it and lives to see its end.
    async fn forget(&self, _: &JobId) {}
}

/// A task that runs. Dropped, it ends as well, but nobody waits for that.
#[async_trait]
pub trait Task: Send {
    /// The right to seal is this peer's: tell everybody downstream, then report completion.
    async fn seal(&mut self);

    /// Stops, and returns once nothing more is done for this assignment.
    async fn stop(self: Box<Self>);
}

/// What is to be run.
#[derive(Clone, Debug)]
pub struct Work {
    /// For which peer.
    pub peer: PeerId,
    /// Of which job, which task, and since which entry: the epoch by which writes are fenced.
    pub assignment: Assignment,
    /// The job, as its author wrote it.
    pub job: JobText,
    /// Who works on this task, as it changes.
    pub roster: watch::Receiver<Roster>,
    /// Who is in the cluster.
    pub members: Members,
}

impl Work {
    /// The job's id.
    pub fn job_id(&self) -> &JobId {
        &self.assignment.job
    }

    /// The task's id.
    pub fn task_id(&self) -> &TaskId {
        &self.assignment.task
    }
}

/// How a task is heard. What it says after it was stopped is not listened to.
#[derive(Clone, Debug)]
pub struct Reports {
    peer: PeerId,
    assignment: Assignment,
    heard: mpsc::Sender<Heard>,
}

/// What a task says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Report {
    Drained,
    Completed,
    Failed(String),
}

impl Reports {
    /// Its input has ended; it wants to seal. The answer is [`Task::seal`], or [`Task::stop`] if
    /// another peer seals.
    pub async fn drained(&self) {
        self.say(Report::Drained).await;
    }

    /// Everybody downstream has been told.
    pub async fn completed(&self) {
        self.say(Report::Completed).await;
    }

    /// It cannot go on, here or elsewhere. The job is killed for this reason.
    pub async fn failed(&self, why: impl Into<String>) {
        self.say(Report::Failed(why.into())).await;
    }

    async fn say(&self, report: Report) {
        let heard = Heard::Report(self.peer.clone(), self.assignment.clone(), report);
        // A node that has gone does not want to know.
        let _ = self.heard.send(heard).await;
    }
}
