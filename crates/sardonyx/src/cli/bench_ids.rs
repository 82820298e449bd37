//! `sardonyx bench ids`: what an id costs, how near the limit of a worker number one gets, and
//! what the service adds; beside other generators and bare servers.
//!
//! A worker number makes 4,096 ids in a millisecond, which hides what an id costs. So cost is
//! measured on a clock that runs 400 times as fast as the real one and is as dear to read.

use std::{
    hint::black_box,
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use clap::Args;
use ferroid::{
    generator::{AtomicSnowflakeGenerator, Poll},
    id::SnowflakeTwitterId,
    time::TimeSource,
};
use sardonyx_ids::{Clock, EPOCH, Id, Layout, Local, Shared, Slack};
use serde::Serialize;

use super::{Failure, bench::print, bench_ids_service, block_on};

/// How fast ids are made and served, beside other generators and bare servers.
#[derive(Args)]
pub(super) struct BenchIds {
    /// How long each row takes.
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(50..=60_000))]
    millis: u64,

    /// Leave the service out.
    #[arg(long)]
    no_service: bool,
}

/// One line of the table.
#[derive(Serialize)]
pub(super) struct Row {
    pub(super) what: String,
    pub(super) threads: usize,
    pub(super) ids_per_second: f64,
    /// Per id and thread.
    pub(super) nanos: f64,
    /// The rate as a part of that of a server which does as much without ids.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) of_bare: Option<f64>,
}

/// 400 times as fast as the real clock; one reading costs what a real one costs.
#[derive(Clone)]
struct Fast(Instant);

impl Clock for Fast {
    fn now(&self) -> u64 {
        EPOCH + 1000 + self.0.elapsed().as_nanos() as u64 / 2500
    }
}

impl TimeSource<u64> for Fast {
    fn current_millis(&self) -> u64 {
        self.now() - EPOCH
    }
}

/// The real clock, which a generator without a lease goes by.
struct Real;

impl Clock for Real {
    fn now(&self) -> u64 {
        sardonyx_ids::Source::wall(&sardonyx_ids::System)
    }
}

/// Runs `draw`, which says how many ids it got, on so many threads for so long.
fn measure<D: FnMut() -> u64>(
    what: &str,
    threads: usize,
    time: Duration,
    make: impl Fn() -> D + Sync,
) -> Row {
    let barrier = Barrier::new(threads);
    let one = || {
        let mut draw = make();
        barrier.wait();
        let (begun, mut n) = (Instant::now(), 0);
        while begun.elapsed() < time {
            for _ in 0..64 {
                n += draw();
            }
        }
        (n, begun.elapsed())
    };
    let done: Vec<(u64, Duration)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
        threads.into_iter().filter_map(|it| it.join().ok()).collect()
    });
    let ids_per_second = done.iter().map(|(n, time)| *n as f64 / time.as_secs_f64()).sum();
    let nanos = threads as f64 * 1e9 / ids_per_second;
    Row { what: what.into(), threads, ids_per_second, nanos, of_bare: None }
}

/// Sixty-four draws of one id: the loop's own clock reading is spread over many ids.
fn singles(mut next: impl FnMut() -> bool) -> impl FnMut() -> u64 {
    move || (0..64).map(|_| u64::from(next())).sum()
}

fn ours<C: Clock>(clock: C) -> Arc<Shared<C>> {
    let shared = Shared::new(Layout::default(), Slack::default(), clock);
    shared.open(1, 0, u64::MAX);
    Arc::new(shared)
}

/// One word that all threads raise: no generator that does so for each id can be cheaper.
fn bare(time: Duration, threads: usize) -> Row {
    let word = AtomicU64::new(0);
    measure("cost: bare fetch_add", threads, time, || {
        let word = &word;
        singles(move || black_box(word.fetch_add(1, Ordering::AcqRel)) < u64::MAX)
    })
}

