//! What strangers send to a served store.

use std::time::{Duration, Instant};

use sardonyx_store::{Options, Serving, Store};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use sardonyx_store::suite::{labelled, run};

async fn serve() -> (tempfile::TempDir, Serving) {
    let dir = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let serving = Serving::start(dir.path(), listener, None).await.unwrap();
    (dir, serving)
}

/// Sends bytes and waits until the server hangs up; panics if it takes longer than a hello may.
async fn is_hung_up_on(serving: &Serving, bytes: &[u8]) {
    let mut stream = TcpStream::connect(serving.address()).await.unwrap();
    // The server may hang up before everything is sent.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let end = tokio::time::timeout(Duration::from_secs(8), stream.read_to_end(&mut answer)).await;
    assert!(end.is_ok(), "it still listens to {} bytes", bytes.len());
}

#[test]
fn a_frame_that_is_too_long_is_not_waited_for() {
    run(async {
        let (_dir, serving) = serve().await;
        let begun = Instant::now();
        is_hung_up_on(&serving, &u32::MAX.to_be_bytes()).await;
        is_hung_up_on(&serving, &(65_u32 << 10).to_be_bytes()).await;
        is_hung_up_on(&serving, b"\0\0\0\x05GET /").await;
        assert!(begun.elapsed() < Duration::from_secs(4), "at once: {:?}", begun.elapsed());
    });
}

#[test]
fn somebody_who_says_nothing_is_hung_up_on_and_disturbs_nobody() {
    run(async {
        let (_dir, serving) = serve().await;
        let silent = is_hung_up_on(&serving, b"\0\0");
        let honest = async {
            let url = format!("sardonyx://{}", serving.address());
            let store = Store::open(&url, Options::default()).await.unwrap();
            for _ in 0..100 {
                store.append(&labelled("honest")).await.unwrap();
            }
        };
        tokio::join!(silent, honest);
    });
}

#[test]
fn nobody_from_outside_is_served_without_a_token() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
        let refused = Serving::start(dir.path(), listener, None).await;
        assert!(refused.is_err_and(|why| why.to_string().contains("give a token file")));
    });
}
