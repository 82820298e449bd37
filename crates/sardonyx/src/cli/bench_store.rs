//! `sardonyx bench store`: a store beside what its server or disk does without us.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use clap::Args;
use sardonyx_core::{Command, PeerId, wire};
use sardonyx_store::{
    Delivery, Location, Start, Store,
    raw::{self, RawAppend},
};
use serde::Serialize;

use super::{
    Failure,
    bench::{print, thousands},
    block_on, open_store,
};

/// Measures appends, replay, delivery and the end of a pulse. Writes to the store: use a name or a
/// directory of its own.
#[derive(Args)]
pub(crate) struct BenchStore {
    /// The store: memory:, embedded:DIR, sardonyx://…, etcd://…/NAME, zookeeper://…/NAME.
    url: String,

    /// How many entries to replay; appended first if there are fewer.
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    entries: u64,

    /// How long each append measurement lasts, in seconds. Ours and the raw one take turns.
    #[arg(long, default_value_t = 6, value_name = "N")]
    seconds: u64,

    /// The session timeout of the pulse that dies, in seconds.
    #[arg(long, default_value_t = 5, value_name = "N")]
    session_timeout: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Row {
    what: String,
    ours: f64,
    raw: Option<f64>,
    /// For rates ours by raw; for the pulse, the time by the session's timeout.
    ratio: Option<f64>,
    unit: &'static str,
}

impl Row {
    fn cells(&self) -> Vec<String> {
        let number = |number: f64| match number >= 100.0 {
            true => thousands(number as u64),
            false => format!("{number:.2}"),
        };
        let ratio = self.ratio.map_or("–".into(), |ratio| format!("{ratio:.2}"));
        let raw = self.raw.map_or("–".into(), number);
        vec![self.what.clone(), number(self.ours), raw, ratio, self.unit.into()]
    }
}

impl BenchStore {
    pub(super) fn run(self, json: bool) -> Result<(), Failure> {
        let rows = block_on(async {
            let store = open_store(&self.url).await?;
            let limit = Limit::of(&self.url).await?;
            let mut rows = Vec::new();
            for in_flight in [1, 64] {
                rows.push(self.appends(&store, &limit, in_flight).await?);
            }
            rows.push(self.replay(&store).await?);
            rows.extend(deliveries(&store).await?);
            rows.push(self.pulse(&store).await?);
            Ok(rows)
        })?;
        let head = ["", "ours", "raw", "ratio", ""];
        print(json, "bench store", &head, &rows, Row::cells)
    }

    /// Ours and the raw limit in turns of a second, so that a busy machine hits both alike.
    async fn appends(
        &self,
        store: &Store,
        limit: &Limit,
        in_flight: usize,
    ) -> Result<Row, Failure> {
        let turn = Duration::from_secs(1);
        let (mut ours, mut raw, mut turns) = (0, 0, 0);
        append(store, in_flight, turn / 4).await?;
        while turns < self.seconds {
            ours += append(store, in_flight, turn).await?;
            raw += limit.append(in_flight, turn).await?;
            turns += 1;
        }
        let rate = |n: u64| n as f64 / turns.max(1) as f64;
        let raw = (raw > 0).then(|| rate(raw));
        Ok(Row {
            what: format!("appends, {in_flight} in flight"),
            ours: rate(ours),
            raw,
            ratio: raw.map(|raw| rate(ours) / raw),
            unit: "1/s",
        })
    }

    /// Best of three, from the first entry to the last.
    async fn replay(&self, store: &Store) -> Result<Row, Failure> {
        let mut n = count(store, self.entries).await?;
        while n < self.entries {
            append(store, 256, Duration::from_millis(500)).await?;
            n = count(store, self.entries).await?;
        }
        let mut best = f64::MAX;
        for _ in 0..3 {
            let begun = Instant::now();
            count(store, self.entries).await?;
            best = best.min(begun.elapsed().as_secs_f64());
        }
        let what = format!("replay of {} entries", thousands(self.entries));
        Ok(Row { what, ours: self.entries as f64 / best, raw: None, ratio: None, unit: "1/s" })
    }

    /// From the last sign of life to the news of the end.
    async fn pulse(&self, store: &Store) -> Result<Row, Failure> {
        let session = store.session(Duration::from_secs(self.session_timeout)).await?;
        let timeout = session.timeout();
        let peer = PeerId::new("bench-pulse").map_err(Failure::world)?;
        session.pulse(&peer).await?;
        let watcher = store.clone();
        let watched = peer.clone();
        let watching = tokio::spawn(async move { watcher.watch_pulse(&watched).await });
        let since = Instant::now();
        session.abandon();
        watching.await.map_err(Failure::world)??;
        let took = since.elapsed();
        Ok(Row {
            what: format!("dead pulse noticed, session timeout {} s", timeout.as_secs_f64()),
            ours: took.as_secs_f64(),
            raw: Some(timeout.as_secs_f64()),
            ratio: Some(took.as_secs_f64() / timeout.as_secs_f64()),
            unit: "s",
        })
    }
}

/// What there is without us.
enum Limit {
    Client(Arc<dyn RawAppend>),
    Disk(std::path::PathBuf),
    None,
}

impl Limit {
    async fn of(url: &str) -> Result<Limit, Failure> {
        if let Some(client) = raw::connect(url).await? {
            return Ok(Limit::Client(client.into()));
        }
        Ok(match Location::parse(url)? {
            Location::Embedded(dir) => Limit::Disk(dir),
            Location::Memory | Location::Remote(_) | Location::Etcd(_) | Location::ZooKeeper(_) => {
                Limit::None
            }
        })
    }

