//! Everybody we are connected with: dials, greets, keeps one connection for each pair, and moves
//! bytes.
//!
//! What is decided is decided in [`crate::greet`], which does nothing; this is the part that does.
//! A node has with each peer one connection for the protocol, in both directions, and, once it has
//! sent an event to it, one for its events. So a heartbeat never waits behind a megabyte, and a
//! receiver that has stopped reading stops nothing but events.
//!
//! No lock is held while anything waits.

mod arrive;
mod control;
mod greeting;
mod lobby;
mod outbox;
mod tasks;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    sync::{mpsc, watch},
    task::AbortHandle,
    time::Instant,
};

use self::{lobby::Lobby, outbox::Item, tasks::Tasks};
use crate::{
    address::{Address, NodeId},
    events::{
        SendError,
        asks::Asks,
        head::{About, Head},
        queue::{self, Refused},
        receivers::Receivers,
    },
    greet::{
        Me,
        links::{LinkId, Links},
    },
    message::Message,
    net::{Listener, Network},
    report::Report,
    wire::limits::CONNECT_PATIENCE,
};

/// What was moved so far.
#[derive(Debug, Default)]
pub struct Counts {
    /// Messages of the protocol that were sent.
    pub control_sent: AtomicU64,
    /// Their bytes, with frames.
    pub control_sent_bytes: AtomicU64,
    /// Messages of the protocol that came.
    pub control_received: AtomicU64,
    /// Their bytes, without frames.
    pub control_received_bytes: AtomicU64,
    /// Messages of the protocol that found no connection or no room.
    pub control_dropped: AtomicU64,
    /// Events handed to a socket.
    pub events_sent: AtomicU64,
    /// Events that came from members.
    pub events_received: AtomicU64,
    /// Events that came and that nobody here wanted.
    pub events_unwanted: AtomicU64,
    /// Events that were taken for sending and then lost, or came from somebody who is no member.
    pub events_lost: AtomicU64,
    /// Connections that were refused here.
    pub refused: AtomicU64,
}

impl Counts {
    fn add(counter: &AtomicU64, n: usize) {
        counter.fetch_add(n as u64, Ordering::Relaxed);
    }

    /// All of them with their names.
    pub fn all(&self) -> [(&'static str, u64); 10] {
        let get = |it: &AtomicU64| it.load(Ordering::Relaxed);
        [
            ("control_sent", get(&self.control_sent)),
            ("control_sent_bytes", get(&self.control_sent_bytes)),
            ("control_received", get(&self.control_received)),
            ("control_received_bytes", get(&self.control_received_bytes)),
            ("control_dropped", get(&self.control_dropped)),
            ("events_sent", get(&self.events_sent)),
            ("events_received", get(&self.events_received)),
            ("events_unwanted", get(&self.events_unwanted)),
            ("events_lost", get(&self.events_lost)),
            ("refused", get(&self.refused)),
        ]
    }
}

/// A connection for the protocol.
struct Way {
    queue: mpsc::Sender<Bytes>,
    task: Option<AbortHandle>,
}

/// Attempts to reach somebody who is not connected.
struct Dialling {
    is_running: bool,
    n_failures: u32,
    not_before: Instant,
    waiting: Vec<Bytes>,
}

struct State {
    links: Links,
    ways: BTreeMap<LinkId, Way>,
    dialling: HashMap<Address, Dialling>,
    /// Connections on which others send us events: the life and the dial number of each.
    heard: HashMap<Address, ((u64, u64), AbortHandle)>,
    /// When something was last said about a source, so that a noisy stranger fills no disk.
    said: BTreeMap<String, Instant>,
}

/// What waits for one peer, and the task that sends it.
struct Outbox {
    queue: queue::Sender<Item>,
    task: AbortHandle,
}

/// Everybody we are connected with.
pub(crate) struct Connections {
    me: Me,
    network: Network,
    state: Mutex<State>,
    outboxes: RwLock<HashMap<Address, Outbox>>,
    inbox: mpsc::Sender<(NodeId, Message)>,
    view: watch::Receiver<Arc<Report>>,
    strangers: Lobby,
    tasks: Tasks,
    next: AtomicU64,
    pub(crate) receivers: Receivers,
    pub(crate) asks: Asks,
    pub(crate) counts: Counts,
}

impl Connections {
    /// Opens the door, and hands messages of the protocol to `inbox`.
    pub(crate) fn start(
        me: Me,
        network: Network,
        listener: Listener,
        inbox: mpsc::Sender<(NodeId, Message)>,
        view: watch::Receiver<Arc<Report>>,
    ) -> Arc<Connections> {
        let state = State {
            links: Links::new(me.identity.node.address.clone()),
            ways: BTreeMap::new(),
            dialling: HashMap::new(),
            heard: HashMap::new(),
            said: BTreeMap::new(),
        };
        let connections = Arc::new(Connections {
            me,
            network,
            state: Mutex::new(state),
            outboxes: RwLock::default(),
            inbox,
            view,
            strangers: Lobby::default(),
            tasks: Tasks::default(),
            next: AtomicU64::new(1),
            receivers: Receivers::default(),
            asks: Asks::default(),
            counts: Counts::default(),
        });
        connections.tasks.spawn(Arc::clone(&connections).keep_door(listener));
        connections
    }

