//! A split that goes from peer to peer: what lasts for weeks is held by many, one after the other.

use std::{sync::Arc, time::Duration};

use arrow::array::RecordBatch;
use async_trait::async_trait;
use sardonyx_queue::{Owner, Place, QueueName, Roster};
use sardonyx_task::{
    Blueprint,
    pipeline::{Engine, Listener, Order, Running},
    spy::{Phase, Spy},
};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use crate::scene::{SOON, engine, place};

/// More often than a message may be delivered without a commit.
const MOVES: u64 = 40;
struct Commits(mpsc::UnboundedSender<()>);

impl Spy for Commits {
    fn saw(&self, _: &Place, phase: Phase, _: Option<&RecordBatch>) {
        if phase == Phase::Commit {
            // The test may be over.
            let _ = self.0.send(());
        }
    }
}

struct Failures(mpsc::UnboundedSender<String>);

#[async_trait]
impl Listener for Failures {
    async fn drained(&self) {}
    async fn completed(&self) {}
    async fn failed(&self, why: String) {
        // The test may be over.
        let _ = self.0.send(why);
    }
}

/// The input of a stream, and what is heard of it.
struct Stream {
    engine: Engine,
    input: Value,
    commits: mpsc::UnboundedReceiver<()>,
    says: mpsc::UnboundedSender<String>,
    failures: mpsc::UnboundedReceiver<String>,
}

impl Stream {
    fn new(input: Value) -> Stream {
        let (sees, commits) = mpsc::unbounded_channel();
        let (says, failures) = mpsc::unbounded_channel();
        let engine = engine(Commits(sees));
        Stream { engine, input, commits, says, failures }
    }

    /// The next peer has the task.
    fn start(&self, at: u64) -> Running {
        let job = json!({"name": "j", "workflow": [["make", "out"]], "catalog": {
            "make": self.input,
            "out": {"type": "output", "plugin": "null"}}});
        let blueprint = Blueprint::read("j", &job, "make", &self.engine.registry).unwrap();
        let owner = Owner { peer: format!("p{at}"), epoch: at };
        let (_, roster) = watch::channel(Roster { at, owners: vec![owner.clone()] });
        let order = Order { place: place("make"), owner, roster, blueprint: Arc::new(blueprint) };
        self.engine.start(order, Arc::new(Failures(self.says.clone())))
    }

    async fn is_held(&self) -> bool {
        let queue = QueueName { job: "j".into(), task: "make".into(), from: String::new() };
        self.engine.queues.depth(&queue).await.unwrap().in_flight > 0
    }
}

#[tokio::test]
async fn a_split_that_gets_on_may_move_for_ever() {
    let mut stream =
        Stream::new(json!({"type": "input", "plugin": "generate", "rate": 1_000, "splits": 1}));
    for at in 1..=MOVES {
        let running = stream.start(at);
        // The plan is a commit as well; two of them later rows have been committed.
        for _ in 0..3 {
            tokio::select! {
                it = tokio::time::timeout(SOON, stream.commits.recv()) => assert!(it.is_ok()),
                why = stream.failures.recv() => panic!("after {at} moves: {why:?}"),
            }
        }
        running.stop().await;
        while stream.commits.try_recv().is_ok() {}
    }
    assert_eq!(stream.failures.try_recv().ok(), None);
}

/// Whoever holds this one dies before anything is committed.
#[tokio::test]
async fn a_split_that_never_gets_on_ends_the_job() {
    // Nobody ever pushes anything.
    let mut stream =
        Stream::new(json!({"type": "input", "plugin": "memory", "channel": "never-gets-on"}));
    let held = async {
        for at in 1..=MOVES {
            let running = stream.start(at);
            while !stream.is_held().await {
                if let Ok(why) = stream.failures.try_recv() {
                    return (at, why);
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            // Received is not yet looked at.
            tokio::time::sleep(Duration::from_millis(5)).await;
            if let Ok(why) = stream.failures.try_recv() {
                return (at, why);
            }
            running.stop().await;
        }
        (0, "it goes on".to_owned())
    };
    let (at, why) = tokio::time::timeout(SOON, held).await.unwrap();
    assert!(at > 32 && why.contains("delivered 32 times and never committed"), "{at}: {why}");
}
