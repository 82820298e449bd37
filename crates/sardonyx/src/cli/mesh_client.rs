//! One request to a node of the mesh on this machine.

use std::{net::SocketAddr, time::Duration};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use super::Failure;

/// How long a node may take: a goodbye waits for others.
const PATIENCE: Duration = Duration::from_secs(120);

/// The longest answer: a table of all members is far below it.
const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// Asks, and reads the JSON that comes back. What the node refuses is a failure in its words.
pub(super) async fn request(
    at: SocketAddr,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> Result<Value, Failure> {
    let nobody = |why: std::io::Error| {
        Failure::world(format!("no node answers at http://{at}: {why}; is it started with --http?"))
    };
    let work = async {
        let mut stream = TcpStream::connect(at).await.map_err(nobody)?;
        let body = body.map(Value::to_string).unwrap_or_default();
        let n = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {at}\r\ncontent-type: application/json\r\n\
             content-length: {n}\r\nconnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.map_err(nobody)?;
        stream.write_all(body.as_bytes()).await.map_err(nobody)?;
        let mut answer = Vec::new();
        stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await.map_err(nobody)?;
        Ok::<_, Failure>(String::from_utf8_lossy(&answer).into_owned())
    };
    let late = || Failure::world(format!("http://{at} did not answer within {PATIENCE:?}"));
    let answer = timeout(PATIENCE, work).await.map_err(|_| late())??;
    let other = || Failure::world(format!("http://{at} is no node of the mesh"));
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(other)?;
    let code = head.split(' ').nth(1).ok_or_else(other)?;
    match code {
        "200" => serde_json::from_str(body).map_err(|_| other()),
        "400" | "422" | "415" => Err(Failure::input(body.trim())),
        _ => Err(Failure::world(body.trim())),
    }
}
