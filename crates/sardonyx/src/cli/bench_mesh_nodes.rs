//! Many nodes of the mesh in this process, to be measured.

use std::{net::TcpListener, sync::Arc, time::Duration};

use sardonyx_mesh::{Address, Config, Mesh, Network, Options, Profile, Status, Store, memory::Hub};

use super::{Failure, bench_mesh::until};

/// How many members have a vote in the large cluster.
pub(super) const VOTERS: usize = 5;

/// What lies between the nodes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Between {
    Sockets,
    Pipes,
}

/// Whether promises are synced to a disk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sync {
    Yes,
    No,
}

pub(super) struct Nodes {
    pub(super) hub: Hub,
    pub(super) nodes: Vec<Option<Arc<Mesh>>>,
    pub(super) addresses: Vec<Address>,
    between: Between,
    dir: Option<tempfile::TempDir>,
    n_seeds: usize,
    n_voters: usize,
    heartbeat: Duration,
}

impl Nodes {
    pub(super) fn new(
        n: usize,
        n_seeds: usize,
        between: Between,
        sync: Sync,
    ) -> Result<Nodes, Failure> {
        let mut held = Vec::new();
        let mut addresses = Vec::new();
        for index in 0..n {
            let port = match between {
                Between::Pipes => 10_000 + index as u16,
                Between::Sockets => {
                    let listener = TcpListener::bind("127.0.0.1:0")?;
                    let port = listener.local_addr()?.port();
                    held.push(listener);
                    port
                }
            };
            addresses.push(Address::new("127.0.0.1", port).map_err(Failure::world)?);
        }
        Ok(Nodes {
            hub: Hub::new(),
            nodes: (0..n).map(|_| None).collect(),
            addresses,
            between,
            dir: (sync == Sync::Yes).then(tempfile::tempdir).transpose()?,
            n_seeds,
            n_voters: n.min(VOTERS),
            heartbeat: Profile::Test.timers().heartbeat_interval,
        })
    }

    /// The same with heartbeats so far apart, and the other timers in proportion.
    pub(super) fn with_heartbeat(mut self, heartbeat: Duration) -> Nodes {
        self.heartbeat = heartbeat;
        self
    }

    pub(super) fn options(&self, index: usize) -> Options {
        let (address, h) = (self.addresses[index].clone(), self.heartbeat);
        let mut timers = Profile::Test.timers();
        timers.heartbeat_interval = h;
        (timers.heartbeat_timeout, timers.ttl_timeout) = (h * 3, h * 9);
        timers.retry_interval = h * 2;
        let config = Config {
            nodes: self.n_voters as u32,
            name: format!("n{index}"),
            cluster: "bench".to_owned(),
            seeds: self.addresses[..self.n_seeds].to_vec(),
            voters: None,
            observer: false,
            found_by_itself: true,
            timers,
            address,
        };
        let network = match self.between {
            Between::Sockets => Network::Tcp,
            Between::Pipes => Network::Memory(self.hub.clone()),
        };
        let store = match &self.dir {
            Some(dir) => Store::Directory(dir.path().join(index.to_string())),
            None => Store::UnsafeVolatileVotes,
        };
        Options { config, network, key: None, store }
    }

    pub(super) async fn start(&mut self, index: usize) -> Result<(), Failure> {
        let mesh = Mesh::start(self.options(index)).await.map_err(Failure::world)?;
        self.nodes[index] = Some(Arc::new(mesh));
        Ok(())
    }

    pub(super) async fn start_all(&mut self) -> Result<(), Failure> {
        for index in 0..self.nodes.len() {
            self.start(index).await?;
        }
        until("all agree", self, Nodes::is_agreed).await?;
        Ok(())
    }

    /// Ends one as a crash would.
    pub(super) async fn crash(&mut self, index: usize) {
        if let Some(mesh) = self.nodes[index].take() {
            mesh.stop().await;
        }
    }

    pub(super) async fn stop(&mut self) {
        for index in 0..self.nodes.len() {
            self.crash(index).await;
        }
    }

    pub(super) fn node(&self, index: usize) -> Result<&Arc<Mesh>, Failure> {
        self.nodes[index].as_ref().ok_or_else(|| Failure::world("a node is gone"))
    }

    pub(super) fn living(&self) -> impl Iterator<Item = &Arc<Mesh>> {
        self.nodes.iter().flatten()
    }

    /// The index of the member that may act.
    pub(super) fn leader(&self) -> Option<usize> {
        let has_token =
            |it: &Option<Arc<Mesh>>| it.as_ref().is_some_and(|it| it.fencing_token().is_some());
        self.nodes.iter().position(has_token)
    }

    /// Whether all that live see each other active, under one leader that may act.
    pub(super) fn is_agreed(&self) -> bool {
        let views: Vec<_> = self.living().map(|it| it.members()).collect();
        let n = views.len();
        let is_full = |it: &sardonyx_mesh::Report| {
            it.members.len() == n
                && it.voters.len() == self.n_voters
                && it.members.iter().all(|row| row.status == Status::Active)
        };
        self.leader().is_some()
            && views.iter().all(|it| {
                it.leader == views[0].leader && it.digest == views[0].digest && is_full(it)
            })
    }

    /// Whether all that live follow the same leader, and it may act.
    pub(super) fn follows(&self, index: usize) -> bool {
        let Some(mesh) = &self.nodes[index] else { return false };
        mesh.fencing_token().is_some()
            && self.living().all(|it| {
                it.members().leader.as_ref().is_some_and(|claim| claim.leader == *mesh.node())
            })
    }

    /// Cuts every line between two groups.
    pub(super) fn part(&self, some: &[usize], others: &[usize]) {
        for one in some {
            for other in others {
                self.hub.cut_pair(&self.addresses[*one], &self.addresses[*other]);
            }
        }
    }
}
