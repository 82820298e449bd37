//! A cluster in this process, on pipes or on sockets.

use std::{
    net::TcpListener,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use sardonyx_mesh::{
    Address, Config, Mesh, Network, Options, Profile, Quality, Status, Store, greet::key::Key,
    memory::Hub, tcp::tls::Tls,
};

pub(crate) const KEY: &[u8] = b"a key that only these tests have";

/// Generous: the machine that runs this may be busy with something else.
pub(crate) const SOON: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Memory,
    Tcp,
    Tls,
}

pub(crate) struct Cluster {
    pub(crate) hub: Hub,
    pub(crate) nodes: Vec<Option<Mesh>>,
    addresses: Vec<Address>,
    n_seeds: usize,
    kind: Kind,
    dir: tempfile::TempDir,
    pub(crate) key: Option<&'static [u8]>,
    /// How many vote, if not all.
    pub(crate) n_voters: Option<usize>,
}

/// Ports that were free a moment ago.
fn free_ports(n: usize) -> Vec<u16> {
    let held: Vec<_> = (0..n).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
    held.iter().map(|it| it.local_addr().expect("bound").port()).collect()
}

pub(crate) fn tls_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/tls").join(name)
}

impl Cluster {
    /// `n` nodes that are not started yet; the first few are seeds.
    pub(crate) fn new(kind: Kind, n: usize, n_seeds: usize) -> Cluster {
        let address = |port| Address::new("127.0.0.1", port).expect("an address");
        let ports = match kind {
            Kind::Memory => (1..=n as u16).map(|it| 10_000 + it).collect(),
            Kind::Tcp | Kind::Tls => free_ports(n),
        };
        Cluster {
            hub: Hub::new(),
            nodes: (0..n).map(|_| None).collect(),
            addresses: ports.into_iter().map(address).collect(),
            n_seeds,
            kind,
            dir: tempfile::tempdir().expect("a directory"),
            key: Some(KEY),
            n_voters: None,
        }
    }

    pub(crate) async fn started(kind: Kind, n: usize, n_seeds: usize) -> Cluster {
        let mut cluster = Cluster::new(kind, n, n_seeds);
        for index in 0..n {
            cluster.start(index).await;
        }
        cluster.agree().await;
        cluster
    }

    pub(crate) fn address(&self, index: usize) -> &Address {
        &self.addresses[index]
    }

    pub(crate) fn options(&self, index: usize) -> Options {
        let network = match self.kind {
            Kind::Memory => Network::Memory(self.hub.clone()),
            Kind::Tcp => Network::Tcp,
            Kind::Tls => Network::Tls(
                Tls::read(&tls_file("ca.pem"), &tls_file("node.pem"), &tls_file("node.key"))
                    .expect("certificates"),
            ),
        };
        Options {
            config: Config {
                nodes: self.addresses.len() as u32,
                address: self.addresses[index].clone(),
                name: format!("n{index}"),
                cluster: "test".to_owned(),
                seeds: self.addresses[..self.n_seeds].to_vec(),
                voters: None,
                observer: false,
                found_by_itself: true,
                timers: Profile::Test.timers(),
            },
            network,
            key: self.key.map(|bytes| Key::new(bytes).expect("a key")),
            store: Store::Directory(self.dir.path().join(index.to_string())),
        }
    }

    pub(crate) async fn start(&mut self, index: usize) {
        let mesh = Mesh::start(self.options(index)).await.expect("it starts");
        narrate(index, &mesh);
        self.nodes[index] = Some(mesh);
    }

    /// Ends a node as a crash would.
    pub(crate) async fn crash(&mut self, index: usize) {
        if let Some(mesh) = self.nodes[index].take() {
            mesh.stop().await;
        }
    }

    pub(crate) fn node(&self, index: usize) -> &Mesh {
        self.nodes[index].as_ref().expect("it runs")
    }

    pub(crate) fn living(&self) -> impl Iterator<Item = &Mesh> {
        self.nodes.iter().flatten()
    }

    pub(crate) fn index_of(&self, address: &Address) -> usize {
        self.addresses.iter().position(|it| it == address).expect("one of ours")
    }

    /// The index of the leader that somebody names.
    pub(crate) fn leader(&self, asked: usize) -> usize {
        let leader = self.node(asked).leader().expect("a leader");
        self.index_of(&leader.claim.leader.address)
    }

    /// Whether the living agree on an established leader, its version, and that they and nobody
    /// else are active.
    pub(crate) fn is_agreed(&self, among: &[usize]) -> bool {
        let views: Vec<_> = among.iter().map(|it| self.node(*it).members()).collect();
        let same = views.windows(2).all(|it| {
            it[0].leader == it[1].leader
                && it[0].version == it[1].version
                && it[0].digest == it[1].digest
        });
        // Voters are bound one by one after the founding; before that a minority may be enough to
        // stop everything.
        let n_voters = self.n_voters.unwrap_or(self.addresses.len());
        let active = |view: &sardonyx_mesh::Report| {
            view.members.len() == among.len()
                && view.voters.len() == n_voters
                && view.members.iter().all(|row| row.status == Status::Active)
        };
        let established = || {
            let leader = self.node(among[0]).leader().map(|it| it.claim.leader.address);
            let index = leader.map(|it| self.index_of(&it));
            index.filter(|it| among.contains(it)).is_some_and(|it| {
                self.node(it).leader().is_some_and(|it| it.quality == Quality::Established)
            })
        };
        same && views.iter().all(|it| active(it)) && established()
    }

    /// What must not move while nothing happens to members: version, steps, digest.
    pub(crate) fn table(&self, index: usize) -> (sardonyx_mesh::Version, u64, u64) {
        let view = self.node(index).members();
        (view.version, view.seq, view.digest)
    }

    /// Waits until all that live agree.
    pub(crate) async fn agree(&self) -> Duration {
        let living: Vec<_> = (0..self.nodes.len()).filter(|it| self.nodes[*it].is_some()).collect();
        self.agree_among(&living).await
    }

    pub(crate) async fn agree_among(&self, among: &[usize]) -> Duration {
        let begun = Instant::now();
        while !self.is_agreed(among) {
            if begun.elapsed() > SOON {
                for index in among {
                    let it = self.node(*index).status().await;
                    let members: Vec<_> = it
                        .members
                        .iter()
                        .map(|row| format!("{} {}", row.node, row.status))
                        .collect();
                    let leader = it.leader.map(|it| it.to_string());
                    eprintln!(
                        "{index} {:?} {:?} {leader:?} {:?} seq {} digest {:x} {members:?} voting {:?} {:?}",
                        it.node, it.phase, it.quality, it.seq, it.digest, it.voting, it.suspicions
                    );
                }
                panic!("{among:?} do not agree");
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        begun.elapsed()
    }
}

/// With MESH_TALE set, prints every change of a node with the time.
fn narrate(index: usize, mesh: &Mesh) {
    if std::env::var_os("MESH_TALE").is_none() {
        return;
    }
    let mut watch = mesh.watch();
    tokio::spawn(async move {
        let begun = std::time::SystemTime::UNIX_EPOCH;
        while let Some(seen) = watch.next().await {
            if let sardonyx_mesh::Seen::Change(change) = seen {
                let millis = begun.elapsed().unwrap_or_default().as_millis() % 1_000_000;
                eprintln!("{millis} {index}: {}", sardonyx_mesh::describe(&change));
            }
        }
    });
}

/// Waits until something holds.
pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < SOON, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    begun.elapsed()
}
