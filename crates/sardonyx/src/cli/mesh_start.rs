//! `sardonyx mesh start`: one node, its changes and events on stdout, its log on stderr.

use std::{
    io::{self, Write as _},
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use clap::{Args, ValueEnum};
use sardonyx_mesh::{
    Address, Config, Mesh, Network, Options, Profile, Seen, StartError, Store, describe,
    events::envelope::Raw, greet::key::Key, tcp::tls::Tls,
};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use super::{Failure, mesh_http};

#[derive(Clone, Copy, ValueEnum)]
enum Timing {
    /// 0.5 / 1.5 / 4.5 / 1 s: one data centre.
    Lan,
    /// 10 / 30 / 90 / 5 s: as the protocol's document has it.
    Documented,
    /// 0.1 / 0.3 / 0.9 / 0.2 s: for tests.
    Test,
}

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

    /// Print changes and events as one JSON object a line.
    #[arg(long)]
    json: bool,
}

impl Start {
    pub(super) async fn run(self: Box<Self>) -> Result<(), Failure> {
        let log = tracing_subscriber::fmt().with_writer(io::stderr).with_ansi(false).finish();
        // A second one in this process would be a mistake of ours, not of the user's.
        tracing::subscriber::set_global_default(log).map_err(Failure::world)?;
        let (http, json) = (self.http, self.json);
        if let Some(open) = http.filter(|it| !it.ip().is_loopback()) {
            let why = "the commands that it takes ask for no password";
            return Err(Failure::input(format!("--http {open} is not on loopback: {why}")));
        }
        let mesh = Mesh::start(self.options()?).await.map_err(|why| match &why {
            StartError::Config(_) | StartError::OtherStore { .. } => Failure::input(why),
            StartError::World(_) => Failure::world(why),
        })?;
        let mesh = Arc::new(mesh);
        let (mut watch, mut events) = (mesh.watch(), mesh.receive_raw(None));
        let server = match http {
            Some(http) => Some(serve(http, &mesh).await?),
            None => None,
        };
        tell(
            json,
            &format!("listening on {}", mesh.node().address),
            || json!({ "listening": mesh.node().address, "incarnation": mesh.node().incarnation.0 }),
        )?;
        let mut terminated = signal(SignalKind::terminate())?;
        let result = loop {
            tokio::select! {
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
        let is_loopback =
            self.listen.host().parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
                || self.listen.host() == "localhost";
        let is_guarded = self.key_file.is_some() || self.tls_ca.is_some();
        if !is_loopback && !is_guarded && !self.insecure {
            let listen = &self.listen;
            return Err(Failure::input(format!(
                "{listen} is not on loopback: give --key-file or --tls-ca, or mean it with --insecure"
            )));
        }
        let key = self.key_file.as_deref().map(Key::read).transpose().map_err(Failure::input)?;
        let network = match (&self.tls_ca, &self.tls_cert, &self.tls_key) {
            (Some(ca), Some(cert), Some(key)) => {
                Network::Tls(Tls::read(ca, cert, key).map_err(Failure::input)?)
            }
            _ => Network::Tcp,
        };
        let place = self.listen.to_string().replace([':', '[', ']'], "_");
        let default = || PathBuf::from(".sardonyx/mesh").join(place);
        let store = match self.unsafe_volatile_votes {
            true => Store::UnsafeVolatileVotes,
            false => Store::Directory(self.data.clone().unwrap_or_else(default)),
        };
        let profile = match self.profile {
            Timing::Lan => Profile::Lan,
            Timing::Documented => Profile::Documented,
            Timing::Test => Profile::Test,
        };
        let config = Config {
            nodes: self.nodes,
            address: self.listen.clone(),
            name: self.name.clone().unwrap_or_else(|| self.listen.to_string()),
            cluster: self.cluster.clone(),
            seeds: self.seeds.clone(),
            voters: self.voters.clone(),
            observer: self.observer,
            found_by_itself: !self.join_only,
            timers: profile.timers(),
        };
        Ok(Options { config, network, key, store })
    }
}

/// Answers over HTTP until the node has ended and everybody has been answered.
async fn serve(
    at: SocketAddr,
    mesh: &Arc<Mesh>,
) -> Result<tokio::task::JoinHandle<io::Result<()>>, Failure> {
    let listener = tokio::net::TcpListener::bind(at).await;
    let listener = listener.map_err(|why| Failure::world(format!("{at}: {why}")))?;
    let (app, until) = (mesh_http::router(Arc::clone(mesh)), Arc::clone(mesh));
    let ended = async move { drop(until.ended().await) };
    Ok(tokio::spawn(axum::serve(listener, app).with_graceful_shutdown(ended).into_future()))
}

fn tell(json: bool, text: &str, value: impl FnOnce() -> serde_json::Value) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match json {
        true => writeln!(out, "{}", value())?,
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
