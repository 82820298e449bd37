//! The service over real sockets.

use std::sync::Arc;

use sardonyx_ids::{
    client::Client,
    service::{Protocol, Service, serve},
};
use sardonyx_store::suite::Arena;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
};

use super::{all_differ, config, join, run};

async fn start(protocol: Protocol) -> (String, watch::Sender<bool>, tokio::task::JoinHandle<()>) {
    let arena = Arena::memory().await;
    let store = arena.open().await;
    let ids = join(&store, config(arena.session_timeout())).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("its address").to_string();
    let (stop, stopped) = watch::channel(false);
    let task = tokio::spawn(async move {
        let service = Arc::new(Service::new(Arc::new(ids)));
        serve(service, listener, protocol, stopped).await.expect("served");
        drop(arena);
    });
    (address, stop, task)
}

async fn ask(stream: &mut TcpStream, request: &str, n_lines: usize) -> Vec<String> {
    stream.write_all(request.as_bytes()).await.expect("written");
    let mut answer = Vec::new();
    while answer.iter().filter(|byte| **byte == b'\n').count() < n_lines {
        assert_ne!(stream.read_buf(&mut answer).await.expect("read"), 0);
    }
    String::from_utf8(answer).expect("text").lines().map(str::to_owned).collect()
}

fn id(line: &str) -> u64 {
    line.strip_prefix(':').and_then(|it| it.parse().ok()).expect(line)
}

#[test]
fn a_redis_client_draws_ids() {
    run(async {
        let (address, stop, task) = start(Protocol::Resp).await;
        let mut stream = TcpStream::connect(&address).await.expect("a connection");
        assert_eq!(ask(&mut stream, "PING\r\n", 1).await, ["+PONG"]);
        let one = ask(&mut stream, "*1\r\n$4\r\nNEXT\r\n", 1).await;
        let hundred = ask(&mut stream, "*2\r\n$4\r\nnext\r\n$3\r\n100\r\n", 101).await;
        assert_eq!(hundred[0], "*100");
        let mut ids: Vec<_> = hundred[1..].iter().map(|line| id(line)).collect();
        ids.push(id(&one[0]));
        let ranges = ask(&mut stream, "RANGE 5000\r\n", 7).await;
        let n: u64 = ranges[1..].chunks(3).map(|pair| id(&pair[2])).sum();
        assert_eq!(n, 5000, "{ranges:?}");
        for pair in ranges[1..].chunks(3) {
            ids.extend((0..id(&pair[2])).map(|n| id(&pair[1]) + n));
        }
        // Pipelined, in pieces that end anywhere.
        stream.write_all(b"*1\r\n$4\r\nNE").await.expect("written");
        ids.extend(ask(&mut stream, "XT\r\nNEXT\r\n", 2).await.iter().map(|line| id(line)));
        all_differ(ids);
        let refused = ask(&mut stream, "NEXT 100001\r\n", 1).await;
        assert!(refused[0].starts_with("-ERR"), "{refused:?}");
        let unknown = ask(&mut stream, "GET x\r\n", 1).await;
        assert!(unknown[0].starts_with("-ERR unknown command"), "{unknown:?}");
        stop.send_replace(true);
        task.await.expect("drained");
    });
}

#[test]
fn a_client_asks_ahead() {
    run(async {
        let (address, stop, task) = start(Protocol::Raw).await;
        let mut client = Client::connect(&address, 100).await.expect("a connection");
        let mut ids = Vec::new();
        for _ in 0..1000 {
            ids.push(client.next().await.expect("an id").bits());
        }
        assert!(ids.is_sorted());
        all_differ(ids);
        stop.send_replace(true);
        task.await.expect("drained");
    });
}
