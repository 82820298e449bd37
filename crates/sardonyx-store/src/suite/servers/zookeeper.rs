//! ZooKeeper, one server or an ensemble.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use super::{Process, free_ports, install};
use crate::suite::{SOON, arena::log_file, arena::temp_dir};

/// Milliseconds; sessions last two to twenty of these.
const TICK: u32 = 200;

/// A ZooKeeper ensemble.
#[derive(Debug)]
pub struct ZooKeeperEnsemble {
    dir: tempfile::TempDir,
    client_ports: Vec<u16>,
    nodes: Vec<Process>,
}

impl ZooKeeperEnsemble {
    /// Starts one, and waits until it answers.
    pub async fn start(n_nodes: usize) -> ZooKeeperEnsemble {
        tokio::task::spawn_blocking(install).await.expect("the servers are there");
        let mut ports = free_ports(3 * n_nodes);
        let quorum_ports = ports.split_off(n_nodes);
        let dir = temp_dir();
        let mut ensemble = ZooKeeperEnsemble { dir, client_ports: ports, nodes: Vec::new() };
        ensemble.configure(n_nodes, &quorum_ports);
        ensemble.nodes = (0..n_nodes).map(|node| Process::new(ensemble.spawn(node))).collect();
        ensemble.wait().await;
        ensemble
    }

    fn configure(&self, n_nodes: usize, quorum_ports: &[u16]) {
        let server = |node: usize| {
            let (follow, elect) = (quorum_ports[2 * node], quorum_ports[2 * node + 1]);
            format!("server.{}=127.0.0.1:{follow}:{elect}\n", node + 1)
        };
        let servers: String = match n_nodes {
            1 => String::new(),
            _ => (0..n_nodes).map(server).collect(),
        };
        for node in 0..n_nodes {
            let data = self.dir.path().join(format!("data{node}"));
            std::fs::create_dir_all(&data).expect("a directory");
            std::fs::write(data.join("myid"), (node + 1).to_string()).expect("a file");
            let config = format!(
                "tickTime={TICK}\ninitLimit=50\nsyncLimit=15\ndataDir={}\nclientPort={}\n\
                 clientPortAddress=127.0.0.1\nadmin.enableServer=false\nmaxClientCnxns=0\n\
                 4lw.commands.whitelist=*\npreAllocSize=1024\n{servers}",
                data.display(),
                self.client_ports[node],
            );
            std::fs::write(self.config(node), config).expect("a file");
        }
    }

    fn config(&self, node: usize) -> PathBuf {
        self.dir.path().join(format!("zoo{node}.cfg"))
    }

    fn spawn(&self, node: usize) -> Child {
        let log = log_file(self.dir.path(), &format!("zoo{node}"));
        Command::new("java")
            .args(["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"])
            .args(["-Dzookeeper.forceSync=yes", "-cp", "/usr/share/java/*"])
            .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
            .arg(self.config(node))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("ZooKeeper starts")
    }

    /// The URL of the store named `name` on this ensemble.
    pub fn url(&self, name: &str) -> String {
        format!("zookeeper://{}/{name}", self.hosts().join(","))
    }

    /// `host:port` of each server.
    pub fn hosts(&self) -> Vec<String> {
        self.client_ports.iter().map(|port| format!("127.0.0.1:{port}")).collect()
    }

    /// How many servers it has.
    pub fn n_nodes(&self) -> usize {
        self.nodes.len()
    }

    /// kill -9.
    pub fn kill(&self, node: usize) {
        self.nodes[node].kill();
    }

    /// Starts a killed server again, and waits until all answer.
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
            if self.leader().is_some_and(|leader| leader != node) {
                break;
            }
        }
        self.nodes[node].signal("CONT");
        self.wait().await;
    }

    /// The server that leads.
    pub fn leader(&self) -> Option<usize> {
        (0..self.n_nodes()).find(|node| self.mode(*node).as_deref() == Some("leader"))
    }

    /// What a server says it is: `leader`, `follower`, `standalone`.
    fn mode(&self, node: usize) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.client_ports[node])).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
        stream.write_all(b"srvr").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let mode = answer.lines().find_map(|line| line.strip_prefix("Mode: "))?;
        Some(mode.to_owned())
    }

    /// Waits until every server serves.
    async fn wait(&self) {
        let begun = Instant::now();
        while !(0..self.client_ports.len()).all(|node| self.mode(node).is_some()) {
            assert!(begun.elapsed() < SOON, "ZooKeeper starts; see {:?}", self.dir.path());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}
