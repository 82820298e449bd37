//! How much an honest client notices of ten thousand connections that say nothing.
//!
//! Two nodes stand beside each other, one with a crowd at its door, one without, and are asked in
//! turn: whatever else the machine does, it does to both. What is compared is the slowest in a
//! hundred, and of a few rounds the best, since a pause of the machine can fall on one of the two.

use std::{
    io::{ErrorKind, Write as _},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use sardonyx_queue::{QueueName, Queues};
use sardonyx_store::{Options, Store};

use crate::{
    flood::{BURST, crowd, healthy},
    node::{Node, SOON, alone},
};

/// How many questions each of the two is asked in a round.
const QUESTIONS: usize = 300;

/// How many rounds there are for each door. One that is good enough ends them.
const ROUNDS: usize = 5;

/// By how much the slowest in a hundred may be slower with a crowd.
const RATIO_MAX: f64 = 2.0;

/// Below this, times are those of the machine's scheduler.
const FLOOR: Duration = Duration::from_millis(1);

/// So many of the crowd must still stand there when a round ends, or nothing was measured. The
/// lobby has room for 1,000.
const STANDING_MIN: usize = 500;

fn said(node: &Node, event: &str, key: &str) -> String {
    let begun = Instant::now();
    loop {
        let found = node.events().into_iter().find(|it| it["event"] == event);
        match found.and_then(|it| it[key].as_str().map(str::to_owned)) {
            Some(text) => return text,
            None => assert!(begun.elapsed() < SOON, "never: {event}"),
        }
        std::thread::sleep(Duration::from_millis(30));
    }
}

/// A node, and its doors.
struct Doors {
    _node: Node,
    _dir: tempfile::TempDir,
    http: SocketAddr,
    store: SocketAddr,
    queues: SocketAddr,
}

impl Doors {
    fn open() -> Doors {
        let dir = tempfile::tempdir().unwrap();
        let store = format!("embedded:{}", dir.path().join("data").display());
        let any = "127.0.0.1:0";
        let node = Node::start(&["--store", &store, "--listen", any, "--http", any]);
        let http = said(&node, "http", "url");
        let http = http.trim_start_matches("http://").trim_end_matches('/').parse().unwrap();
        let store = said(&node, "start", "serves");
        let store: SocketAddr = store.trim_start_matches("sardonyx://").parse().unwrap();
        let queues = SocketAddr::new(store.ip(), store.port() + 1);
        Doors { _node: node, _dir: dir, http, store, queues }
    }
}

/// Opens a crowd. Half of it says nothing, half begins a request and does not go on.
fn gather(address: SocketAddr, crowd: usize) -> Vec<TcpStream> {
    let mut streams = Vec::with_capacity(crowd);
    for number in 0..crowd {
        if number % BURST == 0 {
            // The kernel keeps 128 for a listener; the next one would wait for a second.
            std::thread::sleep(Duration::from_millis(2));
        }
        let Ok(mut stream) = TcpStream::connect_timeout(&address, SOON) else { continue };
        if number % 2 == 0 {
            let _ = stream.write_all(b"G");
        }
        stream.set_nonblocking(true).unwrap();
        streams.push(stream);
    }
    streams
}

/// How many have not been shown out.
fn n_standing(streams: &[TcpStream]) -> usize {
    let stands = |stream: &&TcpStream| {
        let looked = stream.peek(&mut [0]);
        looked.is_err_and(|why| why.kind() == ErrorKind::WouldBlock)
    };
    streams.iter().filter(stands).count()
}

fn p99(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() * 99 / 100 - 1]
}

/// Asks both in turn; the slowest in a hundred of each.
fn ask_both(crowded: &dyn Fn(), calm: &dyn Fn()) -> (Duration, Duration) {
    let timed = |ask: &dyn Fn()| {
        let begun = Instant::now();
        ask();
        begun.elapsed()
    };
    let times = (0..QUESTIONS).map(|_| (timed(crowded), timed(calm)));
    let (crowded, calm) = times.unzip();
    (p99(crowded), p99(calm))
}

fn notices_little(
    name: &str,
    address: SocketAddr,
    crowd: usize,
    crowded: &dyn Fn(),
    calm: &dyn Fn(),
) {
    let mut best = f64::INFINITY;
    for round in 1..=ROUNDS {
        let streams = gather(address, crowd);
        assert!(streams.len() > crowd * 9 / 10, "only {} could connect", streams.len());
        let (with, without) = ask_both(crowded, calm);
        let n_standing = n_standing(&streams);
        let ratio = with.max(FLOOR).as_secs_f64() / without.max(FLOOR).as_secs_f64();
        println!(
            "{name}, round {round}: {} came, {n_standing} stand there; p99 {with:?} with, \
             {without:?} without, {ratio:.2} times",
            streams.len()
        );
        if n_standing >= STANDING_MIN {
            best = best.min(ratio);
        }
        if best <= RATIO_MAX {
            return;
        }
    }
    panic!("{name}: with a crowd the slowest in a hundred takes {best:.2} times as long");
}

#[test]
fn honest_clients_hardly_notice_ten_thousand_half_open_connections() {
    let _alone = alone();
    let crowd = crowd();
    let (crowded, calm) = (Doors::open(), Doors::open());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let ask_http = |at: SocketAddr| move || healthy(at, "/healthz");
    notices_little("HTTP", crowded.http, crowd, &ask_http(crowded.http), &ask_http(calm.http));
    let ask_store = |at: SocketAddr| {
        let runtime = &runtime;
        move || {
            runtime.block_on(async {
                let url = format!("sardonyx://{at}");
                let store = Store::open(&url, Options::default()).await.unwrap();
                store.end().await.unwrap();
            });
        }
    };
    notices_little(
        "store",
        crowded.store,
        crowd,
        &ask_store(crowded.store),
        &ask_store(calm.store),
    );
    let ask_queues = |at: SocketAddr| {
        let runtime = &runtime;
        move || {
            runtime.block_on(async {
                let queues = Queues::open(&format!("sardonyx://{at}")).await.unwrap();
                let [job, task, from] = ["j", "t", ""].map(str::to_owned);
                queues.depth(&QueueName { job, task, from }).await.unwrap();
            });
        }
    };
    let ours = (ask_queues(crowded.queues), ask_queues(calm.queues));
    notices_little("queues", crowded.queues, crowd, &ours.0, &ours.1);
}
