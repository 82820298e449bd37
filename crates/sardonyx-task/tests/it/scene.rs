//! What a task needs around it to run alone: an engine in memory, a place, somebody who listens.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use sardonyx_queue::{Place, Queues};
use sardonyx_task::{
    Registry,
    meter::Meters,
    pipeline::{Engine, Listener},
    pool::Pool,
    spy::Spy,
};

pub(crate) const SOON: Duration = Duration::from_secs(60);

/// Listens, and wants to hear of no failure.
pub(crate) struct Nobody;

#[async_trait]
impl Listener for Nobody {
    async fn drained(&self) {}
    async fn completed(&self) {}
    async fn failed(&self, why: String) {
        panic!("{why}");
    }
}

pub(crate) fn engine(spy: impl Spy + 'static) -> Engine {
    Engine {
        queues: Queues::memory(),
        registry: Arc::new(Registry::built_in()),
        pool: Pool::inline(),
        spy: Arc::new(spy),
        meters: Meters::default(),
    }
}

/// Where a task of the job `j` is.
pub(crate) fn place(task: &str) -> Place {
    Place { job: "j".into(), task: task.into() }
}
