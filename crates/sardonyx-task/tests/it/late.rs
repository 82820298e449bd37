//! A peer that has not heard of another yet: its picture of who works is older than what the queues know.

use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use bytes::Bytes;
use sardonyx_queue::{
    Body, Outgoing, Owner, Place, QueueName, Queues, Roster, Segments, Transaction,
};
use sardonyx_task::{
    Blueprint, Output, Registry,
    output::Writer,
    pipeline::{Engine, Everybody, Order, Running},
    spy::{Phase, Spy},
};
use serde_json::json;
use tokio::sync::{mpsc, watch};

use crate::scene::{Nobody, SOON, engine, place};

/// Who commits, and who has begun.
struct Heard(mpsc::UnboundedSender<Phase>);

impl Spy for Heard {
    fn saw(&self, _: &Place, phase: Phase, _: Option<&RecordBatch>) {
        if matches!(phase, Phase::Commit | Phase::CloseSession) {
            // The test may be over.
            let _ = self.0.send(phase);
        }
    }
}

struct Scene {
    engine: Engine,
    heard: mpsc::UnboundedReceiver<Phase>,
    job: serde_json::Value,
}

fn owner(peer: &str, epoch: u64) -> Owner {
    Owner { peer: peer.into(), epoch }
}

impl Scene {
    fn new(out: &Path) -> Scene {
        let (sees, heard) = mpsc::unbounded_channel();
        let engine = engine(Heard(sees));
        let job = json!({"name": "j", "workflow": [["make", "write"]], "catalog": {
            "make": {"type": "input", "plugin": "generate", "count": 1},
            "write": {"type": "output", "plugin": "file", "path": out, "roll-every": "1h"}}});
        Scene { engine, heard, job }
    }

    fn start(&self, owner: Owner, roster: Roster) -> Running {
        self.start_with(owner, watch::channel(roster).1)
    }

    fn start_with(&self, owner: Owner, roster: watch::Receiver<Roster>) -> Running {
        let blueprint = Blueprint::read("j", &self.job, "write", &self.engine.registry).unwrap();
        let blueprint = Arc::new(blueprint);
        let census = Arc::new(Everybody);
        let order = Order { place: place("write"), owner, roster, blueprint, census };
        self.engine.start(order, Arc::new(Nobody))
    }

    /// Sends rows to the task, and waits until they are committed.
    async fn rows(&mut self, from: i64, to: i64) {
        let maker = owner("maker", 1);
        let alone = Roster { at: 1, owners: vec![maker.clone()] };
        let session = self.engine.queues.session(&place("make"), &maker, &alone).await.unwrap();
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(from..to));
        let batch = RecordBatch::try_from_iter([("n", column)]).unwrap();
        let queue = QueueName { job: "j".into(), task: "write".into(), from: "make".into() };
        let body = Body::Segments(Segments::Batch(batch));
        let sends = vec![Outgoing { queue, partition: None, body }];
        session.commit(Transaction { sends, ..Transaction::default() }).await.unwrap();
        self.committed().await;
    }

    /// The keys of the task, once there are only so many, or after some seconds.
    async fn remembered(&self, n: usize) -> Vec<String> {
        let begun = std::time::Instant::now();
        loop {
            let keys = self.engine.queues.peek(&place("write"), "").await.unwrap();
            if keys.len() <= n || begun.elapsed() > Duration::from_secs(5) {
                return keys.into_iter().map(|(key, _)| key).collect();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn committed(&mut self) {
        loop {
            let heard = tokio::time::timeout(SOON, self.heard.recv()).await.unwrap().unwrap();
            if heard == Phase::Commit {
                return;
            }
        }
    }
}

fn rows_in(directory: &Path) -> Vec<i64> {
    let mut rows = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let text = std::fs::read_to_string(path).unwrap();
            rows.extend(text.lines().skip(1).map(|line| line.parse::<i64>().unwrap()));
        }
    }
    rows.sort_unstable();
    rows
}

