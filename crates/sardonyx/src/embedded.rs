//! A whole cluster in this process: a store, queues, one node with its peers, and more if wanted.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use sardonyx_core::{Command, JobId, command::Rejected, replica::job::JobOutcome};
use sardonyx_peer::{Client, Config, DataTasks, Driver, Figures, Namer, View, job::Job};
use sardonyx_queue::Queues;
use sardonyx_store::{Delivery, Start, Store, Subscription};
use sardonyx_task::{
    Registry,
    meter::Meters,
    pipeline::Engine,
    pool::Pool,
    spy::{NoSpy, Spy},
};
use tokio::sync::{Mutex, watch};

use crate::http;

/// How long peers live without a sign of life. Short, since nothing can come between them and the
/// store: only a process that died leaves peers behind, and the next one waits this long for them.
const SESSION: Duration = Duration::from_secs(2);

/// How an embedded cluster is to be.
#[derive(Clone)]
pub struct Options {
    /// How many virtual peers.
    pub peers: usize,
    /// Where messages are kept: `memory:`, `embedded:DIR`, …
    pub queues: String,
    /// Where the log is kept.
    pub store: String,
    /// How many compute threads; `None`: one for each core.
    pub threads: Option<usize>,
    /// What functions, inputs and outputs there are.
    pub registry: Registry,
    /// Who watches.
    pub spy: Arc<dyn Spy>,
    /// What the node is called, which its peers' ids begin with; `None`: something that nobody else
    /// is called. Only where nobody else uses the store, since names must never come twice.
    pub name: Option<String>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            peers: 8,
            queues: "memory:".into(),
            store: "memory:".into(),
            threads: None,
            registry: Registry::built_in(),
            spy: Arc::new(NoSpy),
            name: None,
        }
    }
}

/// How a job ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ended {
    /// Completed or killed.
    pub outcome: JobOutcome,
    /// Why it was killed.
    pub reason: Option<String>,
}

/// A cluster in this process. Dropped, it is cut off; [`Embedded::stop`] takes it down in order.
pub struct Embedded {
    store: Store,
    /// Speaks for those who submit, one after the other.
    client: Mutex<Client>,
    driver: Driver,
    engine: Engine,
    figures: Figures,
}

impl Embedded {
    /// Starts it. Returns when the node runs; peers may still be joining.
    pub async fn start(options: Options) -> Result<Embedded, String> {
        let text = |why: &dyn std::fmt::Display| why.to_string();
        let queues = Queues::open(&options.queues).await.map_err(|why| text(&why))?;
        let patience = sardonyx_store::Options { patience: Duration::from_secs(5) };
        let store = Store::open(&options.store, patience).await.map_err(|why| text(&why))?;
        let engine = Engine {
            queues,
            registry: Arc::new(options.registry),
            pool: Pool::new(options.threads)?,
            spy: options.spy,
            meters: Meters::default(),
        };
        let client = Client::open(&store).await.map_err(|why| text(&why))?;
        let figures = Figures::of(engine.meters.clone());
        let driver = drive(&store, &engine, Some(&figures), options.peers, options.name);
        Ok(Embedded { store, client: Mutex::new(client), driver, engine, figures })
    }

    /// Another node of this cluster, in this process: it has a session of its own, so it can be lost
    /// without the others. What is in [`Options::name`] holds for `name`.
    pub fn add_node(&self, peers: usize, name: Option<String>) -> Node {
        // The meters are one for all nodes of this process, and the first tells what they show.
        Node(drive(&self.store, &self.engine, None, peers, name))
    }

    /// The store, to read the log.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Submits a job under an id. Submitting one id twice runs the job once.
    pub async fn submit(&self, job: &Job, id: &str) -> Result<Submitted, String> {
        let id = JobId::new(id).map_err(|why| why.to_string())?;
        // From before it is submitted on: the reason for which it is killed is behind that.
        let log = self.store.subscribe(Start::Origin);
        let said = self.client.lock().await.say(&job.submit(id.clone()).into()).await;
        let said = said.map_err(|why| why.to_string())?;
        match said.outcome {
            // It is there: the same id again goes on with the same job.
            Some(Err(Rejected::KnownJob(_))) => {}
            Some(Err(why)) => return Err(format!("the job was rejected: {why}")),
            Some(Ok(())) | None => {}
        }
        Ok(Submitted { id, log, view: self.driver.view() })
    }

