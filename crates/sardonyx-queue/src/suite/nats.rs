//! Real NATS servers, each in a temporary directory, on free loopback ports, killed by process id.

use std::{
    net::TcpListener,
    process::{Child, Command, Stdio},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use super::{SOON, arena::temp_dir};
use crate::Queues;

/// Installs the server if it is missing. Quick when it is not.
fn install() {
    static INSTALLED: Mutex<bool> = Mutex::new(false);
    let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
    if !*installed {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/install-test-servers.sh");
        let status = Command::new("sh").arg(script).arg("nats").status().expect("a shell");
        assert!(status.success(), "{script} failed");
        *installed = true;
    }
}

/// Ports that were free a moment ago. All are held at once, so they differ.
fn free_ports(n: usize) -> Vec<u16> {
    let listeners: Vec<_> =
        (0..n).map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port")).collect();
    listeners.iter().map(|it| it.local_addr().expect("its address").port()).collect()
}

/// One server or a cluster. Killed when dropped.
#[derive(Debug)]
pub struct NatsServers {
    dir: tempfile::TempDir,
    /// For clients, then for each other.
    ports: Vec<(u16, u16)>,
    processes: Vec<Mutex<Option<Child>>>,
}

impl NatsServers {
    /// Starts servers and waits until they keep things.
    pub async fn start(n_servers: usize) -> NatsServers {
        tokio::task::spawn_blocking(install).await.expect("the server is there");
        let ports = free_ports(2 * n_servers);
        let ports = ports.chunks(2).map(|pair| (pair[0], pair[1])).collect();
        let processes = (0..n_servers).map(|_| Mutex::new(None)).collect();
        let servers = NatsServers { dir: temp_dir(), ports, processes };
        (0..n_servers).for_each(|node| servers.spawn(node));
        servers.wait().await;
        servers
    }

    fn spawn(&self, node: usize) {
        let (port, peers) = self.ports[node];
        let log = self.dir.path().join(format!("n{node}.log"));
        let mut command = Command::new("nats-server");
        command
            .args(["-a", "127.0.0.1", "-p", &port.to_string(), "-js", "-sd"])
            .arg(self.dir.path().join(format!("n{node}")))
            .args(["-n", &format!("n{node}"), "-l"])
            .arg(log);
        if self.ports.len() > 1 {
            let route = |(_, peers): &(u16, u16)| format!("nats://127.0.0.1:{peers}");
            let routes: Vec<_> = self.ports.iter().map(route).collect();
            command
                .args(["--cluster_name", "sdx", "--cluster", &format!("nats://127.0.0.1:{peers}")])
                .args(["--routes", &routes.join(",")]);
        }
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        *self.process(node) = Some(child.expect("the server starts"));
    }

    fn process(&self, node: usize) -> std::sync::MutexGuard<'_, Option<Child>> {
        self.processes[node].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The URL of the queues named `name` there.
    pub fn url(&self, name: &str) -> String {
        let hosts: Vec<_> =
            self.ports.iter().map(|(port, _)| format!("127.0.0.1:{port}")).collect();
        format!("nats://{}/{name}", hosts.join(","))
    }

    /// kill -9.
    pub fn kill(&self, node: usize) {
        if let Some(mut child) = self.process(node).take() {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts a killed server again, and waits until all keep things.
    pub async fn restart(&self, node: usize) {
        self.spawn(node);
        self.wait().await;
    }

    async fn wait(&self) {
        let (url, begun) = (self.url("wait"), Instant::now());
        loop {
            let opened = Queues::open(&url).await;
            if opened.is_ok() {
                return;
            }
            assert!(begun.elapsed() < SOON, "{opened:?}; see {:?}", self.dir);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

impl Drop for NatsServers {
    fn drop(&mut self) {
        (0..self.processes.len()).for_each(|node| self.kill(node));
    }
}
