//! Tasks that move data: the job's text becomes a blueprint, and the blueprint runs in the engine.

use std::sync::Arc;

use async_trait::async_trait;
use sardonyx_core::JobId;
use sardonyx_queue::{Owner, Place};
use sardonyx_store::Store;
use sardonyx_task::{
    Blueprint, Terms,
    pipeline::{Engine, Listener, Order, Running},
};
use serde_json::Value;

use super::{Reports, Task, Tasks, WaitTasks, Work};

/// Starts tasks of every kind that a build has.
pub struct DataTasks {
    engine: Option<Engine>,
    waits: WaitTasks,
}

impl DataTasks {
    /// Tasks in this engine; those that only wait look at cells of `store`, and need none.
    pub fn new(engine: Option<Engine>, store: &Store) -> DataTasks {
        DataTasks { engine, waits: WaitTasks::new(store) }
    }
}

#[async_trait]
impl Tasks for DataTasks {
    async fn start(&self, work: Work, reports: Reports) -> Result<Box<dyn Task>, String> {
        let (job, task) = (work.job_id().to_string(), work.task_id().to_string());
        let whole: Value = serde_json::from_str(work.job.as_str())
            .map_err(|why| format!("the job is no JSON: {why}"))?;
        let terms = Terms::new(&job, &task, &whole["catalog"][task.as_str()]);
        let runs = |key: &str| terms.text(key).ok().flatten() == Some("wait");
        if runs("fn") || runs("plugin") {
            return self.waits.start(work, reports).await;
        }
        let Some(engine) = &self.engine else {
            return Err("this node has no queues: start it with --queues URL".into());
        };
        let blueprint = Blueprint::read(&job, &whole, &task, &engine.registry)?;
        let order = Order {
            place: Place { job, task },
            owner: Owner { peer: work.peer.to_string(), epoch: work.assignment.since.0 },
            roster: work.roster,
            blueprint: Arc::new(blueprint),
            census: Arc::new(work.members),
        };
        Ok(Box::new(Moving(engine.start(order, Arc::new(Heralds(reports))))))
    }

    async fn forget(&self, job: &JobId) {
        let Some(engine) = &self.engine else { return };
        engine.meters.forget(job.as_str());
        // What cannot be reached now is found by whoever cleans up.
        if let Err(why) = engine.queues.forget(job.as_str()).await {
            tracing::warn!(%job, %why, "the queues of a job that is over stay behind");
        }
    }
}

struct Moving(Running);

#[async_trait]
impl Task for Moving {
    async fn seal(&mut self) {
        self.0.seal();
    }

    async fn stop(self: Box<Self>) {
        self.0.stop().await;
    }
}

struct Heralds(Reports);

#[async_trait]
impl Listener for Heralds {
    async fn drained(&self) {
        self.0.drained().await;
    }

    async fn completed(&self) {
        self.0.completed().await;
    }

    async fn failed(&self, why: String) {
        self.0.failed(why).await;
    }
}
