//! Users' events: how fast, how soon, and what they do to the rest.

use std::{
    io::{self, Read as _, Write as _},
    net::TcpListener,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use sardonyx_mesh::{Mesh, events::SendError};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::{
    Failure,
    bench::thousands,
    bench_mesh::{Plan, Row},
    bench_mesh_nodes::{Between, Nodes, Sync},
};

/// G14: questions and answers, and events one way, beside a bare echo.
pub(super) async fn rows(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let mut echoes = echo(plan.time).await?;
    echoes.sort_unstable();
    let at = |share: f64| echoes[((echoes.len() - 1) as f64 * share) as usize];
    let (p50, p99) = (at(0.5), at(0.99));
    let mut rows = vec![Row::times("echo", "bare echo of 64 bytes", echoes.clone(), None, None)];
    let mut nodes = Nodes::new(2, 1, Between::Sockets, Sync::No)?;
    nodes.start_all().await?;
    let (one, two, to) = (nodes.node(0)?, nodes.node(1)?, &nodes.addresses[1]);
    let asks = ask(one, two, to, plan.time).await?;
    let what = "question and answer of 64 bytes";
    rows.push(Row::times("G14", what, asks, Some(p50 * 3), Some(p99 * 2)));
    for (bytes, what, least) in [
        (64, "events of 64 bytes, one way", 500_000.0),
        (1_024, "events of 1 KiB, one way", 300_000.0),
        (1_000_000, "events of 1 MB, one way", 700.0),
    ] {
        let rate = one_way(one, two, to, bytes, plan.time).await?;
        let (value, target) = match bytes {
            1_000_000 => (format!("{rate:.0} MB/s"), format!("≥ {least:.0} MB/s")),
            _ => (
                format!("{}/s", thousands(rate as u64)),
                format!("≥ {}/s", thousands(least as u64)),
            ),
        };
        rows.push(Row::number("G14", what, value, &target, Some(rate >= least)));
    }
    nodes.stop().await;
    rows.push(roar(plan.time).await?);
    Ok(rows)
}

/// The server has a thread of its own, as another process would.
async fn echo(time: Duration) -> Result<Vec<Duration>, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        let mut buffer = [0; 64];
        while stream.read_exact(&mut buffer).is_ok() {
            stream.write_all(&buffer)?;
        }
        Ok::<_, io::Error>(())
    });
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (mut times, mut buffer, begun) = (Vec::new(), [7; 64], Instant::now());
    while begun.elapsed() < time {
        let asked = Instant::now();
        stream.write_all(&buffer).await?;
        stream.read_exact(&mut buffer).await?;
        times.push(asked.elapsed());
    }
    drop(stream);
    server.join().map_err(|_| Failure::world("the echo panicked"))??;
    Ok(times)
}

async fn ask(
    one: &Arc<Mesh>,
    two: &Arc<Mesh>,
    to: &sardonyx_mesh::Address,
    time: Duration,
) -> Result<Vec<Duration>, Failure> {
    let mut questions = two.receive_raw(Some("ask"));
    let server = tokio::spawn(async move {
        while let Some(question) = questions.next().await {
            let body = question.body.clone();
            question.answer(body);
        }
    });
    let (mut times, body, begun) = (Vec::new(), Bytes::from(vec![7; 64]), Instant::now());
    while begun.elapsed() < time {
        let asked = Instant::now();
        let patience = Duration::from_secs(10);
        one.ask_raw(to, "ask", body.clone(), patience).await.map_err(Failure::world)?;
        times.push(asked.elapsed());
    }
    server.abort();
    Ok(times)
}

/// Events a second, or megabytes a second for large ones.
async fn one_way(
    one: &Arc<Mesh>,
    two: &Arc<Mesh>,
    to: &sardonyx_mesh::Address,
    bytes: usize,
    time: Duration,
) -> Result<f64, Failure> {
    let mut events = two.receive_raw(Some("bulk"));
    let received = tokio::spawn(async move {
        let (mut n, mut first, mut last) = (0_u64, None, Instant::now());
        while let Some(event) = events.next().await {
            if event.body.is_empty() {
                break;
            }
            first.get_or_insert_with(Instant::now);
            (n, last) = (n + 1, Instant::now());
        }
        (n, first.map_or(Duration::ZERO, |first| last - first))
    });
    let (body, begun) = (Bytes::from(vec![7; bytes]), Instant::now());
    while begun.elapsed() < time {
        for _ in 0..64 {
            one.send_raw(to, "bulk", body.clone()).await.map_err(Failure::world)?;
        }
    }
    one.send_raw(to, "bulk", Bytes::new()).await.map_err(Failure::world)?;
    let (n, elapsed) = received.await.map_err(Failure::world)?;
    let rate = n as f64 / elapsed.as_secs_f64().max(1e-9);
    Ok(if bytes >= 1_000_000 { rate * bytes as f64 / 1e6 } else { rate })
}

