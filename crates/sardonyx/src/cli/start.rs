//! `sardonyx start`: a node.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use clap::Args;
use sardonyx::{Registry, http};
use sardonyx_core::{JobScheduler, JoinProtocol, command::ConfigureCluster};
use sardonyx_peer::{About, Config, DataTasks, Driver, Figures, job};
use sardonyx_store::{Location, Options, Serving, Store};
use sardonyx_task::{meter::Meters, pipeline::Engine, pool::Pool};
use tokio::net::TcpListener;

use super::{
    Failure,
    cluster::At,
    start_events::{Printer, shown},
    start_files::JobFiles,
    start_http::Http,
    start_log::Log,
    start_mesh::{self, Joined, MeshFlags},
    start_number::Number,
    start_queues::{self, NodeQueues},
    stopped,
    store::read_token,
};

/// The longest a store is asked again before a life is given up.
const PATIENCE: Duration = Duration::from_secs(15);

/// Start a node: a process with so many virtual peers, which join the cluster's ring and run tasks.
#[derive(Args)]
#[command(after_help = "\
It runs until SIGTERM or Ctrl-C, and then leaves the ring first; a second signal ends it at once.
When its session is lost (a pause, a partition) it stops its tasks and comes back under new ids.

Examples:
  sardonyx start --peers 4 --listen 127.0.0.1:7440       one machine, and others may look
  sardonyx start --peers 8 --store sardonyx://127.0.0.1:7440
  sardonyx start --peers 8 --store etcd://10.0.0.1:2379 --cluster prod
  sardonyx start --peers 8 --store etcd://10.0.0.1:2379 --mesh-listen 10.0.0.7:7401 \\
    --seeds 10.0.0.7:7401,10.0.0.8:7401 --nodes 3 --mesh-key-file key   one of them does the chores
  sardonyx start --peers 4 --http 127.0.0.1:7400         with a dashboard at that address

Every flag can also be a variable, SARDONYX_PEERS and so on, and a key of --config FILE, which is
./sardonyx.toml if there is one; a flag wins over a variable, and that over the file.

Exit codes: 0 it was stopped, 1 the world did not play along, 2 what was given is wrong, 3 another
node computed another cluster from the same log.")]
pub(crate) struct Start {
    /// How many virtual peers.
    #[arg(long, short = 'p', value_name = "K", default_value_t = 1)]
    peers: u32,

    #[command(flatten)]
    at: At,

    /// With embedded:DIR, serve the store to other processes here: sardonyx://HOST:PORT; its queues
    /// are served at the next port
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<SocketAddr>,

    /// A file whose content those must show; needed beyond loopback.
    #[arg(long, value_name = "FILE", requires = "listen")]
    token_file: Option<PathBuf>,

    /// Where messages between tasks are kept: embedded:DIR, sardonyx://HOST:PORT,
    /// nats://HOST:PORT/NAME; left out, with the store: below its directory, and served at the
    /// port after its own
    #[arg(long, value_name = "URL")]
    queues: Option<String>,

    /// Compute threads; left out, one for each core.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,

    /// How long peers live without a sign of life.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = job::duration)]
    session: Duration,

    /// How long leaving may take.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = job::duration)]
    leave: Duration,

    /// Trim the log by itself when it has so many entries; 0 leaves that to `sardonyx gc`.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    trim_after: u64,

    /// How peers join a cluster that has none yet.
    #[arg(long, value_name = "PROTOCOL", value_parser = named::<JoinProtocol>)]
    join: Option<JoinProtocol>,

    /// How peers are shared out among jobs, in a cluster that has no peers yet.
    #[arg(long, value_name = "NAME", value_parser = named::<JobScheduler>)]
    job_scheduler: Option<JobScheduler>,

    /// Print what happens as JSON, one object a line.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    files: JobFiles,

    #[command(flatten)]
    http: Http,

    #[command(flatten)]
    log: Log,

    /// A file with settings; every flag is a key of it. Left out, ./sardonyx.toml if it is there.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(flatten)]
    mesh: MeshFlags,
}

/// Reads a name as it stands in the log.
fn named<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(text.into()).map_err(|why| why.to_string())
}

impl Start {
    pub(crate) fn run(self) -> Result<(), Failure> {
        if self.peers == 0 {
            return Err(Failure::input("--peers 0: a node has at least one peer"));
        }
        self.http.check()?;
        let registry = self.files.registry(&self.reached())?;
        super::block_on(async {
            let traces = self.log.begin()?;
            let (store, serving, listener) = self.open().await?;
            let ended = self.node(&store, serving.as_ref(), listener, registry).await;
            // The node's handles are gone by now, so this waits for the files only.
            store.close().await;
            if let Some(serving) = serving {
                serving.stop().await;
            }
            traces.end().await;
            ended
        })
    }

    /// Where jobs may come from. A store that is served to others without a token is refused anyway.
    fn reached(&self) -> Vec<SocketAddr> {
        let served = self.listen.filter(|_| self.token_file.is_some());
        served.into_iter().chain(self.http.address()).collect()
    }

