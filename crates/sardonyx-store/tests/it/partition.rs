//! Three servers in networks of their own: the leader is killed, cut off from everybody, and cut
//! off from the other servers only, under four writers.

use std::{
    io::ErrorKind,
    sync::Arc,
    time::{Duration, Instant},
};

use sardonyx_store::suite::{
    Arena,
    servers::{Ensemble, EtcdServer, Kind, Network},
    write_and_compare,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

fn is_partitioned<K: Kind + Default>() {
    let Some(network) = Network::make(3) else { return };
    network.run(|| async {
        let servers = Ensemble::start_as(K::default(), 3, Some(Arc::clone(&network))).await;
        write_and_compare(&Arena::on(servers), 4, 2500, 3).await;
    });
}

#[test]
fn etcd_is_partitioned() {
    is_partitioned::<EtcdServer>();
}

#[test]
fn zookeeper_is_partitioned() {
    is_partitioned::<sardonyx_store::suite::servers::ZooKeeperServer>();
}

/// How long a page takes that has some tens of thousands of bytes.
async fn a_page_takes(host: &str) -> Duration {
    let begun = Instant::now();
    let mut stream = TcpStream::connect(host).await.unwrap();
    let request = format!("GET /metrics HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut page = Vec::new();
    stream.read_to_end(&mut page).await.unwrap();
    assert!(page.len() > 30_000, "{} bytes", page.len());
    begun.elapsed()
}

/// What storms do to lines is what they say they do.
#[test]
fn lines_are_thin_and_wide_again_and_connections_are_reset() {
    let Some(network) = Network::make(1) else { return };
    network.run(|| async {
        let server = Ensemble::<EtcdServer>::start_as(Default::default(), 1, Some(network.clone()));
        let server = server.await;
        let host = server.hosts().remove(0);
        // 30,000 bytes are 240,000 bits, and the burst is soon over.
        network.thin(0, 128).unwrap();
        let thin = a_page_takes(&host).await;
        assert!(thin > Duration::from_secs(1), "{thin:?}");
        network.widen(0).unwrap();
        let wide = a_page_takes(&host).await;
        assert!(wide < thin / 2, "{wide:?} after {thin:?}");

        let mut stream = TcpStream::connect(&host).await.unwrap();
        network.reset(0).unwrap();
        let read = tokio::time::timeout(Duration::from_secs(10), stream.read_u8()).await;
        assert_eq!(read.expect("at once").unwrap_err().kind(), ErrorKind::ConnectionReset);
    });
}
