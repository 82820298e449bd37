//! `sardonyx peers`: who is in the ring, what they run, and on which nodes they live.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use clap::Args;
use sardonyx_core::{PeerId, Phase, Position, Replica};
use sardonyx_peer::Client;
use sardonyx_store::Store;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Failure, cluster::At};

/// Show the peers of a cluster, as the log has them.
#[derive(Args)]
pub(crate) struct Peers {
    #[command(flatten)]
    at: At,

    /// Ask the store for everybody's pulse as well.
    #[arg(long)]
    alive: bool,

    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Shown<'a> {
    id: &'a PeerId,
    /// The node's name: what stands before the dash.
    node: &'a str,
    watches: Option<&'a PeerId>,
    job: Option<String>,
    task: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    alive: Option<bool>,
}

impl Peers {
    pub(crate) fn run(self) -> Result<(), Failure> {
        super::block_on(async {
            let store = self.at.open().await?;
            let client = Client::open(&store).await?;
            let (position, replica) = (client.position(), client.replica());
            let mut alive = BTreeMap::new();
            if self.alive {
                for peer in replica.peers() {
                    alive.insert(peer, store.alive(peer).await?);
                }
            }
            let watches: BTreeMap<_, _> = replica.pairs().collect();
            let shown = replica.peers().map(|peer| {
                let runs = replica.assignment(peer);
                Shown {
                    id: peer,
                    node: peer.as_str().rsplit_once('-').map_or(peer.as_str(), |(node, _)| node),
                    watches: watches.get(peer).copied(),
                    job: runs.as_ref().map(|it| it.job.to_string()),
                    task: runs.as_ref().map(|it| it.task.to_string()),
                    alive: alive.get(peer).copied(),
                }
            });
            let shown: Vec<_> = shown.collect();
            let nodes = nodes(&store).await?;
            match self.json {
                true => as_json(position, replica, &shown, &nodes),
                false => as_text(position, replica, &shown, &nodes),
            }
        })
    }
}

/// What the living nodes say about themselves, by name.
pub(super) async fn nodes(store: &Store) -> Result<BTreeMap<String, Value>, Failure> {
    let items = store.items("node/").await?;
    let named = items.into_iter().filter_map(|item| {
        let name = item.key.strip_prefix("node/")?.to_owned();
        Some((name, serde_json::from_slice(&item.value).unwrap_or(Value::Null)))
    });
    Ok(named.collect())
}

/// Whether following who watches whom leads through everybody and back.
pub(super) fn is_one_ring(replica: &Replica) -> bool {
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

pub(super) fn joining(replica: &Replica) -> Vec<&PeerId> {
    let phases = [Phase::Prepared, Phase::Accepted];
    let pairs = phases.iter().flat_map(|phase| replica.joins_in(*phase));
    let ends = pairs.flat_map(|(one, other)| [one, other]);
    ends.filter(|peer| replica.is_joining(peer)).collect()
}

fn as_json(
    position: Option<Position>,
    replica: &Replica,
    shown: &[Shown<'_>],
    nodes: &BTreeMap<String, Value>,
) -> Result<(), Failure> {
    let line = json!({
        "position": position, "peers": shown, "joining": joining(replica),
        "one-ring": is_one_ring(replica), "nodes": nodes,
    });
    Ok(writeln!(io::stdout().lock(), "{line}")?)
}

fn as_text(
    position: Option<Position>,
    replica: &Replica,
    shown: &[Shown<'_>],
    nodes: &BTreeMap<String, Value>,
) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let at = position.map_or("before the first entry".into(), |at| format!("after entry {at}"));
    let ring = if is_one_ring(replica) { "one ring" } else { "NOT one ring" };
    let n_joining = joining(replica).len();
    writeln!(out, "{} peers in {ring}, {n_joining} joining, {at}", shown.len())?;
    for (name, about) in nodes {
        let n = shown.iter().filter(|peer| peer.node == name).count();
        let label = about["label"].as_str().unwrap_or("?");
        writeln!(out, "node {name}  {label}  {n} of {} peers in", about["peers"])?;
    }
    for peer in shown {
        let runs = match (&peer.job, &peer.task) {
            (Some(job), Some(task)) => format!("{task} of {job}"),
            _ => "idle".into(),
        };
        let pulse = match peer.alive {
            Some(false) => "  NO PULSE",
            Some(true) | None => "",
        };
        writeln!(out, "{}  {runs}{pulse}", peer.id)?;
    }
    Ok(())
}
