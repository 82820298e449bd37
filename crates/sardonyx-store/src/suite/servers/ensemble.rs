//! Servers of one kind that know each other: started, killed, cut off, and waited for.

use std::{
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;

use super::{Cut, Network, Process, free_ports, install};
use crate::suite::{
    SOON,
    arena::{log_file, temp_dir},
};

/// What differs between kinds of servers.
#[async_trait]
pub trait Kind: Send + Sync + Sized + 'static {
    /// How many ports a server has; the first is for clients.
    const N_PORTS: usize;

    /// Writes what the servers read when they start.
    fn configure(&self, _sites: &Sites) {}

    /// The command that runs server `node`.
    fn command(&self, sites: &Sites, node: usize) -> Command;

    /// The URL of the store named `name` on the servers at `hosts`.
    fn url(&self, hosts: &[String], name: &str) -> String;

    /// The one of the servers at `hosts` that leads.
    async fn leader(&self, hosts: &[String]) -> Option<usize>;

    /// Whether the server at `host` serves.
    async fn is_up(&self, host: &str) -> bool;
}

/// Where the servers are: on free ports of this machine, or each at an address of its own.
#[derive(Debug)]
pub struct Sites {
    dir: tempfile::TempDir,
    ports: Vec<Vec<u16>>,
    network: Option<Arc<Network>>,
}

impl Sites {
    /// The address of server `node`.
    pub fn address(&self, node: usize) -> String {
        self.network.as_ref().map_or("127.0.0.1".into(), |network| network.address(node))
    }

    /// `address:port`, for the port number `index` of server `node`.
    pub fn host(&self, node: usize, index: usize) -> String {
        format!("{}:{}", self.address(node), self.port(node, index))
    }

    /// The port number `index` of server `node`.
    pub fn port(&self, node: usize, index: usize) -> u16 {
        self.ports[node][index]
    }

    /// How many servers there are.
    pub fn n_nodes(&self) -> usize {
        self.ports.len()
    }

    /// Where they keep their files.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A command that runs where server `node` is.
    pub fn run(&self, node: usize, program: &str) -> Command {
        match &self.network {
            Some(network) => network.command(node, program),
            None => Command::new(program),
        }
    }
}

/// One server or several of a kind. Killed when dropped.
#[derive(Debug)]
pub struct Ensemble<K> {
    kind: K,
    sites: Sites,
    nodes: Vec<Process>,
}

impl<K: Kind + Default> Ensemble<K> {
    /// Starts servers on loopback, and waits until they answer.
    pub async fn start(n_nodes: usize) -> Ensemble<K> {
        Ensemble::start_as(K::default(), n_nodes, None).await
    }
}

impl<K: Kind> Ensemble<K> {
    /// Starts servers, in `network` if there is one, and waits until they answer.
    pub async fn start_as(kind: K, n_nodes: usize, network: Option<Arc<Network>>) -> Ensemble<K> {
        tokio::task::spawn_blocking(install).await.expect("the servers are there");
        let ports = match &network {
            None => free_ports(n_nodes * K::N_PORTS),
            // All of an address of one's own is free.
            Some(_) => (0..n_nodes).flat_map(|_| 2000..2000 + K::N_PORTS as u16).collect(),
        };
        let ports = ports.chunks(K::N_PORTS).map(<[u16]>::to_vec).collect();
        let sites = Sites { dir: temp_dir(), ports, network };
        kind.configure(&sites);
        let mut ensemble = Ensemble { kind, sites, nodes: Vec::new() };
        ensemble.nodes = (0..n_nodes).map(|node| Process::new(ensemble.spawn(node))).collect();
        ensemble.wait().await;
        ensemble
    }

    fn spawn(&self, node: usize) -> std::process::Child {
        let log = log_file(self.sites.dir(), &format!("n{node}"));
        let mut command = self.kind.command(&self.sites, node);
        command.stdout(Stdio::null()).stderr(log).spawn().expect("the server starts")
    }

    /// What kind it is of.
    pub fn kind(&self) -> &K {
        &self.kind
    }

    /// The URL of the store named `name` there.
    pub fn url(&self, name: &str) -> String {
        self.kind.url(&self.hosts(), name)
    }

    /// `host:port` of each server.
    pub fn hosts(&self) -> Vec<String> {
        (0..self.n_nodes()).map(|node| self.sites.host(node, 0)).collect()
    }

    /// How many servers it has.
    pub fn n_nodes(&self) -> usize {
        self.sites.n_nodes()
    }

    /// The server that leads.
    pub async fn leader(&self) -> Option<usize> {
        self.kind.leader(&self.hosts()).await
    }

    /// kill -9.
    pub fn kill(&self, node: usize) {
        self.nodes[node].kill();
    }

    /// SIGSTOP.
    pub fn pause(&self, node: usize) {
        self.nodes[node].signal("STOP");
    }

    /// SIGCONT.
    pub fn resume(&self, node: usize) {
        self.nodes[node].signal("CONT");
    }

    /// Starts a killed server again, and waits until all answer.
    pub async fn restart(&self, node: usize) {
        self.nodes[node].replace(self.spawn(node));
        self.wait().await;
    }

    /// Cuts a server off until the others have a new leader, or for a moment if there are none.
    /// Without a network to cut, the server stands still meanwhile.
    pub async fn cut_off(&self, node: usize, cut: Cut) {
        match &self.sites.network {
            Some(network) => network.cut(node, cut),
            None => self.nodes[node].signal("STOP"),
        }
        let begun = Instant::now();
        let patience = if self.n_nodes() > 1 { SOON } else { Duration::from_millis(500) };
        let mut hosts = self.hosts();
        // Whoever is cut off may not know yet that it leads no more.
        hosts[node] = "127.0.0.1:1".into();
        while begun.elapsed() < patience && self.kind.leader(&hosts).await.is_none() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let is_late = self.n_nodes() > 1 && begun.elapsed() >= patience;
        assert!(!is_late, "the others elect a leader; see {:?}", self.sites.dir());
        match &self.sites.network {
            Some(network) => network.mend(node, cut),
            None => self.nodes[node].signal("CONT"),
        }
        self.wait().await;
    }

    /// Does something to the leader, another thing each round.
    pub async fn disturb(&self, round: u32) {
        let leader = self.leader().await.unwrap_or(0);
        match round % 3 {
            0 => {
                self.kill(leader);
                self.restart(leader).await;
            }
            1 => self.cut_off(leader, Cut::All).await,
            _ => self.cut_off(leader, Cut::Servers).await,
        }
    }

    /// Waits until every server serves, and one leads.
    async fn wait(&self) {
        let begun = Instant::now();
        let hosts = self.hosts();
        let mut n_up = 0;
        while n_up < hosts.len() || self.leader().await.is_none() {
            assert!(begun.elapsed() < SOON, "they start; see {:?}", self.sites.dir());
            match n_up < hosts.len() && self.kind.is_up(&hosts[n_up]).await {
                true => n_up += 1,
                false => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }
}
