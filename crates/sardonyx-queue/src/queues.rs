//! The handles: queues of some kind, and a session on them.

use std::{fmt, sync::Arc};

use bytes::Bytes;

use crate::{
    backend::{Backend, Hand},
    embedded,
    limits::{check_place, check_queue, check_transaction},
    location::{Location, OpenError},
    memory,
    message::{Delivery, Depth, QueueName, Receipt},
    nats, remote,
    session::{Owner, Place, Roster},
    transaction::{Key, Refused, Transaction},
};

/// Queues of some kind. Clones are the same queues; the last one dropped closes them.
#[derive(Clone)]
pub struct Queues(Arc<dyn Backend>);

impl fmt::Debug for Queues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queues").field("is_durable", &self.is_durable()).finish_non_exhaustive()
    }
}

impl Queues {
    /// Opens the queues that `url` names: `memory:`, `embedded:DIR`, `sardonyx://HOST:PORT` or
    /// `nats://HOST:PORT,HOST:PORT/NAME`.
    pub async fn open(url: &str) -> Result<Queues, OpenError> {
        match Location::parse(url)? {
            Location::Memory => Ok(Queues::memory()),
            Location::Embedded(dir) => {
                let opened = embedded::open(&dir, embedded::Options::default()).await?;
                Ok(Queues(Arc::new(opened)))
            }
            Location::Remote(served) => Ok(Queues(Arc::new(remote::connect(served).await?))),
            Location::Nats(servers) => Ok(Queues(Arc::new(nats::connect(&servers).await?))),
        }
    }

    /// Queues in this process, which end with it. Batches move without being copied.
    pub fn memory() -> Queues {
        Queues(Arc::new(memory::new()))
    }

    /// Queues in a directory, with limits that a test can reach.
    #[cfg(test)]
    pub(crate) async fn embedded(
        dir: &std::path::Path,
        options: embedded::Options,
    ) -> Result<Queues, OpenError> {
        Ok(Queues(Arc::new(embedded::open(dir, options).await?)))
    }

    /// Whether messages travel as bytes: then whoever sends segments should encode them before the
    /// commit, where it has time for that. A batch that arrives as it is will be encoded here.
    pub fn carries_bytes(&self) -> bool {
        self.0.carries_bytes()
    }

    /// Whether what was committed outlives the process that has it.
    pub fn is_durable(&self) -> bool {
        self.0.is_durable()
    }

    /// The largest message here: [`crate::MESSAGE_BYTES_MAX`], or what a server allows.
    pub fn message_bytes_max(&self) -> usize {
        self.0.message_bytes_max()
    }

    /// The largest value of a key here: [`crate::VALUE_BYTES_MAX`], or what a server allows.
    pub fn value_bytes_max(&self) -> usize {
        self.0.value_bytes_max()
    }

    /// Begins to work on a task. `roster` is announced if it is news; if a newer one is without
    /// `owner`, or this one is, the answer is [`Refused::Lost`].
    ///
    /// An owner has one session on a task: an older one ends, as if its owner had left.
    pub async fn session(
        &self,
        place: &Place,
        owner: &Owner,
        roster: &Roster,
    ) -> Result<Session, Refused> {
        check_place(place, std::slice::from_ref(owner))?;
        check_place(place, &roster.owners)?;
        Ok(Session(self.0.session(place, owner, roster).await?.into()))
    }

    /// Says who works on a task now. Does nothing if a newer roster is known; otherwise owners that
    /// are not on it are fenced, and partitions move to whom it gives them.
    pub async fn announce(&self, place: &Place, roster: &Roster) -> Result<(), Refused> {
        check_place(place, &roster.owners)?;
        self.0.announce(place, roster).await
    }

    /// How much is in a queue, now. One that nobody ever sent to is empty.
    pub async fn depth(&self, queue: &QueueName) -> Result<Depth, Refused> {
        self.0.depth(queue).await
    }

    /// The keys of a task that begin with `prefix`, in their order, without a session.
    pub async fn peek(&self, place: &Place, prefix: &str) -> Result<Vec<(Key, Bytes)>, Refused> {
        self.0.peek(place, prefix).await
    }

    /// A job is over: its queues, keys, rosters and sessions go. May happen twice.
    pub async fn forget(&self, job: &str) -> Result<(), Refused> {
        self.0.forget(job).await
    }

    /// The jobs of which anything is kept. One that was forgotten is here again if somebody who had
    /// not heard of that came back to it.
    pub async fn jobs(&self) -> Result<Vec<String>, Refused> {
        self.0.jobs().await
    }
}

/// A session of an owner on a task. The last clone dropped closes it: what it held is ready again.
#[derive(Clone)]
pub struct Session(Arc<dyn Hand>);

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

impl Session {
    /// Waits for at least one message and returns up to `max`, fewer if they are large
    /// ([`crate::RECEIVE_BYTES_MAX`]): from all queues of the task in turn, in order within each queue
    /// and partition, only from partitions that the roster gives to this owner. A `max` of 0 is 1.
    ///
    /// May be dropped at any time: what it would have returned is then ready again, or returned by
    /// the next call.
    pub async fn receive(&self, max: usize) -> Result<Vec<Delivery>, Refused> {
        self.0.receive(max.max(1)).await
    }

    /// Everything in `transaction`, or nothing. Commits of one session happen in the order of the
    /// calls; a call need not wait for the answer to the one before.
    ///
    /// The transaction is on its way as soon as this is called: whoever drops the future only does
    /// not hear of the outcome.
    pub fn commit(
        &self,
        transaction: Transaction,
    ) -> impl Future<Output = Result<(), Refused>> + Send + use<> {
        let checked = check_transaction(&transaction);
        let answer = checked.map(|()| self.0.commit(transaction));
        async move { answer?.await }
    }

    /// Gives messages back: they are ready again, in their old places at the front. Those that this
    /// session does not hold are left alone.
    pub async fn release(&self, receipts: Vec<Receipt>) -> Result<(), Refused> {
        self.0.release(receipts).await
    }

    /// The value of a key of this task.
    pub async fn get(&self, key: &str) -> Result<Option<Bytes>, Refused> {
        self.0.get(key).await
    }

    /// The keys of this task that begin with `prefix`, in their order.
    pub async fn scan(&self, prefix: &str) -> Result<Vec<(Key, Bytes)>, Refused> {
        self.0.scan(prefix).await
    }

    /// Waits until each of `queues` has room ([`crate::QUEUE_BYTES_MAX`],
    /// [`crate::QUEUE_MESSAGES_MAX`]). Commits do not look: whoever asks here before each of them
    /// overshoots by one transaction at most. Do not ask for queues of one's own task: nobody else
    /// might empty them.
    pub async fn room(&self, queues: &[QueueName]) -> Result<(), Refused> {
        queues.iter().try_for_each(check_queue)?;
        self.0.room(queues).await
    }

    /// Ends the session: what it held is ready again. Everything later is [`Refused::Lost`].
    pub async fn close(&self) {
        self.0.close().await;
    }

    /// The same as [`Session::lost`], without keeping the session open.
    pub(crate) fn watch(&self) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
        self.0.watch()
    }

    /// Returns when the session is over, and not before: it was fenced, closed, or cut off.
    pub async fn lost(&self) {
        self.0.lost().await;
    }
}
