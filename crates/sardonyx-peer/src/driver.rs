//! The driver: one loop that feeds a [`Node`](crate::Node) from a store and does what it says.
//!
//! A node lives many lives. A life has one session, one subscription, and peers of its own; when
//! its session is lost, or anything in its loop fails, its tasks are stopped, its pulses dropped,
//! and another life begins under new ids after a while. Nothing is carried over, so no life can
//! act for an earlier one ([`life`]). Only what a person must decide ends the driver ([`Fatal`]).

mod agree;
mod boarding;
mod life;
mod outbox;
mod perform;
mod timers;
mod vigil;
mod watches;

use std::{fmt, pin::Pin, sync::Arc, time::Duration};

use sardonyx_core::{
    Command, PeerId, Position, Replica, command::ConfigureCluster, peer::BackOff,
    replica::job::Assignment,
};
use sardonyx_mesh::Change;
use sardonyx_store::{Delivery, Error, Result, Store, Subscription};
use tokio::{sync::watch, task::JoinHandle};

pub use agree::{CHECKPOINT_EVERY, is_checkpoint};
pub(crate) use life::Heard;
pub use life::INBOX_MAX;
pub use outbox::OUTBOX_MAX;

use crate::{
    chores::{HistoryTerms, Office},
    figures::Figures,
    tasks::Tasks,
};

/// How long a task may take to stop, unless a node is told otherwise.
pub const TASK_STOP_MAX: Duration = Duration::from_secs(10);

/// What a node is to be.
#[derive(Clone)]
pub struct Config {
    /// How many virtual peers it has.
    pub n_peers: usize,
    /// How long its session lives without a sign of life. The store may grant another time.
    pub session_timeout: Duration,
    /// How long aborted joiners, and failed lives, wait before they try again.
    pub back_off: BackOff,
    /// After how many failed attempts a joiner has everybody's pulse checked.
    pub peer_gc_every: Option<u32>,
    /// From how many entries on the log is trimmed; `None` leaves that to operators.
    pub trim_after: Option<u64>,
    /// Who does the chores that one node does for all. Without an office nodes take turns at
    /// trimming, and ended jobs stay until then.
    pub office: Option<Office>,
    /// How long a node that is asked to stop may take to leave the ring.
    pub leave_max: Duration,
    /// How long a task may take to stop. One that takes longer may be doing anything, so the process
    /// must end rather than come back beside it.
    pub task_stop_max: Duration,
    /// Asked of a cluster that has no peers yet.
    pub settings: Option<ConfigureCluster>,
    /// Who this is, for people who look.
    pub label: String,
    /// Starts tasks.
    pub tasks: Arc<dyn Tasks>,
    /// What this node tells the others of its tasks; `None`: nothing.
    pub figures: Option<Figures>,
    /// Evenly drawn numbers, which spread back-offs.
    pub random: Arc<dyn Fn() -> u32 + Send + Sync>,
    /// Names each life: something that nobody else is ever called. It may take its time.
    pub namer: Namer,
    /// Hears what happens, for people who look. Called from the loop: must not wait.
    pub watcher: Arc<dyn Fn(&Event) + Send + Sync>,
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config").field("n_peers", &self.n_peers).finish_non_exhaustive()
    }
}

impl Config {
    /// A node with one peer, and the usual terms.
    pub fn new(tasks: Arc<dyn Tasks>) -> Config {
        Config {
            n_peers: 1,
            session_timeout: Duration::from_secs(10),
            back_off: BackOff::default(),
            peer_gc_every: Some(4),
            trim_after: Some(100_000),
            office: None,
            leave_max: Duration::from_secs(10),
            task_stop_max: TASK_STOP_MAX,
            settings: None,
            label: format!("pid {}", std::process::id()),
            tasks,
            figures: None,
            random: Arc::new(|| random_u64().unwrap_or_default() as u32),
            namer: Arc::new(|| Box::pin(std::future::ready(fresh_name()))),
            watcher: Arc::new(|_| {}),
        }
    }
}

