//! Real servers, each in a temporary directory, on free loopback ports or in network namespaces of
//! their own, killed by process id.

mod ensemble;
mod etcd;
mod network;
mod remote;
mod tls;
mod zookeeper;

use std::{
    net::TcpListener,
    process::{Child, Command},
    sync::Mutex,
};

pub use ensemble::{Ensemble, Kind, Sites};
pub use etcd::{EtcdCluster, EtcdServer};
pub use network::{Cut, Network, is_root, not_checked};
pub use remote::RemoteServer;
pub use tls::Certificates;
pub use zookeeper::{ZooKeeperEnsemble, ZooKeeperServer};

use crate::token::lock;

/// Installs the servers that are missing. Quick when none is. Needs the machine's own network: whoever
/// goes into a namespace calls it before.
pub fn install() {
    static INSTALLED: Mutex<bool> = Mutex::new(false);
    let mut installed = lock(&INSTALLED);
    if !*installed {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/install-test-servers.sh");
        let status = Command::new("sh").arg(script).status().expect("a shell");
        assert!(status.success(), "{script} failed");
        *installed = true;
    }
}

/// Ports that were free a moment ago. All are held at once, so they differ.
pub(crate) fn free_ports(n: usize) -> Vec<u16> {
    let listeners: Vec<_> =
        (0..n).map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port")).collect();
    listeners.iter().map(|it| it.local_addr().expect("its address").port()).collect()
}

/// Sends a signal to one process.
pub(crate) fn signal(pid: u32, signal: &str) {
    let kill = Command::new("kill").args([&format!("-{signal}"), &pid.to_string()]).status();
    kill.expect("kill runs");
}

/// A server process; killed when dropped.
#[derive(Debug)]
pub(crate) struct Process(Mutex<Option<Child>>);

impl Process {
    pub(crate) fn new(child: Child) -> Process {
        Process(Mutex::new(Some(child)))
    }

    pub(crate) fn kill(&self) {
        if let Some(mut child) = lock(&self.0).take() {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub(crate) fn replace(&self, child: Child) {
        self.kill();
        *lock(&self.0) = Some(child);
    }

    pub(crate) fn signal(&self, name: &str) {
        if let Some(child) = &*lock(&self.0) {
            signal(child.id(), name);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A stopped process is killed as well.
        self.kill();
    }
}
