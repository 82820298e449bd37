//! Ids on every store, the service, and faults of a real etcd.

#![allow(clippy::expect_used, clippy::print_stdout)]

mod faults;
mod join;
mod processes;
mod served;

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use sardonyx_ids::{Config, Ids, Layout, Millis, Source, System, lease::Terms};
use sardonyx_store::{Store, suite};

/// The bound for anything that should happen soon.
const SOON: Duration = Duration::from_secs(120);

/// The machine's clocks, but the wall clock can be moved.
#[derive(Debug, Default)]
struct Moved(AtomicI64);

impl Source for Moved {
    fn wall(&self) -> Millis {
        System.wall().saturating_add_signed(self.0.load(Ordering::Relaxed))
    }

    fn boot(&self) -> Millis {
        System.boot()
    }
}

/// Short terms, so that tests need not wait long.
fn config(lease: Duration) -> Config {
    let terms = Terms { window: 3000, period: 600, retry: 50, ..Terms::default() };
    Config { terms, lease, ..Config::default() }
}

/// Two worker numbers: soon full.
fn narrow(lease: Duration) -> Config {
    let layout = Layout { worker_bits: 1, sequence_bits: 21, ..Layout::default() };
    Config { layout, ..config(lease) }
}

async fn join(store: &Store, config: Config) -> Ids {
    let joined = tokio::time::timeout(SOON, Ids::join(store, config)).await;
    joined.expect("a number soon").expect("a number")
}

fn worker(ids: &Ids) -> u32 {
    ids.status()[0].worker.expect("a number")
}

/// Takes ids for a while, waiting for the clock where it must.
async fn draw(ids: &Ids, n: usize) -> Vec<u64> {
    let mut drawn = Vec::with_capacity(n);
    while drawn.len() < n {
        drawn.push(ids.next_wait().await.expect("an id").bits());
    }
    drawn
}

fn all_differ(mut ids: Vec<u64>) {
    let n = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), n, "an id twice");
}

fn run(scenario: impl Future<Output = ()>) {
    suite::run(scenario);
}

fn moved(by: i64) -> Arc<Moved> {
    Arc::new(Moved(AtomicI64::new(by)))
}
