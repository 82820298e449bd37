//! How the parts of a cluster look from outside: the same on the command line and over HTTP.

mod mesh;

use std::collections::BTreeMap;

use sardonyx_core::{
    PeerId, Phase, Replica,
    replica::job::{Job, JobState},
};
use sardonyx_ids::admin::Number;
use sardonyx_store::{Result, Store};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

pub use mesh::mesh;

/// A peer that is in the ring.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub struct ShownPeer {
    /// Its id, which lives for one boot.
    pub id: String,
    /// Its node's name: what stands before the dash.
    pub node: String,
    /// Whom it watches; nobody in a cluster of one.
    pub watches: Option<String>,
    /// The job that it works on.
    pub job: Option<String>,
    /// The task that it runs.
    pub task: Option<String>,
    /// Whether it has a pulse, if that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alive: Option<bool>,
}

/// The peers of a cluster in join order.
pub fn peers(replica: &Replica) -> Vec<ShownPeer> {
    let watches: BTreeMap<_, _> = replica.pairs().collect();
    let peer = |peer: &PeerId| {
        let runs = replica.assignment(peer);
        ShownPeer {
            id: peer.to_string(),
            node: node_of(peer.as_str()).to_owned(),
            watches: watches.get(peer).map(ToString::to_string),
            job: runs.as_ref().map(|it| it.job.to_string()),
            task: runs.as_ref().map(|it| it.task.to_string()),
            alive: None,
        }
    };
    replica.peers().map(peer).collect()
}

/// The node to which a peer belongs.
pub fn node_of(peer: &str) -> &str {
    peer.rsplit_once('-').map_or(peer, |(node, _)| node)
}

/// What the living nodes say about themselves, by name.
pub async fn nodes(store: &Store) -> Result<BTreeMap<String, Value>> {
    let items = store.items("node/").await?;
    let named = items.into_iter().filter_map(|item| {
        let name = item.key.strip_prefix("node/")?.to_owned();
        Some((name, serde_json::from_slice(&item.value).unwrap_or(Value::Null)))
    });
    Ok(named.collect())
}

/// Whether following who watches whom leads through everybody and back.
pub fn is_one_ring(replica: &Replica) -> bool {
    let watches: BTreeMap<_, _> = replica.pairs().collect();
    let (n, Some(first)) = (replica.n_peers(), replica.peers().next()) else { return true };
    let mut at = first;
    for step in 1..=watches.len() {
        let Some(next) = watches.get(at) else { return false };
        at = next;
        if at == first {
            return step == n;
        }
    }
    n == 1
}

/// The peers that are being stitched in.
pub fn joining(replica: &Replica) -> Vec<&PeerId> {
    let phases = [Phase::Prepared, Phase::Accepted];
    let pairs = phases.iter().flat_map(|phase| replica.joins_in(*phase));
    let ends = pairs.flat_map(|(one, other)| [one, other]);
    ends.filter(|peer| replica.is_joining(peer)).collect()
}

/// The name of a job's state.
pub fn job_state(state: JobState) -> &'static str {
    match state {
        JobState::Pending => "pending",
        JobState::Running => "running",
        JobState::Completed => "completed",
        JobState::Killed => "killed",
    }
}

/// What is happening to a task of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TaskState {
    /// It is complete.
    Done,
    /// This peer seals it.
    Sealing(String),
    /// These peers run it; perhaps none.
    Open(Vec<String>),
}

/// The tasks of a job in topological order.
pub fn tasks(job: &Job) -> Vec<(String, TaskState)> {
    let task = |(task, peers): (&sardonyx_core::TaskId, _)| {
        let sealer = job.sealing().find(|(sealed, _)| *sealed == task);
        let state = match (job.completions().any(|done| done == task), sealer) {
            (true, _) => TaskState::Done,
            (false, Some((_, peer))) => TaskState::Sealing(peer.to_string()),
            (false, None) => TaskState::Open(names(peers)),
        };
        (task.to_string(), state)
    };
    job.allocations().map(task).collect()
}

fn names<'a>(peers: impl Iterator<Item = &'a PeerId>) -> Vec<String> {
    peers.map(ToString::to_string).collect()
}

/// A worker number for ids, and who holds it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ShownWorker {
    /// The number.
    pub number: u32,
    /// `held`, `free` or `retired`.
    pub state: &'static str,
    /// Who holds it.
    pub owner: Option<String>,
    /// Since when, in milliseconds since 1970.
    pub since: Option<u64>,
    /// Up to when ids may have been made with it.
    pub mark: Option<u64>,
    /// How far that is in the future.
    pub mark_minus_now_ms: Option<i64>,
    /// How far its holder's clock was ahead.
    pub clock_offset_ms: i64,
}

/// A worker number at the time `now`.
pub fn worker(number: Number, now: u64) -> ShownWorker {
    let state = match (number.is_retired, &number.holder) {
        (true, _) => "retired",
        (false, Some(_)) => "held",
        (false, None) => "free",
    };
    let (owner, since) = number.holder.unzip();
    ShownWorker {
        number: number.number,
        state,
        owner,
        since,
        mark: number.until,
        mark_minus_now_ms: number.until.map(|until| until as i64 - now as i64),
        clock_offset_ms: number.offset,
    }
}
