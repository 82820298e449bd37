//! `nats://HOST:PORT,…/NAME`: queues on NATS JetStream, one server or a cluster.
//!
//! ```text
//!  commit ─► one conditional write of the task's board ─► carried out: sends, keys, deletions
//! ```
//!
//! JetStream writes one message atomically and no more. So every task has a *board* ([`board`]): its
//! roster, its sessions, what is in whose hands, and the last transaction whole. It is written on
//! the condition that nobody else wrote it, and that one write is the commit ([`desk`]); fencing,
//! receiving and releasing are writes of the same kind. What a transaction says is carried out
//! behind the write; if its owner dies there, the next who comes to the task finds it on the board and
//! does it. Messages carry an id made from the task and the number of the transaction, so that one
//! sent twice is dropped by the servers, or, where they have forgotten it, by the receiver, whose board
//! knows the newest transaction of each sender; keys carry the number of the transaction that wrote
//! them, so that a late writer does not undo a later one ([`keys`]); deletions can be repeated as they are.
//!
//! What this does not give:
//!
//! - Acknowledged is what the servers call so: on one server with the usual settings that is not
//!   on the disk yet (`sync_interval`); on three, it is on two of them.
//! - A transaction is written twice, once on the board and once where it belongs, and all commits
//!   and receives of one task go through one value. Send batches, not records.

pub(crate) mod board;
mod desk;
#[cfg(test)]
mod fuzz;
mod keys;
mod larder;
pub(crate) mod names;
mod servers;
mod session;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError, Weak},
};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::task::JoinSet;

use desk::Desk;
use servers::Servers;
use session::NatsHand;

use crate::{
    backend::{Backend, Hand},
    limits::{MESSAGE_BYTES_MAX, VALUE_BYTES_MAX},
    location::{Location as Url, OpenError, Servers as Location},
    message::{Depth, QueueName},
    session::{Owner, Place, Roster},
    transaction::{Key, Refused},
};

/// How to get in where the URL does not say it: for jobs, whose URLs everybody reads.
#[derive(Clone, Default)]
pub struct NatsLogin {
    /// A user and the password.
    pub user: Option<(String, String)>,
    /// A token.
    pub token: Option<String>,
}

impl std::fmt::Debug for NatsLogin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NatsLogin(…)")
    }
}

/// A connection to the servers of `nats://HOST:PORT,…/NAME`, and the name: for inputs and outputs, which
/// write their servers as queues do.
pub async fn nats_client(
    url: &str,
    login: NatsLogin,
) -> Result<(async_nats::Client, String), OpenError> {
    match Url::parse(url)? {
        Url::Nats(location) => {
            let (user, token) =
                (login.user.or(location.user.clone()), login.token.or(location.token.clone()));
            let location = Location { user, token, ..location };
            Ok((servers::client(&location).await?, location.name))
        }
        Url::Memory | Url::Embedded(_) | Url::Remote(_) => {
            Err(OpenError::NotConfigured("this is no NATS: write nats://HOST:4222/STREAM".into()))
        }
    }
}

/// Connects, and makes what is not there yet.
pub(crate) async fn connect(location: &Location) -> Result<Nats, OpenError> {
    let servers = Arc::new(Servers::connect(location).await?);
    Ok(Nats { servers, desks: Mutex::default() })
}

/// Queues on JetStream.
pub(crate) struct Nats {
    servers: Arc<Servers>,
    /// The boards that sessions of this process work at.
    desks: Mutex<BTreeMap<Place, Weak<Desk>>>,
}

impl Nats {
    fn desk(&self, place: &Place) -> Arc<Desk> {
        let mut desks = self.desks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(desk) = desks.get(place).and_then(Weak::upgrade) {
            return desk;
        }
        desks.retain(|_, desk| desk.strong_count() > 0);
        let desk = Desk::new(Arc::clone(&self.servers), place.clone());
        desks.insert(place.clone(), Arc::downgrade(&desk));
        desk
    }

    /// The board of a task with everything carried out.
    async fn settled(&self, job: &str, task: &str) -> Result<board::Board, Refused> {
        let place = Place { job: job.to_owned(), task: task.to_owned() };
        match self.servers.read(&self.servers.names.board(&place)).await? {
            None => Ok(board::Board::default()),
            Some(_) => self.desk(&place).settle().await,
        }
    }
}