    /// Submits a job and waits for its end.
    pub async fn run(&self, job: &Job, id: &str) -> Result<Ended, String> {
        self.submit(job, id).await?.ended().await
    }

    /// What went through each task so far.
    pub fn meters(&self) -> &Meters {
        &self.engine.meters
    }

    /// The queues, to look into.
    pub fn queues(&self) -> &Queues {
        &self.engine.queues
    }

    /// What the node knows, as it changes.
    pub fn view(&self) -> watch::Receiver<View> {
        self.driver.view()
    }

    /// Serves the HTTP API and the dashboard of this cluster. Stop the server before the cluster: it
    /// holds the store open.
    pub fn serve_http(
        &self,
        listener: tokio::net::TcpListener,
        terms: http::Terms,
    ) -> Result<http::Server, String> {
        let about = http::About {
            store: self.store.clone(),
            cluster: "embedded".into(),
            label: format!("pid {}", std::process::id()),
            registry: (*self.engine.registry).clone(),
            figures: self.figures.clone(),
            queues: Some(self.engine.queues.clone()),
            mesh: None,
            nodes: Arc::default(),
        };
        http::serve(listener, about, terms)
    }

    /// Stops the tasks, leaves the ring, closes the store: returns when every [`Submitted`] is gone as well.
    pub async fn stop(mut self) -> Result<(), String> {
        self.driver.stop();
        let ended = self.driver.ended().await.map_err(|why| why.to_string());
        let Embedded { store, client, driver, engine, figures } = self;
        drop((client, driver, engine, figures));
        store.close().await;
        ended
    }
}

fn drive(
    store: &Store,
    engine: &Engine,
    figures: Option<&Figures>,
    peers: usize,
    name: Option<String>,
) -> Driver {
    let tasks = DataTasks::new(Some(engine.clone()), store);
    let mut config = Config {
        n_peers: peers.max(1),
        session_timeout: SESSION,
        figures: figures.cloned(),
        ..Config::new(Arc::new(tasks))
    };
    if let Some(name) = name {
        config.label = format!("{name} in {}", config.label);
        config.namer = named(name);
    }
    Driver::start(store, config)
}

/// Calls the first life of a node by its name, and the later ones by their number as well.
fn named(name: String) -> Namer {
    let n_lives = AtomicU64::new(0);
    Arc::new(move || {
        let life = match n_lives.fetch_add(1, Ordering::Relaxed) {
            0 => name.clone(),
            n => format!("{name}.{}", n + 1),
        };
        Box::pin(std::future::ready(Ok(life)))
    })
}

/// A node beside the first. Dropped, it is cut off: its session and its tasks end, and it says
/// nothing to anybody, as if its process had been killed.
pub struct Node(Driver);

impl Node {
    /// What it knows, as it changes.
    pub fn view(&self) -> watch::Receiver<View> {
        self.0.view()
    }

    /// Stops its tasks and leaves the ring.
    pub async fn stop(mut self) -> Result<(), String> {
        self.0.stop();
        self.0.ended().await.map_err(|why| why.to_string())
    }
}

/// A job that was submitted.
pub struct Submitted {
    id: JobId,
    log: Subscription,
    view: watch::Receiver<View>,
}

impl Submitted {
    /// Returns when it has ended.
    pub async fn ended(mut self) -> Result<Ended, String> {
        let outcome = self.outcome().await?;
        let reason = match outcome {
            JobOutcome::Completed => None,
            JobOutcome::Killed => self.reason().await,
        };
        Ok(Ended { outcome, reason })
    }

    async fn outcome(&mut self) -> Result<JobOutcome, String> {
        loop {
            let outcome = {
                let view = self.view.borrow_and_update();
                let collected = || view.replica.outcomes().find(|(id, _)| **id == self.id);
                match view.replica.job(&self.id) {
                    Some(job) => job.outcome(),
                    None => collected().map(|(_, outcome)| outcome),
                }
            };
            if let Some(outcome) = outcome {
                return Ok(outcome);
            }
            self.view.changed().await.map_err(|_| "the node has stopped")?;
        }
    }

    /// Why it was killed: the log says so, and somewhere before its end.
    async fn reason(&mut self) -> Option<String> {
        let patience = Duration::from_secs(3);
        while let Ok(Ok(delivery)) = tokio::time::timeout(patience, self.log.next()).await {
            if let Delivery::Entry { command: Ok(Command::KillJob(kill)), .. } = delivery
                && kill.job == self.id
            {
                return Some(kill.reason);
            }
        }
        None
    }
}
