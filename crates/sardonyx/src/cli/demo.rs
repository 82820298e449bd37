//! `sardonyx demo`: a cluster in this process, a job, and a peer that dies in the middle of it.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, BufWriter, IsTerminal, Write},
    net::SocketAddr,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use sardonyx::{
    Embedded, Ended, JobOutcome, Node, Options, Registry,
    http::{Server, Terms},
    job::{Job, Language, RegisteredNames},
};
use sardonyx_core::{Entry, PeerId};
use sardonyx_store::{Delivery, Start, Subscription};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::{
    Failure,
    demo_report::{self, Result as Report},
    demo_story::{Story, ring},
    demo_text::{self, Written},
    stopped,
};

/// How long peers may take to join, and the ring to be whole again.
const RING_MAX: Duration = Duration::from_secs(30);

/// How often progress is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The part of the lines after which a peer is killed: something is done, and most is left.
const KILL_AT_PERCENT: u64 = 35;

/// The tasks in the middle of which a death is most interesting, the most interesting first.
const VICTIMS: [&str; 5] = ["count", "tidy", "split", "read", "write"];

/// Watch a cluster of peers count words, lose a peer, heal, and be right all the same.
#[derive(Args)]
#[command(after_help = "\
Everything happens in this process and in a temporary directory: nothing to set up, and only the
dashboard listens, on this machine.
Every peer is a node with a session of its own. One of them is cut off in the middle of its task; the
log, the ring before and after, and the counts show what came of it.

Exit codes: 0 the counts are right; 1 they are not, or the demo could not be shown to its end.")]
pub(crate) struct Demo {
    /// How many peers.
    #[arg(long, short = 'p', value_name = "N", default_value_t = 8,
          value_parser = clap::value_parser!(u32).range(3..=64))]
    peers: u32,

    /// How much text, in megabytes.
    #[arg(long, value_name = "N", default_value_t = 96,
          value_parser = clap::value_parser!(u64).range(1..=10_000))]
    megabytes: u64,

    /// Where the dashboard is while the demo runs, on this machine; port 0 is any that is free.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0")]
    http: SocketAddr,

    /// Leave the cluster running, with a stream in it, until Ctrl-C.
    #[arg(long)]
    keep: bool,

    /// Print the summary as one line of JSON, and nothing else.
    #[arg(long)]
    json: bool,
}

impl Demo {
    pub(crate) fn run(self) -> Result<(), Failure> {
        super::block_on(async {
            let mut signal = Box::pin(stopped());
            let (stage, report) = tokio::select! {
                shown = self.show() => shown?,
                asked = &mut signal => {
                    asked?;
                    return Err(Failure::Interrupted("the demo was interrupted".into()));
                }
            };
            if self.keep {
                stage.stay(&mut signal).await?;
            }
            stage.clear().await?;
            match report.differences.len() {
                0 => Ok(()),
                n => {
                    let advice = "this is a bug; please report it";
                    Err(Failure::world(format!("{n} counts are wrong: {advice}")))
                }
            }
        })
    }

    /// The whole show; what is then left is the cluster, and what came of it.
    async fn show(&self) -> Result<(Stage<'_>, Report), Failure> {
        let dir = tempfile::Builder::new().prefix("sardonyx-demo-").tempdir()?;
        let text = dir.path().join("text.txt");
        let bytes = self.megabytes * 1_000_000;
        let written = demo_text::write(&mut BufWriter::new(File::create(&text)?), bytes)?;
        let mut stage = Stage::set(self, &written).await?;
        let link = Some(stage.server.url());
        let ended = stage.perform(dir.path()).await?;
        if ended.outcome != JobOutcome::Completed {
            let why = ended.reason.unwrap_or_else(|| "no reason was given".into());
            return Err(Failure::world(format!("the job was killed: {why}")));
        }
        let counted = read_counts(&dir.path().join("counts.ndjson"))?;
        let Some(loss) = stage.story.loss().cloned() else {
            let why = "the job was over before a peer could be killed: try a larger --megabytes";
            return Err(Failure::world(why));
        };
        let differences = demo_text::differences(&written.words, &counted);
        let (took, n_entries) = (stage.took, stage.n_entries);
        let report = Report { written, counted, differences, loss, took, n_entries, link };
        match self.json {
            true => writeln!(io::stdout().lock(), "{}", report.json())?,
            false => stage.tell(&report.summary())?,
        }
        Ok((stage, report))
    }
}

/// The cluster, and what is shown of it.
struct Stage<'a> {
    demo: &'a Demo,
    cluster: Embedded,
    /// Shows it in a browser while it runs.
    server: Server,
    /// All nodes but the first, by name.
    nodes: BTreeMap<String, Node>,
    story: Story,
    log: Subscription,
    n_entries: u64,
    bar: ProgressBar,
    lines: u64,
    /// How far the story has been told.
    told: Told,
    took: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Told {
    Nothing,
    Lost,
    Without,
    After,
}

