//! The cluster now: a few numbers, the ring, nodes, the mesh, worker numbers.

use axum::{Extension, Json, extract::State};
use sardonyx_core::replica::job::JobState;
use sardonyx_ids::{Source as _, System, admin};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::{
    Site,
    access::Role,
    asked::{Asked, limit},
    figures::Sources,
    refusal::Refusal,
};
use crate::shown::{self, ShownPeer, ShownWorker};

/// How many peers a page may have.
pub const PEERS_PAGE_MAX: usize = 10_000;

/// The cluster in a few numbers.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Overview {
    /// What people call it.
    cluster: String,
    /// The node that answers.
    node: String,
    /// The version of the program.
    version: &'static str,
    /// What whoever asks may do.
    role: Role,
    /// The last position that was read.
    position: Option<u64>,
    /// The oldest position that can be asked for; none: from before the first entry.
    first: Option<u64>,
    /// Whether everything was read that was there at the start.
    caught_up: bool,
    /// Peers in the ring.
    peers: usize,
    /// Peers that are being stitched in.
    joining: usize,
    /// Peers that run nothing.
    idle: usize,
    /// Whether following who watches whom leads through everybody.
    one_ring: bool,
    join_protocol: String,
    job_scheduler: String,
    jobs: JobCounts,
    /// Segments a second into all tasks of all nodes.
    in_per_second: u64,
    /// Segments a second out of all tasks of all nodes.
    out_per_second: u64,
    /// Segments in each of the last seconds, up to a minute, the newest last.
    history: Vec<u64>,
    /// Whose figures these are.
    sources: Sources,
    /// Whether this node is in a mesh.
    mesh: bool,
}

/// How many jobs are in which state.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(crate) struct JobCounts {
    pub(crate) pending: usize,
    pub(crate) running: usize,
    pub(crate) completed: usize,
    pub(crate) killed: usize,
    pub(crate) collected: usize,
}

impl JobCounts {
    pub(crate) fn of(replica: &sardonyx_core::Replica) -> JobCounts {
        let mut counts =
            JobCounts { collected: replica.outcomes().count(), ..JobCounts::default() };
        for job in replica.jobs() {
            *match job.state() {
                JobState::Pending => &mut counts.pending,
                JobState::Running => &mut counts.running,
                JobState::Completed => &mut counts.completed,
                JobState::Killed => &mut counts.killed,
            } += 1;
        }
        counts
    }
}

pub(crate) async fn overview(
    State(site): State<Site>,
    Extension(role): Extension<Role>,
) -> Json<Overview> {
    let head = site.view().head();
    let (figures, sources) = site.figures().now().await;
    let (replica, total) = (&head.replica, figures.total());
    let idle = replica.peers().filter(|peer| replica.assignment(peer).is_none()).count();
    Json(Overview {
        cluster: site.about().cluster.clone(),
        node: site.about().label.clone(),
        version: env!("CARGO_PKG_VERSION"),
        role,
        position: head.position.map(|it| it.0),
        first: head.first.map(|it| it.0),
        caught_up: head.is_caught_up,
        peers: replica.n_peers(),
        joining: shown::joining(replica).len(),
        idle,
        one_ring: shown::is_one_ring(replica),
        join_protocol: replica.join_protocol().to_string(),
        job_scheduler: replica.job_scheduler().to_string(),
        jobs: JobCounts::of(replica),
        in_per_second: total.in_per_second,
        out_per_second: total.out_per_second,
        history: total.history,
        sources,
        mesh: site.about().mesh.is_some(),
    })
}

/// A page of the ring.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Peers {
    /// The position at which this is so.
    position: Option<u64>,
    /// In the order in which they joined.
    peers: Vec<ShownPeer>,
    /// Whether there are more behind these: ask again with `skip`.
    more: bool,
    /// Who is being stitched in.
    joining: Vec<String>,
    /// Whether following who watches whom leads through everybody.
    one_ring: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PeersAsked {
    skip: Option<u64>,
    limit: Option<u64>,
}

pub(crate) async fn peers(
    State(site): State<Site>,
    Asked(asked): Asked<PeersAsked>,
) -> Result<Json<Peers>, Refusal> {
    let limit = limit(asked.limit, PEERS_PAGE_MAX, PEERS_PAGE_MAX)?;
    let skip = usize::try_from(asked.skip.unwrap_or(0)).unwrap_or(usize::MAX);
    let head = site.view().head();
    let mut all = shown::peers(&head.replica).into_iter().skip(skip);
    let peers = all.by_ref().take(limit).collect();
    Ok(Json(Peers {
        position: head.position.map(|it| it.0),
        peers,
        more: all.next().is_some(),
        joining: shown::joining(&head.replica).into_iter().map(ToString::to_string).collect(),
        one_ring: shown::is_one_ring(&head.replica),
    }))
}

/// The living nodes.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Nodes {
    nodes: Vec<NodeShown>,
}

/// A node.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct NodeShown {
    /// Its name, with which the ids of its peers begin.
    name: String,
    /// How many of its peers are in the ring.
    members: usize,
    /// What it says of itself.
    #[schema(value_type = Object)]
    about: Value,
    /// Its load, its worker number and its place in the mesh, if the node that was asked is in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    card: Option<sardonyx_peer::NodeCard>,
}

pub(crate) async fn nodes(State(site): State<Site>) -> Result<Json<Nodes>, Refusal> {
    let listed = shown::nodes(&site.about().store);
    let late = |_| sardonyx_store::Error::Unavailable("no answer in time".into());
    let listed = tokio::time::timeout(Site::PATIENCE, listed).await.map_err(late)??;
    let replica = site.view().head().replica;
    let cards = site.about().nodes.get().map(sardonyx_peer::Nodes::list).unwrap_or_default();
    let node = |(name, about): (String, Value)| {
        let card = cards.iter().find(|card| card.life == name).cloned();
        let is_of = |peer: &&sardonyx_core::PeerId| shown::node_of(peer.as_str()) == name;
        let members = replica.peers().filter(is_of).count();
        NodeShown { name, members, about, card }
    };
    Ok(Json(Nodes { nodes: listed.into_iter().map(node).collect() }))
}

/// The mesh as a member sees it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MeshShown {
    #[serde(flatten)]
    #[schema(value_type = Object)]
    report: Value,
}

pub(crate) async fn mesh(State(site): State<Site>) -> Result<Json<MeshShown>, Refusal> {
    let Some(mesh) = &site.about().mesh else {
        return Err(Refusal::missing("this node is in no mesh", "ask a node that is in one"));
    };
    Ok(Json(MeshShown { report: shown::mesh(&mesh.status().await) }))
}

/// Everything about worker numbers.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Workers {
    /// Before this time (milliseconds since 1970) nobody makes ids.
    floor: Option<u64>,
    /// Every number that was ever used.
    workers: Vec<ShownWorker>,
}

pub(crate) async fn ids(State(site): State<Site>) -> Result<Json<Workers>, Refusal> {
    let asked = admin::overview(&site.about().store);
    let late = |_| sardonyx_store::Error::Unavailable("no answer in time".into());
    let overview = tokio::time::timeout(Site::PATIENCE, asked).await.map_err(late)??;
    let now = System.wall();
    let workers = overview.numbers.into_iter().map(|it| shown::worker(it, now)).collect();
    Ok(Json(Workers { floor: overview.floor, workers }))
}
