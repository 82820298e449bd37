//! What the disk gives and what the queues make of it, side by side. With `SARDONYX_QUEUE_MEASURE`
//! set it measures for that many seconds each and prints; without, it only does each thing once.

use std::{
    io::Write as _,
    time::{Duration, Instant},
};

use bytes::Bytes;
use sardonyx_queue::{
    Body, Outgoing, Place, Queues, Transaction,
    suite::{alone, queue, run},
};

const IN_FLIGHT: usize = 64;
const LARGE: usize = 64 << 10;

fn patience() -> Duration {
    let seconds = std::env::var("SARDONYX_QUEUE_MEASURE").ok().and_then(|it| it.parse().ok());
    Duration::from_secs(seconds.unwrap_or(0))
}

/// Appends and syncs groups of `n` records of `bytes` as a plain file; records per second.
fn raw(dir: &std::path::Path, bytes: usize, n: usize) -> f64 {
    let mut file = std::fs::File::create(dir.join("raw")).unwrap();
    let group = vec![7; bytes * n];
    let (begun, mut n_done) = (Instant::now(), 0);
    loop {
        file.write_all(&group).unwrap();
        file.sync_data().unwrap();
        n_done += n;
        if begun.elapsed() >= patience() {
            return n_done as f64 / begun.elapsed().as_secs_f64();
        }
    }
}

/// Each of [`IN_FLIGHT`] lanes sends a message of `bytes`, receives one and acknowledges it, each
/// step a commit of its own; commits and messages per second.
async fn queues(url: &str, bytes: usize) -> (f64, f64) {
    let queues = Queues::open(url).await.unwrap();
    let mut lanes = tokio::task::JoinSet::new();
    let begun = Instant::now();
    for lane in 0..IN_FLIGHT {
        let queues = queues.clone();
        lanes.spawn(async move {
            let here = Place { job: "j".into(), task: format!("t{lane}") };
            let session = alone(&queues, &here).await;
            let body = Body::Note(Bytes::from(vec![7; bytes]));
            let outgoing = Outgoing { queue: queue(&here, "up"), partition: None, body };
            let mut n_messages = 0;
            loop {
                let sends = vec![outgoing.clone()];
                session.commit(Transaction { sends, ..Transaction::default() }).await.unwrap();
                let held = session.receive(1).await.unwrap();
                let acks = vec![held[0].receipt];
                session.commit(Transaction { acks, ..Transaction::default() }).await.unwrap();
                n_messages += 1;
                if begun.elapsed() >= patience() {
                    return n_messages;
                }
            }
        });
    }
    let n_messages: u32 = lanes.join_all().await.into_iter().sum();
    let per_second = f64::from(n_messages) / begun.elapsed().as_secs_f64();
    (2.0 * per_second, per_second)
}

#[test]
fn the_queues_beside_the_disk() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let raw_small = raw(dir.path(), 150, IN_FLIGHT);
        let raw_large = raw(dir.path(), LARGE, 16);
        std::fs::remove_file(dir.path().join("raw")).unwrap();
        let url = format!("embedded:{}", dir.path().display());
        let small = queues(&url, 100).await.0;
        let large = queues(&url, LARGE).await.1;
        let (memory, memory_large) =
            (queues("memory:", 100).await.0, queues("memory:", LARGE).await.1);
        let mb = |per_second: f64| per_second * LARGE as f64 / 1e6;
        println!(
            "plain file, groups of {IN_FLIGHT} x 150 B, each synced: {raw_small:.0} records/s\n\
             embedded, {IN_FLIGHT} in flight, 100 B: {small:.0} commits/s\n\
             memory, the same: {memory:.0} commits/s\n\
             plain file, groups of 16 x 64 KiB, each synced: {:.0} MB/s\n\
             embedded, {IN_FLIGHT} in flight, 64 KiB: {:.0} MB/s\n\
             memory, the same: {:.0} MB/s",
            mb(raw_large),
            mb(large),
            mb(memory_large)
        );
        assert!(small > 0.0 && large > 0.0);
    });
}
