//! Everybody who takes part in a run, and how each of them is started.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use sardonyx_store::suite::servers::Network;
use serde_json::{Value, json};

use crate::{
    fault::SESSION_MS,
    options::{Options, QueueKind, StoreKind},
    place::{DRAWERS, NODES, PEERS, Place, STORES},
    process::{self, Process},
    sandbox,
    servers::{Port, Site, Stores},
    trace::Trace,
};

/// How many entries the log may have before nodes trim it: several times in a run.
pub(crate) const TRIM_AFTER: usize = 1_500;

/// How many jobs that are over are kept with all their details.
const HISTORY_MAX: usize = 20;

/// How much of the past a node remembers for its dashboard: the least that can be asked for. A soak of
/// an hour (500 entries a minute) fills it in about a quarter of it. More would still fill up when memory
/// is measured, and look like growth.
const PAST_MIB: u32 = 1;

/// How long a command of the program may take. Where the store is away it tries for a while by itself.
const ANSWER_MAX: Duration = Duration::from_secs(180);

/// Everybody.
pub(crate) struct World {
    pub(crate) site: Arc<Site>,
    pub(crate) trace: Arc<Trace>,
    pub(crate) stores: Stores,
    pub(crate) nodes: Vec<Process>,
    pub(crate) drawers: Vec<Process>,
    pub(crate) host: Option<Process>,
    pub(crate) nats: Option<Process>,
    /// Held while a server of the store is away.
    pub(crate) store_lane: tokio::sync::Mutex<()>,
    pub(crate) paths: Paths,
    pub(crate) store_url: String,
    pub(crate) ids_url: String,
    pub(crate) has_store_servers: bool,
    pub(crate) queues_at: Place,
}

/// Where things are.
#[derive(Clone, Debug)]
pub(crate) struct Paths {
    pub(crate) dir: PathBuf,
    pub(crate) program: PathBuf,
}

impl Paths {
    pub(crate) fn of(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// What a node prints.
    pub(crate) fn events(&self, place: Place) -> PathBuf {
        self.dir.join(format!("{place}.jsonl"))
    }

    fn append(&self, name: &str) -> io::Result<File> {
        File::options().create(true).append(true).open(self.dir.join(name))
    }

    /// A command whose standard output and error are kept.
    fn kept(&self, mut command: Command, place: Place) -> io::Result<Command> {
        command.stdin(Stdio::null()).current_dir(&self.dir);
        command.stdout(self.append(&format!("{place}.jsonl"))?);
        command.stderr(self.append(&format!("{place}.log"))?);
        Ok(command)
    }

    fn key(&self) -> PathBuf {
        self.of("key")
    }

    /// Where a node keeps its promises, and where the host keeps everything.
    pub(crate) fn data(&self, place: Place) -> PathBuf {
        self.dir.join("data").join(place.to_string())
    }
}

impl World {
    /// Makes directories and starts servers; nodes and the others are not started yet.
    pub(crate) async fn make(
        options: &Options,
        paths: Paths,
        network: Option<Arc<Network>>,
        fills_disks: bool,
    ) -> io::Result<World> {
        for name in ["in", "out", "ids", "jobs", "data"] {
            fs::create_dir_all(paths.of(name))?;
        }
        let places = Place::nodes().chain([Place::Host, Place::Nats]);
        for place in places {
            fs::create_dir_all(paths.data(place))?;
            if fills_disks && place != Place::Nats {
                sandbox::mount(&paths.data(place), disk_size(place))?;
            }
        }
        fs::write(paths.key(), "0123456789abcdef0123456789abcdef\n")?;
        let trace = Arc::new(Trace::create(&paths.of("trace.jsonl"))?);
        let site = Arc::new(Site::new(network.clone()));
        let stores = Stores::start(options.store, network).await;
        let served = |offset| {
            let host = site.host(Place::Host, Port::Store);
            let port = site.port(Place::Host, Port::Store);
            let address = host.trim_end_matches(&port.to_string());
            format!("sardonyx://{address}{}?token-file={}", port + offset, paths.key().display())
        };
        let store_url = stores.url("fire").unwrap_or_else(|| served(0));
        let ids_url = stores.url("ids").unwrap_or_else(|| served(0));
        let (queues_url, queues_at) = match options.queues {
            QueueKind::Embedded => (served(1), Place::Host),
            QueueKind::Nats => {
                (format!("nats://{}/fire", site.host(Place::Nats, Port::Nats)), Place::Nats)
            }
        };
        let has_nats = options.queues == QueueKind::Nats;
        let nats = has_nats.then(|| nats(&site, &paths));
        let host = options.has_host().then(|| host(&site, &paths));
        let node = |index| node(index, &site, &paths, &store_url, &queues_url);
        let nodes = (0..NODES).map(node).collect();
        let is_narrow = options.store != StoreKind::Embedded;
        let drawer = |index| drawer(index, &site, &paths, &ids_url, is_narrow);
        let drawers = (0..DRAWERS).map(drawer).collect();
        let has_store_servers = options.store != StoreKind::Embedded;
        let store_lane = tokio::sync::Mutex::new(());
        Ok(World {
            site,
            trace,
            stores,
            nodes,
            drawers,
            host,
            nats,
            store_lane,
            paths,
            store_url,
            ids_url,
            has_store_servers,
            queues_at,
        })
    }

