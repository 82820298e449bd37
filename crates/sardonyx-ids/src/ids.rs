//! The handle that programs use: join a cluster, make ids, leave.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use sardonyx_store::Store;
use tokio::{sync::watch, task::JoinHandle};

use crate::{
    clock::{Source, Steady, System},
    generator::{Refusal, Slack},
    keeper::Keeper,
    layout::{BadLayout, Id, Layout, Millis},
    lease::{Lease, Problem, Terms},
    shared::{Clock, Local, Range, Shared},
};

/// Everything that can be said about how a process makes ids.
#[derive(Clone)]
pub struct Config {
    /// The cluster's layout; must be the same in all processes.
    pub layout: Layout,
    /// How far ids may be from the clock.
    pub slack: Slack,
    /// How the worker number is kept.
    pub terms: Terms,
    /// How long after the last sign of life others may take the number.
    pub lease: Duration,
    /// How long one request to the store may take.
    pub patience: Duration,
    /// How many worker numbers to take: each makes 4,096 ids in a millisecond.
    pub workers: usize,
    /// Where time comes from.
    pub source: Arc<dyn Source>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            layout: Layout::default(),
            slack: Slack::default(),
            terms: Terms::default(),
            lease: Duration::from_secs(10),
            patience: Duration::from_secs(2),
            workers: 1,
            source: Arc::new(System),
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Config { layout, slack, terms, lease, workers, .. } = self;
        f.debug_struct("Config")
            .field("layout", layout)
            .field("slack", slack)
            .field("terms", terms)
            .field("lease", lease)
            .field("workers", workers)
            .finish_non_exhaustive()
    }
}

/// Why there is no id.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoIds {
    /// All ids up to now are handed out; ask again after this time.
    RetryAfter(Duration),
    /// There is no worker number, and this is why.
    NotReady(Problem),
    /// The layout cannot be used.
    BadLayout(BadLayout),
}

impl fmt::Display for NoIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoIds::RetryAfter(after) => write!(f, "no id just now: retry after {after:?}"),
            NoIds::NotReady(problem) => problem.fmt(f),
            NoIds::BadLayout(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for NoIds {}

/// How one worker number is doing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Status {
    /// The number, while there is one.
    pub worker: Option<u32>,
    /// The mark: no id at or behind this time. 0 without a number.
    pub until: Millis,
    /// Our time when this was written.
    pub now: Millis,
    /// How far the wall clock is ahead of our time.
    pub offset: i64,
    /// Why there is no number, or what stands in the way of keeping it.
    pub problem: Option<Problem>,
}

/// One worker number of this process: its generator and its state.
pub struct Worker {
    shared: Arc<Shared<Steady>>,
    status: watch::Receiver<Status>,
    task: JoinHandle<()>,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("status", &*self.status.borrow()).finish_non_exhaustive()
    }
}

/// Ids for this process.
#[derive(Debug)]
pub struct Ids {
    workers: Vec<Worker>,
    stop: watch::Sender<bool>,
    calls: Arc<AtomicU64>,
}

impl Ids {
    /// Takes part in the cluster of `store` and waits until there are ids, or until it is clear
    /// that there will be none. At capacity it waits; [`start`](Ids::start) does not.
    pub async fn join(store: &Store, config: Config) -> Result<Ids, NoIds> {
        let ids = Ids::start(store, config).map_err(NoIds::BadLayout)?;
        match ids.ready().await {
            Ok(()) => Ok(ids),
            Err(problem) => Err(NoIds::NotReady(problem)),
        }
    }

    /// Begins to take part, in the background. Needs a tokio runtime.
    #[expect(clippy::needless_pass_by_value, reason = "like join: given away once")]
    pub fn start(store: &Store, config: Config) -> Result<Ids, BadLayout> {
        let stop = watch::Sender::new(false);
        let calls = Arc::new(AtomicU64::new(0));
        let mut workers = Vec::new();
        for _ in 0..config.workers.max(1) {
            workers.push(start_worker(store, &config, stop.subscribe(), Arc::clone(&calls))?);
        }
        Ok(Ids { workers, stop, calls })
    }

    /// Returns once every worker has its number. A problem that will not pass by itself is an
    /// error.
    pub async fn ready(&self) -> Result<(), Problem> {
        for worker in &self.workers {
            let mut status = worker.status.clone();
            let is_clear = |it: &Status| {
                it.worker.is_some() || it.problem.as_ref().is_some_and(|it| !it.is_transient())
            };
            let status = status.wait_for(is_clear).await.map_err(|_| Problem::Stopped)?;
            if let (None, Some(problem)) = (status.worker, &status.problem) {
                return Err(problem.clone());
            }
        }
        Ok(())
    }

