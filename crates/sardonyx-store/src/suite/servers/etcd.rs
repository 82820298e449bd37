//! etcd, one member or several.

use std::{
    net::TcpStream,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use super::{Process, free_ports, install};
use crate::suite::{SOON, arena::log_file, arena::temp_dir};

/// An etcd cluster.
#[derive(Debug)]
pub struct EtcdCluster {
    dir: tempfile::TempDir,
    client_ports: Vec<u16>,
    peer_ports: Vec<u16>,
    nodes: Vec<Process>,
}

impl EtcdCluster {
    /// Starts one, and waits until it answers.
    pub async fn start(n_nodes: usize) -> EtcdCluster {
        tokio::task::spawn_blocking(install).await.expect("the servers are there");
        let mut ports = free_ports(2 * n_nodes);
        let peer_ports = ports.split_off(n_nodes);
        let dir = temp_dir();
        let mut cluster = EtcdCluster { dir, client_ports: ports, peer_ports, nodes: Vec::new() };
        cluster.nodes = (0..n_nodes).map(|node| Process::new(cluster.spawn(node))).collect();
        cluster.wait().await;
        cluster
    }

    fn spawn(&self, node: usize) -> Child {
        let peer = |node: usize| format!("http://127.0.0.1:{}", self.peer_ports[node]);
        let client = format!("http://127.0.0.1:{}", self.client_ports[node]);
        let all: Vec<_> =
            (0..self.peer_ports.len()).map(|node| format!("n{node}={}", peer(node))).collect();
        let log = log_file(self.dir.path(), &format!("n{node}"));
        Command::new("etcd")
            .args(["--name", &format!("n{node}"), "--logger", "zap", "--log-level", "warn"])
            .arg("--data-dir")
            .arg(self.dir.path().join(format!("n{node}")))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer(node)])
            .args(["--initial-advertise-peer-urls", &peer(node)])
            .args(["--initial-cluster", &all.join(",")])
            .args(["--heartbeat-interval", "100", "--election-timeout", "1000"])
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("etcd starts")
    }

    /// The URL of the store named `name` on this cluster.
    pub fn url(&self, name: &str) -> String {
        format!("etcd://{}/{name}", self.hosts().join(","))
    }

    /// `host:port` of each member.
    pub fn hosts(&self) -> Vec<String> {
        self.client_ports.iter().map(|port| format!("127.0.0.1:{port}")).collect()
    }

    /// How many members it has.
    pub fn n_nodes(&self) -> usize {
        self.nodes.len()
    }

    /// kill -9.
    pub fn kill(&self, node: usize) {
        self.nodes[node].kill();
    }

    /// Starts a killed member again, and waits until the cluster answers.
    pub async fn restart(&self, node: usize) {
        self.nodes[node].replace(self.spawn(node));
        self.wait().await;
    }

    /// Cuts a member off until the others have a new leader, or for a moment if there are none.
    pub async fn cut_off(&self, node: usize) {
        self.nodes[node].signal("STOP");
        let begun = Instant::now();
        let patience = if self.n_nodes() > 1 { SOON } else { Duration::from_millis(500) };
        while begun.elapsed() < patience {
            tokio::time::sleep(Duration::from_millis(100)).await;
            if self.leader().await.is_some_and(|leader| leader != node) {
                break;
            }
        }
        self.nodes[node].signal("CONT");
        self.wait().await;
    }

    /// The member that leads.
    pub async fn leader(&self) -> Option<usize> {
        crate::etcd::leader(&self.hosts()).await
    }

    /// Waits until every member has a leader.
    async fn wait(&self) {
        let begun = Instant::now();
        loop {
            let is_up = |port: &u16| TcpStream::connect(("127.0.0.1", *port)).is_ok();
            if self.client_ports.iter().all(is_up) && self.leader().await.is_some() {
                return;
            }
            assert!(begun.elapsed() < SOON, "etcd starts; see {:?}", self.dir.path());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}
