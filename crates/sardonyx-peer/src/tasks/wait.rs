//! The built-in task: it waits. For trying a cluster out, and for tests.
//!
//! A catalog entry with `plugin = "wait"` (or `fn = "wait"` for a function) waits `for` a while, or
//! until somebody fills a `cell` of the store, or until it is released by hand; then it seals and
//! completes like any other. With none of these it waits until its job is killed.

use std::{collections::BTreeSet, time::Duration};

use async_trait::async_trait;
use sardonyx_core::{JobId, TaskId};
use sardonyx_store::Store;
use serde_json::Value;
use tokio::{sync::watch, task::AbortHandle};

use super::{Reports, Task, Tasks, Work};
use crate::job;

/// How often a cell is looked at: the store has no watch for cells.
const CELL_PERIOD: Duration = Duration::from_millis(100);

/// Starts tasks that wait, and no others.
#[derive(Debug)]
pub struct WaitTasks {
    store: Store,
    released: watch::Sender<BTreeSet<(JobId, TaskId)>>,
}

impl WaitTasks {
    /// Tasks that wait, for cells of `store` among other things.
    pub fn new(store: &Store) -> WaitTasks {
        WaitTasks { store: store.clone(), released: watch::Sender::default() }
    }

    /// Lets a task go on, now and whenever it is started again.
    pub fn release(&self, job: &JobId, task: &TaskId) {
        self.released.send_modify(|all| {
            all.insert((job.clone(), task.clone()));
        });
    }
}

/// What a catalog entry says to wait for.
#[derive(Debug, Default)]
struct Until {
    after: Option<Duration>,
    cell: Option<String>,
}

impl Until {
    fn read(work: &Work) -> Result<Until, String> {
        let (job, task) = (work.job_id(), work.task_id());
        let whole: Value = serde_json::from_str(work.job.as_str())
            .map_err(|why| format!("job {job} is no JSON: {why}"))?;
        let entry = &whole["catalog"][task.as_str()];
        let kind = entry["plugin"].as_str().or(entry["fn"].as_str());
        match kind {
            Some("wait") => {}
            Some(other) => return Err(format!("this build has no {other:?}")),
            None => return Err("it names neither a plugin nor a fn".into()),
        }
        let text = |key: &str| entry[key].as_str().map(str::to_owned);
        let after = text("for").map(|text| job::duration(&text)).transpose()?;
        Ok(Until { after, cell: text("cell") })
    }
}

#[async_trait]
impl Tasks for WaitTasks {
    async fn start(&self, work: Work, reports: Reports) -> Result<Box<dyn Task>, String> {
        let until = Until::read(&work)?;
        let (seal, mut sealing) = watch::channel(false);
        let (store, mut released) = (self.store.clone(), self.released.subscribe());
        let key = (work.assignment.job, work.assignment.task);
        let waiting = tokio::spawn(async move {
            tokio::select! {
                () = pass(until.after) => {}
                () = filled(&store, until.cell) => {}
                // An error means that nobody is left who could release it.
                Ok(_) = released.wait_for(|all| all.contains(&key)) => {}
            }
            reports.drained().await;
            if sealing.wait_for(|granted| *granted).await.is_ok() {
                reports.completed().await;
            }
        });
        Ok(Box::new(Waiting { seal, waiting: waiting.abort_handle() }))
    }
}

async fn pass(after: Option<Duration>) {
    match after {
        Some(after) => tokio::time::sleep(after).await,
        None => std::future::pending().await,
    }
}

async fn filled(store: &Store, cell: Option<String>) {
    let Some(cell) = cell else { return std::future::pending().await };
    // A store that does not answer is no news about the cell.
    while !matches!(store.cell(&cell).await, Ok(Some(_))) {
        tokio::time::sleep(CELL_PERIOD).await;
    }
}

struct Waiting {
    seal: watch::Sender<bool>,
    waiting: AbortHandle,
}

#[async_trait]
impl Task for Waiting {
    async fn seal(&mut self) {
        self.seal.send_replace(true);
    }

    async fn stop(self: Box<Self>) {}
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.waiting.abort();
    }
}
