//! Splits that have no end are read in turns, and what is small travels together.

use std::sync::Arc;

use arrow::{
    array::{AsArray as _, RecordBatch},
    datatypes::Int64Type,
};
use sardonyx_queue::{Body, Owner, Place, Roster, Transaction};
use sardonyx_task::{
    Blueprint,
    pipeline::{Engine, Everybody, Order, Running},
    spy::{Phase, Spy},
};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use crate::scene::{Nobody, SOON, engine, place};

/// Which rows are read.
struct Heard(mpsc::UnboundedSender<Vec<i64>>);

impl Spy for Heard {
    fn saw(&self, _: &Place, phase: Phase, batch: Option<&RecordBatch>) {
        if let (Phase::ReadBatch, Some(batch)) = (phase, batch) {
            // The test may be over.
            let _ = self.0.send(numbers(batch));
        }
    }
}

fn numbers(batch: &RecordBatch) -> Vec<i64> {
    batch.column(0).as_primitive::<Int64Type>().values().to_vec()
}

fn owner(peer: &str) -> Owner {
    Owner { peer: peer.into(), epoch: 1 }
}

/// An input with these keys, and what it reads.
fn start(keys: &Value) -> (Engine, Running, mpsc::UnboundedReceiver<Vec<i64>>) {
    let (sees, heard) = mpsc::unbounded_channel();
    let engine = engine(Heard(sees));
    let job = json!({"name": "j", "workflow": [["make", "drop"]],
        "catalog": {"make": keys, "drop": {"type": "output", "plugin": "null"}}});
    let blueprint = Blueprint::read("j", &job, "make", &engine.registry).unwrap();
    let alone = Roster { at: 1, owners: vec![owner("maker")] };
    let order = Order {
        place: place("make"),
        owner: owner("maker"),
        roster: watch::channel(alone).1,
        blueprint: Arc::new(blueprint),
        census: Arc::new(Everybody),
    };
    let running = engine.start(order, Arc::new(Nobody));
    (engine, running, heard)
}

/// Each of them could fill every batch alone.
#[tokio::test]
async fn busy_splits_take_turns() {
    let keys = json!({"type": "input", "plugin": "generate", "splits": 3, "batch-size": 8});
    let (_engine, running, mut heard) = start(&keys);
    let mut next = async || {
        let rows = tokio::time::timeout(SOON, heard.recv()).await.unwrap().unwrap();
        assert_eq!(rows.len(), 8);
        (rows[0] % 3) as usize
    };
    // They are opened one after the other.
    let mut is_open = [false; 3];
    while is_open != [true; 3] {
        is_open[next().await] = true;
    }
    let mut turns = [0; 3];
    for _ in 0..21 {
        turns[next().await] += 1;
    }
    running.stop().await;
    assert_eq!(turns, [7; 3]);
}

/// Eight splits have a row or two at a time: that is not a message each.
#[tokio::test]
async fn small_batches_travel_together() {
    let keys = json!({"type": "input", "plugin": "generate", "rate": 8000, "splits": 8});
    let (engine, running, mut heard) = start(&keys);
    let alone = Roster { at: 1, owners: vec![owner("drop")] };
    let session = engine.queues.session(&place("drop"), &owner("drop"), &alone).await.unwrap();
    let (mut rows, mut n_messages) = (Vec::new(), 0);
    while rows.len() < 4000 {
        let messages = tokio::time::timeout(SOON, session.receive(100)).await.unwrap().unwrap();
        let acks = messages.iter().map(|message| message.receipt).collect();
        for message in messages {
            let Body::Segments(batch) = message.body else { panic!("no end was asked for") };
            rows.extend(numbers(&batch.decode().unwrap()));
            n_messages += 1;
        }
        session.commit(Transaction { acks, ..Transaction::default() }).await.unwrap();
    }
    running.stop().await;
    let mut n_batches = 0;
    while heard.try_recv().is_ok() {
        n_batches += 1;
    }
    assert!(n_messages * 2 < n_batches, "{n_batches} batches in {n_messages} messages");
    rows.sort_unstable();
    assert!(rows.windows(2).all(|two| two[0] < two[1]), "a row twice");
}
