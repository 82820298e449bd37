//! Where everybody is, and the servers that the cluster stands on.

use std::{
    collections::BTreeMap,
    io,
    net::TcpListener,
    process::Command,
    sync::{Arc, Mutex, PoisonError},
};

use sardonyx_store::suite::servers::{Cut, EtcdCluster, Network, ZooKeeperEnsemble};

use crate::{
    options::StoreKind,
    place::{Place, STORES},
};

/// What a process listens for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Port {
    /// Members of the mesh.
    Mesh,
    /// Who asks how the mesh is; always on loopback.
    MeshHttp,
    /// The API.
    Http,
    /// Users of a served store; those of its queues are one further.
    Store,
    /// Users of NATS.
    Nats,
}

impl Port {
    const ALL: [Port; 5] = [Port::Mesh, Port::MeshHttp, Port::Http, Port::Store, Port::Nats];

    fn usual(self) -> u16 {
        match self {
            Port::Mesh => 7_401,
            Port::MeshHttp => 7_460,
            Port::Http => 7_400,
            Port::Store => 7_440,
            Port::Nats => 4_222,
        }
    }
}

/// Where everybody is: each at an address of its own, or all on free ports of loopback.
pub(crate) struct Site {
    network: Option<Arc<Network>>,
    ports: BTreeMap<(Place, Port), u16>,
    /// How many reasons there are for each direction that is cut.
    cuts: Mutex<BTreeMap<(Place, Place), usize>>,
    /// How many reasons there are for each line that is thin.
    thin: Mutex<BTreeMap<Place, usize>>,
}

/// A port that was free a moment ago, and so was the one after it.
fn free_pair() -> u16 {
    loop {
        let Ok(first) = TcpListener::bind("127.0.0.1:0") else { continue };
        let Ok(port) = first.local_addr().map(|it| it.port()) else { continue };
        let Some(next) = port.checked_add(1) else { continue };
        if TcpListener::bind(("127.0.0.1", next)).is_ok() {
            return port;
        }
    }
}

impl Site {
    pub(crate) fn new(network: Option<Arc<Network>>) -> Site {
        let mut ports = BTreeMap::new();
        if network.is_none() {
            let places = Place::nodes().chain([Place::Host, Place::Nats]);
            for place in places {
                ports.extend(Port::ALL.map(|port| ((place, port), free_pair())));
            }
        }
        Site { network, ports, cuts: Mutex::default(), thin: Mutex::default() }
    }

    pub(crate) fn has_network(&self) -> bool {
        self.network.is_some()
    }

    fn address(&self, place: Place) -> String {
        let network = self.network.as_ref();
        network.map_or("127.0.0.1".into(), |network| network.address(place.index()))
    }

    pub(crate) fn port(&self, place: Place, port: Port) -> u16 {
        self.ports.get(&(place, port)).copied().unwrap_or(port.usual())
    }

    /// `address:port`, as others reach it.
    pub(crate) fn host(&self, place: Place, port: Port) -> String {
        format!("{}:{}", self.address(place), self.port(place, port))
    }

    /// A command that runs there.
    pub(crate) fn command(&self, place: Place, program: &str) -> Command {
        match &self.network {
            Some(network) => network.command(place.index(), program),
            None => Command::new(program),
        }
    }

    /// What is sent in this direction does not arrive any more.
    pub(crate) fn cut(&self, from: Place, to: Place) {
        let Some(network) = &self.network else { return };
        let mut cuts = self.cuts.lock().unwrap_or_else(PoisonError::into_inner);
        let n = cuts.entry((from, to)).or_default();
        if *n == 0 {
            network.block(from.index(), to.index());
        }
        // Only now: what could not be cut is tried again by whoever comes next.
        *n += 1;
    }

