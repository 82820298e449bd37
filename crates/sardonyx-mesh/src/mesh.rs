//! A node in the mesh, for who runs it: start, members, leader, events, leave.

use std::{
    fmt, io,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use tokio::sync::{broadcast, mpsc, oneshot, watch};

use crate::{
    address::{Address, NodeId},
    change::Change,
    claim::{Claim, FencingToken, Quality},
    clock,
    config::{Config, ConfigError},
    connections::{Connections, Counts},
    durable::{Durable, Found},
    events::{
        AskError, Event, Question, SendError,
        envelope::{Envelope, Events, RawEvents},
        head::{About, Head},
    },
    greet::{Me, key::Key, message::Identity},
    kept::Kept,
    member::{Input, Member},
    moment::Moment,
    net::Network,
    report::Report,
    runtime::{self, Command, Ended, INBOX_MAX, Runtime, Saver, Shown},
    view::Status,
    wire::codec,
};

/// Where a node keeps its promises.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Store {
    /// In a file in this directory, which belongs to this node alone.
    Directory(PathBuf),
    /// Nowhere. A node that restarts may vote twice in one election, and then two lead. For tests.
    UnsafeVolatileVotes,
}

/// Everything a node is started with.
#[derive(Clone, Debug)]
pub struct Options {
    /// Who it is and whom it looks for.
    pub config: Config,
    /// How it reaches others.
    pub network: Network,
    /// The key that all members share.
    pub key: Option<Key>,
    /// Where it keeps its promises.
    pub store: Store,
}

/// Why a node did not start.
#[derive(Debug)]
pub enum StartError {
    /// The configuration is not one: change it.
    Config(ConfigError),
    /// The port or the directory cannot be had.
    World(io::Error),
    /// The directory holds another node's promises: give it its own.
    OtherStore {
        /// Whose they are.
        of: Address,
    },
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Config(why) => write!(f, "{why}"),
            StartError::World(why) => write!(f, "{why}"),
            StartError::OtherStore { of } => {
                write!(f, "the directory holds the promises of {of}: give this node its own")
            }
        }
    }
}

impl std::error::Error for StartError {}

/// What became of an event for one of many.
pub type Sent = (Address, Result<(), SendError>);

/// Who leads, as this node knows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Leader {
    /// Who, and for which version.
    pub claim: Claim,
    /// What it is worth.
    pub quality: Quality,
    /// If this node leads and may act: what to show to whoever is written to.
    pub token: Option<FencingToken>,
}

/// Changes as they come, after the view that they start from.
#[derive(Debug)]
pub struct Watch {
    /// How things were when the watch began. Changes that are already in it may come again.
    pub snapshot: Arc<Report>,
    changes: broadcast::Receiver<Arc<Change>>,
    view: watch::Receiver<Arc<Report>>,
}

/// What a watch says next.
#[derive(Clone, Debug)]
pub enum Seen {
    /// Something changed.
    Change(Arc<Change>),
    /// More changed than could be kept for this watch: this is how things are now.
    Lagged(Arc<Report>),
}

