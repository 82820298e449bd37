//! `sardonyx mesh start`: one node, its changes and events on stdout, its log on stderr.

use std::{
    io::{self, Write as _},
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use clap::Args;
use sardonyx_mesh::{Address, Mesh, Options, Seen, describe, events::envelope::Raw};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use super::{
    Failure, mesh_http,
    mesh_options::{self, Timing, Wishes},
};

/// Run a node until it is stopped; then it says goodbye, and hands over first if it leads.
#[derive(Args)]
pub(super) struct Start {
    /// Where this node listens, and how all others name it.
    #[arg(long, value_name = "HOST:PORT")]
    listen: Address,

    /// Where to look for the cluster; a node whose own address is among them is a seed.
    #[arg(long, value_name = "HOST:PORT,…", value_delimiter = ',', required = true)]
    seeds: Vec<Address>,

    /// How many voting nodes the cluster has in all, the same on each.
    #[arg(long, value_name = "N")]
    nodes: u32,

    /// How often members are heard of, and after which silence they are gone.
    #[arg(long, value_enum, default_value = "lan")]
    profile: Timing,

    /// Where to answer `mesh status` and the others; on this machine only.
    #[arg(long, value_name = "HOST:PORT")]
    http: Option<SocketAddr>,

    /// A label for people; left out, the address.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// The cluster's name; nodes of another name are refused.
    #[arg(long, value_name = "NAME", default_value = "sardonyx")]
    cluster: String,

    /// Where the node keeps its promises; left out, a directory below .sardonyx.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// Keep no promises: after a restart this node may vote twice, and then two may lead.
    #[arg(long, conflicts_with = "data")]
    unsafe_volatile_votes: bool,

    /// Never vote.
    #[arg(long)]
    observer: bool,

    /// Who may vote, by hand: as many as --nodes.
    #[arg(long, value_name = "HOST:PORT,…", value_delimiter = ',')]
    voters: Option<Vec<Address>>,

    /// Found no new cluster: only join one.
    #[arg(long)]
    join_only: bool,

    /// A file with the key that all nodes share.
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,

    /// The authority whose certificates are believed; with it, all is encrypted.
    #[arg(long, value_name = "FILE", requires_all = ["tls_cert", "tls_key"])]
    tls_ca: Option<PathBuf>,

    /// This node's certificate, for the host in --listen.
    #[arg(long, value_name = "FILE", requires = "tls_ca")]
    tls_cert: Option<PathBuf>,

    /// The certificate's private key.
    #[arg(long, value_name = "FILE", requires = "tls_ca")]
    tls_key: Option<PathBuf>,

    /// Listen beyond this machine without a key and without certificates.
    #[arg(long)]
    insecure: bool,

    /// Print changes and events as one JSON object a line, with the time of this machine's clock.
    #[arg(long)]
    json: bool,

    /// Print how late this process wakes up, whenever it is late: for tests that measure.
    #[arg(long, hide = true, requires = "json")]
    lateness: bool,
}

impl Start {
    pub(super) async fn run(self: Box<Self>) -> Result<(), Failure> {
        let log = tracing_subscriber::fmt().with_writer(io::stderr).with_ansi(false).finish();
        // A second one in this process would be a mistake of ours, not of the user's.
        tracing::subscriber::set_global_default(log).map_err(Failure::world)?;
        let (http, json) = (self.http, self.json);
        http.map_or(Ok(()), |at| only_here("--http", at))?;
        let mesh = Arc::new(mesh_options::start(self.options()?).await?);
        let (mut watch, mut events) = (mesh.watch(), mesh.receive_raw(None));
        let server = match http {
            Some(http) => Some(serve(http, &mesh, mesh_http::router(Arc::clone(&mesh))).await?),
            None => None,
        };
        tell(
            json,
            &format!("listening on {}", mesh.node().address),
            || json!({ "listening": mesh.node().address, "incarnation": mesh.node().incarnation.0 }),
        )?;
        let mut terminated = signal(SignalKind::terminate())?;
        let is_measured = self.lateness;
        // Kept across turns, so that no pause goes by between two of them.
        let mut nap = Box::pin(lateness());
        let result = loop {
            tokio::select! {
                late = &mut nap, if is_measured => {
                    nap = Box::pin(lateness());
                    let micros = u64::try_from(late.as_micros()).unwrap_or(u64::MAX);
                    tell(json, "", || json!({ "late-micros": micros }))?;
                }
                Some(seen) = watch.next() => show(json, &seen)?,
                Some(event) = events.next() => take(json, event)?,
                ended = mesh.ended() => break ended,
                interrupted = tokio::signal::ctrl_c() => {
                    interrupted?;
                    break mesh.leave().await;
                }
                _ = terminated.recv() => break mesh.leave().await,
            }
        };
        if let Some(server) = server {
            // Who asked it to leave is still waiting for the answer.
            let _ = tokio::time::timeout(Duration::from_secs(2), server).await;
        }
        result.map_err(Failure::world)
    }

    fn options(&self) -> Result<Options, Failure> {
        let tls = match (&self.tls_ca, &self.tls_cert, &self.tls_key) {
            (Some(ca), Some(cert), Some(key)) => Some([&**ca, &**cert, &**key]),
            _ => None,
        };
        let wishes = Wishes {
            listen: &self.listen,
            seeds: &self.seeds,
            nodes: self.nodes,
            profile: self.profile,
            name: self.name.as_deref(),
            cluster: &self.cluster,
            data: self.data.as_deref(),
            unsafe_volatile_votes: self.unsafe_volatile_votes,
            observer: self.observer,
            voters: self.voters.as_deref(),
            join_only: self.join_only,
            key_file: self.key_file.as_deref(),
            tls,
            insecure: self.insecure,
            prefix: "",
        };
        wishes.options()
    }
}

/// Whoever can reach it may give orders, so only this machine can.
pub(super) fn only_here(flag: &str, at: SocketAddr) -> Result<(), Failure> {
    match at.ip().is_loopback() {
        true => Ok(()),
        false => {
            let why = "the commands that it takes ask for no password";
            Err(Failure::input(format!("{flag} {at} is not on loopback: {why}")))
        }
    }
}

/// Answers over HTTP until the node has ended and everybody has been answered.
pub(super) async fn serve(
    at: SocketAddr,
    mesh: &Arc<Mesh>,
    app: axum::Router,
) -> Result<tokio::task::JoinHandle<io::Result<()>>, Failure> {
    let listener = tokio::net::TcpListener::bind(at).await;
    let listener = listener.map_err(|why| Failure::world(format!("{at}: {why}")))?;
    let until = Arc::clone(mesh);
    let ended = async move { drop(until.ended().await) };
    Ok(tokio::spawn(axum::serve(listener, app).with_graceful_shutdown(ended).into_future()))
}

/// Sleeps again and again, until it was woken too late; says by how much. Whatever else this process
/// does is as late as that.
async fn lateness() -> Duration {
    const NAP: Duration = Duration::from_millis(5);
    const LATE: Duration = Duration::from_millis(5);
    loop {
        let begun = tokio::time::Instant::now();
        tokio::time::sleep(NAP).await;
        let late = begun.elapsed().saturating_sub(NAP);
        if late > LATE {
            return late;
        }
    }
}

fn tell(json: bool, text: &str, value: impl FnOnce() -> serde_json::Value) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match json {
        true => {
            let mut line = value();
            line["at-micros"] = Mesh::now().0.into();
            writeln!(out, "{line}")?;
        }
        false => writeln!(out, "{text}")?,
    }
    Ok(out.flush()?)
}

fn show(json: bool, seen: &Seen) -> Result<(), Failure> {
    match seen {
        Seen::Change(change) => {
            let value = || json!({ "change": change.as_ref(), "text": describe(change) });
            tell(json, &describe(change), value)
        }
        Seen::Lagged(_) => tell(json, "some changes were not shown", || json!({ "lagged": true })),
    }
}

/// Shows an event, and answers a question with who received it.
fn take(json: bool, event: Raw) -> Result<(), Failure> {
    let text = String::from_utf8_lossy(&event.body).into_owned();
    let (kind, from) = (Arc::clone(&event.kind), Arc::clone(&event.from));
    if event.is_question() {
        event.answer(format!("received: {text}").into());
    }
    tell(
        json,
        &format!("{kind} from {from}: {text}"),
        || json!({ "event": { "kind": &*kind, "from": from.address, "body": text } }),
    )
}