    /// Closes everything, and comes back when the port is free. What was still waiting is gone.
    pub(crate) async fn close(&self) {
        self.tasks.close().await;
        self.stop();
    }

    /// Closes everything, soon.
    pub(crate) fn stop(&self) {
        self.tasks.stop();
        self.receivers.end();
        let mut state = self.state();
        state.ways.clear();
        state.heard.clear();
        self.outboxes.write().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Takes an event for a member, or says at once why not.
    pub(crate) fn tell(
        self: &Arc<Self>,
        to: &Address,
        head: &Head<'_>,
        body: Bytes,
    ) -> Result<(), SendError> {
        let head = head.encode(body.len())?;
        let bytes = head.len() + body.len();
        let outbox = self.outbox(to).ok_or(SendError::Stopped)?;
        outbox.try_send(Item { head, body }, bytes).map_err(|why| match why {
            Refused::Full => SendError::QueueFull(to.clone()),
            Refused::Closed => SendError::NotMember(to.clone()),
        })
    }

    /// The same, waiting for room.
    pub(crate) async fn tell_when_there_is_room(
        self: &Arc<Self>,
        to: &Address,
        head: &Head<'_>,
        body: Bytes,
    ) -> Result<(), SendError> {
        let head = head.encode(body.len())?;
        let bytes = head.len() + body.len();
        let outbox = self.outbox(to).ok_or(SendError::Stopped)?;
        match outbox.send(Item { head, body }, bytes).await {
            true => Ok(()),
            false => Err(SendError::NotMember(to.clone())),
        }
    }

    /// Sends an answer. Nobody is there to be told if that fails, so it is counted.
    pub(crate) fn reply(self: &Arc<Self>, to: &Address, about: About, kind: &str, body: Bytes) {
        let version = self.view.borrow().version;
        let head = Head { about, kind, version };
        if self.tell(to, &head, body).is_err() {
            Counts::add(&self.counts.events_lost, 1);
        }
    }

    /// A member was removed: what waits for it is dropped.
    pub(crate) fn forget(&self, member: &Address) {
        self.asks.gone(member);
        let mut outboxes = self.outboxes.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(outbox) = outboxes.remove(member) {
            outbox.task.abort();
        }
        drop(outboxes);
        if let Some((_, task)) = self.state().heard.remove(member) {
            task.abort();
        }
    }

    /// Whom we hold a connection of the protocol with.
    pub(crate) fn connected(&self) -> Vec<(Address, bool)> {
        let state = self.state();
        let mine = |it: crate::greet::links::Dialler| it == crate::greet::links::Dialler::Me;
        state.links.peers().map(|(peer, link)| (peer.clone(), mine(link.dialler))).collect()
    }

    /// Whether to write something about `what` into the log: once a minute is enough.
    fn may_say(&self, what: &str) -> bool {
        const QUIET: Duration = Duration::from_secs(60);
        const SAID_MAX: usize = 1_024;
        let now = Instant::now();
        let mut state = self.state();
        if state.said.get(what).is_some_and(|last| now - *last < QUIET) {
            return false;
        }
        if state.said.len() >= SAID_MAX {
            state.said.retain(|_, last| now - *last < QUIET);
        }
        if state.said.len() < SAID_MAX {
            state.said.insert(what.to_owned(), now);
        }
        true
    }

    /// How long to wait for a connection: not longer than it takes until the next heartbeat, so that
    /// a line that was mended is found soon. The kernel asks a second time only after a second.
    fn connect_patience(&self) -> Duration {
        let heartbeat = self.me.config.timers.heartbeat_interval;
        heartbeat.clamp(Duration::from_millis(100), CONNECT_PATIENCE)
    }

    fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