fn costs(time: Duration) -> Vec<Row> {
    let mut rows = vec![bare(time, 1), bare(time, 2)];
    for threads in [1, 2] {
        let shared = ours(Fast(Instant::now()));
        rows.push(measure("cost: ours, shared handle", threads, time, || {
            let shared = Arc::clone(&shared);
            singles(move || shared.next().map(black_box).is_ok())
        }));
        let shared = ours(Fast(Instant::now()));
        rows.push(measure("cost: ours, per-thread handle", threads, time, || {
            let mut local = Local::new(Arc::clone(&shared));
            singles(move || local.next().map(black_box).is_ok())
        }));
    }
    let shared = ours(Fast(Instant::now()));
    rows.push(measure("cost: ours, fill of 1000", 1, time, || {
        let (shared, mut ids) = (Arc::clone(&shared), vec![Id::default(); 1000]);
        move || black_box(shared.fill(black_box(&mut ids))).unwrap_or(0) as u64
    }));
    for threads in [1, 2] {
        let ferroid =
            AtomicSnowflakeGenerator::<SnowflakeTwitterId, _>::new(1, Fast(Instant::now()));
        rows.push(measure("cost: ferroid, atomic", threads, time, || {
            let ferroid = &ferroid;
            singles(move || matches!(black_box(ferroid.poll_id()), Poll::Ready { .. }))
        }));
    }
    let clock = Fast(Instant::now());
    let me = snowflake_me::Builder::new()
        .start_time(EPOCH as i64)
        .machine_id(&|| Ok(1))
        .data_center_id(&|| Ok(1))
        .clock_source(move || clock.now() as i64)
        .finalize();
    if let Ok(me) = me {
        rows.push(measure("cost: snowflake_me, next_id", 1, time, || {
            let me = &me;
            singles(move || me.next_id().map(black_box).is_ok())
        }));
        rows.push(measure("cost: snowflake_me, next_ids_into 1000", 1, time, || {
            let (me, mut ids) = (&me, Vec::with_capacity(1000));
            move || {
                ids.clear();
                u64::from(me.next_ids_into(1000, &mut ids).is_ok()) * ids.len() as u64
            }
        }));
    }
    // Its clock cannot be replaced, so it gets a layout without a limit that matters.
    let snowdon = snowdon::Generator::<Wide, Wide>::default();
    rows.push(measure("cost: snowdon, lock-free", 1, time, || {
        let snowdon = &snowdon;
        singles(move || snowdon.generate().map(black_box).is_ok())
    }));
    rows
}

struct Wide;

impl snowdon::Layout for Wide {
    fn construct_snowflake(timestamp: u64, sequence_number: u64) -> u64 {
        timestamp << 22 | sequence_number
    }

    fn timestamp(input: u64) -> u64 {
        input >> 22
    }

    fn exceeds_timestamp(input: u64) -> bool {
        input >= 1 << 42
    }

    fn sequence_number(input: u64) -> u64 {
        input & ((1 << 22) - 1)
    }

    fn exceeds_sequence_number(input: u64) -> bool {
        input >= 1 << 22
    }

    fn is_valid_snowflake(_input: u64) -> bool {
        true
    }
}

impl snowdon::Epoch for Wide {
    fn millis_since_unix() -> u64 {
        EPOCH
    }
}

/// Ids a second against the limit, on the real clock.
fn sustained(time: Duration, label: &str) -> Vec<Row> {
    let shared = ours(Real);
    let strict = Shared::new(Layout::default(), Slack { credit: 0, max_future: 0 }, Real);
    strict.open(1, 0, u64::MAX);
    let draw = |shared: Arc<Shared<Real>>| {
        let mut ids = vec![Id::default(); 512];
        move || match shared.fill(&mut ids) {
            Ok(n) => n as u64,
            Err(_) => {
                // With credit, sleeping loses nothing.
                std::thread::sleep(Duration::from_micros(300));
                0
            }
        }
    };
    let strict = Arc::new(strict);
    vec![
        measure(&format!("{label}: ours"), 1, time, || draw(Arc::clone(&shared))),
        measure(&format!("{label}: without past credit"), 1, time, || {
            let strict = Arc::clone(&strict);
            singles(move || strict.next().map(black_box).is_ok())
        }),
        measure(&format!("{label}: rs-snowflake"), 1, time, || {
            let mut it = snowflake::SnowflakeIdGenerator::new(1, 1);
            singles(move || black_box(it.real_time_generate()) > 0)
        }),
    ]
}

/// Runs `body` while four other threads keep the cores busy.
fn under_load<T>(body: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut n = 0_u64;
                while !is_over.load(Ordering::Relaxed) {
                    n = black_box(n.wrapping_mul(31) + 1);
                }
            });
        }
        let result = body();
        is_over.store(true, Ordering::Relaxed);
        result
    })
}

impl BenchIds {
    pub(super) fn run(self, json: bool) -> Result<(), Failure> {
        let time = Duration::from_millis(self.millis);
        let mut rows = costs(time);
        rows.extend(sustained(time, "real clock"));
        rows.extend(under_load(|| sustained(3 * time, "real clock, 4 busy threads beside")));
        if !self.no_service {
            rows.extend(block_on(bench_ids_service::rows(time))?);
        }
        let head = ["what", "threads", "ids/s", "of 4.096 M/s", "ns/id", "of bare"];
        print(json, "ids", &head, &rows, |row| {
            vec![
                row.what.clone(),
                row.threads.to_string(),
                super::bench::thousands(row.ids_per_second as u64),
                format!("{:.2}", row.ids_per_second / 4_096_000.0),
                format!("{:.2}", row.nanos),
                row.of_bare.map(|it| format!("{it:.2}")).unwrap_or_default(),
            ]
        })
    }
}
