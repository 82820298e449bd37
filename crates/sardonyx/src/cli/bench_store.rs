//! `sardonyx bench store`: a store beside what its server or disk does without us.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use clap::Args;
use sardonyx_core::PeerId;
use sardonyx_store::{Delivery, Start, Store};
use serde::Serialize;

use super::{
    Failure,
    bench::{print, thousands},
    bench_store_limits::{Limit, command, in_parallel},
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

/// How long each contender appends before the next one does.
const TURN: Duration = Duration::from_millis(100);

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or_default()
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
    /// What the raw number is of.
    beside: &'static str,
}

impl Row {
    fn cells(&self) -> Vec<String> {
        let number = |number: f64| match number >= 100.0 {
            true => thousands(number as u64),
            false => format!("{number:.2}"),
        };
        let ratio = self.ratio.map_or("–".into(), |ratio| format!("{ratio:.2}"));
        let raw = self.raw.map_or("–".into(), number);
        vec![self.what.clone(), number(self.ours), raw, ratio, self.unit.into(), self.beside.into()]
    }
}

impl BenchStore {
    pub(super) fn run(self, json: bool) -> Result<(), Failure> {
        let rows = block_on(async {
            let store = open_store(&self.url).await?;
            let limits = Limit::all_of(&self.url).await?;
            let mut rows = Vec::new();
            for in_flight in [1, 64] {
                rows.extend(self.appends(&store, &limits, in_flight).await?);
            }
            rows.push(self.replay(&store).await?);
            rows.extend(deliveries(&store).await?);
            rows.push(self.pulse(&store).await?);
            Ok(rows)
        })?;
        let head = ["", "ours", "raw", "ratio", "", "raw is"];
        print(json, "bench store", &head, &rows, Row::cells)
    }

    /// Ours and the raw limits in many short turns, and of each the turn in the middle: so a busy
    /// machine hits all alike, and a disk that stalls for a moment is nobody's fault.
    async fn appends(
        &self,
        store: &Store,
        limits: &[Limit],
        in_flight: usize,
    ) -> Result<Vec<Row>, Failure> {
        let limits: Vec<_> = limits.iter().filter(|limit| limit.is_for(in_flight)).collect();
        append(store, in_flight, 2 * TURN).await?;
        // The last column is ours.
        let mut rates = vec![Vec::new(); limits.len() + 1];
        let n_turns = self.seconds.max(1) * 1000 / TURN.as_millis() as u64;
        for turn in 0..n_turns {
            // Every other time the other way round: nobody always comes behind the same one.
            let mut order: Vec<_> = (0..=limits.len()).collect();
            if turn % 2 == 1 {
                order.reverse();
            }
            for contender in order {
                let begun = Instant::now();
                let n = match limits.get(contender) {
                    Some(limit) => limit.append(in_flight, begun + TURN).await?,
                    None => append(store, in_flight, TURN).await?,
                };
                rates[contender].push(n as f64 / begun.elapsed().as_secs_f64());
            }
        }
        let ours = median(rates.pop().unwrap_or_default());
        let row = |raw: Option<(f64, &Limit)>| Row {
            what: format!("appends, {in_flight} in flight"),
            ours,
            raw: raw.map(|(raw, _)| raw),
            ratio: raw.map(|(raw, _)| ours / raw),
            unit: "1/s",
            beside: raw.map_or("", |(_, limit)| limit.name()),
        };
        let raw = rates.into_iter().map(median).zip(limits.iter().copied());
        let rows: Vec<_> = raw.map(|raw| row(Some(raw))).collect();
        Ok(if rows.is_empty() { vec![row(None)] } else { rows })
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
        let ours = self.entries as f64 / best;
        Ok(Row { what, ours, raw: None, ratio: None, unit: "1/s", beside: "" })
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
            beside: "the session timeout",
        })
    }
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
        beside: "",
    };
    Ok(vec![row("median", 250), row("99 of 100", 495)])
}
