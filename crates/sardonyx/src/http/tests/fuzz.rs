//! Whatever is asked of the API: an answer, and never one that says that we failed. Whatever stands in
//! the file that says who may ask: those whom it lets in, or a complaint.

#[path = "../../../../../fuzz/harness.rs"]
mod harness;

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use harness::Target;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    runtime::Runtime,
};

use super::{Served, client::request};
use crate::http::{Role, Terms, Tokens};

/// How long an answer may take before nobody believes in it any more.
const ANSWER_MAX: Duration = Duration::from_secs(20);

/// A connection from the next of many addresses: those of one have too few ports for a long search.
async fn connect(to: SocketAddr) -> TcpStream {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed) % 60_000;
    let [.., high, low] = (next + 2).to_be_bytes();
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind((Ipv4Addr::new(127, 7, high, low), 0).into()).expect("an address of loopback");
    socket.connect(to).await.expect("it listens")
}

/// What stands in the first line of the answer; 0 where nobody answered. Streams have no end, so the
/// rest is not waited for.
async fn status(stream: &mut TcpStream) -> u16 {
    let (mut answer, mut some) = (Vec::new(), [0; 512]);
    while !answer.windows(2).any(|it| it == b"\r\n") {
        match stream.read(&mut some).await {
            Ok(0) | Err(_) => break,
            Ok(n) => answer.extend_from_slice(&some[..n]),
        }
    }
    let line = String::from_utf8_lossy(&answer);
    line.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or_default()
}

/// What is wrong with a request is the client's fault; 503 says that what was asked for cannot be had
/// now.
fn is_an_answer(status: u16) -> bool {
    (200..500).contains(&status) || status == 503
}

/// A request as lines: method, path, content type, and the body behind them.
fn parts(input: &[u8]) -> (String, String, String, Vec<u8>) {
    let mut lines = input.splitn(4, |it| *it == b'\n');
    let mut word = |least: &str, is_fine: fn(&char) -> bool| {
        let line = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
        let line: String = line.chars().filter(is_fine).collect();
        if line.is_empty() { least.to_owned() } else { line }
    };
    let method = word("GET", char::is_ascii_uppercase);
    let path = word("/", char::is_ascii_graphic);
    let kind = word("application/json", char::is_ascii_graphic);
    let body = lines.next().unwrap_or_default().to_vec();
    let path = if path.starts_with('/') { path } else { format!("/{path}") };
    (method, path, kind, body)
}

async fn ask(address: SocketAddr, input: &[u8]) -> String {
    let (method, path, kind, body) = parts(input);
    if path.contains("/wait") {
        return "waiting takes its time".into();
    }
    let mut stream = connect(address).await;
    let head = request(address, &method, &path, &[("content-type", &kind)], body.len());
    // Who has heard enough may hang up early.
    let _ = stream.write_all(&[head.as_bytes(), &body].concat()).await;
    let status = status(&mut stream).await;
    assert!(is_an_answer(status), "{method} {path}: {status}");
    let path = path.split('?').next().unwrap_or_default();
    // One path that leads nowhere is as good as any other.
    let leads_somewhere = status != 404 && status != 405;
    outcome(status, if leads_somewhere { path } else { "" })
}

/// In words, because numbers do not count as outcomes.
fn outcome(status: u16, place: &str) -> String {
    let digit = |it: char| char::from(b'a' + it.to_digit(10).unwrap_or_default() as u8);
    let status: String = status.to_string().chars().map(digit).collect();
    format!("{status} {place}")
}

const WORDS: &[&str] = &[
    "?",
    "&",
    "=",
    "%00",
    "%ff",
    "%2e%2e/",
    "../",
    "//",
    "from=",
    "to=",
    "at=",
    "limit=",
    "after=",
    "18446744073709551615",
    "-1",
    "1e9",
    "null",
    "{}",
    "[]",
    "#",
    "\n",
    "\r\n",
    "POST",
    "PUT",
    "DELETE",
    "HEAD",
    "OPTIONS",
    "/v1/",
    "jobs",
    "log",
    "replica",
    "diff",
    "kill",
    "gc",
    "mesh",
    "ids",
    "content-length: ",
    "transfer-encoding: chunked\r\n",
    "host: ",
    "authorization: Bearer x\r\n",
    "cookie: ",
];

/// A cluster that is served while a target is fed.
fn serve(feed: impl FnOnce(&Runtime, SocketAddr)) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let served = runtime.block_on(Served::start(Terms::default()));
    feed(&runtime, served.server.address());
    runtime.block_on(served.stop());
}