impl Config {
    fn history(&self) -> HistoryTerms {
        let kept = HistoryTerms { jobs_max: None, age_max: None };
        self.office.as_ref().map_or(kept, |office| office.history)
    }
}

/// Makes a name that nobody else has.
pub type Namer =
    Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Result<String>> + Send>> + Send + Sync>;

/// What happens in a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A life cannot begin yet, and why.
    Waiting(String),
    /// A life begins: its name, and the session's timeout.
    Began(String, Duration),
    /// The log was played up to here; it ended at the second when reading began.
    Played(Option<Position>, Option<Position>),
    /// The cluster is known; so many peers are in it.
    CaughtUp(Option<Position>, usize),
    /// A peer of ours is in; so many peers are in the cluster now.
    Joined(PeerId, usize),
    /// A peer of ours was said to have left.
    Left(PeerId),
    /// A task of ours runs.
    TaskStarted(PeerId, Assignment),
    /// A task of ours has stopped.
    TaskStopped(PeerId, Assignment),
    /// This node does the chores now, in the office of this version, and why.
    Collecting(String, u64),
    /// Something about the mesh that this node is in.
    Mesh(Arc<Change>),
    /// The log was trimmed up to here.
    Trimmed(Position),
    /// The log could not be trimmed; the next gc tries again.
    NotTrimmed(String),
    /// An entry that this build cannot read. It changes nothing.
    Unreadable(Position, String),
    /// A life has ended; the next one begins after a while.
    Again(String, Duration),
    /// The node leaves the ring because it was asked to stop.
    Leaving(usize),
}

/// Why a node stops for good.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fatal {
    /// Another node computed another cluster from the same log.
    Diverged {
        /// Where.
        position: Position,
        /// Our digest.
        ours: String,
        /// Theirs.
        theirs: String,
        /// Who they are.
        who: String,
    },
    /// A task did not stop. It may be doing anything, so nobody may come back beside it.
    Stuck(PeerId, Assignment),
    /// The store cannot be used, and waiting does not mend it.
    Store(Error),
}

impl fmt::Display for Fatal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fatal::Diverged { position, ours, theirs, who } => write!(
                f,
                "the cluster at entry {position} is {ours} here and {theirs} at {who}: one of the \
                 two computes it wrongly, so this node stops; compare their versions, and what \
                 `sardonyx replica URL --at {position}` prints on both machines"
            ),
            Fatal::Stuck(peer, task) => write!(
                f,
                "task {} of job {} does not stop for {peer}: this process must end, so that \
                 nobody works beside it",
                task.task, task.job
            ),
            Fatal::Store(why) => write!(f, "{why}"),
        }
    }
}

impl std::error::Error for Fatal {}

/// What a node knows now.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The present life's name; its peers' ids begin with it.
    pub life: String,
    /// The last position that was read.
    pub position: Option<Position>,
    /// The cluster there.
    pub replica: Replica,
    /// How many of this node's peers are in.
    pub n_members: usize,
    /// How many commands wait to be appended.
    pub n_waiting: usize,
}

/// How one life ended.
#[derive(Debug)]
enum Ending {
    /// On purpose.
    Asked,
    /// Something failed that another life may not meet.
    Again(String),
    /// Another life would meet the same.
    Fatal(Fatal),
}

/// Waiting does not mend what a person has to decide; everything else is worth another life.
impl From<Error> for Ending {
    fn from(error: Error) -> Ending {
        match error {
            Error::Unavailable(_) | Error::SessionLost(_) => Ending::Again(error.to_string()),
            Error::Corrupt(_) | Error::NotConfigured(_) | Error::TooLarge { .. } => {
                Ending::Fatal(Fatal::Store(error))
            }
        }
    }
}

/// A node that runs. Dropped, it is cut off without leaving the ring, as if it had been killed.
#[derive(Debug)]
pub struct Driver {
    stop: watch::Sender<bool>,
    view: watch::Receiver<View>,
    lives: JoinHandle<Result<(), Fatal>>,
}

