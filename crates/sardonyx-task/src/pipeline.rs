//! The pipeline of one task on one peer: reads, computes, commits, over and over; at the end, seals.
//!
//! ```text
//!  fetch ──► items ──► compute ──► commit          one session of the queues, one owner
//!    │        ▲          │ on the compute threads
//!    │        │          └ decode · apply function · route · encode · write
//!    ├ notes ─┴ read splits (inputs only)
//!    └ sentinels: elect, wait until nothing else is queued or in flight, mark as drained
//! ```
//!
//! Three loops run side by side, joined by bounded channels, so that reading and committing take no
//! time from computing; within each, order is kept. What was computed while a commit was under way
//! goes into the next transaction together.
//!
//! Law: nothing that was not committed has left a trace. So whatever goes wrong with a session (it
//! was fenced, the queues went away, another was faster), the answer is the same: drop everything
//! since the last commit, open another session, go on from what is committed.

mod compute;
mod fetch;
mod seal;
mod split;
mod worn;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use sardonyx_queue::{Key, Owner, Place, QueueName, Queues, Receipt, Refused, Roster, Session};
use tokio::{
    sync::{Notify, Semaphore, mpsc, watch},
    task::JoinHandle,
};

use tracing::Instrument as _;

use self::split::Notes;
pub use self::worn::{Census, Everybody};
use crate::{
    Registry,
    blueprint::Blueprint,
    meter::Meters,
    mutant::{self, Mutant},
    pool::{Desk, Panicked, Pool},
    registry::Kind,
    spy::{Phase, Spy},
};

/// How many batches wait between reading and computing.
const ITEMS_MAX: usize = 4;

/// How long to wait before opening another session, and at most.
const AGAIN_MIN: Duration = Duration::from_millis(10);
const AGAIN_MAX: Duration = Duration::from_secs(2);

/// What all tasks of a node share.
#[derive(Clone)]
pub struct Engine {
    /// Where messages are.
    pub queues: Queues,
    /// What functions, inputs and outputs there are.
    pub registry: Arc<Registry>,
    /// Where functions run.
    pub pool: Pool,
    /// Who watches.
    pub spy: Arc<dyn Spy>,
    /// Who counts.
    pub meters: Meters,
}

/// What is to be run, and for whom.
pub struct Order {
    /// Which task.
    pub place: Place,
    /// For which peer, since when.
    pub owner: Owner,
    /// Who else works on it, as it changes.
    pub roster: watch::Receiver<Roster>,
    /// How it is to be run.
    pub blueprint: Arc<Blueprint>,
    /// Who is in the cluster.
    pub census: Arc<dyn Census>,
}

/// Who hears of a task's progress.
#[async_trait]
pub trait Listener: Send + Sync {
    /// Its input has ended. The answer is [`Running::seal`], or a stop.
    async fn drained(&self);
    /// It was sealed: everybody downstream knows.
    async fn completed(&self);
    /// It cannot go on, here or elsewhere.
    async fn failed(&self, why: String);
}

/// A task that runs. Dropped, it ends, but nobody waits for that.
pub struct Running {
    sealing: watch::Sender<bool>,
    desk: Desk,
    running: JoinHandle<()>,
}

impl Engine {
    /// Starts a task.
    pub fn start(&self, order: Order, listener: Arc<dyn Listener>) -> Running {
        let (sealing, may_seal) = watch::channel(false);
        let desk = self.pool.desk();
        let task = Task {
            engine: self.clone(),
            order: Arc::new(order),
            listener,
            desk: desk.clone(),
            may_seal,
            look_again: Arc::default(),
            positions: Arc::default(),
            dared: Arc::default(),
        };
        Running { sealing, desk, running: tokio::spawn(task.run()) }
    }
}

impl Running {
    /// The right to seal is ours.
    pub fn seal(&self) {
        self.sealing.send_replace(true);
    }

    /// Ends it, and returns when nothing more is done.
    pub async fn stop(mut self) {
        self.running.abort();
        // It was aborted or has ended by itself: either way it is over.
        let _ = (&mut self.running).await;
        self.desk.empty().await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.running.abort();
    }
}

/// Why a session of a task ended.
pub(crate) enum End {
    /// The queues refused something: go on with another session.
    Refused(Refused),
    /// Who works on the task has changed, and what is held must be dealt out again.
    Reshuffled,
    /// The task cannot go on.
    Failed(String),
}

impl From<Refused> for End {
    fn from(refused: Refused) -> End {
        match refused {
            Refused::TooLarge(why) => End::Failed(why),
            Refused::Lost | Refused::Changed(_) | Refused::Unavailable(_) | Refused::Unknown(_) => {
                End::Refused(refused)
            }
        }
    }
}

impl From<Panicked> for End {
    fn from(Panicked(why): Panicked) -> End {
        End::Failed(format!("it panicked: {why}"))
    }
}

/// A future that only ends badly.
pub(crate) type Never = std::convert::Infallible;

#[derive(Clone)]
pub(crate) struct Task {
    engine: Engine,
    order: Arc<Order>,
    listener: Arc<dyn Listener>,
    desk: Desk,
    may_seal: watch::Receiver<bool>,
    /// Somebody left: perhaps after the last mark and before it said so.
    look_again: Arc<Notify>,
    /// How far splits are committed that their readers have not been told of.
    positions: Arc<Mutex<BTreeMap<Key, Bytes>>>,
    /// What came often and is worked on all the same, with where that is written down.
    dared: Arc<Mutex<BTreeMap<Receipt, Key>>>,
}

