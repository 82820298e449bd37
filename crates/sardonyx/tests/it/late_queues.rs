//! A served store has its queues at the next port. What a node does that does not find them there.

use std::{net::SocketAddr, time::Instant};

use sardonyx_queue::{Queues, remote};
use sardonyx_store::Serving;
use tokio::{net::TcpListener, runtime::Runtime};

use crate::{
    node::{Node, SOON, Server},
    program::sardonyx,
};

/// A served store whose queues nobody serves; and the address at which a node looks for them.
async fn store_alone(dir: &std::path::Path) -> (Serving, SocketAddr) {
    loop {
        let store = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut next = store.local_addr().unwrap();
        next.set_port(next.port().wrapping_add(1));
        if TcpListener::bind(next).await.is_ok() {
            return (Serving::start(dir, store, None).await.unwrap(), next);
        }
    }
}

fn until(node: &Node, event: &str) {
    let begun = Instant::now();
    while !node.events().iter().any(|it| it["event"] == event) {
        assert!(begun.elapsed() < SOON, "never {event}: {:?}", node.events());
        std::thread::sleep(std::time::Duration::from_millis(30));
    }
}

#[test]
fn a_node_does_not_go_on_without_the_queues_of_its_store() {
    let (dir, runtime) = (tempfile::tempdir().unwrap(), Runtime::new().unwrap());
    let (store, queues) = runtime.block_on(store_alone(dir.path()));
    let url = format!("sardonyx://{}", store.address());
    let mut node = Node::start(&["--store", &url]);
    assert_eq!(node.wait(), Some(1), "{:?}", node.events());
    let said = node.events().into_iter().find(|it| it["event"] == "waiting").unwrap();
    assert!(said["why"].as_str().unwrap().contains(&queues.to_string()), "{said}");
    // Who wants a node without queues cannot mean those of the store.
    let ran = sardonyx(&["start", "--store", &url], "");
    assert_eq!(ran.code, Some(1));
    for word in [&queues.to_string(), "--queues URL", "are the queues being served there?"] {
        assert!(ran.stderr.contains(word), "{word}: {}", ran.stderr);
    }
}

#[test]
fn a_node_waits_for_queues_that_come_a_little_later() {
    let (dir, runtime) = (tempfile::tempdir().unwrap(), Runtime::new().unwrap());
    let (store, at) = runtime.block_on(store_alone(dir.path()));
    let mut node = Node::start(&["--store", &format!("sardonyx://{}", store.address())]);
    until(&node, "waiting");
    let serving = runtime.block_on(async {
        let listener = TcpListener::bind(at).await.unwrap();
        remote::serve(&Queues::memory(), listener, None).await.unwrap()
    });
    until(&node, "joined");
    node.signal("TERM");
    assert_eq!(node.wait(), Some(0));
    runtime.block_on(serving.stop());
}

#[test]
fn a_store_that_is_served_alone_has_queues_as_well() {
    let server = Server::start();
    let _node = Node::start(&["--store", server.url(), "--peers", "2"]);
    let job = "name = \"n\"\nworkflow = [[\"in\", \"out\"]]\n\
               [catalog.in]\ntype = \"input\"\nplugin = \"generate\"\ncount = 100\n\
               [catalog.out]\ntype = \"output\"\nplugin = \"null\"\n";
    let ran = sardonyx(&["submit", "-", "--id", "n-1", "--store", server.url()], job);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let begun = Instant::now();
    loop {
        let ran = sardonyx(&["jobs", "n-1", "--store", server.url()], "");
        if ran.stdout.contains("completed") {
            return;
        }
        assert!(!ran.stdout.contains("killed"), "{}", ran.stdout);
        assert!(begun.elapsed() < SOON, "{} {}", ran.stdout, ran.stderr);
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}
