//! Real processes: nodes of the mesh in network namespaces, cut off, stopped and killed.
//!
//! Namespaces need root and `ip`. Where they cannot be had the test fails, unless
//! `WITHOUT_NAMESPACES=1` says that this is known.
//!
//! How long things take is read from what the members say themselves, with the times of the machine's
//! clock. On a machine that does other things as well, processes stand still now and then; each of them
//! measures by how much it wakes too late, and what was measured is what a bound is widened by.

use std::{
    fs::File,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use sardonyx_mesh::Mesh;
use serde_json::Value;

const SOON: Duration = Duration::from_secs(60);
const TTL: Duration = Duration::from_millis(900);
const HEARTBEAT: Duration = Duration::from_millis(100);
/// The longest an election may take that writes to a disk: goal G3.
const ELECTION: Duration = Duration::from_millis(300);

fn sardonyx() -> Command {
    Command::new(env!("CARGO_BIN_EXE_sardonyx"))
}

fn ip(args: &str) -> bool {
    let status = Command::new("ip").args(args.split(' ')).stderr(Stdio::null()).status();
    status.is_ok_and(|it| it.success())
}

/// Namespaces with a bridge between them; they go when it is dropped.
struct Net {
    name: String,
    n: usize,
}

impl Net {
    /// `None` where there are none and somebody said that this is known.
    fn new(n: usize) -> Option<Net> {
        let net = Net { name: format!("sdx{}", std::process::id()), n };
        let hub = net.hub();
        if !ip(&format!("netns add {hub}")) {
            let is_known = std::env::var("WITHOUT_NAMESPACES").is_ok_and(|it| it == "1");
            assert!(
                is_known,
                "no network namespaces here: run this as root with `ip` installed, or set \
                 WITHOUT_NAMESPACES=1 to leave it out"
            );
            eprintln!("left out, because WITHOUT_NAMESPACES=1");
            return None;
        }
        for side in ["br0", "br1"] {
            assert!(ip(&format!("-n {hub} link add {side} type bridge")));
            assert!(ip(&format!("-n {hub} link set {side} up")));
        }
        for index in 0..n {
            let space = net.space(index);
            assert!(ip(&format!("netns add {space}")));
            assert!(ip(&format!(
                "link add eth0 netns {space} type veth peer name p{index} netns {hub}"
            )));
            assert!(ip(&format!("-n {space} addr add 10.77.0.{}/24 dev eth0", index + 1)));
            assert!(ip(&format!("-n {space} link set eth0 up")));
            assert!(ip(&format!("-n {space} link set lo up")));
            assert!(ip(&format!("-n {hub} link set p{index} up")));
        }
        net.heal();
        Some(net)
    }

    fn hub(&self) -> String {
        format!("{}h", self.name)
    }

    fn space(&self, index: usize) -> String {
        format!("{}n{index}", self.name)
    }

    /// Everybody on one bridge.
    fn heal(&self) {
        for index in 0..self.n {
            assert!(ip(&format!("-n {} link set p{index} master br0", self.hub())));
        }
    }

    /// These on a bridge of their own.
    fn part(&self, some: &[usize]) {
        for index in some {
            assert!(ip(&format!("-n {} link set p{index} master br1", self.hub())));
        }
    }

    fn run_in(&self, index: usize) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.space(index), env!("CARGO_BIN_EXE_sardonyx")]);
        command
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for index in 0..self.n {
            ip(&format!("netns del {}", self.space(index)));
        }
        ip(&format!("netns del {}", self.hub()));
    }
}

/// What a node said of itself, and when on the machine's own clock.
type Reports = Arc<Mutex<Vec<Value>>>;

struct Nodes {
    net: Net,
    dir: tempfile::TempDir,
    nodes: Vec<Option<Child>>,
    pollers: Vec<Child>,
    reports: Vec<Reports>,
}

impl Nodes {
    fn new(net: Net) -> Nodes {
        // In memory where that can be had: how long a busy disk takes to sync a promise is not
        // measured, and no bound of the protocol is about it.
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let dir = dir.expect("a directory");
        std::fs::write(dir.path().join("key"), "0123456789abcdef0123456789abcdef\n")
            .expect("a key");
        let n = net.n;
        let mut nodes = Nodes {
            net,
            dir,
            nodes: (0..n).map(|_| None).collect(),
            pollers: Vec::new(),
            reports: (0..n).map(|_| Reports::default()).collect(),
        };
        for index in 0..n {
            nodes.start(index);
        }
        for index in 0..n {
            nodes.poll(index);
        }
        nodes
    }

    fn log(&self, index: usize) -> PathBuf {
        self.dir.path().join(format!("log{index}"))
    }

