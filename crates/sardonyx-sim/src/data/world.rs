//! The loop: a storm of kills, stand-stills and late news, then calm, then the judgement.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use arrow::{array::RecordBatch, util::display::array_value_to_string};
use async_trait::async_trait;
use sardonyx_queue::{Owner, Place, QueueName, Queues, Roster};
use sardonyx_task::{
    Blueprint, Registry,
    kit::Kit,
    meter::Meters,
    pipeline::{Engine, Everybody, Listener, Order, Running},
    pool::Pool,
    spy::{Phase, Spy},
};
use serde_json::Value;
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};

use super::{
    job,
    plugin::{self, Shelf},
};
use crate::rng::Rng;

/// How long a run may take once it is calm, in simulated time (DP-13).
const CALM_MAX: Duration = Duration::from_secs(60);

/// A run that held.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Passed {
    /// Everything that happened, in one number: the same seed gives the same.
    pub trace: u64,
    /// How many peers were killed, and how many stood still.
    pub killed: u64,
    /// How many stood still and came back to a task that was no longer theirs.
    pub paused: u64,
    /// Which phases were seen.
    pub phases: BTreeSet<Phase>,
    /// The job's shape.
    pub shape: String,
}

/// A run that did not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failed {
    /// The seed.
    pub seed: u64,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}: {}", self.seed, self.what)
    }
}

/// Runs one seed.
pub fn run(seed: u64) -> Result<Passed, Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .map_err(|why| Failed { seed, what: why.to_string() })?;
    runtime.block_on(World::new(seed).run()).map_err(|what| Failed { seed, what })
}

/// Sees what happens, and keeps a number of it.
#[derive(Default)]
struct Trace {
    seen: Mutex<(DefaultHasher, BTreeSet<Phase>)>,
}

impl Trace {
    fn add(&self, what: impl Hash) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        what.hash(&mut seen.0);
    }
}

impl Spy for Trace {
    fn saw(&self, place: &Place, phase: Phase, rows: Option<&RecordBatch>) {
        self.add((&place.task, phase, rows.map(RecordBatch::num_rows)));
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.1.insert(phase);
    }
}

/// What a task said.
#[derive(Clone, Debug)]
enum Said {
    Drained,
    Completed,
    Failed(String),
}

type Heard = (String, Owner, Said);

struct Herald {
    task: String,
    owner: Owner,
    heard: mpsc::UnboundedSender<Heard>,
}

impl Herald {
    fn say(&self, said: Said) {
        // The world outlives its tasks.
        let _ = self.heard.send((self.task.clone(), self.owner.clone(), said));
    }
}

#[async_trait]
impl Listener for Herald {
    async fn drained(&self) {
        self.say(Said::Drained);
    }

    async fn completed(&self) {
        self.say(Said::Completed);
    }

    async fn failed(&self, why: String) {
        self.say(Said::Failed(why));
    }
}

/// One peer on a task.
struct Peer {
    owner: Owner,
    running: Running,
    roster: watch::Sender<Roster>,
}

/// A task, as the cluster sees it.
#[derive(Default)]
struct Task {
    peers: Vec<Peer>,
    sealer: Option<Owner>,
    is_complete: bool,
}

struct World {
    rng: Rng,
    job: Value,
    registry: Registry,
    shelf: Shelf,
    engine: Engine,
    trace: Arc<Trace>,
    tasks: BTreeMap<String, Task>,
    /// Peers that stand still: the cluster has gone on, they have not heard.
    still: Vec<(Instant, Peer)>,
    /// Who is to hear when who is on which task now: some hear of two changes at once.
    news: Vec<(Instant, String, Owner)>,
    heard: mpsc::UnboundedReceiver<Heard>,
    says: mpsc::UnboundedSender<Heard>,
    position: u64,
    n_named: u64,
    killed: u64,
    paused: u64,
}

impl World {
    fn new(seed: u64) -> World {
        let mut rng = Rng::new(seed);
        let job = job::draw(&mut rng);
        let shelf = Shelf::default();
        let mut registry = Registry::built_in();
        plugin::register(&mut registry, &shelf);
        let trace = Arc::new(Trace::default());
        let engine = Engine {
            queues: Queues::memory(),
            registry: Arc::new(registry.clone()),
            pool: Pool::inline(),
            spy: Arc::clone(&trace) as Arc<dyn Spy>,
            meters: Meters::default(),
        };
        let (says, heard) = mpsc::unbounded_channel();
        let names = job["catalog"].as_object().into_iter().flat_map(|all| all.keys().cloned());
        let tasks = names.map(|name| (name, Task::default())).collect();
        let (still, news) = (Vec::new(), Vec::new());
        let (position, n_named, killed, paused) = (0, 0, 0, 0);
        World {
            rng,
            job,
            registry,
            shelf,
            engine,
            trace,
            tasks,
            still,
            news,
            heard,
            says,
            position,
            n_named,
            killed,
            paused,
        }
    }

