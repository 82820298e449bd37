//! `sardonyx peers`: who is in the ring, what they run, and on which nodes they live.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use clap::Args;
use sardonyx::shown::{self, ShownPeer};
use sardonyx_core::{Position, Replica};
use sardonyx_peer::Client;
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

impl Peers {
    pub(crate) fn run(self) -> Result<(), Failure> {
        super::block_on(async {
            let store = self.at.open().await?;
            let client = Client::open(&store).await?;
            let (position, replica) = (client.position(), client.replica());
            let mut peers = shown::peers(replica);
            if self.alive {
                for (peer, it) in replica.peers().zip(&mut peers) {
                    it.alive = Some(store.alive(peer).await?);
                }
            }
            let nodes = shown::nodes(&store).await?;
            match self.json {
                true => as_json(position, replica, &peers, &nodes),
                false => as_text(position, replica, &peers, &nodes),
            }
        })
    }
}

fn as_json(
    position: Option<Position>,
    replica: &Replica,
    peers: &[ShownPeer],
    nodes: &BTreeMap<String, Value>,
) -> Result<(), Failure> {
    let line = json!({
        "position": position, "peers": peers, "joining": shown::joining(replica),
        "one-ring": shown::is_one_ring(replica), "nodes": nodes,
    });
    Ok(writeln!(io::stdout().lock(), "{line}")?)
}

fn as_text(
    position: Option<Position>,
    replica: &Replica,
    peers: &[ShownPeer],
    nodes: &BTreeMap<String, Value>,
) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let at = position.map_or("before the first entry".into(), |at| format!("after entry {at}"));
    let ring = if shown::is_one_ring(replica) { "one ring" } else { "NOT one ring" };
    let n_joining = shown::joining(replica).len();
    writeln!(out, "{} peers in {ring}, {n_joining} joining, {at}", peers.len())?;
    for (name, about) in nodes {
        let n = peers.iter().filter(|peer| peer.node == *name).count();
        let label = about["label"].as_str().unwrap_or("?");
        writeln!(out, "node {name}  {label}  {n} of {} peers in", about["peers"])?;
    }
    for peer in peers {
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