impl Watch {
    /// The next change; `None` once the node has stopped.
    pub async fn next(&mut self) -> Option<Seen> {
        match self.changes.recv().await {
            Ok(change) => Some(Seen::Change(change)),
            Err(broadcast::error::RecvError::Lagged(_)) => {
                Some(Seen::Lagged(Arc::clone(&self.view.borrow())))
            }
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

/// How many changes are kept for a watch that does not look.
const CHANGES_MAX: usize = 4_096;

/// A node in the mesh. Dropping it stops the node without a goodbye, as a crash would.
pub struct Mesh {
    node: NodeId,
    ttl: Duration,
    connections: Arc<Connections>,
    commands: mpsc::Sender<Command>,
    view: watch::Receiver<Arc<Report>>,
    changes: broadcast::Sender<Arc<Change>>,
    token: Arc<Mutex<Option<FencingToken>>>,
    ended: watch::Receiver<Ended>,
}

impl fmt::Debug for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mesh({})", self.node)
    }
}

impl Drop for Mesh {
    fn drop(&mut self) {
        self.connections.stop();
        // The loop ends by itself when its last handle is gone.
        let _ = self.commands.try_send(Command::Stop);
    }
}

fn open(store: Store, config: &Config) -> Result<(Option<Durable>, Kept), StartError> {
    let address = &config.address;
    let Store::Directory(dir) = store else { return Ok((None, Kept::empty(address.clone()))) };
    let (durable, found) = Durable::open(&dir).map_err(StartError::World)?;
    let corrupt = |why: String| {
        tracing::error!(why, "what was promised cannot be read: this node does not vote for now");
        Kept::corrupt(address.clone())
    };
    let kept = match found {
        Found::Missing => Kept::empty(address.clone()),
        Found::Corrupt(why) => corrupt(why),
        Found::Intact(bytes) => match codec::decode::<Kept>(&bytes) {
            Ok(kept) if kept.address == *address => kept,
            Ok(kept) => return Err(StartError::OtherStore { of: kept.address }),
            Err(why) => corrupt(why.to_string()),
        },
    };
    Ok((Some(durable), kept))
}

impl Mesh {
    /// Starts a node: listens, and looks for its cluster.
    pub async fn start(options: Options) -> Result<Mesh, StartError> {
        let Options { config, network, key, store } = options;
        let config = config.check().map_err(StartError::Config)?;
        let (durable, kept) = open(store, &config)?;
        let listener = network.listen(&config.address).await.map_err(StartError::World)?;
        let incarnation = clock::next_life(kept.incarnation);
        let node = NodeId { address: config.address.clone(), incarnation };
        let mut random = [0; 8];
        getrandom::fill(&mut random)
            .map_err(|why| StartError::World(io::Error::other(why.to_string())))?;
        let random = u64::from_le_bytes(random);
        let (heartbeat, ttl) = (config.timers.heartbeat_interval, config.timers.ttl_timeout);
        let identity = Identity { node: node.clone(), name: config.name.clone() };
        let me = Me { identity, config: config.clone(), key };
        let member = Member::new(config, kept, incarnation, random, clock::now());
        let (view, seen) = watch::channel(Arc::new(member.status(clock::now())));
        let (to_inbox, inbox) = mpsc::channel(INBOX_MAX);
        let connections = Connections::start(me, network, listener, to_inbox, seen.clone());
        let (saver, saved) = match durable {
            Some(durable) => runtime::start_saver(durable),
            None => (Saver::Volatile, mpsc::channel(1).1),
        };
        let (commands, to_do) = mpsc::channel(64);
        let (changes, token) = (broadcast::channel(CHANGES_MAX).0, Arc::default());
        let (ended, ends) = watch::channel(None);
        let shown = Shown { view, changes: changes.clone(), token: Arc::clone(&token), ended };
        let runtime = Runtime {
            member,
            heartbeat,
            connections: Arc::clone(&connections),
            inbox,
            commands: to_do,
            saver,
            saved,
            shown,
            me: node.clone(),
            published: clock::now(),
        };
        tokio::spawn(runtime.run());
        Ok(Mesh { node, ttl, connections, commands, view: seen, changes, token, ended: ends })
    }

    /// The clock by which tokens end: the same for all processes of one machine.
    pub fn now() -> Moment {
        clock::now()
    }

    /// Who this node is.
    pub fn node(&self) -> &NodeId {
        &self.node
    }

    /// The view after the last change: members, leader, version.
    pub fn members(&self) -> Arc<Report> {
        Arc::clone(&self.view.borrow())
    }

    /// How things are at this moment, suspicions included. The last view once it has stopped.
    pub async fn status(&self) -> Report {
        let (answer, report) = oneshot::channel();
        if self.commands.send(Command::Status(answer)).await.is_ok()
            && let Ok(report) = report.await
        {
            return report;
        }
        Report::clone(&self.view.borrow())
    }

    /// Membership and leadership from now on, each change with its reason.
    pub fn watch(&self) -> Watch {
        let changes = self.changes.subscribe();
        let snapshot = self.members();
        Watch { snapshot, changes, view: self.view.clone() }
    }

