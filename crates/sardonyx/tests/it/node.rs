//! `sardonyx start` as a process of its own, killed when dropped.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::program::sardonyx;

/// The bound for what should happen soon, on a machine that does many other things.
pub const SOON: Duration = Duration::from_secs(60);

/// A node, and what it has said.
pub struct Node {
    child: Child,
    events: Arc<Mutex<Vec<Value>>>,
}

impl Node {
    pub fn start(args: &[&str]) -> Node {
        let mut child = Command::new(env!("CARGO_BIN_EXE_sardonyx"))
            .args(["start", "--json"])
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let events = Arc::new(Mutex::new(Vec::new()));
        let (lines, kept) = (BufReader::new(child.stdout.take().unwrap()), Arc::clone(&events));
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                kept.lock().unwrap().push(serde_json::from_str(&line).unwrap());
            }
        });
        Node { child, events }
    }

    pub fn events(&self) -> Vec<Value> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Its number among processes.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// The present life's name.
    pub fn life(&self) -> Option<String> {
        let events = self.events();
        let began = events.iter().rfind(|event| event["event"] == "began")?;
        Some(began["node"].as_str()?.to_owned())
    }

    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap().success());
    }

    /// kill -9.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until it ends by itself.
    pub fn wait(&mut self) -> Option<i32> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(begun.elapsed() < SOON, "it does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // It may have ended already. A stopped process is killed as well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `sardonyx store serve` on a directory of its own.
pub struct Server {
    child: Child,
    url: String,
    _dir: tempfile::TempDir,
}

impl Server {
    pub fn start() -> Server {
        let dir = tempfile::Builder::new().prefix("sardonyx-").tempdir().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_sardonyx"))
            .args(["store", "serve", "--listen", "127.0.0.1:0"])
            .arg(format!("embedded:{}", dir.path().display()))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim_end().rsplit_once(" at ").unwrap().1.to_owned();
        Server { child, url, _dir: dir }
    }

    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The cluster as `sardonyx peers` has it, which replays the log.
pub fn peers(url: &str) -> Value {
    let ran = sardonyx(&["peers", "--json", "--store", url], "");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

pub fn ids(peers: &Value) -> Vec<String> {
    let list = peers["peers"].as_array().unwrap();
    list.iter().map(|peer| peer["id"].as_str().unwrap().to_owned()).collect()
}

/// Waits until there is one ring of `n` peers for which `is_so` holds; says how long it took.
pub fn ring_of(
    url: &str,
    n: usize,
    within: Duration,
    is_so: impl Fn(&[String]) -> bool,
) -> Duration {
    let begun = Instant::now();
    loop {
        let now = peers(url);
        let ids = ids(&now);
        let is_whole = now["one-ring"] == true && now["joining"].as_array().unwrap().is_empty();
        if is_whole && ids.len() == n && is_so(&ids) {
            return begun.elapsed();
        }
        let (took, joining) = (begun.elapsed(), &now["joining"]);
        assert!(took < within, "{} peers after {took:?}, {joining} joining", ids.len());
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// One at a time: these tests measure how long things take.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a node answers over HTTP when all is well.
pub fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect_timeout(&address, SOON).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    let asked = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(asked.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
    body.to_owned()
}
