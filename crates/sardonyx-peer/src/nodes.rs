//! Which nodes there are. Each has a card about itself, and everybody's by way of the mesh.
//!
//! ```text
//!   a node ── roar: Sign { edition, load } ──► all others, every few seconds and when it changes
//!   others ── ask: WhoAreYou ──► the node      when its edition is not the one they have
//! ```
//!
//! Signs are small and may be lost: whoever missed one asks when the next comes. Cards are large
//! (they name peers) and travel only when they changed. What is in the list is what the mesh's table
//! has, so it is never longer than that; a member that has not shown its card yet stands there bare.
//!
//! A node without a mesh knows itself alone.

mod cards;
mod load;
mod tend;

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use sardonyx_core::PeerId;
use sardonyx_mesh::{Address, Mesh, Status};
use serde::{Deserialize, Serialize};
use tokio::{sync::watch, task::AbortHandle};

use self::{cards::Cards, load::Meter};
use crate::driver::View;

/// How many peers a card names. It counts all of them.
pub const CARD_PEERS_MAX: usize = 1_000;

/// The longest name, life, version or URL on a card, in bytes. What is longer is cut.
pub const CARD_TEXT_BYTES_MAX: usize = 512;

/// What a node says about itself, and what the mesh says about it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct NodeCard {
    /// For people: its machine and process, or what it was told to be called.
    pub name: String,
    /// Its address in the mesh; `None` without a mesh.
    pub address: Option<Address>,
    /// What the table of members says of it; `None` without a mesh, or before it is in one.
    pub status: Option<Status>,
    /// Whether it leads, as far as the node that was asked knows.
    pub leader: bool,
    /// The name of its present life, with which the ids of its peers begin; empty before the first,
    /// or if nothing is known of it but its place in the table.
    pub life: String,
    /// Its build.
    pub version: String,
    /// Its peers that are in the ring, the first [`CARD_PEERS_MAX`] of them in the order in which
    /// they joined.
    pub peers: Vec<PeerId>,
    /// How many are in the ring.
    pub n_peers: u64,
    /// The worker number with which it makes ids, while it has one.
    pub worker: Option<u32>,
    /// Where it answers HTTP.
    pub http: Option<String>,
    /// What it is doing.
    pub load: Load,
    /// How long ago it said so, in milliseconds; 0 for the node that was asked.
    pub age_ms: u64,
}

/// What a node's process is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Load {
    /// Processor time in the last seconds, in percent of one core: 250 keeps two and a half busy.
    pub cpu_percent: u32,
    /// Memory that it holds.
    pub memory_bytes: u64,
    /// Tasks that its peers run.
    pub tasks: u64,
}

impl NodeCard {
    /// The same within its limits: what others send is not to be trusted with our memory.
    fn bounded(mut self) -> NodeCard {
        self.peers.truncate(CARD_PEERS_MAX);
        for text in [&mut self.name, &mut self.life, &mut self.version] {
            text.truncate(text.floor_char_boundary(CARD_TEXT_BYTES_MAX));
        }
        if let Some(http) = &mut self.http {
            http.truncate(http.floor_char_boundary(CARD_TEXT_BYTES_MAX));
        }
        self
    }

    /// The same without what changes all the time, and without what others say of it.
    fn lasting(mut self) -> NodeCard {
        (self.status, self.leader, self.age_ms) = (None, false, 0);
        self.load = Load::default();
        self
    }
}

/// Says which worker number this process has.
pub type Worker = Arc<dyn Fn() -> Option<u32> + Send + Sync>;

/// What a node knows about itself.
#[derive(Clone)]
pub struct About {
    /// For people.
    pub name: String,
    /// What the node knows of the cluster: [`Driver::view`](crate::Driver::view).
    pub view: watch::Receiver<View>,
    /// Its worker number.
    pub worker: Worker,
    /// Where it answers HTTP.
    pub http: Option<String>,
}

impl fmt::Debug for About {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("About").field("name", &self.name).finish_non_exhaustive()
    }
}

/// All nodes, as one of them knows. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Nodes(Arc<Inner>);

struct Inner {
    about: About,
    mesh: Option<Arc<Mesh>>,
    begun: Instant,
    meter: Mutex<Meter>,
    cards: Arc<Mutex<Cards>>,
    tending: Option<AbortHandle>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(tending) = &self.tending {
            tending.abort();
        }
    }
}

impl fmt::Debug for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Nodes").field(&self.0.about.name).finish()
    }
}

impl Nodes {
    /// A node that has no mesh: the list holds it alone.
    pub fn alone(about: About) -> Nodes {
        Nodes::new(about, None, Arc::default(), None)
    }

