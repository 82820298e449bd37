//! Every limit at its edge.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_body_may_be_so_large_and_no_larger() {
    let served = Served::start(Terms::default()).await;
    let padded = |n: usize| format!("{SHORT}#{}\n", "x".repeat(n - SHORT.len() - 2));
    let largest = padded(BODY_BYTES_MAX);
    assert_eq!(largest.len(), BODY_BYTES_MAX);
    let taken = served.post("/v1/jobs", TOML, &largest).await;
    assert_eq!(taken.status, 200, "{}", taken.text());
    let refused = served.post("/v1/jobs", TOML, &padded(BODY_BYTES_MAX + 1)).await;
    assert_eq!(refused.status, 413);
    assert_eq!(refused.json()["code"], "too-large");
    // A length that is only announced is refused before anything is kept.
    let address = served.server.address();
    let head = client::request(address, "POST", "/v1/jobs", &[("content-type", TOML)], 4 << 30);
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let text = client::until(&mut stream, "\r\n\r\n").await;
    assert_eq!(Answer::read(text.as_bytes()).status, 413);
    // And one that never comes does not keep its place for ever.
    let head = client::request(address, "POST", "/v1/jobs", &[("content-type", TOML)], 99);
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let began = Instant::now();
    stream.write_all(head.as_bytes()).await.unwrap();
    let text = client::until(&mut stream, "\r\n\r\n").await;
    assert_eq!(Answer::read(text.as_bytes()).status, 408);
    assert!(began.elapsed() >= BODY_MAX);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_and_patience_have_bounds() {
    let served = Served::start(Terms::default()).await;
    served.post("/v1/jobs?id=s", TOML, SHORT).await;
    let wait = WAIT_MAX.as_secs();
    served.get("/v1/jobs/s/wait").await;
    for (path, status) in [
        (format!("/v1/log?limit={LOG_PAGE_MAX}"), 200),
        (format!("/v1/log?limit={}", LOG_PAGE_MAX + 1), 400),
        ("/v1/log?limit=0".into(), 400),
        ("/v1/log?limit=1".into(), 200),
        ("/v1/log?limit=-1".into(), 400),
        ("/v1/log?limit=many".into(), 400),
        ("/v1/log?from=0&before=3".into(), 200),
        (format!("/v1/jobs?limit={JOBS_PAGE_MAX}"), 200),
        (format!("/v1/jobs?limit={}", JOBS_PAGE_MAX + 1), 400),
        ("/v1/jobs?after=nobody".into(), 404),
        (format!("/v1/peers?limit={PEERS_PAGE_MAX}"), 200),
        (format!("/v1/peers?limit={}", PEERS_PAGE_MAX + 1), 400),
        ("/v1/peers?skip=18446744073709551615".into(), 200),
        (format!("/v1/jobs/s/wait?seconds={wait}"), 200),
        (format!("/v1/jobs/s/wait?seconds={}", wait + 1), 400),
        ("/v1/replica?at=18446744073709551615".into(), 200),
        ("/v1/replica?at=18446744073709551616".into(), 400),
        ("/v1/diff?from=0".into(), 400),
        ("/v1/replica?when=0".into(), 400),
    ] {
        let answer = served.get(&path).await;
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
    }
    let page = served.get("/v1/peers?limit=2&skip=1").await.json();
    assert_eq!((page["peers"].as_array().unwrap().len(), page["more"].as_bool()), (2, Some(false)));
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn so_many_streams_and_no_more() {
    let served = Served::start(Terms::default()).await;
    let address = served.server.address();
    let mut open = Vec::new();
    for _ in 0..STREAMS_MAX {
        let mut stream = client::open(address, "GET", "/v1/events", &[], b"").await;
        client::until(&mut stream, "begin").await;
        open.push(stream);
    }
    let refused = served.get("/v1/events").await;
    assert_eq!((refused.status, refused.json()["code"].as_str()), (503, Some("too-many-streams")));
    open.clear();
    // Somebody who left makes room, once that is noticed.
    for _ in 0..200 {
        let mut stream = client::open(address, "GET", "/v1/events", &[], b"").await;
        let text = client::until(&mut stream, "\r\n\r\n").await;
        if Answer::read(text.as_bytes()).status == 200 {
            return served.stop().await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("there is never room again");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_writes_a_byte_a_second_is_cut_off() {
    let served = Served::start(Terms::default()).await;
    let mut stream = tokio::net::TcpStream::connect(served.server.address()).await.unwrap();
    let began = Instant::now();
    let mut bytes = [0; 512];
    for letter in b"GET /v1/overview HTTP/1.1 and so on" {
        if stream.write_all(&[*letter]).await.is_err() {
            break;
        }
        let read = tokio::time::timeout(Duration::from_millis(500), stream.read(&mut bytes)).await;
        if read.is_ok() {
            break;
        }
    }
    assert!(began.elapsed() < HEAD_MAX + Duration::from_secs(4), "{:?}", began.elapsed());
    served.stop().await;
}
