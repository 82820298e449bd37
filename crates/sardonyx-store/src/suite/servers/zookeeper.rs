//! ZooKeeper, one server or an ensemble.

use std::{path::PathBuf, process::Command, time::Duration};

use async_trait::async_trait;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::ensemble::{Ensemble, Kind, Sites};

/// Milliseconds; sessions last two to twenty of these.
const TICK: u32 = 200;

/// A ZooKeeper ensemble.
pub type ZooKeeperEnsemble = Ensemble<ZooKeeperServer>;

/// How its servers are run.
#[derive(Clone, Copy, Debug, Default)]
pub struct ZooKeeperServer;

fn config(sites: &Sites, node: usize) -> PathBuf {
    sites.dir().join(format!("zoo{node}.cfg"))
}

/// What the server at `host` says it is: `leader`, `follower`, `standalone`.
async fn mode(host: &str) -> Option<String> {
    let ask = async {
        let mut stream = TcpStream::connect(host).await.ok()?;
        stream.write_all(b"srvr").await.ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        let mode = answer.lines().find_map(|line| line.strip_prefix("Mode: "))?;
        Some(mode.to_owned())
    };
    tokio::time::timeout(Duration::from_secs(2), ask).await.ok().flatten()
}

#[async_trait]
impl Kind for ZooKeeperServer {
    const N_PORTS: usize = 3;

    fn configure(&self, sites: &Sites) {
        let server =
            |node| format!("server.{}={}:{}\n", node + 1, sites.host(node, 1), sites.port(node, 2));
        let servers: String = match sites.n_nodes() {
            1 => String::new(),
            n_nodes => (0..n_nodes).map(server).collect(),
        };
        for node in 0..sites.n_nodes() {
            let data = sites.dir().join(format!("data{node}"));
            std::fs::create_dir_all(&data).expect("a directory");
            std::fs::write(data.join("myid"), (node + 1).to_string()).expect("a file");
            let text = format!(
                "tickTime={TICK}\ninitLimit=50\nsyncLimit=15\ndataDir={}\nclientPort={}\n\
                 clientPortAddress={}\nadmin.enableServer=false\nmaxClientCnxns=0\n\
                 4lw.commands.whitelist=*\npreAllocSize=1024\n{servers}",
                data.display(),
                sites.port(node, 0),
                sites.address(node),
            );
            std::fs::write(config(sites, node), text).expect("a file");
        }
    }

    fn command(&self, sites: &Sites, node: usize) -> Command {
        let mut command = sites.run(node, "java");
        command
            .args(["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"])
            .args(["-Dzookeeper.forceSync=yes", "-cp", "/usr/share/java/*"])
            .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
            .arg(config(sites, node));
        command
    }

    fn url(&self, hosts: &[String], name: &str) -> String {
        format!("zookeeper://{}/{name}", hosts.join(","))
    }

    async fn leader(&self, hosts: &[String]) -> Option<usize> {
        for (index, host) in hosts.iter().enumerate() {
            if matches!(mode(host).await.as_deref(), Some("leader" | "standalone")) {
                return Some(index);
            }
        }
        None
    }

    async fn is_up(&self, host: &str) -> bool {
        mode(host).await.is_some()
    }
}
