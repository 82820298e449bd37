//! The service over loopback, per protocol and batch size, beside a bare echo server and a bare
//! HTTP handler. All take turns, so that what else the machine does meets them alike.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use sardonyx_ids::{
    Config, Ids,
    service::{Protocol, Service, serve},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
};

use super::{Failure, bench_ids::Row, ids::failure, ids_serve};

/// What a caller sends, and how it knows that the answer is whole.
#[derive(Clone)]
struct Load {
    request: Vec<u8>,
    /// How many requests are sent at once.
    depth: usize,
    /// Ids in one answer.
    batch: u64,
    end: End,
}

#[derive(Clone, Copy)]
enum End {
    /// So many bytes.
    Bytes(usize),
    /// So many line ends.
    Lines(usize),
    /// A header says so.
    Http,
}

const CONNECTIONS: usize = 8;

/// How often each comes to its turn.
const TURNS: u32 = 5;

/// Measures every protocol. The server has one thread of its own.
pub(super) async fn rows(time: Duration) -> Result<Vec<Row>, Failure> {
    let store = super::open_store("memory:").await?;
    let ids = Ids::join(&store, Config::default()).await.map_err(|why| failure(&why))?;
    let service = Arc::new(Service::new(Arc::new(ids)));
    let (stop, stopped) = watch::channel(false);
    let server = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let server = server.map_err(Failure::world)?;
    let mut listeners = Vec::new();
    for _ in 0..5 {
        listeners.push(TcpListener::bind("127.0.0.1:0").await?);
    }
    let ports: Vec<_> = listeners.iter().filter_map(|it| it.local_addr().ok()).collect();
    let mut listeners = listeners.into_iter();
    let mut listener = || listeners.next().ok_or_else(|| Failure::world("a port"));
    server.spawn(serve(Arc::clone(&service), listener()?, Protocol::Resp, stopped.clone()));
    server.spawn(serve(Arc::clone(&service), listener()?, Protocol::Raw, stopped));
    server.spawn(axum::serve(listener()?, ids_serve::router(service)).into_future());
    server.spawn(echo(listener()?));
    let bare =
        axum::Router::new().route("/", axum::routing::get(|| async { "1234567890123456789" }));
    server.spawn(axum::serve(listener()?, bare).into_future());
    let plan = plan();
    let mut n_ids = vec![0; plan.len()];
    let mut times = vec![Duration::ZERO; plan.len()];
    for _ in 0..TURNS {
        for (at, (_, port, load, _)) in plan.iter().enumerate() {
            let begun = Instant::now();
            n_ids[at] += drive(ports[*port], load, time / TURNS).await?;
            times[at] += begun.elapsed();
        }
    }
    let rate = |at: usize| n_ids[at] as f64 / times[at].as_secs_f64();
    let row = |at: usize| {
        let bare = plan[at].3.map(|bare| rate(at) / rate(bare));
        let (what, nanos) = (plan[at].0.into(), 1e9 / rate(at));
        Row { what, threads: CONNECTIONS, ids_per_second: rate(at), nanos, of_bare: bare }
    };
    let rows = (0..plan.len()).map(row).collect();
    stop.send_replace(true);
    server.shutdown_background();
    Ok(rows)
}

/// What, the port, the load, and which row is the same without ids.
type Planned = (&'static str, usize, Load, Option<usize>);

fn plan() -> Vec<Planned> {
    let raw = |n: u32, depth| Load {
        request: n.to_le_bytes().to_vec(),
        depth,
        batch: n.into(),
        end: End::Bytes(4 + 8 * n as usize),
    };
    let resp = |n: usize, depth| Load {
        request: match n {
            1 => b"*1\r\n$4\r\nNEXT\r\n".to_vec(),
            n => format!("NEXT {n}\r\n").into_bytes(),
        },
        depth,
        batch: n as u64,
        end: End::Lines(if n == 1 { 1 } else { n + 1 }),
    };
    let http = |path: &str, batch| Load {
        request: format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n").into_bytes(),
        depth: 1,
        batch,
        end: End::Http,
    };
    let echoed = Load { request: vec![7; 12], depth: 1, batch: 1, end: End::Bytes(12) };
    vec![
        ("service: bare echo of 12 bytes", 3, echoed, None),
        ("service: raw, one by one", 1, raw(1, 1), Some(0)),
        ("service: raw, one, 128 at once", 1, raw(1, 128), None),
        ("service: raw, batch 100", 1, raw(100, 1), None),
        ("service: raw, batch 100, 4 at once", 1, raw(100, 4), None),
        ("service: RESP, one by one", 0, resp(1, 1), Some(0)),
        ("service: RESP, one, 128 at once", 0, resp(1, 128), None),
        ("service: RESP, batch 100", 0, resp(100, 1), None),
        ("service: RESP, batch 100, 4 at once", 0, resp(100, 4), None),
        ("service: bare axum handler", 4, http("/", 1), None),
        ("service: HTTP, one by one", 2, http("/v1/ids", 1), Some(9)),
        ("service: HTTP, batch 100", 2, http("/v1/ids?count=100", 100), None),
    ]
}

async fn echo(listener: TcpListener) {
    while let Ok((mut stream, _)) = listener.accept().await {
        tokio::spawn(async move {
            let mut buffer = vec![0; 4096];
            while let Ok(n @ 1..) = stream.read(&mut buffer).await {
                if stream.write_all(&buffer[..n]).await.is_err() {
                    return;
                }
            }
        });
    }
}

/// Says how many ids came in that time.
async fn drive(address: std::net::SocketAddr, load: &Load, time: Duration) -> Result<u64, Failure> {
    let begun = Instant::now();
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..CONNECTIONS {
        let (load, until) = (load.clone(), begun + time);
        callers.spawn(async move {
            let mut stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            let request = load.request.repeat(load.depth);
            let (mut answer, mut n) = (Vec::with_capacity(64 << 10), 0_u64);
            while Instant::now() < until {
                stream.write_all(&request).await?;
                answer.clear();
                while !is_whole(&answer, load.end, load.depth) {
                    if stream.read_buf(&mut answer).await? == 0 {
                        return Err(std::io::Error::other("the server hung up"));
                    }
                }
                n += load.batch * load.depth as u64;
            }
            Ok(n)
        });
    }
    let mut n = 0;
    while let Some(caller) = callers.join_next().await {
        n += caller.map_err(Failure::world)??;
    }
    Ok(n)
}

fn is_whole(answer: &[u8], end: End, depth: usize) -> bool {
    match end {
        End::Bytes(n) => answer.len() >= n * depth,
        End::Lines(n) => {
            answer.ends_with(b"\n")
                && answer.iter().filter(|byte| **byte == b'\n').count() >= n * depth
        }
        End::Http => {
            let text = String::from_utf8_lossy(answer);
            let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
            let len = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            len.and_then(|len| len.parse().ok()).is_some_and(|len: usize| body.len() >= len)
        }
    }
}
