//! A plain HTTP client: one request, one answer.

use std::{net::SocketAddr, time::Duration};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

const SOON: Duration = Duration::from_secs(30);

pub(super) struct Answer {
    pub(super) status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|why| panic!("{why}: {} {}", self.head, self.text()))
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub(super) fn read(bytes: &[u8]) -> Answer {
        let end = bytes.windows(4).position(|it| it == b"\r\n\r\n").expect("a head");
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let status = head.split(' ').nth(1).and_then(|it| it.parse().ok()).expect("a status");
        Answer { status, head, body: bytes[end + 4..].to_vec() }
    }
}

/// A request as bytes. A Host header that is given replaces the usual one.
pub(super) fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    n_bytes: usize,
) -> String {
    let mut text = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
    if !headers.iter().any(|(name, _)| *name == "host") {
        text.push_str(&format!("host: {address}\r\n"));
    }
    if n_bytes > 0 || method == "POST" {
        text.push_str(&format!("content-length: {n_bytes}\r\n"));
    }
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text + "\r\n"
}

/// Sends a request, and hands over the connection.
pub(super) async fn open(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = request(address, method, path, headers, body.len());
    stream.write_all(head.as_bytes()).await.unwrap();
    // A server that has heard enough may hang up early.
    let _ = stream.write_all(body).await;
    stream
}

/// Sends a request and reads the whole answer.
pub(super) async fn ask(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Answer {
    let mut stream = open(address, method, path, headers, body).await;
    let mut bytes = Vec::new();
    let read = timeout(SOON, stream.read_to_end(&mut bytes)).await.expect("an answer in time");
    assert!(read.is_ok() || !bytes.is_empty(), "{read:?}");
    Answer::read(&bytes)
}

/// Reads of a stream until it holds a text; says what came.
pub(super) async fn until(stream: &mut TcpStream, wanted: &str) -> String {
    let mut text = String::new();
    let mut bytes = [0; 8192];
    let read = async {
        while !text.contains(wanted) {
            let n = stream.read(&mut bytes).await.unwrap();
            assert!(n > 0, "it ended before {wanted:?}: {text}");
            text.push_str(&String::from_utf8_lossy(&bytes[..n]));
        }
    };
    timeout(SOON, read).await.unwrap_or_else(|_| panic!("never {wanted:?}"));
    text
}
