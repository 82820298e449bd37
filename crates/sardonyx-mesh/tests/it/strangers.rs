//! Those who do not belong here: they are turned away, with a reason, and nobody else notices.

use std::time::Duration;

use sardonyx_mesh::{
    Mesh, Network, Store,
    tcp::tls::Tls,
    wire::{frame, limits::STRANGERS_MAX},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::cluster::{Cluster, Kind, SOON, eventually, tls_file};

fn refused(mesh: &Mesh) -> u64 {
    mesh.counts().all().iter().find(|(name, _)| *name == "refused").map_or(0, |it| it.1)
}

/// What came back until the other side hung up.
async fn until_closed(stream: &mut TcpStream) -> Vec<u8> {
    let mut heard = Vec::new();
    // A reset is an end as well.
    let _ = tokio::time::timeout(SOON, stream.read_to_end(&mut heard)).await.expect("it hangs up");
    heard
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_greet_is_dropped_and_the_cluster_does_not_move() {
    let cluster = Cluster::started(Kind::Tcp, 3, 1).await;
    let before = cluster.table(0);
    let mut watch = cluster.node(0).watch();
    let address = cluster.address(0).to_string();
    // A message of the protocol, properly framed, before any greeting.
    let mut early = bytes::BytesMut::new();
    frame::encode(&[20], &[], &mut early);
    let mut huge = vec![1, 5, 0xff, 0x05, 1];
    huge.extend([0; 65_280]);
    let noise: Vec<u8> =
        (0..4_000_u32).map(|it| (it.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let bad: [(&str, Vec<u8>); 5] = [
        ("a message before the greeting", early.to_vec()),
        ("a frame that goes on for a gigabyte", huge.repeat(4)),
        ("noise", noise),
        ("a browser", b"GET / HTTP/1.1\r\nhost: x\r\n\r\n".to_vec()),
        ("nothing at all", Vec::new()),
    ];
    for (what, bytes) in bad {
        let n_refused = refused(cluster.node(0));
        let mut stream = TcpStream::connect(&address).await.expect("it listens");
        // It may hang up before all is written.
        let _ = stream.write_all(&bytes).await;
        let heard = until_closed(&mut stream).await;
        assert!(heard.len() < 300, "{what}: {} bytes", heard.len());
        eventually(what, || refused(cluster.node(0)) > n_refused).await;
    }
    assert_eq!(cluster.table(0), before);
    let moved = tokio::time::timeout(Duration::from_millis(1), watch.next()).await;
    assert!(moved.is_err(), "{moved:?}");
}

/// A wrong key, no key, another cluster's name, another number of nodes: each stays alone.
#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_belong_stays_outside() {
    let cluster = Cluster::started(Kind::Tcp, 3, 1).await;
    let before = cluster.table(0);
    let outsider = Cluster::new(Kind::Tcp, 1, 1);
    let mut base = cluster.options(1);
    base.config.address = outsider.address(0).clone();
    base.store = Store::UnsafeVolatileVotes;
    let mut no_key = base.clone();
    no_key.key = None;
    let mut other_key = base.clone();
    other_key.key = Some(sardonyx_mesh::greet::key::Key::new(&[7; 32]).expect("a key"));
    let mut other_name = base.clone();
    other_name.config.cluster = "another".to_owned();
    let mut other_size = base.clone();
    other_size.config.nodes = 5;
    let mut other_ttl = base.clone();
    other_ttl.config.timers.ttl_timeout *= 2;
    for options in [no_key, other_key, other_name, other_size, other_ttl] {
        let n_refused = refused(cluster.node(0));
        let mesh = Mesh::start(options).await.expect("it starts");
        eventually("refused twice", || refused(cluster.node(0)) > n_refused + 1).await;
        assert!(mesh.leader().is_none(), "{:?}", mesh.leader());
        mesh.stop().await;
    }
    assert_eq!(cluster.table(0), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_count_for_the_host_that_they_name() {
    let cluster = Cluster::started(Kind::Tls, 2, 1).await;
    let outsider = Cluster::new(Kind::Tcp, 1, 1);
    let read = |name: &str| {
        let (chain, key) = (format!("{name}.pem"), format!("{name}.key"));
        Tls::read(&tls_file("ca.pem"), &tls_file(&chain), &tls_file(&key)).expect("certificates")
    };
    let networks = [
        ("of another host", Network::Tls(read("elsewhere"))),
        ("of another authority", Network::Tls(read("stranger"))),
        ("expired", Network::Tls(read("expired"))),
        ("none", Network::Tcp),
    ];
    for (what, network) in networks {
        let mut options = cluster.options(1);
        options.config.address = outsider.address(0).clone();
        (options.network, options.store) = (network, Store::UnsafeVolatileVotes);
        let n_refused = refused(cluster.node(0));
        let mesh = Mesh::start(options).await.expect("it starts");
        eventually(what, || refused(cluster.node(0)) > n_refused).await;
        assert!(mesh.leader().is_none(), "{what}");
        mesh.stop().await;
    }
    let missing = Tls::read(&tls_file("none.pem"), &tls_file("node.pem"), &tls_file("node.key"));
    assert!(missing.expect_err("no file").to_string().contains("none.pem"));
}

/// A node with a certificate that has run out is let in once it has a new one, and does not restart.
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_renewed_without_a_restart() {
    let mut cluster = Cluster::new(Kind::Tls, 2, 1);
    cluster.start(0).await;
    eventually("it leads", || cluster.node(0).leader().is_some()).await;
    let dir = tempfile::tempdir().expect("a directory");
    let file = |name: &str| dir.path().join(name);
    let put = |name: &str| {
        for ending in ["pem", "key"] {
            let to = file(&format!("own.{ending}"));
            std::fs::copy(tls_file(&format!("{name}.{ending}")), to).expect("copied");
        }
    };
    put("expired");
    let tls = Tls::read(&tls_file("ca.pem"), &file("own.pem"), &file("own.key")).expect("readable");
    let mut options = cluster.options(1);
    options.network = Network::Tls(tls.clone());
    let n_refused = refused(cluster.node(0));
    let mesh = Mesh::start(options).await.expect("it starts");
    eventually("it is refused", || refused(cluster.node(0)) > n_refused).await;
    assert!(mesh.leader().is_none());
    std::fs::write(file("own.pem"), "no certificate").expect("written");
    assert!(tls.renew().is_err(), "and what it has stays");
    put("node");
    tls.renew().expect("readable");
    eventually("it is let in", || {
        mesh.leader().is_some_and(|it| it.token.is_some() || it.claim.certified)
    })
    .await;
    mesh.stop().await;
}

/// More connections than may greet at once: the rest is turned away, and members get through.
#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_that_says_nothing_keeps_nobody_out_for_long() {
    let mut cluster = Cluster::started(Kind::Tcp, 3, 1).await;
    let address = cluster.address(0).to_string();
    let mut crowd = Vec::new();
    for _ in 0..1_200 {
        match TcpStream::connect(&address).await {
            Ok(stream) => crowd.push(stream),
            // Out of descriptors: crowded enough.
            Err(_) => break,
        }
    }
    // One too many is turned away at once, and not only when its time is up.
    let too_many = crowd.len().saturating_sub(STRANGERS_MAX) as u64;
    eventually("those beyond the limit are refused", || refused(cluster.node(0)) >= too_many).await;
    let before = cluster.node(0).members().version;
    cluster.crash(2).await;
    cluster.start(2).await;
    cluster.agree().await;
    assert_eq!(cluster.node(0).members().version, before, "nobody lost the leader");
    drop(crowd);
}