    /// Who leads, if anybody does.
    pub fn leader(&self) -> Option<Leader> {
        let (view, token) = (self.members(), self.fencing_token());
        let claim = view.leader.clone()?;
        let quality = match claim.leader == self.node {
            // What is true of ourselves is known to the microsecond.
            true if token.is_some() => Quality::Established,
            true => Quality::Provisional,
            false => view.quality.unwrap_or(Quality::Provisional),
        };
        Some(Leader { claim, quality, token })
    }

    /// The proof that this node may act as leader, while it may. It carries its end; whoever is
    /// written to should keep the largest version it has seen and refuse smaller ones.
    pub fn fencing_token(&self) -> Option<FencingToken> {
        let token = *self.token.lock().unwrap_or_else(PoisonError::into_inner);
        token.filter(|it| clock::now() < it.valid_until)
    }

    /// Sends an event to one member, or says at once why not. `Ok` means that it waits to be sent.
    pub fn whisper<T: Event>(&self, to: &Address, event: &T) -> Result<(), SendError> {
        self.whisper_raw(to, T::KIND, body(event)?)
    }

    /// The same with a kind and bytes.
    pub fn whisper_raw(&self, to: &Address, kind: &str, body: Bytes) -> Result<(), SendError> {
        self.connections.tell(to, &self.head(to, About::Tell, kind)?, body)
    }

    /// Sends an event to one member, and waits while its queue is full.
    pub async fn send<T: Event>(&self, to: &Address, event: &T) -> Result<(), SendError> {
        self.send_raw(to, T::KIND, body(event)?).await
    }

    /// The same with a kind and bytes.
    pub async fn send_raw(&self, to: &Address, kind: &str, body: Bytes) -> Result<(), SendError> {
        let head = self.head(to, About::Tell, kind)?;
        self.connections.tell_when_there_is_room(to, &head, body).await
    }

    /// Sends an event to every active member, and reports for each.
    pub fn roar<T: Event>(&self, event: &T, including_self: bool) -> Result<Vec<Sent>, SendError> {
        Ok(self.roar_raw(T::KIND, &body(event)?, including_self))
    }

    /// The same with a kind and bytes.
    pub fn roar_raw(&self, kind: &str, body: &Bytes, including_self: bool) -> Vec<Sent> {
        let view = self.members();
        let head = Head { about: About::Tell, kind, version: view.version };
        let is_for = |to: &Address| including_self || *to != self.node.address;
        let active = view.members.iter().filter(|row| row.status == Status::Active);
        let to = active.map(|row| &row.node.address).filter(|to| is_for(to));
        to.map(|to| (to.clone(), self.connections.tell(to, &head, body.clone()))).collect()
    }

    /// Asks one member, and waits for its answer.
    pub async fn ask<Q: Question>(
        &self,
        to: &Address,
        question: &Q,
        patience: Duration,
    ) -> Result<Q::Answer, AskError> {
        let body = body(question).map_err(AskError::NotSent)?;
        let answer = self.ask_raw(to, Q::KIND, body, patience).await?;
        codec::decode(&answer).map_err(|why| AskError::Unreadable(why.to_string()))
    }

    /// The same with a kind and bytes.
    pub async fn ask_raw(
        &self,
        to: &Address,
        kind: &str,
        body: Bytes,
        patience: Duration,
    ) -> Result<Bytes, AskError> {
        let (id, answer) = self.connections.asks.open(to).ok_or(AskError::TooMany)?;
        let sent = self
            .head(to, About::Ask(id), kind)
            .and_then(|head| self.connections.tell(to, &head, body));
        let answered = match sent {
            Err(why) => Err(AskError::NotSent(why)),
            Ok(()) => match tokio::time::timeout(patience, answer).await {
                Ok(Ok(Ok(body))) => return Ok(body),
                Ok(Ok(Err(why))) => Err(AskError::NoAnswer(why)),
                Ok(Err(_)) => Err(AskError::NotSent(SendError::Stopped)),
                Err(_) => Err(AskError::TimedOut),
            },
        };
        self.connections.asks.close(id);
        answered
    }