async fn roar(time: Duration) -> Result<Row, Failure> {
    let mut nodes = Nodes::new(21, 3, Between::Sockets, Sync::No)?;
    nodes.start_all().await?;
    let mut receivers = tokio::task::JoinSet::new();
    for mesh in nodes.living().skip(1) {
        let mut events = mesh.receive_raw(Some("roar"));
        receivers.spawn(async move {
            let mut n = 0_u64;
            while let Ok(Some(_)) =
                tokio::time::timeout(Duration::from_millis(500), events.next()).await
            {
                n += 1;
            }
            n
        });
    }
    let (one, body, begun) = (nodes.node(0)?, Bytes::from(vec![7; 64]), Instant::now());
    let (mut n, mut n_full) = (0_u64, 0_u64);
    while begun.elapsed() < time {
        let report = one.roar_raw("roar", &body, false);
        let is_full = report.iter().any(|(_, it)| matches!(it, Err(SendError::QueueFull(_))));
        match is_full {
            true => {
                n_full += 1;
                tokio::time::sleep(Duration::from_micros(200)).await;
            }
            false => {
                n += 1;
                if n % 64 == 0 {
                    tokio::task::yield_now().await;
                }
            }
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    let mut delivered = 0;
    while let Some(received) = receivers.join_next().await {
        delivered += received.map_err(Failure::world)?;
    }
    nodes.stop().await;
    let rate = n as f64 / seconds;
    let what = format!("roars to 20 members ({delivered} deliveries, {n_full} times full)");
    let value = format!("{}/s", thousands(rate as u64));
    Ok(Row::number("G14", &what, value, "≥ 20,000/s", Some(rate >= 20_000.0)))
}

/// How many pages of memory this process has.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or(0_u64);
    pages * 4_096
}

/// G15: megabytes at full speed under the timers of the tests; then a receiver that never takes.
pub(super) async fn isolation(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let mut nodes = Nodes::new(2, 1, Between::Sockets, Sync::No)?;
    nodes.start_all().await?;
    let (one, two, to) = (nodes.node(0)?, nodes.node(1)?, &nodes.addresses[1]);
    one_way(one, two, to, 1_000_000, Duration::from_secs(1)).await?;
    let (before, rss) = (one.members().seq, resident());
    let rate = one_way(one, two, to, 1_000_000, plan.time * 3).await?;
    let grown = resident().saturating_sub(rss) as f64 / f64::from(1 << 20);
    let changes = one.members().seq - before;
    let gigabytes = rate * plan.time.as_secs_f64() * 3.0 / 1e3;
    let mut rows = vec![
        Row::number(
            "G15",
            &format!("status changes during {gigabytes:.1} GB of 1 MB events"),
            changes.to_string(),
            "0",
            Some(changes == 0),
        ),
        Row::number(
            "G15",
            "memory grown meanwhile",
            format!("{grown:.1} MiB"),
            "≤ 32 MiB",
            Some(grown <= 32.0),
        ),
    ];
    let _never_read = two.receive_raw(Some("bulk"));
    let (body, begun) = (Bytes::from(vec![7; 1_000_000]), Instant::now());
    let mut refusals = Vec::new();
    while begun.elapsed() < plan.time {
        let asked = Instant::now();
        if let Err(SendError::QueueFull(_)) = one.whisper_raw(to, "bulk", body.clone()) {
            refusals.push(asked.elapsed());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let changes = one.members().seq - before;
    rows.push(Row::times(
        "G15",
        "receiver blocked: time to QueueFull",
        refusals,
        None,
        Some(Duration::from_millis(10)),
    ));
    rows.push(Row::number(
        "G15",
        "status changes with a blocked receiver",
        changes.to_string(),
        "0",
        Some(changes == 0),
    ));
    nodes.stop().await;
    Ok(rows)
}