    async fn append(&self, in_flight: usize, turn: Duration) -> Result<u64, Failure> {
        let until = Instant::now() + turn;
        let record = entry_bytes(0)?;
        match self {
            Limit::None => Ok(0),
            Limit::Disk(dir) => {
                let dir = dir.clone();
                let append = move || raw::append_to_file(&dir, &record, in_flight, until);
                Ok(tokio::task::spawn_blocking(append).await.map_err(Failure::world)??)
            }
            Limit::Client(client) => {
                let client = Arc::clone(client);
                let append = move || {
                    let (client, record) = (Arc::clone(&client), record.clone());
                    async move { client.append(&record).await }
                };
                in_parallel(in_flight, until, append).await
            }
        }
    }
}

/// A command of ordinary size.
fn command(n: u64) -> Result<Command, Failure> {
    let args = format!(
        r#"{{"joiner":"p-{n:016x}","observer":"p-{:016x}","subject":"p-{:016x}"}}"#,
        n + 1,
        n + 2
    );
    wire::command_from_json("notify-join-cluster", &args).map_err(Failure::world)
}

/// What is stored of it: its bytes and sixteen for the token.
fn entry_bytes(n: u64) -> Result<Vec<u8>, Failure> {
    let mut bytes = vec![0; sardonyx_store::Token::BYTES];
    bytes.extend(wire::command_to_bytes(&command(n)?).map_err(Failure::world)?);
    Ok(bytes)
}

async fn append(store: &Store, in_flight: usize, turn: Duration) -> Result<u64, Failure> {
    let command = Arc::new(command(1)?);
    let store = store.clone();
    let append = move || {
        let (store, command) = (store.clone(), Arc::clone(&command));
        async move { store.append(&command).await.map(drop) }
    };
    in_parallel(in_flight, Instant::now() + turn, append).await
}

/// Does something again and again, `in_flight` at a time; says how often.
async fn in_parallel<F>(
    in_flight: usize,
    until: Instant,
    act: impl Fn() -> F + Clone + Send + 'static,
) -> Result<u64, Failure>
where
    F: Future<Output = sardonyx_store::Result<()>> + Send + 'static,
{
    let count = Arc::new(AtomicU64::new(0));
    let mut lanes = tokio::task::JoinSet::new();
    for _ in 0..in_flight {
        let (act, count) = (act.clone(), Arc::clone(&count));
        lanes.spawn(async move {
            while Instant::now() < until {
                act().await?;
                count.fetch_add(1, Ordering::Relaxed);
            }
            Ok::<_, sardonyx_store::Error>(())
        });
    }
    for lane in lanes.join_all().await {
        lane?;
    }
    Ok(count.load(Ordering::Relaxed))
}

/// Reads up to `max` entries from the beginning; says how many there were.
async fn count(store: &Store, max: u64) -> Result<u64, Failure> {
    let Some(end) = store.end().await? else { return Ok(0) };
    let mut subscription = store.subscribe(Start::Origin);
    let (mut n, mut batch) = (0, Vec::new());
    while n < max {
        subscription.next_batch(&mut batch).await?;
        for delivery in batch.drain(..) {
            if let Delivery::Entry { position, .. } = delivery {
                n += 1;
                if position >= end {
                    return Ok(n);
                }
            }
        }
    }
    Ok(n)
}

/// From the call of an append to its entry's arrival at a reader.
async fn deliveries(store: &Store) -> Result<Vec<Row>, Failure> {
    let start = Start::After(store.end().await?, sardonyx_store::Seen::default());
    let mut subscription = store.subscribe(start);
    let mut latencies = Vec::new();
    for n in 0..500 {
        let command = command(n)?;
        let begun = Instant::now();
        let (appended, ()) = tokio::join!(store.append(&command), async {
            // The one that was just appended: nobody else writes here.
            let _ = subscription.next().await;
        });
        appended?;
        latencies.push(begun.elapsed().as_secs_f64() * 1000.0);
    }
    latencies.sort_by(f64::total_cmp);
    let row = |what: &str, index: usize| Row {
        what: format!("append to delivery, {what}"),
        ours: latencies[index],
        raw: None,
        ratio: None,
        unit: "ms",
    };
    Ok(vec![row("median", 250), row("99 of 100", 495)])
}