impl Driver {
    /// Starts a node on `store`.
    pub fn start(store: &Store, config: Config) -> Driver {
        let (stop, stopped) = watch::channel(false);
        let (show, view) = watch::channel(View::default());
        let lives = tokio::spawn(live(store.clone(), config, stopped, show));
        Driver { stop, view, lives }
    }

    /// Asks it to leave the ring and stop. [`ended`](Driver::ended) says when it has.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// What it knows, as it changes.
    pub fn view(&self) -> watch::Receiver<View> {
        self.view.clone()
    }

    /// Returns when the node has stopped: asked to, or because a person must decide.
    pub async fn ended(&mut self) -> Result<(), Fatal> {
        let cut_off = |_| Err(Fatal::Store(Error::Unavailable("the node was cut off".into())));
        (&mut self.lives).await.unwrap_or_else(cut_off)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.lives.abort();
    }
}

/// One life after the other.
async fn live(
    store: Store,
    config: Config,
    mut stop: watch::Receiver<bool>,
    show: watch::Sender<View>,
) -> Result<(), Fatal> {
    let config = Arc::new(config);
    let show = Arc::new(show);
    let mut n_failed = 0;
    loop {
        let begun = tokio::time::Instant::now();
        let one = life::run(store.clone(), Arc::clone(&config), stop.clone(), Arc::clone(&show));
        // In a task of its own: a panic ends a life, with all that hangs on it, and not the node.
        let mut one = AbortOnDrop(tokio::spawn(one));
        let ending = (&mut one.0).await;
        let why = match ending {
            Ok(Ending::Asked) => return Ok(()),
            Ok(Ending::Fatal(why)) => return Err(why),
            Ok(Ending::Again(why)) => why,
            Err(panic) => format!("the loop failed: {panic}"),
        };
        if *stop.borrow() {
            // It was leaving anyway; its pulses end with the session.
            return Ok(());
        }
        let was_long = begun.elapsed() > 6 * config.session_timeout;
        n_failed = if was_long { 1 } else { n_failed + 1 };
        let pause = config.back_off.wait(n_failed, (config.random)());
        (config.watcher)(&Event::Again(why, pause));
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            // An error means that the handle is gone, and then this task is about to be.
            _ = stop.wait_for(|stop| *stop) => return Ok(()),
        }
    }
}

struct AbortOnDrop(JoinHandle<Ending>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// After so much silence whoever catches up has caught up, wherever the log ends: its last entries
/// may be copies, which nobody is handed. Long enough for a slow store to answer.
const SILENCE: Duration = Duration::from_secs(3);

/// Whether a reader at `position` has read what ended at `end`.
pub(crate) fn is_caught_up(position: Option<Position>, end: Option<Position>) -> bool {
    end.is_none() || position >= end
}

/// The next delivery, unless none comes soon.
pub(crate) async fn next_soon(subscription: &mut Subscription) -> Result<Option<Delivery>> {
    match tokio::time::timeout(SILENCE, subscription.next()).await {
        Ok(delivery) => delivery.map(Some),
        Err(_) => Ok(None),
    }
}

/// Whether a node that is leaving keeps this to itself: it asks for no more work.
fn is_for_the_staying(command: &Command) -> bool {
    matches!(command, Command::VolunteerForTask(_) | Command::PrepareJoinCluster(_))
}

pub(crate) fn random_u64() -> Result<u64> {
    let mut bytes = [0; 8];
    let filled = getrandom::fill(&mut bytes);
    filled.map_err(|why| Error::NotConfigured(format!("no random bytes: {why}")))?;
    Ok(u64::from_be_bytes(bytes))
}

/// A name that nobody else has: 50 random bits, in letters that cannot be mistaken for each other.
pub fn fresh_name() -> Result<String> {
    const LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let bits = random_u64()?;
    let letter = |at: u32| LETTERS[(bits >> (5 * at)) as usize % 32] as char;
    Ok((0..10).map(letter).collect())
}
