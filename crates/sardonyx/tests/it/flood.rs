//! Crowds at the door: connections that say nothing, say it a byte at a time, or announce four
//! gigabytes. The node stays small, and whoever comes with a question gets an answer.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    process::Child,
    time::{Duration, Instant},
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{
    node::{Node, SOON, alone, get},
    program::sardonyx,
};

/// How many connections are opened at each door.
const CROWD: usize = 10_000;

/// How many of them come in one go.
pub const BURST: usize = 64;

/// By how much a node may grow.
const GROWTH_BYTES_MAX: u64 = 64 << 20;

/// What else this process needs beside the crowd.
const SPARE: u64 = 500;

/// As many descriptors as this process may have; how large a crowd they allow.
pub fn crowd() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let _ = setrlimit(Resource::Nofile, raised);
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let crowd = CROWD.min(most.saturating_sub(SPARE) as usize);
    assert!(crowd >= 2_000, "{most} descriptors are too few for a crowd");
    crowd
}

fn resident(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

/// What each of the crowd does.
#[derive(Clone, Copy, Debug)]
enum Manner {
    Silent,
    /// Begins, and goes on a byte at a time.
    Slow,
    /// Says that four gigabytes follow.
    Boastful,
}

/// A door, and how to find out that it is open for others.
struct Door<'a> {
    name: &'a str,
    address: SocketAddr,
    honest: &'a dyn Fn(),
}

/// Opens a crowd at a door and keeps it there while honest people come.
fn press(door: &Door<'_>, process: u32, manner: Manner, crowd: usize) {
    let honest = || {
        let begun = Instant::now();
        (door.honest)();
        begun.elapsed()
    };
    let worst = |n: usize| (0..n).map(|_| honest()).max().unwrap_or_default();
    let usual = worst(5);
    let before = resident(process);
    let mut streams = Vec::with_capacity(crowd);
    for number in 0..crowd {
        if number % BURST == 0 {
            // The kernel keeps 128 for a listener; the next one would wait for a second.
            std::thread::sleep(Duration::from_millis(2));
        }
        let Ok(mut stream) = TcpStream::connect_timeout(&door.address, SOON) else { continue };
        match manner {
            Manner::Silent => {}
            Manner::Slow => drop(stream.write_all(b"G")),
            Manner::Boastful => drop(stream.write_all(&[0xff; 64])),
        }
        stream.set_nonblocking(true).unwrap();
        streams.push(stream);
    }
    assert!(streams.len() > crowd * 9 / 10, "only {} could connect", streams.len());
    let mut grown = resident(process).saturating_sub(before);
    let mut slowest = Duration::ZERO;
    for _ in 0..4 {
        if matches!(manner, Manner::Slow) {
            // Most have been shown out by now.
            streams.iter_mut().for_each(|stream| drop(stream.write(b"E")));
        }
        slowest = slowest.max(worst(3));
        grown = grown.max(resident(process).saturating_sub(before));
        std::thread::sleep(Duration::from_millis(300));
    }
    println!(
        "{}, {manner:?}: {} connections, {} KiB more, an honest one in {slowest:?} (before: {usual:?})",
        door.name,
        streams.len(),
        grown >> 10
    );
    assert!(grown <= GROWTH_BYTES_MAX, "{} {manner:?}: {} KiB more", door.name, grown >> 10);
    // A machine that is busy with other things may take a moment; it does not wait for the crowd.
    assert!(slowest < usual * 4 + Duration::from_secs(2), "{} {manner:?}: {slowest:?}", door.name);
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Asks a node over HTTP whether it is well.
pub fn healthy(address: SocketAddr, path: &str) {
    get(address, path);
}

#[test]
fn ten_thousand_at_every_door_keep_nobody_out() {
    let _alone = alone();
    let crowd = crowd();
    let directory = tempfile::tempdir().unwrap();
    let store = format!("embedded:{}", directory.path().join("data").display());
    let mesh = format!("127.0.0.1:{}", free_port());
    let data = directory.path().join("mesh").display().to_string();
    let node = Node::start(&[
        "--peers",
        "2",
        "--store",
        &store,
        "--listen",
        "127.0.0.1:0",
        "--http",
        "127.0.0.1:0",
        "--mesh-listen",
        &mesh,
        "--seeds",
        &mesh,
        "--nodes",
        "1",
        "--mesh-data",
        &data,
    ]);
    let said = |event: &str, key: &str| {
        let begun = Instant::now();
        loop {
            let events = node.events();
            let found = events.iter().find(|it| it["event"] == event).map(|it| it[key].clone());
            match found.and_then(|it| it.as_str().map(str::to_owned)) {
                Some(text) => return text,
                None => assert!(begun.elapsed() < SOON, "never: {event}"),
            }
            std::thread::sleep(Duration::from_millis(30));
        }
    };
    let url = said("start", "serves");
    let at: SocketAddr = url.trim_start_matches("sardonyx://").parse().unwrap();
    let http = said("http", "url");
    let http: SocketAddr =
        http.trim_start_matches("http://").trim_end_matches('/').parse().unwrap();
    let ask_store = || {
        let ran = sardonyx(&["peers", "--store", &url, "--json"], "");
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    };
    let ask_http = || healthy(http, "/v1/overview");
    let queues = SocketAddr::new(at.ip(), at.port() + 1);
    for door in [
        Door { name: "HTTP", address: http, honest: &ask_http },
        Door { name: "store", address: at, honest: &ask_store },
        // Whoever keeps queues and mesh busy must not keep others from the rest of the node either.
        Door { name: "queues", address: queues, honest: &ask_http },
        Door { name: "mesh", address: mesh.parse().unwrap(), honest: &ask_http },
    ] {
        for manner in [Manner::Silent, Manner::Slow, Manner::Boastful] {
            press(&door, node.process(), manner, crowd);
        }
    }
}

/// A service of ids, ended with the test.
struct Ids(Child);

impl Drop for Ids {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_crowd_does_not_keep_others_from_ids() {
    let _alone = alone();
    let crowd = crowd();
    let directory = tempfile::tempdir().unwrap();
    let store = format!("embedded:{}", directory.path().display());
    let address: SocketAddr = format!("127.0.0.1:{}", free_port()).parse().unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_sardonyx"));
    let http = format!("127.0.0.1:{}", free_port());
    command.args(["ids", "serve", "--store", &store, "--resp", &address.to_string()]);
    command.args(["--http", &http]);
    let ids = Ids(command.stdout(std::process::Stdio::null()).spawn().unwrap());
    let draw = || {
        let begun = Instant::now();
        let mut stream = loop {
            match TcpStream::connect(address) {
                Ok(stream) => break stream,
                Err(why) => assert!(begun.elapsed() < SOON, "{why}"),
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream.write_all(b"*1\r\n$4\r\nPING\r\n").unwrap();
        let mut answer = [0; 5];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"+PONG");
    };
    draw();
    for manner in [Manner::Silent, Manner::Slow, Manner::Boastful] {
        press(&Door { name: "ids", address, honest: &draw }, ids.0.id(), manner, crowd);
    }
}