impl Task {
    async fn run(self) {
        let mut wait = AGAIN_MIN;
        let mut n_sessions = 0;
        loop {
            n_sessions += 1;
            let began = tokio::time::Instant::now();
            let Order { place, owner, .. } = &*self.order;
            let span = tracing::info_span!(
                "session",
                job = place.job,
                task = place.task,
                peer = owner.peer
            );
            match self.session(n_sessions).instrument(span).await {
                Ok(()) => {
                    self.saw(Phase::Complete);
                    self.listener.completed().await;
                    return;
                }
                Err(End::Failed(why)) => {
                    self.listener.failed(why).await;
                    return;
                }
                Err(End::Reshuffled) => wait = AGAIN_MIN,
                Err(End::Refused(refused)) => {
                    tracing::debug!(place = ?self.order.place, %refused, "session ended");
                    if began.elapsed() > AGAIN_MAX {
                        wait = AGAIN_MIN;
                    }
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(AGAIN_MAX);
                }
            }
        }
    }

    /// One session: until the task is sealed, or something goes wrong.
    async fn session(&self, number: u32) -> Result<(), End> {
        let Order { place, owner, roster, .. } = &*self.order;
        let mut roster = roster.clone();
        let now = roster.borrow_and_update().clone();
        let session = self.engine.queues.session(place, owner, &now).await?;
        self.saw(Phase::OpenSession);
        self.forget_dared();
        self.forget_positions();
        let input = self.input().await?;
        if let Some(input) = &input {
            self.plan(&session, input).await?;
        }
        if self.order.blueprint.kind == Kind::Output {
            self.recover(&session, number, &now).await?;
        }
        let (items, taken) = mpsc::channel(ITEMS_MAX);
        let (notes, splits) = mpsc::channel(1);
        let asks = Arc::new(Semaphore::new(0));
        let splits = Notes::new(splits, Arc::clone(&asks));
        let mut may_seal = self.may_seal.clone();
        // In this order, so that the same things happening give the same run.
        let ended = tokio::select! {
            biased;
            () = session.lost() => Err(End::Refused(Refused::Lost)),
            // An error means that nobody can grant it any more.
            Ok(_) = may_seal.wait_for(|granted| *granted) => Ok(()),
            end = self.follow_roster(&session, number, roster, input.as_deref()) => {
                end.map(|never| match never {})
            }
            end = self.compute(&session, taken, number) => end.map(|never| match never {}),
            end = self.fetch(&session, &items, &notes, &asks) => end.map(|never| match never {}),
            end = self.read_splits(&session, splits, &items, input.clone()) => {
                end.map(|never| match never {})
            }
        };
        let ended = match ended {
            Ok(()) => self.seal(&session).await,
            Err(end) => Err(end),
        };
        session.close().await;
        self.saw(Phase::CloseSession);
        ended
    }

    /// Tells the queues who works here now, so that those who do not are fenced; what those have written
    /// is then whole.
    async fn follow_roster(
        &self,
        session: &Session,
        number: u32,
        mut roster: watch::Receiver<Roster>,
        input: Option<&dyn crate::Input>,
    ) -> Result<Never, End> {
        let deals =
            self.order.blueprint.grouping.is_some() || input.is_some_and(crate::Input::is_endless);
        loop {
            if roster.changed().await.is_err() {
                // The node has let go of us; it will stop us as well.
                std::future::pending::<()>().await;
            }
            let now = roster.borrow_and_update().clone();
            if !mutant::is_on(Mutant::NoAnnounce) {
                self.engine.queues.announce(&self.order.place, &now).await?;
            }
            if self.order.blueprint.kind == Kind::Output {
                self.recover(session, number, &now).await?;
            }
            self.look_again.notify_one();
            if deals {
                return Err(End::Reshuffled);
            }
        }
    }

    async fn input(&self) -> Result<Option<Arc<dyn crate::Input>>, End> {
        if self.order.blueprint.kind != Kind::Input {
            return Ok(None);
        }
        let made = self.engine.registry.make_input(&self.order.blueprint.terms);
        made.map(Some).map_err(End::Failed)
    }

    /// The queues that this task receives from.
    fn ingress(&self) -> Vec<QueueName> {
        let Place { job, task } = &self.order.place;
        let from = match self.order.blueprint.kind {
            Kind::Input => vec![String::new()],
            Kind::Function | Kind::Output => self.order.blueprint.upstream.clone(),
        };
        let queue = |from| QueueName { job: job.clone(), task: task.clone(), from };
        from.into_iter().map(queue).collect()
    }

    /// The queues that this task sends to.
    fn egress(&self) -> Vec<QueueName> {
        let blueprint = &self.order.blueprint;
        let next = blueprint.downstream.iter().map(|next| &next.task);
        next.chain(&blueprint.policy.dead_letters).map(|to| self.queue_to(to)).collect()
    }

    fn queue_to(&self, to: &str) -> QueueName {
        let Place { job, task } = &self.order.place;
        QueueName { job: job.clone(), task: to.to_owned(), from: task.clone() }
    }

    fn saw(&self, phase: Phase) {
        self.engine.spy.saw(&self.order.place, phase, None);
    }
}
