//! `sardonyx bench http`: a large cluster with a long log, looked at.
//!
//! Writes a log into a directory, starts this program again as a dashboard on it, and asks that over
//! HTTP. The memory is that process's.

use std::{
    fs,
    net::SocketAddr,
    path::PathBuf,
    time::{Duration, Instant},
};

use clap::Args;
use sardonyx_core::Entry;
use sardonyx_store::{Options, Store};
use serde::Serialize;
use serde_json::Value;
use tokio::task::JoinSet;

use super::{
    Failure,
    bench::{print, thousands},
    bench_log::life_of_a_cluster,
    bench_node::Process,
    mesh_client::request,
};

/// How many appends are under way at once while the log is written.
const APPENDS: usize = 256;

#[derive(Args)]
pub(super) struct BenchHttp {
    /// How many peers.
    #[arg(long, value_name = "K", default_value_t = 1_000)]
    peers: u32,

    /// How many entries the log has.
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    entries: usize,

    /// How many jumps into the past.
    #[arg(long, value_name = "N", default_value_t = 200)]
    jumps: u64,

    /// Write the log here and leave it, for a look with `sardonyx dashboard --store embedded:DIR`.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

#[derive(Serialize)]
struct Row {
    what: &'static str,
    value: f64,
    unit: &'static str,
    /// What the design asks for.
    wanted: Option<f64>,
}

impl BenchHttp {
    pub(super) fn run(&self, json: bool) -> Result<(), Failure> {
        let for_now = tempfile::tempdir()?;
        let dir = self.keep.as_deref().unwrap_or(for_now.path());
        if fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some()) {
            let dir = dir.display();
            return Err(Failure::input(format!(
                "--keep {dir}: name a directory that is new or empty"
            )));
        }
        let url = format!("embedded:{}", dir.display());
        super::block_on(self.write(&url))?;
        let mut rows = Vec::new();
        let began = Instant::now();
        let mut process =
            Process::start(&["dashboard", "--json", "--store", &url, "--http", "127.0.0.1:0"])?;
        let address = process.until(|line| {
            let said: Value = serde_json::from_str(line).ok()?;
            let url = said["url"].as_str()?.strip_prefix("http://")?;
            url.trim_end_matches('/').parse::<SocketAddr>().ok()
        })?;
        super::block_on(self.measure(address, began, &mut rows))?;
        let memory = process.status("VmRSS")? as f64 / 1024.0;
        rows.push(Row { what: "memory", value: memory, unit: "MB", wanted: Some(500.0) });
        let (peers, entries) = (u64::from(self.peers), self.entries as u64);
        let title = format!("http, {} peers, {} entries", thousands(peers), thousands(entries));
        print(json, &title, &["what", "value", "unit", "wanted"], &rows, |row| {
            let wanted = row.wanted.map_or(String::new(), |wanted| format!("< {wanted}"));
            vec![row.what.into(), format!("{:.1}", row.value), row.unit.into(), wanted]
        })
    }

    async fn write(&self, url: &str) -> Result<(), Failure> {
        let log = life_of_a_cluster(self.peers, 100, self.entries)?;
        let store = Store::open(url, Options::default()).await?;
        // On one thread tasks begin in the order in which they were spawned, so entries keep theirs.
        let here = tokio::task::LocalSet::new();
        here.run_until(append_all(store.clone(), log)).await?;
        drop(here);
        store.close().await;
        Ok(())
    }

    async fn measure(
        &self,
        address: SocketAddr,
        began: Instant,
        rows: &mut Vec<Row>,
    ) -> Result<(), Failure> {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let overview = loop {
            let overview = request(address, "GET", "/v1/overview", None).await?;
            if overview["caught-up"] == true {
                break overview;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        let seconds = began.elapsed().as_secs_f64();
        rows.push(Row { what: "log read", value: seconds, unit: "s", wanted: None });
        let peers = overview["peers"].as_u64().unwrap_or_default() as f64;
        rows.push(Row { what: "peers at the end", value: peers, unit: "", wanted: None });
        let first = Instant::now();
        for path in ["/v1/overview", "/v1/replica", "/v1/jobs", "/v1/log?limit=12"] {
            request(address, "GET", path, None).await?;
        }
        let value = ms(first.elapsed());
        rows.push(Row { what: "first view, data", value, unit: "ms", wanted: Some(2_000.0) });
        let last = overview["position"].as_u64().unwrap_or_default();
        for (what, path) in [("jump", "/v1/replica?at="), ("difference", "/v1/diff?from=0&to=")] {
            let mut times = Vec::new();
            for jump in 0..self.jumps.max(1) {
                // Spread over the whole log, in no order.
                let at = jump.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (last + 1);
                let asked = Instant::now();
                request(address, "GET", &format!("{path}{at}"), None).await?;
                times.push(ms(asked.elapsed()));
            }
            times.sort_by(f64::total_cmp);
            let (median, worst) = (times[times.len() / 2], times[times.len() - 1]);
            let (name, slowest) = match what {
                "jump" => ("jump, median", "jump, slowest"),
                _ => ("difference, median", "difference, slowest"),
            };
            rows.push(Row { what: name, value: median, unit: "ms", wanted: Some(300.0) });
            rows.push(Row { what: slowest, value: worst, unit: "ms", wanted: Some(300.0) });
        }
        Ok(())
    }
}

/// Appends many at a time: one by one each would wait for the disk.
async fn append_all(store: Store, log: Vec<Entry>) -> Result<(), Failure> {
    let mut appends = JoinSet::new();
    for entry in log {
        while appends.len() >= APPENDS {
            done(appends.join_next().await)?;
        }
        let store = store.clone();
        appends.spawn_local(async move { store.append(&entry.command).await.map(drop) });
    }
    while let Some(one) = appends.join_next().await {
        done(Some(one))?;
    }
    Ok(())
}

type Appended = Result<Result<(), sardonyx_store::Error>, tokio::task::JoinError>;

fn done(one: Option<Appended>) -> Result<(), Failure> {
    match one {
        None => Ok(()),
        Some(joined) => Ok(joined.map_err(Failure::world)??),
    }
}