impl<'a> Stage<'a> {
    /// Starts the nodes and waits until all are in one ring.
    async fn set(demo: &'a Demo, written: &Written) -> Result<Stage<'a>, Failure> {
        let options = Options { peers: 1, name: Some("n1".into()), ..Options::default() };
        let cluster = Embedded::start(options).await.map_err(Failure::world)?;
        let listener = TcpListener::bind(demo.http).await;
        let listener =
            listener.map_err(|why| Failure::world(format!("--http {}: {why}", demo.http)))?;
        let server = cluster.serve_http(listener, Terms::default()).map_err(Failure::input)?;
        let log = cluster.store().subscribe(Start::Origin);
        let is_shown = !demo.json && io::stderr().is_terminal();
        let bar = if is_shown { ProgressBar::new(written.lines) } else { ProgressBar::hidden() };
        let form = "  {bar:30} {human_pos} of {human_len} lines, {per_sec}, {eta} left";
        if let Ok(style) = ProgressStyle::with_template(form) {
            bar.set_style(style);
        }
        let mut stage = Stage {
            demo,
            cluster,
            server,
            nodes: BTreeMap::new(),
            story: Story::default(),
            log,
            n_entries: 0,
            bar,
            lines: written.lines,
            told: Told::Nothing,
            took: Duration::ZERO,
        };
        for n in 2..=demo.peers {
            stage.add_node(n);
        }
        let n_peers = demo.peers as usize;
        stage.until("all peers are in", |story| story.replica().n_peers() == n_peers).await?;
        if !demo.json {
            let ring = ring(stage.story.replica());
            stage.tell(&demo_report::opening(written, n_peers, &ring))?;
            stage.tell(&[format!("Watch it in a browser: {}", stage.server.url())])?;
        }
        Ok(stage)
    }

    fn add_node(&mut self, n: u32) {
        let name = format!("n{n}");
        self.nodes.insert(name.clone(), self.cluster.add_node(1, Some(name)));
    }

    /// Runs the job, and has a peer die in the middle of it.
    async fn perform(&mut self, dir: &Path) -> Result<Ended, Failure> {
        let began = Instant::now();
        let job = word_count(dir)?;
        let submitted = self.cluster.submit(&job, "demo").await.map_err(Failure::world)?;
        let mut ended = Box::pin(submitted.ended());
        let mut look = tokio::time::interval(LOOK_EVERY);
        let ended = loop {
            tokio::select! {
                ended = &mut ended => break ended.map_err(Failure::world)?,
                read = self.log.next() => self.read(read?),
                _ = look.tick() => self.look(),
            }
            self.go_on()?;
        };
        self.took = began.elapsed();
        self.bar.finish_and_clear();
        if self.told > Told::Nothing {
            let is_whole = |story: &Story| story.loss().is_some_and(|loss| loss.after.is_some());
            self.until("the ring is whole again", is_whole).await?;
        }
        Ok(ended)
    }

    /// Plays the log until something is so.
    async fn until(&mut self, what: &str, is_so: impl Fn(&Story) -> bool) -> Result<(), Failure> {
        let by = tokio::time::Instant::now() + RING_MAX;
        while !is_so(&self.story) {
            let Ok(read) = tokio::time::timeout_at(by, self.log.next()).await else {
                let n = self.story.replica().n_peers();
                let why = format!("{what}: not after {RING_MAX:?}; the ring has {n} peers");
                return Err(Failure::world(why));
            };
            self.read(read?);
            self.go_on()?;
        }
        Ok(())
    }

    fn read(&mut self, delivery: Delivery) {
        match delivery {
            Delivery::Origin(origin) => self.story.begin(origin.replica),
            Delivery::Entry { position, command } => {
                self.n_entries += 1;
                if let Ok(command) = command {
                    self.story.play(Entry { position, command });
                }
            }
        }
    }

    fn look(&mut self) {
        let readings = self.cluster.meters().read();
        let split = readings.iter().find(|(place, _)| place.task == "split");
        self.bar.set_position(split.map_or(0, |(_, reading)| reading.rows_in));
    }

    /// Kills the peer when it is time, sends for another, and tells what has happened.
    fn go_on(&mut self) -> Result<(), Failure> {
        if self.told == Told::Nothing {
            let is_due = self.bar.position() * 100 >= self.lines * KILL_AT_PERCENT;
            let Some(victim) = self.victim().filter(|_| is_due) else { return Ok(()) };
            self.story.lose(victim.clone());
            let node = victim.as_str().rsplit_once('-').map_or("", |(node, _)| node);
            drop(self.nodes.remove(node));
            self.step(Told::Lost, demo_report::lost)?;
        }
        let Some(loss) = self.story.loss() else { return Ok(()) };
        let (is_out, is_whole) = (loss.without.is_some(), loss.after.is_some());
        if self.told == Told::Lost && is_out {
            self.add_node(self.demo.peers + 1);
            self.step(Told::Without, demo_report::without)?;
        }
        if self.told == Told::Without && is_whole {
            self.step(Told::After, demo_report::after)?;
        }
        Ok(())
    }

    /// Who is to die: somebody in the middle of something, on a node that we can cut off.
    fn victim(&self) -> Option<PeerId> {
        let replica = self.story.replica();
        let is_ours = |peer: &&PeerId| {
            peer.as_str().rsplit_once('-').is_some_and(|(node, _)| self.nodes.contains_key(node))
        };
        let busy = replica.peers().filter(is_ours).filter_map(|peer| {
            let task = replica.assignment(peer)?.task;
            let rank = VICTIMS.iter().position(|it| *it == task.as_str())?;
            Some((rank, peer))
        });
        busy.min_by_key(|(rank, _)| *rank).map(|(_, peer)| peer.clone())
    }

    fn step(
        &mut self,
        told: Told,
        lines: fn(&super::demo_story::Loss) -> Vec<String>,
    ) -> Result<(), Failure> {
        self.told = told;
        match self.story.loss() {
            Some(loss) if !self.demo.json => self.tell(&lines(loss)),
            Some(_) | None => Ok(()),
        }
    }

    /// Prints lines above the progress bar.
    fn tell(&self, lines: &[String]) -> Result<(), Failure> {
        self.bar.suspend(|| {
            let mut out = io::stdout().lock();
            for line in lines {
                writeln!(out, "{line}")?;
            }
            Ok(out.flush()?)
        })
    }

    /// Gives the cluster a stream to work on, and waits for Ctrl-C.
    async fn stay(
        &self,
        signal: &mut (impl Future<Output = Result<(), Failure>> + Unpin),
    ) -> Result<(), Failure> {
        self.cluster.submit(&stream()?, "stream").await.map_err(Failure::world)?;
        if !self.demo.json {
            self.tell(&["The cluster goes on with a stream; Ctrl-C ends it.".into()])?;
        }
        signal.await
    }

    /// Takes everything down in order.
    async fn clear(self) -> Result<(), Failure> {
        let Stage { cluster, server, nodes, log, .. } = self;
        drop(log);
        server.stop().await;
        for node in nodes.into_values() {
            node.stop().await.map_err(Failure::world)?;
        }
        cluster.stop().await.map_err(Failure::world)
    }
}

fn word_count(dir: &Path) -> Result<Job, Failure> {
    let path = |name: &str| dir.join(name).to_string_lossy().into_owned();
    check(&json!({
        "name": "demo",
        "workflow": [["read", "split"], ["split", "tidy"], ["tidy", "count"], ["count", "write"]],
        "task-scheduler": "round-robin",
        "catalog": {
            "read": {"type": "input", "plugin": "file", "path": path("text.txt"),
                     "format": "lines", "split-bytes": "1MB"},
            "split": {"type": "function", "fn": "split-words"},
            "tidy": {"type": "function", "fn": "sql", "query": demo_text::QUERY},
            "count": {"type": "function", "fn": "count", "group-by": ["word"]},
            "write": {"type": "output", "plugin": "file", "path": path("counts.ndjson")},
        },
    }))
}

/// For those who stay: readings that come at a steady rate, counted every second.
fn stream() -> Result<Job, Failure> {
    check(&json!({
        "name": "stream",
        "workflow": [["readings", "count"], ["count", "drop"]],
        "task-scheduler": "round-robin",
        "catalog": {
            "readings": {"type": "input", "plugin": "generate", "rate": 2000,
                         "shape": {"sensor": {"text": "s{0..9}"}}},
            "count": {"type": "function", "fn": "count", "group-by": ["sensor"], "trigger": "1s"},
            "drop": {"type": "output", "plugin": "null"},
        },
    }))
}

fn check(job: &Value) -> Result<Job, Failure> {
    let names = RegisteredNames::new(Registry::built_in());
    Job::read(&job.to_string(), Language::Json, &names).map_err(|complaints| {
        let all: Vec<_> = complaints.iter().map(ToString::to_string).collect();
        Failure::world(format!("the demo's own job has faults: {}", all.join("; ")))
    })
}

/// What the job wrote. A word that stands there twice would be a count that was torn apart.
fn read_counts(path: &PathBuf) -> Result<BTreeMap<String, u64>, Failure> {
    let text = fs::read_to_string(path)
        .map_err(|why| Failure::world(format!("{}: {why}", path.display())))?;
    let mut counts = BTreeMap::new();
    for line in text.lines() {
        let row: Value = serde_json::from_str(line).map_err(Failure::world)?;
        let (Some(word), Some(n)) = (row["word"].as_str(), row["count"].as_u64()) else {
            return Err(Failure::world(format!("{line}: not a word and its count")));
        };
        if counts.insert(word.to_owned(), n).is_some() {
            return Err(Failure::world(format!("{word:?} was counted in two places")));
        }
    }
    Ok(counts)
}