/// What is well formed, of any sense: it reaches the endpoints.
#[test]
fn a_request() {
    let requests = [
        "GET\n/v1/overview\n\n",
        "GET\n/v1/jobs?limit=3&state=running\n\n",
        "GET\n/v1/jobs/abc\n\n",
        "GET\n/v1/nodes\n\n",
        "POST\n/v1/login\napplication/json\n{\"token\":\"t\"}",
        "POST\n/v1/logout\napplication/json\n{}",
        "GET\n/v1/log?from=0&limit=10\n\n",
        "GET\n/v1/log/follow?from=0\n\n",
        "GET\n/v1/replica?at=1\n\n",
        "GET\n/v1/diff?from=0&to=2\n\n",
        "GET\n/v1/peers?skip=1\n\n",
        "GET\n/v1/events\n\n",
        "GET\n/metrics\n\n",
        "GET\n/healthz\n\n",
        "GET\n/v1/openapi.json\n\n",
        "GET\n/assets/app.js\n\n",
        "POST\n/v1/jobs/abc/kill\napplication/json\n{\"reason\":\"r\"}",
        "POST\n/v1/gc\napplication/json\n{}",
        "POST\n/v1/jobs?check=true\napplication/json\n{\"name\":\"n\",\"catalog\":{}}",
        "POST\n/v1/jobs?check=true\napplication/toml\nname = \"n\"\nworkflow = [[\"in\", \"out\"]]\n\
         [catalog.in]\ntype = \"input\"\nplugin = \"wait\"\nfor = \"1ms\"\n\
         [catalog.out]\ntype = \"output\"\nplugin = \"wait\"\nfor = \"1ms\"\n",
    ];
    let seeds = requests.map(|it| it.as_bytes().to_vec()).into();
    serve(|runtime, address| {
        Target { name: "http-request", seeds, words: WORDS }.run(|input| {
            let asked = async { tokio::time::timeout(ANSWER_MAX, ask(address, input)).await };
            runtime.block_on(asked).expect("an answer")
        });
    });
}

/// Bytes as they come: refused or answered, and the server lives.
#[test]
fn bytes_on_the_line() {
    let requests = [
        "GET /v1/overview HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
        "GET http://localhost/v1/peers HTTP/1.0\r\n\r\n",
        "POST /v1/gc HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         transfer-encoding: chunked\r\nconnection: close\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        "POST /v1/gc HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\nexpect: 100-continue\r\n\
         connection: close\r\n\r\n{}",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ];
    let seeds = requests.map(|it| it.as_bytes().to_vec()).into();
    serve(|runtime, address| {
        Target { name: "http-bytes", seeds, words: WORDS }.run(|input| {
            let asked = async {
                let mut stream = connect(address).await;
                let _ = stream.write_all(input).await;
                let _ = stream.shutdown().await;
                tokio::time::timeout(ANSWER_MAX, status(&mut stream)).await
            };
            let status = runtime.block_on(asked).expect("an answer, or an end");
            assert!(status == 0 || status == 100 || is_an_answer(status), "{status}");
            outcome(status, "")
        });
    });
}

/// What somebody may do by the plainest reading of the file.
fn said_of(secret: &str, text: &str) -> Option<Role> {
    let hash = blake3::hash(secret.as_bytes()).to_hex();
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let pairs = lines.filter_map(|line| line.split_once(' '));
    let theirs = pairs.filter(|(_, it)| it.trim().eq_ignore_ascii_case(&hash));
    theirs.filter_map(|(role, _)| Role::named(role).ok()).max()
}

/// The file of tokens: nobody is let in who does not stand in it, nor further than it says, and no
/// complaint shows what may be a token.
#[test]
fn a_tokens_file() {
    let secrets = ["hunter2", "Tr0ub4dor&3", ""];
    let [one, two, empty] = secrets.map(|it| blake3::hash(it.as_bytes()).to_hex());
    let upper = two.to_ascii_uppercase();
    let seeds = [
        format!("# ours\n\nread {one}\nadmin {two}\n"),
        format!("submit  {one} \r\nread {one}\r\n#read {two}"),
        format!("admin {upper}\nread {empty}\n"),
        format!("{one} read\n"),
        "read hunter2\n".into(),
        "hunter2 read\n".into(),
        "boss 00\n".into(),
        "# nobody yet\n".into(),
    ];
    let seeds = seeds.map(String::into_bytes).into();
    let words = &[
        "read ",
        "submit ",
        "admin ",
        "hunter2 ",
        one.as_str(),
        two.as_str(),
        "#",
        "\n",
        "\r",
        "\t",
        " ",
        "\u{a0}",
    ];
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("tokens");
    Target { name: "http-tokens", seeds, words }.run(|input| {
        std::fs::write(&path, input).expect("the file is written");
        let tokens = match Tokens::read(&path) {
            Ok(tokens) => tokens,
            Err(why) => {
                let said = why.strip_prefix(&format!("{}: ", path.display()));
                let said = said.unwrap_or_else(|| panic!("of which file? {why}"));
                assert!(said.len() > 20, "says little: {why}");
                assert!(!secrets[..2].iter().any(|it| said.contains(it)), "a secret: {why}");
                return said.to_owned();
            }
        };
        let text = std::str::from_utf8(input).expect("what was read is text");
        let roles = secrets.map(|secret| {
            let role = tokens.role_of(secret);
            assert_eq!(role, said_of(secret, text), "{secret:?} by {text:?}");
            role
        });
        assert_eq!(tokens.role_of("a stranger"), None);
        format!("{roles:?}")
    });
}
