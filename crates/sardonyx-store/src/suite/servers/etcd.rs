//! etcd, one member or several, open or behind TLS.

use std::{path::PathBuf, process::Command};

use async_trait::async_trait;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::{
    ensemble::{Ensemble, Kind, Sites},
    tls::Certificates,
};

/// An etcd cluster.
pub type EtcdCluster = Ensemble<EtcdServer>;

/// How its members are run.
#[derive(Debug, Default)]
pub struct EtcdServer {
    /// Whom they trust and what they show; they then trust nobody without a certificate.
    pub tls: Option<Certificates>,
    /// Another server than the one that is installed.
    pub program: Option<PathBuf>,
}

impl EtcdCluster {
    /// Makes users with one password, gives the first of them the store `name` and nothing else,
    /// and lets nobody in without a user from then on.
    pub async fn protect(&self, name: &str, users: &[&str], password: &str) {
        let protected = crate::etcd::admin::protect(&self.url(name), name, users, password).await;
        protected.expect("etcd has users");
    }

    /// Whether what was so at `revision` can still be read.
    pub async fn remembers(&self, revision: i64) -> bool {
        crate::etcd::admin::remembers(&self.url("any"), revision).await.expect("an answer")
    }

    /// How many watches the first member serves.
    pub async fn n_watches(&self) -> u64 {
        let mut line = TcpStream::connect(&self.hosts()[0]).await.expect("a connection");
        line.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").await.expect("a request");
        let mut metrics = String::new();
        line.read_to_string(&mut metrics).await.expect("an answer");
        let mut lines = metrics.lines();
        let count = lines.find_map(|it| it.strip_prefix("etcd_debugging_mvcc_watcher_total "));
        count.and_then(|it| it.parse().ok()).expect("etcd counts its watches")
    }
}

#[async_trait]
impl Kind for EtcdServer {
    const N_PORTS: usize = 2;

    fn command(&self, sites: &Sites, node: usize) -> Command {
        let peer = |node: usize| format!("http://{}", sites.host(node, 1));
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let client = format!("{scheme}://{}", sites.host(node, 0));
        let all: Vec<_> =
            (0..sites.n_nodes()).map(|node| format!("n{node}={}", peer(node))).collect();
        let program = self.program.as_ref().and_then(|program| program.to_str());
        let mut command = sites.run(node, program.unwrap_or("etcd"));
        command
            .args(["--name", &format!("n{node}"), "--logger", "zap", "--log-level", "warn"])
            .arg("--data-dir")
            .arg(sites.dir().join(format!("n{node}")))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer(node)])
            .args(["--initial-advertise-peer-urls", &peer(node)])
            .args(["--initial-cluster", &all.join(",")])
            .args(["--heartbeat-interval", "100", "--election-timeout", "1000"]);
        if let Some(tls) = &self.tls {
            command.arg("--cert-file").arg(&tls.server.0).arg("--key-file").arg(&tls.server.1);
            command.arg("--client-cert-auth").arg("--trusted-ca-file").arg(&tls.ca);
        }
        command
    }

    fn url(&self, hosts: &[String], name: &str) -> String {
        let options = self.tls.as_ref().map_or(String::new(), Certificates::options);
        format!("etcd://{}/{name}{options}", hosts.join(","))
    }

    async fn leader(&self, hosts: &[String]) -> Option<usize> {
        let mut leader = None;
        for (index, host) in hosts.iter().enumerate() {
            if crate::etcd::leads(&self.url(std::slice::from_ref(host), "any")).await == Some(true)
            {
                leader = Some(index);
            }
        }
        leader
    }

    async fn is_up(&self, host: &str) -> bool {
        crate::etcd::leads(&self.url(&[host.to_owned()], "any")).await.is_some()
    }
}