    /// Opens the store. One that others are to use as well is used as they use it, and there is a
    /// place to serve queues.
    async fn open(&self) -> Result<(Store, Option<Serving>, Option<TcpListener>), Failure> {
        let url = self.at.url()?;
        let options = Options { patience: PATIENCE };
        let Some(listen) = self.listen else {
            return Ok((Store::open(&url, options).await?, None, None));
        };
        let Location::Embedded(dir) = Location::parse(&url)? else {
            let why = format!("--listen serves a directory, and {url} is none: leave it out");
            return Err(Failure::input(why));
        };
        let secret = self.token_file.as_ref().map(|path| read_token(path)).transpose()?;
        let (listener, for_queues) = start_queues::listen(listen).await?;
        let serving = Serving::start(&dir, listener, secret).await?;
        let mut address = serving.address();
        if address.ip().is_unspecified() {
            address.set_ip(match address {
                SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
            });
        }
        let token = self.token_file.as_ref().map(|path| format!("?token-file={}", path.display()));
        let url = format!("sardonyx://{address}{}", token.unwrap_or_default());
        Ok((Store::open(&url, options).await?, Some(serving), Some(for_queues)))
    }

    /// What moves data, if this node has queues.
    fn engine(
        &self,
        queues: Option<&NodeQueues>,
        registry: &Registry,
    ) -> Result<Option<Engine>, Failure> {
        let Some(NodeQueues { queues, .. }) = queues else { return Ok(None) };
        Ok(Some(Engine {
            queues: queues.clone(),
            registry: Arc::new(registry.clone()),
            pool: Pool::new(self.threads).map_err(Failure::world)?,
            spy: super::run_spy::from_environment()?,
            meters: Meters::default(),
        }))
    }

    fn config(
        &self,
        store: &Store,
        engine: Option<Engine>,
        number: &Number,
        printer: &Printer,
    ) -> Config {
        let (join_protocol, job_scheduler) = (self.join, self.job_scheduler);
        let settings = ConfigureCluster { join_protocol, job_scheduler, ..Default::default() };
        let is_set = join_protocol.is_some() || job_scheduler.is_some();
        let tasks = DataTasks::new(engine, store);
        Config {
            n_peers: self.peers as usize,
            session_timeout: self.session,
            leave_max: self.leave,
            trim_after: Some(self.trim_after).filter(|n| *n > 0),
            settings: is_set.then_some(settings),
            label: label(),
            namer: number.namer(printer.watcher()),
            watcher: printer.watcher(),
            ..Config::new(Arc::new(tasks))
        }
    }

    /// What is served over HTTP.
    fn about(
        &self,
        store: &Store,
        engine: Option<&Engine>,
        figures: &Figures,
        mesh: Option<&Joined>,
        registry: Registry,
    ) -> Result<http::About, Failure> {
        Ok(http::About {
            store: store.clone(),
            cluster: shown(&self.at.url()?),
            label: label(),
            registry,
            figures: figures.clone(),
            queues: engine.map(|it| it.queues.clone()),
            mesh: mesh.map(|joined| Arc::clone(joined.mesh())),
            nodes: Arc::default(),
        })
    }

    async fn node(
        &self,
        store: &Store,
        serving: Option<&Serving>,
        listener: Option<TcpListener>,
        registry: Registry,
    ) -> Result<(), Failure> {
        let mut printer = Printer::new(self.json, self.peers as usize);
        let served = serving.map(|serving| format!("sardonyx://{}", serving.address()));
        printer.greet(&self.at.url()?, served.as_deref())?;
        let number = Number::ask(store, label())?;
        let (url, token) = (self.at.url()?, self.token_file.as_deref());
        let named = self.queues.as_deref();
        let queues = start_queues::open(named, &url, listener, token, &mut printer).await?;
        let engine = self.engine(queues.as_ref(), &registry)?;
        let name = self.at.name()?;
        let mut mesh = self.mesh.join(&name, &label(), printer.watcher()).await?;
        let meters = engine.as_ref().map(|it| it.meters.clone());
        let figures = Figures::of(meters.unwrap_or_default());
        let about = self.about(store, engine.as_ref(), &figures, mesh.as_ref(), registry)?;
        let nodes = Arc::clone(&about.nodes);
        let server = self.http.serve(about).await?;
        let at = server.as_ref().map(http::Server::url);
        if let Some(at) = &at {
            printer.serves(at)?;
        }
        let mut config = self.config(store, engine, &number, &printer);
        config.figures = Some(figures);
        config.office = mesh.as_ref().map(Joined::office);
        let mut driver = Driver::start(store, config);
        let (view, worker) = (driver.view(), number.worker());
        let about = About { name: label(), view, worker, http: at };
        // Shows this node to the others until it goes.
        let listed = start_mesh::nodes(about, mesh.as_mut()).await?;
        // Nobody else sets it.
        let _ = nodes.set(listed);
        let ended = drive(&mut driver, &mut printer).await;
        if let Some(server) = server {
            server.stop().await;
        }
        if let Some(mesh) = mesh {
            mesh.leave().await;
            printer.drain()?;
        }
        if let Some(queues) = queues {
            queues.close().await;
        }
        number.leave().await;
        ended
    }
}

/// Until the node has ended; a signal has it leave.
async fn drive(driver: &mut Driver, printer: &mut Printer) -> Result<(), Failure> {
    let mut is_leaving = false;
    // Kept across turns: a signal that comes while something is printed counts as well.
    let mut signal = Box::pin(stopped());
    loop {
        tokio::select! {
            ended = driver.ended() => {
                printer.drain()?;
                return Ok(ended?);
            }
            printed = printer.print() => printed?,
            asked = &mut signal => {
                asked?;
                signal = Box::pin(stopped());
                if is_leaving {
                    return Err(Failure::world("stopped before it had left the ring"));
                }
                is_leaving = true;
                driver.stop();
            }
        }
    }
}

/// Who this is, for people.
pub(super) fn label() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{} pid {}", host.trim(), std::process::id()).trim_start().to_owned()
}