    async fn run(mut self) -> Result<Passed, String> {
        let names: Vec<String> = self.tasks.keys().cloned().collect();
        for name in &names {
            for _ in 0..self.rng.between(1, 4) {
                self.join(name)?;
            }
        }
        let faults = self.rng.between(0, 40);
        let mut n_faults = 0;
        let mut calm_since = None;
        while !self.tasks.values().all(|task| task.is_complete) {
            let wait = Duration::from_micros(self.rng.between(1, 20_000));
            tokio::time::sleep(wait).await;
            while let Ok(heard) = self.heard.try_recv() {
                self.hear(heard).await?;
            }
            self.spread_news();
            self.wake().await;
            if n_faults < faults {
                n_faults += 1;
                self.fault().await?;
                continue;
            }
            let since = *calm_since.get_or_insert_with(Instant::now);
            self.refill()?;
            if since.elapsed() > CALM_MAX {
                return Err(format!("not over after {CALM_MAX:?} of calm: {}", self.stuck().await));
            }
        }
        // Nothing was sent after anybody was done.
        for name in names {
            self.check_drained(&name).await?;
        }
        self.judge()?;
        let seen = self.trace.seen.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Passed {
            trace: seen.0.finish(),
            killed: self.killed,
            paused: self.paused,
            phases: seen.1.clone(),
            shape: self.job["name"].as_str().unwrap_or_default().to_owned(),
        })
    }

    /// A peer is given a task.
    fn join(&mut self, name: &str) -> Result<(), String> {
        self.position += 1;
        self.n_named += 1;
        let owner = Owner { peer: format!("p{}", self.n_named), epoch: self.position };
        let blueprint = Blueprint::read("j", &self.job, name, &self.registry)?;
        let roster = Roster { at: self.position, owners: vec![owner.clone()] };
        let (sender, receiver) = watch::channel(roster);
        let place = Place { job: "j".into(), task: name.into() };
        let herald = Herald { task: name.into(), owner: owner.clone(), heard: self.says.clone() };
        let Some(task) = self.tasks.get_mut(name) else { return Ok(()) };
        let mut owners: Vec<_> = task.peers.iter().map(|peer| peer.owner.clone()).collect();
        owners.push(owner.clone());
        sender.send_replace(Roster { at: self.position, owners });
        let order = Order {
            place,
            owner: owner.clone(),
            roster: receiver,
            blueprint: Arc::new(blueprint),
            census: Arc::new(Everybody),
        };
        let running = self.engine.start(order, Arc::new(herald));
        task.peers.push(Peer { owner, running, roster: sender });
        self.tell_later(name);
        Ok(())
    }

    /// Everybody on a task hears who is on it, each in their own time.
    fn tell_later(&mut self, name: &str) {
        let Some(task) = self.tasks.get(name) else { return };
        for peer in &task.peers {
            let late = Duration::from_micros(self.rng.between(0, 200_000));
            self.news.push((Instant::now() + late, name.to_owned(), peer.owner.clone()));
        }
    }

    fn spread_news(&mut self) {
        let now = Instant::now();
        let due: Vec<_> = self.news.extract_if(.., |(at, ..)| *at <= now).collect();
        for (_, name, owner) in due {
            let Some(task) = self.tasks.get(&name) else { continue };
            let owners: Vec<_> = task.peers.iter().map(|peer| peer.owner.clone()).collect();
            if let Some(peer) = task.peers.iter().find(|peer| peer.owner == owner) {
                peer.roster.send_replace(Roster { at: self.position, owners });
            }
        }
    }

    async fn hear(&mut self, (name, owner, said): Heard) -> Result<(), String> {
        self.trace.add((&name, &owner.peer, format!("{said:?}")));
        let Some(task) = self.tasks.get_mut(&name) else { return Ok(()) };
        let Some(peer) = task.peers.iter().find(|peer| peer.owner == owner) else {
            return Ok(());
        };
        match said {
            Said::Drained if task.sealer.is_none() && !task.is_complete => {
                peer.running.seal();
                task.sealer = Some(owner);
            }
            Said::Drained => {}
            Said::Completed => {
                if task.sealer.as_ref() != Some(&owner) {
                    return Err(format!("{name} was completed by {owner:?}, who may not seal"));
                }
                task.is_complete = true;
                let peers = std::mem::take(&mut task.peers);
                self.check_drained(&name).await?;
                for peer in peers {
                    peer.running.stop().await;
                }
            }
            Said::Failed(why) => return Err(format!("{name} failed: {why}")),
        }
        Ok(())
    }

    /// DP-7: a task completes when those before it are sealed, and its queues are empty, in flight
    /// included. That they are complete as well is not sure: whoever sealed one may die before it
    /// says so, and the next to seal it has nothing more to send.
    async fn check_drained(&self, name: &str) -> Result<(), String> {
        let edges = self.job["workflow"].as_array().into_iter().flatten();
        for edge in edges.filter(|edge| edge[1] == name) {
            let from = edge[0].as_str().unwrap_or_default();
            let place = Place { job: "j".into(), task: from.to_owned() };
            let sealed = self.engine.queues.peek(&place, "sealed").await;
            if sealed.map_err(|why| why.to_string())?.is_empty() {
                return Err(format!("{name} completed before {from} was sealed"));
            }
            let queue = QueueName { job: "j".into(), task: name.into(), from: from.to_owned() };
            let depth = self.engine.queues.depth(&queue).await.map_err(|why| why.to_string())?;
            if depth.total() > 0 {
                return Err(format!("{name} completed with {depth:?} in {queue}"));
            }
        }
        Ok(())
    }

    async fn fault(&mut self) -> Result<(), String> {
        let names: Vec<String> = self
            .tasks
            .iter()
            .filter(|(_, task)| !task.is_complete)
            .map(|(name, _)| name.clone())
            .collect();
        let Some(name) = self.rng.pick(&names).cloned() else { return Ok(()) };
        match self.rng.below(10) {
            0..4 => self.lose(&name, false).await,
            4..6 => self.lose(&name, true).await,
            6..9 => self.join(&name)?,
            _ => {}
        }
        Ok(())
    }

    /// A peer is gone for the cluster: dead, or standing still until it wakes up and finds out.
    async fn lose(&mut self, name: &str, is_still: bool) {
        self.position += 1;
        let Some(task) = self.tasks.get_mut(name) else { return };
        if task.peers.is_empty() {
            return;
        }
        let at = self.rng.below(task.peers.len() as u64) as usize;
        let peer = task.peers.remove(at);
        if task.sealer.as_ref() == Some(&peer.owner) {
            task.sealer = None;
        }
        self.trace.add((name, &peer.owner.peer, is_still));
        if is_still {
            self.paused += 1;
            let wakes = Instant::now() + Duration::from_micros(self.rng.between(0, 200_000));
            self.still.push((wakes, peer));
        } else {
            self.killed += 1;
            peer.running.stop().await;
        }
        self.tell_later(name);
    }

    /// Those who stood still hear that they are out, and stop.
    async fn wake(&mut self) {
        let now = Instant::now();
        let awake: Vec<_> = self.still.extract_if(.., |(at, _)| *at <= now).collect();
        for (_, peer) in awake {
            peer.running.stop().await;
        }
    }

    /// In the calm every task has somebody.
    fn refill(&mut self) -> Result<(), String> {
        let empty = |task: &Task| !task.is_complete && task.peers.is_empty();
        let names: Vec<String> = self
            .tasks
            .iter()
            .filter(|(_, task)| empty(task))
            .map(|(name, _)| name.clone())
            .collect();
        names.iter().try_for_each(|name| self.join(name))
    }

    async fn stuck(&self) -> String {
        let mut text = Vec::new();
        for (name, task) in &self.tasks {
            let peers: Vec<_> = task.peers.iter().map(|peer| peer.owner.peer.as_str()).collect();
            let place = Place { job: "j".into(), task: name.clone() };
            let keys = self.engine.queues.peek(&place, "").await.unwrap_or_default();
            let keys: Vec<_> = keys.into_iter().map(|(key, _)| key).collect();
            let (sealer, done) = (&task.sealer, task.is_complete);
            text.push(format!("{name} {peers:?} sealer {sealer:?} done {done} keys {keys:?}"));
        }
        text.join("; ")
    }

    /// DP-1, 2, 3: what reached the outputs is what the kit says, each segment once.
    fn judge(&self) -> Result<(), String> {
        let mut given = BTreeMap::new();
        let catalog = self.job["catalog"].as_object();
        for (name, entry) in catalog.into_iter().flatten() {
            if entry["type"] == "input" {
                given.insert(name.clone(), self.all_rows(name)?);
            }
        }
        let wanted = Kit::new(&self.job, &self.registry).run(given).map_err(|it| it.to_string())?;
        for (name, wanted) in wanted {
            let got = self.shelf.finished(&name).ok_or(format!("{name} was never finished"))?;
            let (got, wanted) = (lines(&got)?, lines(&wanted)?);
            if got != wanted {
                let lost = wanted.iter().filter(|row| !got.contains(row)).count();
                return Err(format!(
                    "{name} has {} rows instead of {}; {lost} kinds are missing",
                    got.len(),
                    wanted.len()
                ));
            }
        }
        Ok(())
    }

    fn all_rows(&self, name: &str) -> Result<Vec<RecordBatch>, String> {
        use sardonyx_task::input::Read;
        let blueprint = Blueprint::read("j", &self.job, name, &self.registry)?;
        let input = self.registry.make_input(&blueprint.terms)?;
        let mut rows = Vec::new();
        for split in input.splits(None)?.splits {
            let mut reader = input.open(&split, None)?;
            loop {
                match reader.read(1_000)? {
                    Read::Batch(batch, _) => rows.push(batch),
                    Read::Wait(..) => {}
                    Read::End => break,
                }
            }
        }
        Ok(rows)
    }
}

/// Rows as sorted lines, so that order and batches do not matter.
fn lines(batches: &[RecordBatch]) -> Result<Vec<String>, String> {
    let mut lines = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let cells = batch.columns().iter().map(|column| array_value_to_string(column, row));
            let cells: Result<Vec<_>, _> = cells.collect();
            lines.push(cells.map_err(|why| why.to_string())?.join(" | "));
        }
    }
    lines.sort();
    Ok(lines)
}
