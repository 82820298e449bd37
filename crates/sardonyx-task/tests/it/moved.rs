//! What goes from peer to peer: who moves gives back what it has not committed, and that is nobody's
//! fault. What ends whoever has it ends the job.

use std::{sync::Arc, time::Duration};

use arrow::array::RecordBatch;
use async_trait::async_trait;
use sardonyx_queue::{Owner, Place, QueueName, Roster};
use sardonyx_task::{
    Blueprint,
    pipeline::{Census, Engine, Everybody, Listener, Order, Running},
    spy::{Phase, Spy},
};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use crate::scene::{SOON, engine, place};

/// More often than a message may be delivered, and be the end of somebody each time.
const MOVES: u64 = 40;

/// How often it may: half of it before anybody asks, half of it with names.
const DEATHS: u64 = 32;

fn count() -> Value {
    json!({"type": "function", "fn": "count", "group-by": ["n"]})
}

fn out() -> Value {
    json!({"type": "output", "plugin": "null"})
}

/// Who has had the task before is gone.
struct Gone;

impl Census for Gone {
    fn is_here(&self, _peer: &str) -> bool {
        false
    }
}

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

/// A task of a job, and what is heard of it.
struct Stream {
    engine: Engine,
    catalog: Value,
    task: &'static str,
    census: Arc<dyn Census>,
    commits: mpsc::UnboundedReceiver<()>,
    says: mpsc::UnboundedSender<String>,
    failures: mpsc::UnboundedReceiver<String>,
}

impl Stream {
    /// An input alone.
    fn new(input: &Value, census: impl Census + 'static) -> Stream {
        Stream::of(json!({"make": input, "count": count(), "out": out()}), "make", census)
    }

    fn of(catalog: Value, task: &'static str, census: impl Census + 'static) -> Stream {
        let (sees, commits) = mpsc::unbounded_channel();
        let (says, failures) = mpsc::unbounded_channel();
        let (engine, census) = (engine(Commits(sees)), Arc::new(census));
        Stream { engine, catalog, task, census, commits, says, failures }
    }

    /// The next peer has the task.
    fn start(&self, at: u64) -> Running {
        let workflow = json!([["make", "count"], ["count", "out"]]);
        let job = json!({"name": "j", "workflow": workflow, "catalog": self.catalog});
        let blueprint = Blueprint::read("j", &job, self.task, &self.engine.registry).unwrap();
        let owner = Owner { peer: format!("p{at}"), epoch: at };
        let (_, roster) = watch::channel(Roster { at, owners: vec![owner.clone()] });
        let (blueprint, census) = (Arc::new(blueprint), Arc::clone(&self.census));
        let order = Order { place: place(self.task), owner, roster, blueprint, census };
        self.engine.start(order, Arc::new(Failures(self.says.clone())))
    }

    async fn is_held(&self) -> bool {
        let from = if self.task == "make" { "" } else { "make" };
        let queue = QueueName { job: "j".into(), task: self.task.into(), from: from.into() };
        self.engine.queues.depth(&queue).await.unwrap().in_flight > 0
    }
}

#[tokio::test]
async fn a_split_that_gets_on_may_move_for_ever() {
    let input = json!({"type": "input", "plugin": "generate", "rate": 1_000, "splits": 1});
    let mut stream = Stream::new(&input, Gone);
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

/// Moves the task on each time that somebody holds something and has not committed it. Says after how
/// many moves the job had failed, and why.
async fn move_on(stream: &mut Stream) -> Option<(u64, String)> {
    for at in 2..=MOVES + 1 {
        let running = stream.start(at);
        while !stream.is_held().await {
            if let Ok(why) = stream.failures.try_recv() {
                return Some((at - 2, why));
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // Received is not yet looked at. A grouped task gathers for longer before it commits.
        tokio::time::sleep(Duration::from_millis(10)).await;
        if let Ok(why) = stream.failures.try_recv() {
            return Some((at - 2, why));
        }
        running.stop().await;
    }
    None
}

/// A grouped task, which gathers for some time before it commits; and a message for it.
async fn counting(census: impl Census + 'static) -> Stream {
    let input = json!({"type": "input", "plugin": "generate", "count": 8, "splits": 1});
    let catalog = json!({"make": input, "count": count(), "out": out()});
    let mut stream = Stream::of(catalog, "make", census);
    let running = stream.start(1);
    let queue = QueueName { job: "j".into(), task: "count".into(), from: "make".into() };
    while stream.engine.queues.depth(&queue).await.unwrap().total() == 0 {
        tokio::time::timeout(SOON, stream.commits.recv()).await.unwrap();
    }
    running.stop().await;
    stream.task = "count";
    stream
}

#[tokio::test]
async fn a_message_may_move_for_ever() {
    let mut stream = counting(Everybody).await;
    let failed = tokio::time::timeout(SOON, move_on(&mut stream)).await.unwrap();
    assert_eq!(failed, None, "nobody died of it");
    // Who stays commits, and nothing is left of the moves.
    let running = stream.start(MOVES + 2);
    while stream.is_held().await {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    tokio::time::timeout(SOON, stream.commits.recv()).await.unwrap();
    assert_eq!(stream.engine.queues.peek(&place("count"), "had/").await.unwrap(), []);
    running.stop().await;
}

#[tokio::test]
async fn a_message_that_ends_whoever_has_it_ends_the_job() {
    let mut stream = counting(Gone).await;
    let failed = tokio::time::timeout(SOON, move_on(&mut stream)).await.unwrap();
    let (at, why) = failed.expect("it is the end of everybody");
    assert_eq!(at, DEATHS);
    assert!(why.contains("delivered 33 times and never committed, and 16 of those"), "{why}");
}

/// It was looked at, and nobody died of that.
#[tokio::test]
async fn a_split_that_has_nothing_yet_may_move_for_ever() {
    let input = json!({"type": "input", "plugin": "memory", "channel": "has-nothing-yet"});
    let mut stream = Stream::new(&input, Gone);
    let failed = tokio::time::timeout(SOON, move_on(&mut stream)).await.unwrap();
    assert_eq!(failed, None);
}
