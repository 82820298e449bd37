//! `sardonyx mesh`: run a node of the mesh, and speak to one that runs.

use std::{
    io::{self, Write},
    net::SocketAddr,
    time::Duration,
};

use clap::{Args, Subcommand};
use sardonyx_mesh::Address;
use serde_json::{Value, json};

use super::{Failure, block_on, mesh_client::request, mesh_start::Start};

/// Which nodes are here, who leads, and events between them.
#[derive(Args)]
pub(crate) struct Mesh {
    #[command(subcommand)]
    what: What,
}

/// A node that was started with --http.
#[derive(Args)]
pub(super) struct At {
    /// Where the node listens for HTTP: what was given to `mesh start --http`.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7460")]
    http: SocketAddr,
}

#[derive(Subcommand)]
enum What {
    /// Run a node until it is stopped; then it says goodbye, and hands over first if it leads.
    Start(Box<Start>),
    /// Show whom a node sees, who leads, and who suspects whom and why.
    Status {
        #[command(flatten)]
        at: At,

        /// Print JSON.
        #[arg(long)]
        json: bool,

        /// Ask again and again, so many milliseconds apart; a node that does not answer is asked
        /// again as well.
        #[arg(long, value_name = "MS")]
        every_ms: Option<u64>,
    },
    /// Let a node say goodbye and stop.
    Leave {
        #[command(flatten)]
        at: At,

        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Let the leader hand its office to another member. Ask the leader itself.
    Transfer {
        #[command(flatten)]
        at: At,

        /// The member that is to lead.
        #[arg(long, value_name = "HOST:PORT")]
        to: Address,

        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Send an event from a node to one member, or to all.
    Send {
        #[command(flatten)]
        at: At,

        /// To whom; left out, to all active members.
        #[arg(long, value_name = "HOST:PORT")]
        to: Option<Address>,

        /// The event's kind, by which receivers choose.
        #[arg(long, value_name = "NAME", default_value = "text")]
        kind: String,

        /// Wait for an answer, and print it.
        #[arg(long, requires = "to")]
        ask: bool,

        /// The event's body.
        body: String,

        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

impl Mesh {
    pub(crate) fn run(self) -> Result<(), Failure> {
        block_on(async {
            match self.what {
                What::Start(it) => it.run().await,
                What::Status { at, json, every_ms: None } => status(&at, json).await,
                What::Status { at, json, every_ms: Some(millis) } => loop {
                    match status(&at, json).await {
                        Ok(()) => {}
                        Err(Failure::World(why)) => eprintln!("sardonyx: {why}"),
                        Err(
                            why @ (Failure::Input(_)
                            | Failure::Diverged(_)
                            | Failure::Interrupted(_)
                            | Failure::ReaderGone),
                        ) => return Err(why),
                    }
                    tokio::time::sleep(Duration::from_millis(millis)).await;
                },
                What::Leave { at, json } => {
                    let left = request(at.http, "POST", "/v1/mesh/leave", None).await?;
                    say(json, &left, "it has left")
                }
                What::Transfer { at, to, json } => {
                    let wish = json!({ "to": to });
                    let asked = request(at.http, "POST", "/v1/mesh/transfer", Some(&wish)).await?;
                    say(json, &asked, &format!("{to} was asked to lead"))
                }
                What::Send { at, to, kind, ask, body, json } => {
                    let event = json!({ "to": to, "kind": kind, "body": body, "ask": ask });
                    let sent = request(at.http, "POST", "/v1/mesh/send", Some(&event)).await?;
                    show_sent(json, &sent)
                }
            }
        })
    }
}

fn say(json: bool, answer: &Value, text: &str) -> Result<(), Failure> {
    match json {
        true => Ok(writeln!(io::stdout(), "{answer}")?),
        false => Ok(writeln!(io::stdout(), "{text}")?),
    }
}

fn show_sent(json: bool, sent: &Value) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    if json {
        return Ok(writeln!(out, "{sent}")?);
    }
    if let Some(answer) = sent["answer"].as_str() {
        return Ok(writeln!(out, "{answer}")?);
    }
    for (to, outcome) in sent["sent"].as_object().into_iter().flatten() {
        writeln!(out, "{to}: {}", outcome.as_str().unwrap_or("waits to be sent"))?;
    }
    Ok(())
}

async fn status(at: &At, json: bool) -> Result<(), Failure> {
    let report = request(at.http, "GET", "/v1/mesh", None).await?;
    let mut out = io::stdout().lock();
    if json {
        return Ok(writeln!(out, "{report}")?);
    }
    let text = |value: &Value| match value.as_str() {
        Some(text) => text.to_owned(),
        None if value.is_null() => "-".to_owned(),
        None => value.to_string(),
    };
    let (name, address) = (text(&report["name"]), text(&report["node"]["address"]));
    writeln!(out, "{name} at {address}, {}", text(&report["phase"]))?;
    let leader = &report["leader"];
    match leader.is_null() {
        true => writeln!(out, "nobody leads")?,
        false => writeln!(
            out,
            "{} leads version {}, {}",
            text(&leader["address"]),
            text(&leader["version"]),
            text(&leader["quality"])
        )?,
    }
    if !report["voting"].is_null() {
        writeln!(out, "this node does not vote: {}", text(&report["voting"]))?;
    }
    writeln!(out, "{:<24} {:<16} {:<12} {:<5} votes", "member", "name", "status", "seed")?;
    for row in report["members"].as_array().into_iter().flatten() {
        let yes = |key: &str| if row[key] == true { "yes" } else { "no" };
        let (address, name) = (text(&row["address"]), text(&row["name"]));
        let status = text(&row["status"]);
        writeln!(out, "{address:<24} {name:<16} {status:<12} {:<5} {}", yes("seed"), yes("votes"))?;
    }
    for it in report["suspicions"].as_array().into_iter().flatten() {
        let (observer, suspect) = (text(&it["observer"]), text(&it["suspect"]));
        writeln!(out, "{observer} suspects {suspect}: {}", text(&it["reason"]))?;
    }
    Ok(())
}