    /// Takes every event of one type from now on. It is bounded: who does not read slows down
    /// those who send.
    pub fn receive<T: Event>(&self) -> Events<T> {
        Events::new(self.connections.receivers.add(Some(T::KIND)))
    }

    /// Takes every event of a kind, or all events, as bytes.
    pub fn receive_raw(&self, kind: Option<&str>) -> RawEvents {
        RawEvents { queue: self.connections.receivers.add(kind) }
    }

    /// Calls `handler` for every event of one type, on a thread of its own, which may wait.
    pub fn on<T: Event>(&self, mut handler: impl FnMut(Envelope<T>) + Send + 'static) {
        let mut events = self.receive::<T>();
        std::thread::spawn(move || {
            while let Some(envelope) = events.blocking_next() {
                handler(envelope);
            }
        });
    }

    /// Says goodbye and stops. A leader hands over first. If nobody answers for
    /// `ttl-timeout`, it stops without having been heard, which others notice as a crash.
    pub async fn leave(&self) -> Result<(), String> {
        self.wish(Input::Leave).await?;
        match tokio::time::timeout(self.ttl * 2, self.ended()).await {
            Ok(ended) => ended,
            Err(_) => {
                let _ = self.commands.send(Command::Stop).await;
                Err(format!("nobody confirmed it within {:?}; stopped all the same", self.ttl * 2))
            }
        }
    }

    /// Hands the lead to another member. `Ok` means that it was asked to take over.
    pub async fn transfer_leadership(&self, to: Address) -> Result<(), String> {
        self.wish(Input::Transfer { to }).await
    }

    /// Gives the vote of a member that will not come back to another one.
    pub async fn replace_voter(&self, old: Address, new: Address) -> Result<(), String> {
        self.wish(Input::ReplaceVoter { old, new }).await
    }

    /// Allows a new cluster to come to be, where that is not automatic.
    pub async fn found(&self) -> Result<(), String> {
        self.wish(Input::Found).await
    }

    /// Stops without a goodbye, as a crash would.
    pub async fn stop(&self) {
        let _ = self.commands.send(Command::Stop).await;
        self.ended().await.ok();
    }

    /// Waits until the node has stopped; an error says why it had to.
    pub async fn ended(&self) -> Result<(), String> {
        let mut ended = self.ended.clone();
        let how = ended.wait_for(Option::is_some).await.map(|it| it.clone());
        how.ok().flatten().unwrap_or(Ok(()))
    }

    /// What was sent and received so far.
    pub fn counts(&self) -> &Counts {
        &self.connections.counts
    }

    /// With whom there is a connection of the protocol, and whether this node dialled it.
    pub fn connected(&self) -> Vec<(Address, bool)> {
        self.connections.connected()
    }

    async fn wish(&self, input: Input) -> Result<(), String> {
        let stopped = || "this node has stopped".to_owned();
        let (answer, heard) = oneshot::channel();
        self.commands.send(Command::Wish(Box::new(input), answer)).await.map_err(|_| stopped())?;
        heard.await.map_err(|_| stopped())?
    }

    fn head<'a>(&self, to: &Address, about: About, kind: &'a str) -> Result<Head<'a>, SendError> {
        let view = self.view.borrow();
        let row = view.members.iter().find(|row| row.node.address == *to);
        match row.map(|row| row.status) {
            Some(Status::Active) => Ok(Head { about, kind, version: view.version }),
            Some(Status::Joining | Status::Unreachable | Status::Leaving | Status::Removed) => {
                Err(SendError::NotActive(to.clone()))
            }
            None => Err(SendError::NotMember(to.clone())),
        }
    }
}

fn body<T: Event>(event: &T) -> Result<Bytes, SendError> {
    let bytes = codec::encode(event).map_err(|why| SendError::Unwritable(why.to_string()))?;
    Ok(Bytes::from(bytes))
}
