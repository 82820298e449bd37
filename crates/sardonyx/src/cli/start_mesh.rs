//! A node's part in a mesh: which nodes there are, and which of them does the chores.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use clap::Args;
use sardonyx_mesh::{Address, Mesh, Seen};
use sardonyx_peer::{About, Event, HistoryTerms, Nodes, Office, job};
use tokio::task::{AbortHandle, JoinHandle};

use super::{
    Failure, mesh_http,
    mesh_options::{self, Timing, Wishes},
    mesh_start::{only_here, serve},
    stopped,
};

/// Hears what happens in a node.
type Watcher = Arc<dyn Fn(&Event) + Send + Sync>;

#[derive(Args)]
#[command(next_help_heading = "Mesh: which nodes there are, and which of them does the chores")]
pub(super) struct MeshFlags {
    /// Take part in a mesh: where this node listens for the others, and how they name it.
    #[arg(long, value_name = "HOST:PORT", requires_all = ["seeds", "nodes"])]
    mesh_listen: Option<Address>,

    /// Where to look for the mesh; a node whose own address is among them is a seed.
    #[arg(long, value_name = "HOST:PORT,…", value_delimiter = ',', requires = "mesh_listen")]
    seeds: Vec<Address>,

    /// How many voting nodes the mesh has in all, the same on each.
    #[arg(long, value_name = "N", requires = "mesh_listen")]
    nodes: Option<u32>,

    /// How often members are heard of, and after which silence they are gone.
    #[arg(long, value_enum, default_value = "lan", requires = "mesh_listen")]
    profile: Timing,

    /// Where to answer `sardonyx nodes` and `sardonyx mesh`; on this machine only.
    #[arg(long, value_name = "HOST:PORT", requires = "mesh_listen")]
    mesh_http: Option<SocketAddr>,

    /// Where the node keeps its promises; left out, a directory below .sardonyx.
    #[arg(long, value_name = "DIR", requires = "mesh_listen")]
    mesh_data: Option<PathBuf>,

    /// Never vote, and so never lead.
    #[arg(long, requires = "mesh_listen")]
    observer: bool,

    /// Who may vote, by hand: as many as --nodes.
    #[arg(long, value_name = "HOST:PORT,…", value_delimiter = ',', requires = "mesh_listen")]
    voters: Option<Vec<Address>>,

    /// A file with the key that all nodes of the mesh share.
    #[arg(long, value_name = "FILE", requires = "mesh_listen")]
    mesh_key_file: Option<PathBuf>,

    /// The authority whose certificates are believed; with it, all is encrypted.
    #[arg(long, value_name = "FILE", requires_all = ["mesh_listen", "mesh_tls_cert", "mesh_tls_key"])]
    mesh_tls_ca: Option<PathBuf>,

    /// This node's certificate, for the host in --mesh-listen.
    #[arg(long, value_name = "FILE", requires = "mesh_tls_ca")]
    mesh_tls_cert: Option<PathBuf>,

    /// The certificate's private key.
    #[arg(long, value_name = "FILE", requires = "mesh_tls_ca")]
    mesh_tls_key: Option<PathBuf>,

    /// Listen for the mesh beyond this machine without a key and without certificates.
    #[arg(long, requires = "mesh_listen")]
    mesh_insecure: bool,

    /// Keep at most so many jobs that are over with all their details; 0 keeps any number.
    #[arg(long, value_name = "N", default_value_t = 1_000, requires = "mesh_listen")]
    history_max: u64,

    /// Keep jobs that are over for so long with all their details.
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = job::duration,
        requires = "mesh_listen")]
    history_age: Duration,
}

/// A node's mesh, while it runs.
pub(super) struct Joined {
    mesh: Arc<Mesh>,
    http: Option<SocketAddr>,
    server: Option<JoinHandle<std::io::Result<()>>>,
    telling: AbortHandle,
    history: HistoryTerms,
}

impl MeshFlags {
    /// Joins, if it is wanted. `watcher` hears of every change.
    pub(super) async fn join(
        &self,
        cluster: &str,
        name: &str,
        watcher: Watcher,
    ) -> Result<Option<Joined>, Failure> {
        let (Some(listen), Some(nodes)) = (&self.mesh_listen, self.nodes) else { return Ok(None) };
        self.mesh_http.map_or(Ok(()), |at| only_here("--mesh-http", at))?;
        // Why somebody was not let in stands in the log. Another part of this process may have set
        // one up already.
        let log = tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false);
        let log = log.with_max_level(tracing::Level::WARN).finish();
        let _ = tracing::subscriber::set_global_default(log);
        let tls = match (&self.mesh_tls_ca, &self.mesh_tls_cert, &self.mesh_tls_key) {
            (Some(ca), Some(cert), Some(key)) => Some([&**ca, &**cert, &**key]),
            _ => None,
        };
        let wishes = Wishes {
            listen,
            seeds: &self.seeds,
            nodes,
            profile: self.profile,
            name: Some(name),
            cluster,
            data: self.mesh_data.as_deref(),
            unsafe_volatile_votes: false,
            observer: self.observer,
            voters: self.voters.as_deref(),
            join_only: false,
            key_file: self.mesh_key_file.as_deref(),
            tls,
            insecure: self.mesh_insecure,
            prefix: "mesh-",
        };
        let mesh = Arc::new(mesh_options::start(wishes.options()?).await?);
        let telling = tokio::spawn(tell(mesh.watch(), watcher)).abort_handle();
        let history = HistoryTerms {
            jobs_max: Some(self.history_max).filter(|max| *max > 0),
            age_max: Some(self.history_age),
        };
        Ok(Some(Joined { mesh, http: self.mesh_http, server: None, telling, history }))
    }
}

/// Tells of changes. What was left out because nobody looked in time is not made up for: the log of a
/// mesh is its table.
async fn tell(mut watch: sardonyx_mesh::Watch, watcher: Watcher) {
    while let Some(seen) = watch.next().await {
        if let Seen::Change(change) = seen {
            watcher(&Event::Mesh(change));
        }
    }
}

impl Joined {
    /// The mesh itself.
    pub(super) fn mesh(&self) -> &Arc<Mesh> {
        &self.mesh
    }

    /// The right to do chores, which this node has while it leads.
    pub(super) fn office(&self) -> Office {
        Office::in_mesh(&self.mesh, self.history)
    }

    /// Says goodbye, and hands over first if it leads. A signal cuts that short.
    pub(super) async fn leave(self) {
        // Others notice a node that is gone without a goodbye; there is nothing to be done here.
        tokio::select! {
            _ = self.mesh.leave() => {}
            _ = stopped() => {}
        }
        self.telling.abort();
        if let Some(server) = self.server {
            let _ = tokio::time::timeout(Duration::from_secs(2), server).await;
        }
    }
}

/// The list of nodes, and whoever asks for it over HTTP is answered.
pub(super) async fn nodes(about: About, joined: Option<&mut Joined>) -> Result<Nodes, Failure> {
    let Some(joined) = joined else { return Ok(Nodes::alone(about)) };
    let mesh = &joined.mesh;
    let http = joined.http.map(|at| format!("http://{at}"));
    let about = About { http: about.http.or(http), ..about };
    let nodes = Nodes::in_mesh(about, mesh);
    if let Some(at) = joined.http {
        let app = mesh_http::router_with_nodes(Arc::clone(mesh), nodes.clone());
        joined.server = Some(serve(at, mesh, app).await?);
    }
    Ok(nodes)
}
