//! Queues in this process: the [`Ledger`] behind a lock, with bells for those who wait, over a
//! [`Medium`] that keeps what happened (or does not).
//!
//! Who waits registers with a bell first and looks at the ledger then, so no ring is missed.

mod bells;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::Notify;

use bells::{Bells, SessionBell};

use crate::{
    backend::{Answer, Backend, Hand},
    ledger::{Committed, Entries, Given, Ledger, Sending, SessionId, Wakes},
    message::{Body, Delivery, Depth, QueueName, Receipt},
    mutant::{self, Mutant},
    session::{Owner, Place, Roster},
    transaction::{Key, Refused, Transaction},
};

/// What a medium may want to write down.
pub(crate) enum Happened<'a, B> {
    Committed(Committed<B>),
    Delivered(&'a [Given<B>]),
    Announced(&'a Place, &'a Roster),
    Forgotten(&'a str, Vec<B>),
}

/// Deliveries, at once or when they have been read.
pub(crate) enum Fetched {
    Now(Vec<Delivery>),
    Later(Answer<Vec<Delivery>>),
}

/// Where what happened is kept. [`Medium::stamp`], [`Medium::note`] and [`Medium::now`] are called
/// with the ledger locked, so that what is written has the ledger's order.
pub(crate) trait Medium: Send + Sync + 'static {
    /// What the ledger has of a body.
    type Body: Clone + Send + Sync + 'static;
    const CARRIES_BYTES: bool;
    const IS_DURABLE: bool;

    /// A body as the ledger keeps it, and how much room it takes. Not called with the lock.
    fn keep(&self, body: Body) -> Result<(Self::Body, u64), Refused>;

    /// The stamp of messages that are sent next.
    fn stamp(&self) -> u64;

    /// Writes down what happened. Says when it is settled, and who is to be woken already.
    fn note(&self, happened: Happened<'_, Self::Body>, wakes: Wakes) -> (u64, Wakes);

    /// When everything that has happened is settled.
    fn now(&self) -> u64 {
        0
    }

    /// Waits until what has this number is settled; `None` if it is.
    fn settled(&self, number: u64) -> Option<Answer<()>>;

    /// What was given, with its bodies.
    fn fetch(&self, given: Vec<Given<Self::Body>>) -> Fetched;
}

/// A delivery of what was given, with its body.
pub(crate) fn delivery<B>(given: Given<B>, body: Body) -> Delivery {
    let Given { receipt, queue, lane: partition, id, attempt, body: _ } = given;
    Delivery { receipt, queue, partition, id, attempt, body }
}

/// The ledger, and who waits for it to change.
pub(crate) struct State<B> {
    pub(crate) ledger: Ledger<B>,
    bells: Bells,
    #[cfg(any(test, feature = "suite"))]
    n_changes: u64,
}

/// The part that a medium's own threads share.
pub(crate) struct Core<B>(Mutex<State<B>>);

impl<B> Core<B> {
    pub(crate) fn new(ledger: Ledger<B>) -> Core<B> {
        Core(Mutex::new(State {
            ledger,
            bells: Bells::default(),
            #[cfg(any(test, feature = "suite"))]
            n_changes: 0,
        }))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State<B>> {
        // Operations check before they change, so a panic elsewhere leaves a good ledger behind.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B> State<B> {
    pub(crate) fn ring(&mut self, wakes: Wakes) {
        self.bells.ring(wakes);
    }

    /// In builds that check, stops near the operation that broke a law: at it while the queues are
    /// short, and within some operations when looking at all of them each time would take too long.
    fn check(&mut self) {
        #[cfg(any(test, feature = "suite"))]
        {
            self.n_changes += 1;
            let n_messages = self.ledger.queues.values().map(|queue| queue.depth().total());
            if self.n_changes.is_multiple_of(1 + n_messages.sum::<u64>() / 64)
                && let Some(broken) = self.ledger.broken_law()
            {
                panic!("a law of the ledger is broken: {broken}");
            }
        }
    }
}

struct Shared<M: Medium> {
    core: Arc<Core<M::Body>>,
    medium: M,
}

impl<M: Medium> Shared<M> {
    async fn settle(&self, number: u64) -> Result<(), Refused> {
        match self.medium.settled(number) {
            Some(settled) => settled.await,
            None => Ok(()),
        }
    }

    /// Reads, and answers once all that it may have seen is settled.
    async fn read<T>(&self, read: impl FnOnce(&Ledger<M::Body>) -> T) -> Result<T, Refused> {
        let (answer, number) = {
            let state = self.core.lock();
            (read(&state.ledger), self.medium.now())
        };
        self.settle(number).await?;
        Ok(answer)
    }

    fn change<T>(&self, change: impl FnOnce(&mut State<M::Body>, &M, Wakes) -> (T, Wakes)) -> T {
        let mut state = self.core.lock();
        let (answer, wakes) = change(&mut state, &self.medium, Wakes::default());
        state.ring(wakes);
        state.check();
        answer
    }

    fn entries(&self, transaction: Transaction) -> Result<Entries<M::Body>, Refused> {
        let Transaction { holds, acks, sends, puts, expects } = transaction;
        let keep = |outgoing: crate::transaction::Outgoing| {
            let (body, bytes) = self.medium.keep(outgoing.body)?;
            Ok(Sending { queue: outgoing.queue, lane: outgoing.partition, bytes, body })
        };
        let sends = sends.into_iter().map(keep).collect::<Result<_, Refused>>()?;
        Ok(Entries { holds, acks, sends, puts, expects })
    }

    fn commit(&self, id: SessionId, transaction: Transaction) -> Answer<()> {
        let committed = self.entries(transaction).and_then(|entries| {
            self.change(|state, medium, mut wakes| {
                let stamp = medium.stamp();
                match state.ledger.commit(id, entries, stamp, &mut wakes) {
                    Ok(committed) => {
                        let (number, wakes) = medium.note(Happened::Committed(committed), wakes);
                        (Ok(number), wakes)
                    }
                    Err(refused) => (Err(refused), wakes),
                }
            })
        });
        let settled = committed.map(|number| self.medium.settled(number));
        Box::pin(async move {
            match settled? {
                Some(settled) => settled.await,
                None => Ok(()),
            }
        })
    }

    /// What a transaction must not be: what it acknowledges first, and the rest once that is
    /// settled.
    fn commit_in_two(self: &Arc<Self>, id: SessionId, transaction: Transaction) -> Answer<()> {
        let Transaction { holds, acks, sends, puts, expects } = transaction;
        let first = Transaction { holds, acks, expects, ..Transaction::default() };
        let rest = Transaction { sends, puts, ..Transaction::default() };
        let (shared, first) = (Arc::clone(self), self.commit(id, first));
        Box::pin(async move {
            first.await?;
            shared.commit(id, rest).await
        })
    }

    fn close(&self, id: SessionId) {
        self.change(|state, _, mut wakes| {
            state.ledger.close(id, &mut wakes);
            wakes.lost.push(id);
            ((), wakes)
        });
    }
}

/// Queues in this process.
pub(crate) struct Local<M: Medium>(Arc<Shared<M>>);

impl<M: Medium> Local<M> {
    pub(crate) fn new(ledger: Ledger<M::Body>, medium: M) -> Local<M> {
        Local::with_core(Arc::new(Core::new(ledger)), medium)
    }

    pub(crate) fn with_core(core: Arc<Core<M::Body>>, medium: M) -> Local<M> {
        Local(Arc::new(Shared { core, medium }))
    }
}

#[async_trait]
impl<M: Medium> Backend for Local<M> {
    fn carries_bytes(&self) -> bool {
        M::CARRIES_BYTES
    }

    fn is_durable(&self) -> bool {
        M::IS_DURABLE
    }

    async fn session(
        &self,
        place: &Place,
        owner: &Owner,
        roster: &Roster,
    ) -> Result<Box<dyn Hand>, Refused> {
        let (opened, number) = self.0.change(|state, medium, mut wakes| {
            let is_news = state.ledger.announce(place, roster, &mut wakes);
            let mut number = medium.now();
            if is_news {
                (number, wakes) = medium.note(Happened::Announced(place, roster), wakes);
            }
            let id = state.ledger.open(place, owner, &mut wakes);
            let opened = id.map(|id| (id, state.bells.open(id, place)));
            ((opened, number), wakes)
        });
        let (id, (place_bell, bell)) = opened?;
        // Dropped while it waits, it closes the session.
        let hand = LocalHand { shared: Arc::clone(&self.0), id, place_bell, bell };
        self.0.settle(number).await?;
        Ok(Box::new(hand))
    }

    async fn announce(&self, place: &Place, roster: &Roster) -> Result<(), Refused> {
        let number = self.0.change(|state, medium, mut wakes| {
            match state.ledger.announce(place, roster, &mut wakes) {
                true => medium.note(Happened::Announced(place, roster), wakes),
                false => (medium.now(), wakes),
            }
        });
        self.0.settle(number).await
    }

    async fn depth(&self, queue: &QueueName) -> Result<Depth, Refused> {
        self.0.read(|ledger| ledger.depth(queue)).await
    }

    async fn peek(&self, place: &Place, prefix: &str) -> Result<Vec<(Key, Bytes)>, Refused> {
        self.0.read(|ledger| ledger.peek(place, prefix)).await
    }

    async fn forget(&self, job: &str) -> Result<(), Refused> {
        let number =
            self.0.change(|state, medium, mut wakes| match state.ledger.forget(job, &mut wakes) {
                Some(bodies) => medium.note(Happened::Forgotten(job, bodies), wakes),
                None => (medium.now(), wakes),
            });
        self.0.settle(number).await
    }

    async fn jobs(&self) -> Result<Vec<String>, Refused> {
        self.0.read(Ledger::jobs).await
    }
}

struct LocalHand<M: Medium> {
    shared: Arc<Shared<M>>,
    id: SessionId,
    /// Rings when something becomes ready for the task.
    place_bell: Arc<Notify>,
    bell: Arc<SessionBell>,
}

impl<M: Medium> Drop for LocalHand<M> {
    fn drop(&mut self) {
        self.shared.close(self.id);
    }
}

/// Deliveries that nobody has seen yet: dropped, they never happened.
struct Unseen<'a, M: Medium>(&'a LocalHand<M>, Vec<Receipt>);

impl<M: Medium> Drop for Unseen<'_, M> {
    fn drop(&mut self) {
        if self.1.is_empty() {
            return;
        }
        self.0.shared.change(|state, _, mut wakes| {
            state.ledger.untake(self.0.id, &self.1, &mut wakes);
            ((), wakes)
        });
    }
}

impl<M: Medium> LocalHand<M> {
    fn take(&self, max: usize) -> Result<Vec<Given<M::Body>>, Refused> {
        self.shared.change(|state, medium, wakes| match state.ledger.receive(self.id, max) {
            Ok(given) if !given.is_empty() => {
                let (_, wakes) = medium.note(Happened::Delivered(&given), wakes);
                (Ok(given), wakes)
            }
            taken => (taken, wakes),
        })
    }
}

#[async_trait]
impl<M: Medium> Hand for LocalHand<M> {
    async fn receive(&self, max: usize) -> Result<Vec<Delivery>, Refused> {
        loop {
            let mut rung = std::pin::pin!(self.place_bell.notified());
            rung.as_mut().enable();
            let given = self.take(max)?;
            if given.is_empty() {
                rung.await;
                continue;
            }
            let receipts = given.iter().map(|given| given.receipt).collect();
            match self.shared.medium.fetch(given) {
                Fetched::Now(deliveries) => return Ok(deliveries),
                Fetched::Later(fetched) => {
                    let mut unseen = Unseen(self, receipts);
                    let deliveries = fetched.await?;
                    unseen.1.clear();
                    return Ok(deliveries);
                }
            }
        }
    }

    fn commit(&self, transaction: Transaction) -> Answer<()> {
        if mutant::is_on(Mutant::TwoRecords) && !transaction.acks.is_empty() {
            return self.shared.commit_in_two(self.id, transaction);
        }
        self.shared.commit(self.id, transaction)
    }

    async fn release(&self, receipts: Vec<Receipt>) -> Result<(), Refused> {
        self.shared.change(|state, _, mut wakes| {
            (state.ledger.release(self.id, &receipts, &mut wakes), wakes)
        })
    }

    async fn get(&self, key: &str) -> Result<Option<Bytes>, Refused> {
        self.shared.read(|ledger| ledger.get(self.id, key)).await?
    }

    async fn scan(&self, prefix: &str) -> Result<Vec<(Key, Bytes)>, Refused> {
        self.shared.read(|ledger| ledger.scan(self.id, prefix)).await?
    }

    async fn room(&self, queues: &[QueueName]) -> Result<(), Refused> {
        loop {
            let full = {
                let mut state = self.shared.core.lock();
                if !state.ledger.sessions.contains_key(&self.id) {
                    return Err(Refused::Lost);
                }
                let full = queues.iter().find(|queue| state.ledger.is_full(queue));
                full.map(|queue| state.bells.room(queue).notified_owned())
            };
            let Some(rung) = full else { return Ok(()) };
            tokio::select! {
                () = rung => {}
                () = self.bell.lost() => {}
            }
        }
    }

    async fn close(&self) {
        self.shared.close(self.id);
    }

    async fn lost(&self) {
        self.bell.lost().await;
    }

    fn watch(&self) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
        let bell = Arc::clone(&self.bell);
        Box::pin(async move { bell.lost().await })
    }
}
