//! A store, nodes on it, and waiting for what they should come to.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use sardonyx_core::{JobId, Replica, TaskId, command::SubmitJob};
use sardonyx_peer::{
    Client, Config, Driver, Event, WaitTasks,
    job::{BuiltIn, Job, Language},
};
use sardonyx_store::{Options, Store};

/// The bound for anything that should happen soon; reached only by what is broken.
pub const SOON: Duration = Duration::from_secs(30);

pub fn run(scenario: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(4 * SOON, scenario).await.expect("the scenario ends");
    });
}

pub async fn memory() -> Store {
    Store::open("memory:", Options { patience: Duration::from_secs(2) }).await.unwrap()
}

/// A node whose events are kept.
pub struct Node {
    pub driver: Driver,
    pub tasks: Arc<WaitTasks>,
    events: Arc<Mutex<Vec<Event>>>,
}

impl Node {
    pub fn start(store: &Store, n_peers: usize) -> Node {
        Node::start_with(store, n_peers, |_| {})
    }

    pub fn start_with(store: &Store, n_peers: usize, change: impl FnOnce(&mut Config)) -> Node {
        let tasks = Arc::new(WaitTasks::new(store));
        let events = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&events);
        let mut config = Config::new(Arc::clone(&tasks) as Arc<_>);
        config.n_peers = n_peers;
        config.session_timeout = Duration::from_secs(2);
        config.back_off.first = Duration::from_millis(5);
        config.back_off.longest = Duration::from_millis(100);
        config.watcher = Arc::new(move |event: &Event| kept.lock().unwrap().push(event.clone()));
        change(&mut config);
        Node { driver: Driver::start(store, config), tasks, events }
    }

    pub fn events(&self) -> Vec<Event> {
        self.events.lock().unwrap().clone()
    }

    /// Waits until what the node knows is so.
    pub async fn sees(&self, what: &str, is_so: impl Fn(&Replica) -> bool) {
        let mut view = self.driver.view();
        let seen = tokio::time::timeout(SOON, view.wait_for(|view| is_so(&view.replica))).await;
        let Ok(seen) = seen else { panic!("{what}: {}", self.driver.view().borrow().replica) };
        seen.unwrap_or_else(|_| panic!("{what}: the node has stopped"));
    }

    pub async fn is_in(&self, n_members: usize) {
        let mut view = self.driver.view();
        let seen = view.wait_for(|view| view.n_members == n_members);
        tokio::time::timeout(SOON, seen).await.expect("all are in").unwrap();
    }

    pub fn life(&self) -> String {
        self.driver.view().borrow().life.clone()
    }

    /// The newest life's name, as it was told: also while the loop stands still.
    pub fn life_that_began(&self) -> String {
        let events = self.events();
        let began = events.iter().rev().find_map(|event| {
            if let Event::Began(life, _) = event { Some(life.clone()) } else { None }
        });
        began.expect("a life has begun")
    }

    pub async fn until(&self, what: &str, is_so: impl Fn(&[Event]) -> bool) {
        let begun = std::time::Instant::now();
        while !is_so(&self.events()) {
            assert!(begun.elapsed() < SOON, "{what}: {:?}", self.events());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

/// A job of one task that waits, with so many peers at most.
pub fn waiting_job(max_peers: u32) -> Job {
    let text = format!(
        "name = \"w\"\n[catalog.t]\ntype = \"input\"\nplugin = \"wait\"\nmax-peers = {max_peers}"
    );
    Job::read(&text, Language::Toml, &BuiltIn).unwrap()
}

pub fn submit(id: &str, job: &Job) -> SubmitJob {
    job.submit(job_id(id))
}

pub fn job_id(id: &str) -> JobId {
    JobId::new(id).unwrap()
}

pub fn task_id(id: &str) -> TaskId {
    TaskId::new(id).unwrap()
}

pub async fn client(store: &Store) -> Client {
    Client::open(store).await.unwrap()
}

/// The laws hold, and everybody in the ring has a pulse.
pub async fn is_healthy(store: &Store, replica: &Replica) {
    sardonyx_core::laws::check(replica).unwrap();
    for peer in replica.peers() {
        assert!(store.alive(peer).await.unwrap(), "{peer} has no pulse");
    }
}