    /// All processes that this driver starts itself.
    pub(crate) fn processes(&self) -> impl Iterator<Item = &Process> {
        self.host.iter().chain(&self.nats).chain(&self.nodes).chain(&self.drawers)
    }

    /// Where the store is.
    pub(crate) fn store_places(&self) -> Vec<Place> {
        match self.has_store_servers {
            true => (0..STORES).map(Place::Store).collect(),
            false => vec![Place::Host],
        }
    }

    /// The program, run as a user would, in the driver's own place.
    pub(crate) fn ask(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.paths.program);
        command.args(args).stdin(Stdio::null()).current_dir(&self.paths.dir);
        command
    }

    /// What such a command said. Whoever has no end is a finding, and is written down as one.
    pub(crate) async fn answer(&self, command: Command) -> io::Result<Output> {
        let said = process::answer(command, ANSWER_MAX).await;
        if let Some(why) = said.as_ref().err().filter(|it| it.kind() == io::ErrorKind::TimedOut) {
            self.trace.note("hung", json!({"why": why.to_string()}));
        }
        said
    }

    /// The present life of a node, as it said itself.
    pub(crate) fn life(&self, place: Place) -> Option<String> {
        let text = fs::read_to_string(self.paths.events(place)).ok()?;
        let began = text.lines().rev().find(|line| line.contains("\"began\""))?;
        let event: Value = serde_json::from_str(began).ok()?;
        Some(event["node"].as_str()?.to_owned())
    }
}

/// Room for a node's promises, or for a store and its queues.
fn disk_size(place: Place) -> &'static str {
    if place == Place::Host { "256m" } else { "1m" }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn node(index: usize, site: &Arc<Site>, paths: &Paths, store: &str, queues: &str) -> Process {
    let place = Place::Node(index);
    let (site, paths) = (Arc::clone(site), paths.clone());
    let (store, queues) = (store.to_owned(), queues.to_owned());
    let seeds: Vec<_> = Place::nodes().take(3).map(|seed| site.host(seed, Port::Mesh)).collect();
    let recipe = move || {
        let mut command = site.command(place, &text(&paths.program));
        let session = format!("{SESSION_MS}ms");
        command.args(["start", "--json", "--peers", &PEERS.to_string(), "--store", &store]);
        command.args(["--queues", &queues, "--session", &session]);
        command.args(["--trim-after", &TRIM_AFTER.to_string()]);
        command.args(["--mesh-listen", &site.host(place, Port::Mesh), "--seeds", &seeds.join(",")]);
        command.args(["--nodes", &NODES.to_string(), "--mesh-data", &text(&paths.data(place))]);
        command.args(["--mesh-http", &format!("127.0.0.1:{}", site.port(place, Port::MeshHttp))]);
        command.args(["--mesh-key-file", &text(&paths.key())]);
        command.args(["--history-max", &HISTORY_MAX.to_string()]);
        command.args([
            "--http",
            &site.host(place, Port::Http),
            "--http-past",
            &PAST_MIB.to_string(),
        ]);
        if site.has_network() {
            // Beyond loopback, though nobody else is on this network.
            command.args(["--insecure", "--any-file"]);
        }
        paths.kept(command, place)
    };
    Process::new(place, Box::new(recipe))
}

/// A store and queues in one directory, served to all; it has a peer of its own.
fn host(site: &Arc<Site>, paths: &Paths) -> Process {
    let (site, paths) = (Arc::clone(site), paths.clone());
    let recipe = move || {
        let mut command = site.command(Place::Host, &text(&paths.program));
        let session = format!("{SESSION_MS}ms");
        let store = format!("embedded:{}", text(&paths.data(Place::Host)));
        command.args(["start", "--json", "--peers", "1", "--store", &store]);
        command.args(["--listen", &site.host(Place::Host, Port::Store)]);
        command.args(["--token-file", &text(&paths.key()), "--session", &session, "--any-file"]);
        paths.kept(command, Place::Host)
    };
    Process::new(Place::Host, Box::new(recipe))
}

fn nats(site: &Arc<Site>, paths: &Paths) -> Process {
    let (site, paths) = (Arc::clone(site), paths.clone());
    let recipe = move || {
        let at = site.host(Place::Nats, Port::Nats);
        let (address, port) = at.rsplit_once(':').unwrap_or((&at, "4222"));
        let mut command = site.command(Place::Nats, "nats-server");
        command.args(["-a", address, "-p", port, "-js", "-sd"]).arg(paths.data(Place::Nats));
        command.args(["-n", "fire"]);
        paths.kept(command, Place::Nats)
    };
    Process::new(Place::Nats, Box::new(recipe))
}

fn drawer(index: usize, site: &Arc<Site>, paths: &Paths, url: &str, narrow: bool) -> Process {
    let place = Place::Drawer(index);
    let (site, paths, url) = (Arc::clone(site), paths.clone(), url.to_owned());
    let n_started = AtomicU64::new(0);
    let recipe = move || {
        let n = n_started.fetch_add(1, Ordering::Relaxed);
        let this = std::env::current_exe()?;
        let mut command = site.command(place, &text(&this));
        command.args(["draw", "--store", &url, "--file"]);
        command.arg(paths.of("ids").join(format!("{place}-{n}")));
        command.arg("--clock").arg(paths.of(&format!("{place}.clock")));
        if narrow {
            command.arg("--narrow");
        }
        paths.kept(command, place)
    };
    Process::new(place, Box::new(recipe))
}