/// The keys of a task that begin so, in their order.
async fn keys(
    servers: &Arc<Servers>,
    place: &Place,
    prefix: &str,
) -> Result<Vec<(Key, Bytes)>, Refused> {
    let subjects = servers.subjects(&servers.names.keys(place)).await?;
    let mut reading = JoinSet::new();
    let keys = subjects.iter().filter_map(|subject| servers.names.key_of(subject));
    for key in keys.filter(|key| key.starts_with(prefix)) {
        let (servers, place) = (Arc::clone(servers), place.clone());
        reading.spawn(async move {
            let (_, value) = keys::read(&servers, &place, &key).await?;
            Ok::<_, Refused>(value.map(|value| (key, value)))
        });
    }
    let mut all = BTreeMap::new();
    while let Some(read) = reading.join_next().await {
        all.extend(read.map_err(|why| Refused::Unavailable(why.to_string()))??);
    }
    Ok(all.into_iter().collect())
}

#[async_trait]
impl Backend for Nats {
    fn carries_bytes(&self) -> bool {
        true
    }

    fn is_durable(&self) -> bool {
        true
    }

    fn message_bytes_max(&self) -> usize {
        self.servers.payload_bytes_max.min(MESSAGE_BYTES_MAX)
    }

    fn value_bytes_max(&self) -> usize {
        self.servers.payload_bytes_max.min(VALUE_BYTES_MAX)
    }

    async fn session(
        &self,
        place: &Place,
        owner: &Owner,
        roster: &Roster,
    ) -> Result<Box<dyn Hand>, Refused> {
        let desk = self.desk(place);
        let opening = Arc::clone(&desk);
        let (place, owner, roster) = (place.clone(), owner.clone(), roster.clone());
        // To the end even if nobody waits any more: a session that nobody has would hold things up.
        let opened = tokio::spawn(async move {
            let opened = opening.change(|board| {
                board.announce(&roster);
                board.open(&owner).map(Some)
            });
            let opened = opened.await;
            opening.servers.wake(&place.job, &place.task).await;
            let id = opened?.ok_or(Refused::Lost)?;
            Ok(NatsHand::new(opening, id))
        });
        let opened = opened.await.map_err(|why| Refused::Unavailable(why.to_string()))?;
        opened.map(|hand| Box::new(hand) as Box<dyn Hand>)
    }

    async fn announce(&self, place: &Place, roster: &Roster) -> Result<(), Refused> {
        let desk = self.desk(place);
        desk.change(|board| Ok(board.announce(roster).then_some(()))).await?;
        self.servers.wake(&place.job, &place.task).await;
        Ok(())
    }

    async fn depth(&self, queue: &QueueName) -> Result<Depth, Refused> {
        // A transaction of the sender, or of the task itself, may be on a board only.
        self.settled(&queue.job, &queue.from).await?;
        let board = self.settled(&queue.job, &queue.task).await?;
        let n_messages = self.servers.extent(queue).await?.messages;
        let in_flight = board.n_in_flight(&queue.from).min(n_messages);
        Ok(Depth { ready: n_messages - in_flight, in_flight })
    }

    async fn peek(&self, place: &Place, prefix: &str) -> Result<Vec<(Key, Bytes)>, Refused> {
        self.settled(&place.job, &place.task).await?;
        keys(&self.servers, place, prefix).await
    }

    async fn forget(&self, job: &str) -> Result<(), Refused> {
        self.servers.forget_names(job);
        let filter = self.servers.names.job_keys(job);
        let subjects = self.servers.subjects(&filter).await?;
        let places = subjects.iter().filter_map(|it| self.servers.names.place_of(it));
        let places: BTreeSet<Place> = places.collect();
        self.servers.purge(&filter).await?;
        for (queue, _) in self.servers.queues(&self.servers.names.queues(Some(job), None)).await? {
            self.servers.unmake(&queue).await?;
        }
        for place in places {
            self.servers.wake(&place.job, &place.task).await;
        }
        Ok(())
    }

    async fn jobs(&self) -> Result<Vec<String>, Refused> {
        let subjects = self.servers.subjects(&self.servers.names.all_keys()).await?;
        let places = subjects.iter().filter_map(|it| self.servers.names.place_of(it));
        let mut jobs: BTreeSet<String> = places.map(|place| place.job).collect();
        let queues = self.servers.queues(&self.servers.names.queues(None, None)).await?;
        jobs.extend(queues.into_iter().map(|(queue, _)| queue.job));
        Ok(jobs.into_iter().collect())
    }
}