    fn start(&mut self, index: usize) {
        let seeds: Vec<_> = (1..=3).map(|it| format!("10.77.0.{it}:7400")).collect();
        let (listen, data) = (format!("10.77.0.{}:7400", index + 1), format!("data{index}"));
        let append =
            |file: &Path| File::options().create(true).append(true).open(file).expect("a log");
        let mut command = self.net.run_in(index);
        command.args(["mesh", "start", "--listen", &listen, "--seeds", &seeds.join(",")]);
        command.args(["--nodes", &self.net.n.to_string(), "--profile", "test"]);
        command.args(["--http", "127.0.0.1:7460", "--json", "--lateness"]);
        command.arg("--key-file").arg(self.dir.path().join("key"));
        command.arg("--data").arg(self.dir.path().join(data));
        command.stdout(append(&self.log(index))).stderr(append(&self.log(index)));
        self.nodes[index] = Some(command.spawn().expect("it starts"));
    }

    /// Asks a node how it is, again and again, from a process in its namespace.
    fn poll(&mut self, index: usize) {
        let mut command = self.net.run_in(index);
        command.args(["mesh", "status", "--json", "--every-ms", "10"]);
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("polls");
        let (lines, reports) =
            (BufReader::new(child.stdout.take().expect("piped")), Arc::clone(&self.reports[index]));
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                if let Ok(report) = serde_json::from_str(&line) {
                    reports.lock().expect("no panic").push(report);
                }
            }
        });
        self.pollers.push(child);
    }

    fn last(&self, index: usize) -> Option<Value> {
        self.reports[index].lock().expect("no panic").last().cloned()
    }

    /// Who has a token in its last report.
    fn holders(&self) -> Vec<usize> {
        let has = |index: &usize| self.last(*index).is_some_and(|it| !it["token"].is_null());
        (0..self.net.n).filter(has).collect()
    }

    fn is_agreed(&self, among: &[usize]) -> bool {
        let reports: Option<Vec<Value>> = among.iter().map(|it| self.last(*it)).collect();
        let Some(reports) = reports else { return false };
        reports.iter().all(|it| {
            let active = it["members"].as_array().is_some_and(|rows| {
                rows.len() == among.len() && rows.iter().all(|row| row["status"] == "active")
            });
            active
                && it["digest"] == reports[0]["digest"]
                && it["leader"]["address"] == reports[0]["leader"]["address"]
                && it["voters"].as_array().is_some_and(|it| it.len() == self.net.n)
        }) && among.iter().any(|it| self.holders().contains(it))
    }

    fn until(&self, what: &str, holds: impl Fn(&Nodes) -> bool) -> Duration {
        let begun = Instant::now();
        while !holds(self) {
            if begun.elapsed() > SOON {
                for index in 0..self.net.n {
                    eprintln!("{index}: {:?}", self.last(index).map(|it| it.to_string()));
                }
                panic!("not in time: {what}");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        begun.elapsed()
    }

    fn signal(&self, index: usize, name: &str) {
        let child = self.nodes[index].as_ref().expect("it runs").id().to_string();
        assert!(Command::new("kill").args([name, &child]).status().expect("kill").success());
    }

    fn kill(&mut self, index: usize) {
        if let Some(mut child) = self.nodes[index].take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        self.reports[index].lock().expect("no panic").push(Value::Null);
    }

    /// What a node printed, as far as it is JSON: its log is in between.
    fn said(&self, index: usize) -> Vec<Value> {
        let text = std::fs::read_to_string(self.log(index)).expect("a log");
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// By how much these processes woke too late between two moments, all together: whatever waits for
    /// several of them, one after the other, is late by no more.
    fn lateness(&self, among: &[usize], from: u64, to: u64) -> Duration {
        let is_within = |line: &Value| {
            let late = line["late-micros"].as_u64().unwrap_or(0);
            line["at-micros"].as_u64().is_some_and(|at| at >= from && at.saturating_sub(late) <= to)
        };
        let late = |index: &usize| -> u64 {
            let lines = self.said(*index).into_iter().filter(is_within);
            lines.filter_map(|line| line["late-micros"].as_u64()).sum()
        };
        Duration::from_micros(among.iter().map(late).sum())
    }

    /// When one of `among` first said, after `from`, that it may act, and in which version.
    fn established(&self, among: &[usize], from: u64) -> Option<(u64, u64)> {
        let gained = |line: &Value| {
            let (at, lease) = (line["at-micros"].as_u64()?, &line["change"]["lease"]);
            (at >= from && lease["held"] == true).then_some((at, lease["version"].as_u64()?))
        };
        let first = |index: &usize| self.said(*index).iter().find_map(gained);
        among.iter().filter_map(first).min()
    }

    /// When the last report came, after `from`, in which a node had another table or leader than all
    /// have in the end.
    fn last_apart(&self, from: u64) -> u64 {
        let mut last = from;
        for reports in &self.reports {
            let reports = reports.lock().expect("no panic");
            let end = reports.iter().rev().find(|it| !it.is_null()).expect("it was asked");
            let is_apart = |it: &&Value| {
                it["digest"] != end["digest"] || it["leader"]["address"] != end["leader"]["address"]
            };
            let apart = reports.iter().rev().filter(|it| !it.is_null()).find(is_apart);
            last = last.max(apart.and_then(|it| it["now-micros"].as_u64()).unwrap_or(0));
        }
        last
    }

    /// No two nodes had a token at the same moment: the spans in which each was seen with one, for
    /// each version, are apart.
    fn check_tokens(&self) -> usize {
        let mut spans: Vec<(u64, u64, usize, u64)> = Vec::new();
        for (index, reports) in self.reports.iter().enumerate() {
            for report in reports.lock().expect("no panic").iter() {
                let (now, version) =
                    (report["now-micros"].as_u64(), report["token"]["version"].as_u64());
                let (Some(now), Some(version)) = (now, version) else { continue };
                match spans.iter_mut().find(|it| (it.2, it.3) == (index, version)) {
                    Some(span) => (span.0, span.1) = (span.0.min(now), span.1.max(now)),
                    None => spans.push((now, now, index, version)),
                }
            }
        }
        spans.sort_unstable();
        for pair in spans.windows(2) {
            assert!(pair[0].1 < pair[1].0, "two at once: {:?} and {:?}", pair[0], pair[1]);
            assert!(pair[0].3 < pair[1].3, "a later token is not larger: {spans:?}");
        }
        spans.len()
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for child in self.nodes.iter_mut().flatten().chain(&mut self.pollers) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The leader is cut off with one other: the other three have one that may act within 1.1 of a ttl and
/// an election, and once the line is mended all are one within three heartbeats and a second.
fn cut_and_heal(nodes: &Nodes) -> (Duration, Duration) {
    let all = [0, 1, 2, 3, 4];
    let old = nodes.holders()[0];
    let minority = [old, (old + 1) % 5];
    let majority: Vec<usize> = all.into_iter().filter(|it| !minority.contains(it)).collect();
    nodes.net.part(&minority);
    let cut_at = Mesh::now().0;
    nodes.until("the majority has a leader", |it| {
        it.holders().iter().any(|it| majority.contains(it))
    });
    nodes.until("it has said so", |it| it.established(&majority, cut_at).is_some());
    let (led_at, _) = nodes.established(&majority, cut_at).expect("seen");
    let (took, late) =
        (Duration::from_micros(led_at - cut_at), nodes.lateness(&majority, cut_at, led_at));
    let bound = TTL.mul_f64(1.1) + ELECTION;
    println!("cut off: another may act after {took:?}, bound {bound:?}, woken late by {late:?}");
    assert!(took <= bound + late, "{took:?} is more than {bound:?} and {late:?}");
    nodes.until("the minority's leader knows", |it| !it.holders().contains(&old));
    nodes.until("the majority agrees", |it| it.is_agreed(&majority));

    nodes.net.heal();
    let healed_at = Mesh::now().0;
    nodes.until("one cluster after the cut", |it| it.is_agreed(&all));
    // Long enough to see whether it stays so.
    std::thread::sleep(TTL);
    nodes.until("and it stays", |it| it.is_agreed(&all));
    let one_at = nodes.last_apart(healed_at);
    let (healed, late) =
        (Duration::from_micros(one_at - healed_at), nodes.lateness(&all, healed_at, one_at));
    let bound = 3 * HEARTBEAT + Duration::from_secs(1);
    println!("healed: all are one after {healed:?}, bound {bound:?}, woken late by {late:?}");
    assert!(healed <= bound + late, "{healed:?} is more than {bound:?} and {late:?}");
    (took, healed)
}

/// Five processes: the leader is cut off with one other, stopped for three times ttl, and killed.
/// Each time the rest goes on, nobody acts beside its successor, and in the end all are one.
#[test]
fn five_processes_survive_cuts_pauses_and_kills() {
    let Some(net) = Net::new(5) else { return };
    let mut nodes = Nodes::new(net);
    let all = [0, 1, 2, 3, 4];
    nodes.until("one cluster", |it| it.is_agreed(&all));

    let (cut, healed) = cut_and_heal(&nodes);

    let stopped = nodes.holders()[0];
    nodes.signal(stopped, "-STOP");
    let others: Vec<usize> = all.into_iter().filter(|it| *it != stopped).collect();
    let paused =
        nodes.until("another leader", |it| it.holders().iter().any(|it| others.contains(it)));
    nodes.until("the rest agrees", |it| it.is_agreed(&others));
    std::thread::sleep(TTL * 2);
    nodes.signal(stopped, "-CONT");
    let woken = nodes.until("one cluster after the pause", |it| it.is_agreed(&all));

    let killed = nodes.holders()[0];
    nodes.kill(killed);
    let others: Vec<usize> = all.into_iter().filter(|it| *it != killed).collect();
    let dead =
        nodes.until("another leader", |it| it.holders().iter().any(|it| others.contains(it)));
    nodes.start(killed);
    let back = nodes.until("one cluster after the kill", |it| it.is_agreed(&all));
    let n_tokens = nodes.check_tokens();
    println!(
        "cut off: {cut:?} to another leader, {healed:?} to one cluster; stopped: {paused:?}, \
         {woken:?}; killed: {dead:?}, {back:?}; {n_tokens} tokens, none beside another"
    );
    assert!(n_tokens >= 4, "{n_tokens}");
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("bound").port()
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One node from the outside: status, events, a stranger in its log, and a goodbye.
#[test]
fn a_node_answers_to_the_command_line() {
    let dir = tempfile::tempdir().expect("a directory");
    let (port, http) = (free_port(), format!("127.0.0.1:{}", free_port()));
    let (listen, log) = (format!("127.0.0.1:{port}"), dir.path().join("log"));
    let mut command = sardonyx();
    command.args(["mesh", "start", "--listen", &listen, "--seeds", &listen, "--nodes", "1"]);
    command.args(["--profile", "test", "--http", &http, "--data"]).arg(dir.path().join("data"));
    command.stdout(Stdio::null()).stderr(File::create(&log).expect("a log"));
    let mut node = Killed(command.spawn().expect("it starts"));
    let run = |args: &[&str]| {
        let output = sardonyx().arg("mesh").args(args).args(["--http", &http]).output();
        let output = output.expect("it runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let begun = Instant::now();
    let report = loop {
        let (code, out, err) = run(&["status", "--json"]);
        let report: Value = serde_json::from_str(&out).unwrap_or_default();
        if code == Some(0) && !report["token"].is_null() {
            break report;
        }
        assert!(begun.elapsed() < SOON, "{out}{err}");
    };
    assert_eq!((&report["phase"], &report["version"]), (&Value::from("leader"), &Value::from(1)));
    let (code, out, _) = run(&["status"]);
    assert!(code == Some(0) && out.contains("leads version 1, established"), "{out}");
    let (code, out, _) = run(&["send", "--to", &listen, "--ask", "hello"]);
    assert_eq!((code, &*out), (Some(0), "received: hello\n"));
    let (code, out, _) = run(&["send", "hello", "--json"]);
    assert!(code == Some(0) && out.contains(&listen), "{out}");
    let (code, _, err) = run(&["send", "--to", "127.0.0.1:1", "hello"]);
    assert!(code == Some(2) && err.contains("is no member"), "{err}");
    let (code, _, err) = run(&["transfer", "--to", &listen]);
    assert!(code == Some(1) && err.contains("leads already"), "{err}");
    // A stranger: the reason is in the log.
    let mut stranger = std::net::TcpStream::connect(&listen).expect("it listens");
    std::io::Write::write_all(&mut stranger, b"GET / HTTP/1.1\r\n\r\n").expect("written");
    let begun = Instant::now();
    let said = "the frame's version is 71, 1 is spoken here";
    while !std::fs::read_to_string(&log).expect("a log").contains(said) {
        assert!(begun.elapsed() < SOON, "{}", std::fs::read_to_string(&log).expect("a log"));
        std::thread::sleep(Duration::from_millis(5));
    }
    let (code, out, err) = run(&["leave"]);
    assert_eq!((code, &*out), (Some(0), "it has left\n"), "{err}");
    assert!(node.0.wait().expect("it ends").success());
    let (code, _, err) = run(&["status"]);
    assert!(code == Some(1) && err.contains("no node answers"), "{err}");
}

#[test]
fn bad_arguments_are_refused_with_advice() {
    let table: &[(&[&str], &str)] = &[
        (&["--listen", "a", "--seeds", "a:1", "--nodes", "1"], "write host:port"),
        (&["--listen", "127.0.0.1:1", "--seeds", "127.0.0.1:1", "--nodes", "0"], "nodes must be"),
        (&["--listen", "10.0.0.1:9", "--seeds", "10.0.0.1:9", "--nodes", "1"], "give --key-file"),
        (
            &["--listen", "127.0.0.1:9", "--seeds", "a:1", "--nodes", "1", "--http", "0.0.0.0:1"],
            "not on loopback",
        ),
        (
            &["--listen", "127.0.0.1:9", "--seeds", "a:1", "--nodes", "1", "--key-file", "/none"],
            "/none",
        ),
    ];
    for (args, expected) in table {
        let output = sardonyx().args(["mesh", "start"]).args(*args).output().expect("it runs");
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && err.contains(expected), "{args:?}: {err}");
    }
}