/// Waits until so many rows are shown, or for some seconds.
async fn shows(directory: &Path, n: usize) {
    let begun = std::time::Instant::now();
    while rows_in(directory).len() < n && begun.elapsed() < Duration::from_secs(5) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The old peer opens its session with a roster from before the young one came, and shows what those
/// have written who are gone. The young one is not gone.
#[tokio::test]
async fn whoever_is_not_known_yet_keeps_its_file() {
    let directory = tempfile::tempdir().unwrap();
    let mut scene = Scene::new(&directory.path().join("n.csv"));
    let (old, young) = (owner("old", 10), owner("young", 20));
    let both = Roster { at: 20, owners: vec![old.clone(), young.clone()] };
    let writing = scene.start(young, both.clone());
    scene.rows(0, 3).await;
    let late = scene.start(old.clone(), Roster { at: 15, owners: vec![old.clone()] });
    // It has opened its session once it has shown what it thinks it may.
    tokio::time::sleep(Duration::from_millis(200)).await;
    late.stop().await;
    scene.rows(3, 5).await;
    writing.stop().await;
    // The next one knows that both are gone, and shows what they committed.
    let next = owner("next", 30);
    let last = scene.start(next.clone(), Roster { at: 30, owners: vec![next] });
    shows(directory.path(), 5).await;
    last.stop().await;
    assert_eq!(rows_in(directory.path()), [0, 1, 2, 3, 4]);
}

/// One of two dies, and nobody comes in its place: the other one, which works on and on, shows what it
/// wrote.
#[tokio::test]
async fn what_the_dead_wrote_is_shown_by_those_who_stay() {
    let directory = tempfile::tempdir().unwrap();
    let mut scene = Scene::new(&directory.path().join("n.csv"));
    let (dies, stays) = (owner("dies", 10), owner("stays", 20));
    let both = Roster { at: 20, owners: vec![dies.clone(), stays.clone()] };
    let dying = scene.start(dies, both.clone());
    scene.rows(0, 3).await;
    let (says, roster) = watch::channel(both);
    let staying = scene.start_with(stays.clone(), roster);
    dying.stop().await;
    scene.rows(3, 5).await;
    assert_eq!(rows_in(directory.path()), [0; 0]);
    says.send_replace(Roster { at: 30, owners: vec![stays] });
    shows(directory.path(), 3).await;
    assert_eq!(rows_in(directory.path()), [0, 1, 2], "its own file is not whole yet");
    scene.rows(5, 7).await;
    staying.stop().await;
    let next = owner("next", 40);
    let last = scene.start(next.clone(), Roster { at: 40, owners: vec![next] });
    shows(directory.path(), 7).await;
    assert_eq!(scene.remembered(0).await, [""; 0], "of two who are gone");
    last.stop().await;
    assert_eq!(rows_in(directory.path()), [0, 1, 2, 3, 4, 5, 6]);
}

/// An output that writes nothing, and remembers what it was to recover. While it does so for the first
/// time, more becomes known of the same part.
struct Told {
    queues: Queues,
    runtime: tokio::runtime::Handle,
    recovered: Arc<Mutex<Vec<Bytes>>>,
}

impl Output for Told {
    fn open(&self, _: &str) -> Result<Box<dyn Writer>, String> {
        Ok(Box::new(Mute))
    }

    fn finish(&self, _: &[(String, Bytes)]) -> Result<(), String> {
        Ok(())
    }

    fn recover(&self, parts: &[(String, Bytes)]) -> Result<(), String> {
        let mut recovered = self.recovered.lock().unwrap();
        recovered.extend(parts.iter().map(|(_, mark)| mark.clone()));
        if recovered.len() == 1 {
            let key = format!("once/part/{}", parts[0].0);
            let more = mark(&self.queues, key, "second");
            std::thread::scope(|it| it.spawn(|| self.runtime.block_on(more)).join().unwrap());
        }
        Ok(())
    }

    fn forgets(&self) -> bool {
        true
    }
}

struct Mute;

impl Writer for Mute {
    fn write(&mut self, _: &RecordBatch) -> Result<(), String> {
        Ok(())
    }

    fn prepare(&mut self, _: bool) -> Result<Option<Bytes>, String> {
        Ok(None)
    }

    fn committed(&mut self) -> Result<(), String> {
        Ok(())
    }
}

/// What a part committed, in the words of somebody who is one of those who work.
async fn mark(queues: &Queues, key: String, value: &'static str) {
    let session = queues.session(&place("write"), &owner("helper", 1), &with_helper(1)).await;
    let session = session.unwrap();
    let puts = vec![(key, Some(Bytes::from_static(value.as_bytes())))];
    session.commit(Transaction { puts, ..Transaction::default() }).await.unwrap();
}

/// The peer that was given the task at this entry, and a helper.
fn with_helper(at: u64) -> Roster {
    Roster { at, owners: vec![owner("helper", 1), owner("next", at)] }
}

/// Queues may have told less than was committed. What came to light since is recovered by the next one.
#[tokio::test(flavor = "multi_thread")]
async fn only_what_was_recovered_is_forgotten() {
    let mut scene = Scene::new(Path::new("nowhere.csv"));
    let recovered = Arc::<Mutex<Vec<Bytes>>>::default();
    let (queues, runtime) = (scene.engine.queues.clone(), tokio::runtime::Handle::current());
    let (seen, mut registry) = (Arc::clone(&recovered), Registry::built_in());
    registry.output("told", &[], move |_| {
        let (queues, runtime) = (queues.clone(), runtime.clone());
        Ok(Arc::new(Told { queues, runtime, recovered: Arc::clone(&seen) }))
    });
    scene.engine.registry = Arc::new(registry);
    scene.job["catalog"]["write"] = json!({"type": "output", "plugin": "told"});
    let part = format!("once/part/{:016x}-gone-1", 5);
    mark(&scene.engine.queues, part, "first").await;
    for (epoch, n_left) in [(30, 1), (40, 0)] {
        let running = scene.start(owner("next", epoch), with_helper(epoch));
        // Whoever commits rows has recovered before.
        scene.rows(0, 1).await;
        let keys = scene.engine.queues.peek(&place("write"), "once/").await.unwrap();
        assert_eq!(keys.len(), n_left, "{keys:?}");
        running.stop().await;
    }
    assert_eq!(*recovered.lock().unwrap(), ["first", "second"]);
}
