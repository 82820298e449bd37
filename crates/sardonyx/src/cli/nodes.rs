//! `sardonyx nodes`: every node that a node knows.

use std::{
    io::{self, Write},
    net::SocketAddr,
};

use clap::Args;
use sardonyx_peer::NodeCard;
use serde::Deserialize;
use serde_json::Value;

use super::{Failure, block_on, mesh_client::request};

/// Show all nodes, as any one of them knows them: peers, load, worker numbers, who leads.
#[derive(Args)]
#[command(after_help = "\
A node that was started with --mesh-listen knows all members of its mesh; one without knows itself.
What others say is as old as its age.")]
pub(crate) struct Nodes {
    /// Where the node answers HTTP: what was given to `start --mesh-http`, or to `start --http`.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7460")]
    http: SocketAddr,

    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
}

/// What a node answers.
#[derive(Deserialize)]
struct Answer {
    nodes: Vec<Node>,
}

/// A card, or what the API of a cluster shows: what the store has of a node, with its card if there is
/// one.
#[derive(Deserialize)]
#[serde(untagged)]
enum Node {
    Shown { name: String, members: u64, about: Value, card: Option<Box<NodeCard>> },
    Card(Box<NodeCard>),
}

impl Node {
    fn card(self) -> NodeCard {
        match self {
            Node::Card(card) | Node::Shown { card: Some(card), .. } => *card,
            Node::Shown { name, members, about, card: None } => NodeCard {
                name: about["label"].as_str().unwrap_or_default().to_owned(),
                life: name,
                n_peers: members,
                ..NodeCard::default()
            },
        }
    }
}

impl Nodes {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let answer = block_on(request(self.http, "GET", "/v1/nodes", None))?;
        let mut out = io::stdout().lock();
        if self.json {
            return Ok(writeln!(out, "{answer}")?);
        }
        let at = self.http;
        let other = |why| Failure::world(format!("http://{at} answers in another form: {why}"));
        let Answer { nodes } = serde_json::from_value(answer).map_err(other)?;
        let cards: Vec<_> = nodes.into_iter().map(Node::card).collect();
        write!(out, "{}", table(&cards))?;
        Ok(())
    }
}

fn table(nodes: &[NodeCard]) -> String {
    let head =
        ["node", "name", "status", "life", "peers", "tasks", "cpu", "memory", "number", "age"];
    let rows = nodes.iter().map(row);
    let rows: Vec<_> = std::iter::once(head.map(str::to_owned)).chain(rows).collect();
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<_> = (0..head.len()).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}

fn row(card: &NodeCard) -> [String; 10] {
    let dash = || "-".to_owned();
    let is_bare = card.life.is_empty();
    let known = |text: String| if is_bare { dash() } else { text };
    let status = match (card.status, card.leader) {
        (Some(status), true) => format!("{status}, leads"),
        (Some(status), false) => status.to_string(),
        (None, _) => dash(),
    };
    [
        card.address.as_ref().map_or_else(dash, ToString::to_string),
        card.name.clone(),
        status,
        known(card.life.clone()),
        known(card.n_peers.to_string()),
        known(card.load.tasks.to_string()),
        known(format!("{} %", card.load.cpu_percent)),
        known(format!("{} MiB", card.load.memory_bytes >> 20)),
        card.worker.map_or_else(dash, |number| number.to_string()),
        known(format!("{:.1} s", card.age_ms as f64 / 1e3)),
    ]
}

#[cfg(test)]
mod tests {
    use sardonyx_mesh::Status;
    use sardonyx_peer::Load;

    use super::*;

    #[test]
    fn both_forms_of_an_answer_are_read() {
        let card = NodeCard { life: "abc".into(), n_peers: 4, ..NodeCard::default() };
        let answer = serde_json::json!({"nodes": [
            card,
            {"name": "abc", "members": 4, "about": {"label": "m pid 1"}, "card": card},
            {"name": "abc", "members": 4, "about": {"label": "m pid 1"}},
        ]});
        let Answer { nodes } = serde_json::from_value(answer).unwrap();
        let cards: Vec<_> = nodes.into_iter().map(Node::card).collect();
        assert!(cards.iter().all(|it| it.life == "abc" && it.n_peers == 4), "{cards:?}");
        assert_eq!(cards[2].name, "m pid 1");
    }

    #[test]
    fn nodes_stand_in_columns_and_a_bare_one_has_dashes() {
        let address = |text: &str| Some(text.parse().unwrap());
        let full = NodeCard {
            name: "m pid 1".into(),
            address: address("10.0.0.1:7401"),
            status: Some(Status::Active),
            leader: true,
            life: "abc".into(),
            n_peers: 4,
            worker: Some(12),
            load: Load { cpu_percent: 150, memory_bytes: 64 << 20, tasks: 3 },
            age_ms: 1_250,
            ..NodeCard::default()
        };
        let bare = NodeCard {
            name: "n".into(),
            address: address("10.0.0.2:7401"),
            status: Some(Status::Joining),
            ..NodeCard::default()
        };
        let text = table(&[full, bare]);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines[1],
            "10.0.0.1:7401  m pid 1  active, leads  abc   4      3      150 %  64 MiB  12      1.2 s"
        );
        assert_eq!(
            lines[2],
            "10.0.0.2:7401  n        joining        -     -      -      -      -       -       -"
        );
    }
}