    /// A node in a mesh: shows its card to the others, and collects theirs. Needs a tokio runtime.
    pub fn in_mesh(about: About, mesh: &Arc<Mesh>) -> Nodes {
        let cards = Arc::default();
        let tending = tend::Tending::new(about.clone(), Arc::clone(mesh), Arc::clone(&cards));
        let tending = tokio::spawn(tending.run()).abort_handle();
        Nodes::new(about, Some(Arc::clone(mesh)), cards, Some(tending))
    }

    fn new(
        about: About,
        mesh: Option<Arc<Mesh>>,
        cards: Arc<Mutex<Cards>>,
        tending: Option<AbortHandle>,
    ) -> Nodes {
        let (begun, meter) = (Instant::now(), Mutex::new(Meter::default()));
        Nodes(Arc::new(Inner { about, mesh, begun, meter, cards, tending }))
    }

    /// Every node that this one knows, itself included, in the order of their addresses.
    pub fn list(&self) -> Vec<NodeCard> {
        let inner = &*self.0;
        let mut own = own_card(&inner.about, inner.mesh.as_deref());
        own.load = lock(&inner.meter).read(inner.begun.elapsed(), own.load.tasks);
        match &inner.mesh {
            None => vec![own],
            Some(mesh) => {
                let (report, leader) = (mesh.members(), mesh.leader());
                let leader = leader.as_ref().map(|it| &it.claim.leader);
                lock(&inner.cards).list(own, mesh.node(), &report.members, leader, now())
            }
        }
    }

    /// The mesh that this node is in.
    pub fn mesh(&self) -> Option<&Arc<Mesh>> {
        self.0.mesh.as_ref()
    }
}

/// What a node says about itself now, without its load but for the tasks.
fn own_card(about: &About, mesh: Option<&Mesh>) -> NodeCard {
    let view = about.view.borrow().clone();
    let prefix = format!("{}-", view.life);
    let is_ours = |peer: &&PeerId| !view.life.is_empty() && peer.as_str().starts_with(&prefix);
    let ours = || view.replica.peers().filter(is_ours);
    let tasks = ours().filter(|peer| view.replica.assignment(peer).is_some()).count() as u64;
    let card = NodeCard {
        name: about.name.clone(),
        address: mesh.map(|mesh| mesh.node().address.clone()),
        status: None,
        leader: false,
        n_peers: ours().count() as u64,
        peers: ours().take(CARD_PEERS_MAX).cloned().collect(),
        life: view.life.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        worker: (about.worker)(),
        http: about.http.clone(),
        load: Load { tasks, ..Load::default() },
        age_ms: 0,
    };
    card.bounded()
}

/// Since this process began to count: cards get old on the clock of who reads them.
fn now() -> Duration {
    static BEGUN: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
    BEGUN.elapsed()
}

/// Nobody panics while holding one of these, and what they hold is whole at any time.
fn lock<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about() -> About {
        let view = watch::channel(View::default()).1;
        About { name: "n".into(), view, worker: Arc::new(|| Some(7)), http: None }
    }

    #[test]
    fn a_node_without_a_mesh_knows_itself_alone() {
        let list = Nodes::alone(about()).list();
        let [card] = list.as_slice() else { panic!("{list:?}") };
        assert_eq!((card.name.as_str(), card.worker, card.n_peers), ("n", Some(7), 0));
        assert!(card.load.memory_bytes > 0, "{card:?}");
    }

    #[test]
    fn a_card_is_cut_to_its_limits() {
        let peer = |n: usize| PeerId::new(&format!("p{n}")).unwrap();
        let long = "é".repeat(CARD_TEXT_BYTES_MAX);
        let peers: Vec<_> = (0..=CARD_PEERS_MAX).map(peer).collect();
        let card = NodeCard { name: long.clone(), http: Some(long), peers, ..NodeCard::default() };
        let card = card.bounded();
        assert_eq!(card.peers.len(), CARD_PEERS_MAX);
        assert_eq!(card.name.len(), CARD_TEXT_BYTES_MAX);
        assert_eq!(card.http.map(|it| it.len()), Some(CARD_TEXT_BYTES_MAX));
        let exact = NodeCard { name: "n".repeat(CARD_TEXT_BYTES_MAX), ..NodeCard::default() };
        assert_eq!(exact.clone().bounded(), exact);
    }

    #[test]
    fn a_card_reads_back_from_its_json() {
        let list = Nodes::alone(about()).list();
        let text = serde_json::to_string(&list).unwrap();
        assert_eq!(serde_json::from_str::<Vec<NodeCard>>(&text).unwrap(), list);
        for key in
            ["\"cpu-percent\"", "\"memory-bytes\"", "\"n-peers\"", "\"worker\":7", "\"http\""]
        {
            assert!(text.contains(key), "{text}");
        }
    }
}
