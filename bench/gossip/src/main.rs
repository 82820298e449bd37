//! Memberships by gossip, measured as `sardonyx bench mesh` measures ours: `bench-gossip MEMBERS MILLIS RUNS`.
//!
//! All members are tasks of one process, on UDP over loopback; the first three are the seeds. Printed is JSON:
//! how long until everybody sees everybody after all were started at once, how long until nobody sees a member
//! any more that stopped without a word, and how much all of them send while nothing happens.

mod by_chitchat;
mod by_foca;

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use serde_json::json;

/// Bytes that were sent by anybody.
static SENT: AtomicU64 = AtomicU64::new(0);

const SEEDS: usize = 3;
const PATIENCE: Duration = Duration::from_secs(60);

/// What all of them can be asked.
trait Member: Sized {
    async fn start(
        me: SocketAddr,
        seeds: &[SocketAddr],
        size: u32,
        every: Duration,
    ) -> anyhow::Result<Self>;
    /// How many it sees, itself among them.
    async fn sees(&self) -> usize;
    /// Without a word to anybody.
    fn stop(self);
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args: Vec<u64> = std::env::args().skip(1).filter_map(|it| it.parse().ok()).collect();
    let [members, millis, runs] = args[..] else {
        anyhow::bail!("bench-gossip MEMBERS MILLIS RUNS, as in: bench-gossip 100 100 5");
    };
    let every = Duration::from_millis(millis);
    let mut rows =
        measure::<by_chitchat::Chitchat>("chitchat", members as usize, every, runs).await?;
    rows.extend(measure::<by_foca::Foca>("foca", members as usize, every, runs).await?);
    println!("{}", json!({ "rows": rows }));
    Ok(())
}

async fn measure<M: Member>(
    name: &str,
    members: usize,
    every: Duration,
    runs: u64,
) -> anyhow::Result<Vec<serde_json::Value>> {
    let (mut joined, mut noticed, mut sent) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..runs {
        let addresses = addresses(members).await?;
        let began = Instant::now();
        let mut all = Vec::new();
        for me in &addresses {
            all.push(M::start(*me, &addresses[..SEEDS], members as u32, every).await?);
        }
        until(&all, members, name).await?;
        joined.push(began.elapsed());
        tokio::time::sleep(every * 20).await;
        let (before, watched) = (SENT.load(Ordering::Relaxed), Instant::now());
        tokio::time::sleep(Duration::from_secs(2)).await;
        let bytes = SENT.load(Ordering::Relaxed) - before;
        sent.push(bytes as f64 / watched.elapsed().as_secs_f64() / 1e3);
        let stopped = Instant::now();
        if let Some(one) = all.pop() {
            one.stop();
        }
        until(&all, members - 1, name).await?;
        noticed.push(stopped.elapsed());
        all.into_iter().for_each(Member::stop);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    joined.sort();
    noticed.sort();
    sent.sort_by(f64::total_cmp);
    let half = runs as usize / 2;
    let row = |what: &str, value: f64, unit: &str| json!({"engine": name, "what": what, "value": value, "unit": unit});
    Ok(vec![
        row(
            "all started at once, until everybody sees everybody",
            joined[half].as_secs_f64() * 1e3,
            "ms",
        ),
        row("one is killed, until nobody sees it", noticed[half].as_secs_f64() * 1e3, "ms"),
        row("sent by all of them, nothing happening", sent[half], "kB/s"),
    ])
}

async fn until<M: Member>(all: &[M], members: usize, name: &str) -> anyhow::Result<()> {
    let began = Instant::now();
    'look: loop {
        for one in all {
            if one.sees().await != members {
                anyhow::ensure!(began.elapsed() < PATIENCE, "{name}: not within a minute");
                tokio::time::sleep(Duration::from_millis(2)).await;
                continue 'look;
            }
        }
        return Ok(());
    }
}

/// Free ports, as far as anybody can know.
async fn addresses(n: usize) -> anyhow::Result<Vec<SocketAddr>> {
    let mut held = Vec::new();
    for _ in 0..n {
        held.push(tokio::net::UdpSocket::bind("127.0.0.1:0").await?);
    }
    held.iter().map(|socket| Ok(socket.local_addr()?)).collect()
}