    /// How the ids are made.
    pub fn layout(&self) -> &Layout {
        self.workers[0].shared.layout()
    }

    /// How each worker number is doing.
    pub fn status(&self) -> Vec<Status> {
        self.workers.iter().map(|worker| worker.status.borrow().clone()).collect()
    }

    /// Changes whenever something about the first worker number does.
    pub fn watch(&self) -> watch::Receiver<Status> {
        self.workers[0].status.clone()
    }

    /// How many requests to the store were made.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// The next id, without waiting. With one worker number, ids grow.
    #[inline]
    pub fn next(&self) -> Result<Id, NoIds> {
        self.first_of(|shared| shared.next())
    }

    /// Between one and `n` ids in a row, without waiting.
    pub fn range(&self, n: u64) -> Result<Range, NoIds> {
        self.first_of(|shared| shared.range(n))
    }

    /// Fills `ids` from its beginning, without waiting, and says how many there were.
    pub fn fill(&self, ids: &mut [Id]) -> Result<usize, NoIds> {
        self.first_of(|shared| shared.fill(ids))
    }

    /// The next id; waits for it when all up to now are handed out.
    pub async fn next_wait(&self) -> Result<Id, NoIds> {
        loop {
            match self.next() {
                Err(NoIds::RetryAfter(after)) => tokio::time::sleep(after).await,
                id => return id,
            }
        }
    }

    /// A handle for one thread: the quickest way to single ids.
    pub fn local(&self) -> Local<Steady> {
        Local::new(Arc::clone(&self.workers[0].shared))
    }

    #[inline]
    fn first_of<T>(
        &self,
        mut take: impl FnMut(&Shared<Steady>) -> Result<T, Refusal>,
    ) -> Result<T, NoIds> {
        let mut refused = None;
        for worker in &self.workers {
            match take(&worker.shared) {
                Ok(taken) => return Ok(taken),
                Err(refusal @ Refusal::Exhausted { .. }) => refused = Some(refusal),
                Err(refusal) => refused = refused.or(Some(refusal)),
            }
        }
        Err(self.explain(refused.unwrap_or(Refusal::Closed)))
    }

    #[cold]
    fn explain(&self, refusal: Refusal) -> NoIds {
        let worker = &self.workers[0];
        match refusal {
            Refusal::Exhausted { at } => {
                let wait = at.saturating_sub(worker.shared.clock().now()).max(1);
                NoIds::RetryAfter(Duration::from_millis(wait))
            }
            Refusal::Closed => {
                let problem = worker.status.borrow().problem.clone();
                NoIds::NotReady(problem.unwrap_or(Problem::Joining))
            }
        }
    }

    /// Makes no more ids and gives the numbers back: they can be taken at once.
    pub async fn leave(mut self) {
        self.stop.send_replace(true);
        for worker in &mut self.workers {
            // A keeper that failed has nothing to give back.
            let _ = (&mut worker.task).await;
        }
    }
}

impl Drop for Ids {
    /// Without [`leave`](Ids::leave), the numbers are given back in the background.
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

fn start_worker(
    store: &Store,
    config: &Config,
    stop: watch::Receiver<bool>,
    calls: Arc<AtomicU64>,
) -> Result<Worker, BadLayout> {
    let mut owner = [0; 16];
    // Zeros would only be taken for ours by another process without randomness.
    let _ = getrandom::fill(&mut owner);
    let owner = format!("{:032x}", u128::from_be_bytes(owner));
    let lease = Lease::new(config.layout, config.terms.clone(), owner)?;
    let clock = Steady::new(Arc::clone(&config.source));
    let shared = Arc::new(Shared::new(config.layout, config.slack, clock));
    let problem = lease.problem().cloned();
    let first = Status { worker: None, until: 0, now: 0, offset: 0, problem };
    let (status, watched) = watch::channel(first);
    let keeper = Keeper {
        store: store.clone(),
        lease,
        shared: Arc::clone(&shared),
        lease_timeout: config.lease,
        patience: config.patience,
        status,
        stop,
        calls,
    };
    let task = tokio::spawn(keeper.run());
    Ok(Worker { shared, status: watched, task })
}