    /// One reason less; without any it arrives again.
    pub(crate) fn mend(&self, from: Place, to: Place) {
        let Some(network) = &self.network else { return };
        let mut cuts = self.cuts.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(n) = cuts.get_mut(&(from, to)) else { return };
        *n -= 1;
        if *n == 0 {
            cuts.remove(&(from, to));
            network.unblock(from.index(), to.index());
        }
    }
}

impl Site {
    /// Every connection that somebody has there is reset, at both ends.
    pub(crate) fn reset(&self, place: Place) -> io::Result<()> {
        self.network.as_ref().map_or(Ok(()), |network| network.reset(place.index()))
    }

    /// From now on its line carries so much, in either direction.
    pub(crate) fn thin(&self, place: Place, kbit: u64) -> io::Result<()> {
        let Some(network) = &self.network else { return Ok(()) };
        let mut thin = self.thin.lock().unwrap_or_else(PoisonError::into_inner);
        network.thin(place.index(), kbit)?;
        *thin.entry(place).or_default() += 1;
        Ok(())
    }

    /// One reason less; without any it carries what it did.
    pub(crate) fn widen(&self, place: Place) -> io::Result<()> {
        let Some(network) = &self.network else { return Ok(()) };
        let mut thin = self.thin.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(n) = thin.get_mut(&place) else { return Ok(()) };
        *n -= 1;
        if *n > 0 {
            return Ok(());
        }
        thin.remove(&place);
        network.widen(place.index())
    }

    /// Nothing arrives there or comes from there.
    pub(crate) fn unplug(&self, place: Place) {
        if let Some(network) = &self.network {
            network.cut(place.index(), Cut::All);
        }
    }

    /// It does again, unless somebody cut a direction of it.
    pub(crate) fn plug(&self, place: Place) {
        if let Some(network) = &self.network {
            network.mend(place.index(), Cut::All);
        }
    }
}

/// Servers of a coordination store that is not ours.
pub(crate) enum Stores {
    Etcd(EtcdCluster),
    ZooKeeper(ZooKeeperEnsemble),
    /// The host serves it.
    None,
}

impl Stores {
    pub(crate) async fn start(kind: StoreKind, network: Option<Arc<Network>>) -> Stores {
        match kind {
            StoreKind::Etcd => {
                Stores::Etcd(EtcdCluster::start_as(Default::default(), STORES, network).await)
            }
            StoreKind::Zookeeper => Stores::ZooKeeper(
                ZooKeeperEnsemble::start_as(Default::default(), STORES, network).await,
            ),
            StoreKind::Embedded => Stores::None,
        }
    }

    /// The URL of the store with this name.
    pub(crate) fn url(&self, name: &str) -> Option<String> {
        match self {
            Stores::Etcd(servers) => Some(servers.url(name)),
            Stores::ZooKeeper(servers) => Some(servers.url(name)),
            Stores::None => None,
        }
    }

    /// Who leads, as far as somebody does.
    pub(crate) async fn leader(&self) -> Option<usize> {
        match self {
            Stores::Etcd(servers) => servers.leader().await,
            Stores::ZooKeeper(servers) => servers.leader().await,
            Stores::None => None,
        }
    }

    pub(crate) fn kill(&self, node: usize) {
        match self {
            Stores::Etcd(servers) => servers.kill(node),
            Stores::ZooKeeper(servers) => servers.kill(node),
            Stores::None => {}
        }
    }

    pub(crate) async fn restart(&self, node: usize) {
        match self {
            Stores::Etcd(servers) => servers.restart(node).await,
            Stores::ZooKeeper(servers) => servers.restart(node).await,
            Stores::None => {}
        }
    }

    pub(crate) fn pause(&self, node: usize) {
        match self {
            Stores::Etcd(servers) => servers.pause(node),
            Stores::ZooKeeper(servers) => servers.pause(node),
            Stores::None => {}
        }
    }

    pub(crate) fn resume(&self, node: usize) {
        match self {
            Stores::Etcd(servers) => servers.resume(node),
            Stores::ZooKeeper(servers) => servers.resume(node),
            Stores::None => {}
        }
    }
}
