//! All queues, keys, rosters and sessions as a value: what every operation does, and whom it wakes.
//!
//! No clock, no IO, no waiting; the shells ([`crate::local`]) bring those. `B` is a message's body:
//! whatever a shell keeps of it. An operation that is refused changes nothing.
//!
//! Law (DP-4): of every queue, enqueued = ready + in flight + acked; [`laws`] checks it and more.

mod event;
#[cfg(any(test, feature = "suite"))]
mod laws;
mod take;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

pub(crate) use event::{Acked, Committed, Sent};
pub(crate) use take::Given;

use crate::{
    limits::{QUEUE_BYTES_MAX, QUEUE_MESSAGES_MAX},
    message::{Depth, MessageId, QueueName, Receipt},
    mutant::{self, Mutant},
    session::{Owner, Place, Roster},
    transaction::{Key, Refused},
};

/// A partition of a queue, or all of a queue that has none.
pub(crate) type Lane = Option<u16>;

/// A session, among all that a ledger ever had.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct SessionId(pub(crate) u64);

/// A message that is kept.
#[derive(Clone, Debug)]
pub(crate) struct Message<B> {
    pub(crate) attempt: u32,
    /// It can be received once the ledger's `visible` has come this far.
    pub(crate) stamp: u64,
    /// How much of a queue's room it takes.
    pub(crate) bytes: u64,
    pub(crate) body: B,
}

#[derive(Debug)]
pub(crate) struct Queue<B> {
    /// What nobody has; no lane here is empty.
    pub(crate) ready: BTreeMap<Lane, BTreeMap<MessageId, Message<B>>>,
    pub(crate) n_ready: u64,
    pub(crate) n_in_flight: u64,
    pub(crate) n_acked: u64,
    pub(crate) n_enqueued: u64,
    /// Of what is ready and in flight.
    pub(crate) bytes: u64,
    pub(crate) next: u64,
}

impl<B> Default for Queue<B> {
    fn default() -> Queue<B> {
        Queue {
            ready: BTreeMap::new(),
            n_ready: 0,
            n_in_flight: 0,
            n_acked: 0,
            n_enqueued: 0,
            bytes: 0,
            next: 0,
        }
    }
}

impl<B> Queue<B> {
    fn put(&mut self, lane: Lane, id: MessageId, message: Message<B>) {
        self.ready.entry(lane).or_default().insert(id, message);
        self.n_ready += 1;
    }

    fn pull(&mut self, lane: Lane, id: MessageId) -> Option<Message<B>> {
        let messages = self.ready.get_mut(&lane)?;
        let message = messages.remove(&id)?;
        if messages.is_empty() {
            self.ready.remove(&lane);
        }
        self.n_ready -= 1;
        Some(message)
    }

    pub(crate) fn depth(&self) -> Depth {
        Depth { ready: self.n_ready, in_flight: self.n_in_flight }
    }

    fn is_full(&self) -> bool {
        self.bytes >= QUEUE_BYTES_MAX || self.depth().total() >= QUEUE_MESSAGES_MAX
    }
}

#[derive(Debug, Default)]
pub(crate) struct Task {
    pub(crate) roster: Option<Roster>,
    pub(crate) keys: BTreeMap<Key, Bytes>,
    /// One session per owner: a newer one takes the place of an older.
    pub(crate) sessions: BTreeMap<Owner, SessionId>,
}

/// A message in the hands of a session.
#[derive(Debug)]
pub(crate) struct Flight<B> {
    pub(crate) queue: QueueName,
    pub(crate) lane: Lane,
    pub(crate) id: MessageId,
    pub(crate) message: Message<B>,
}

#[derive(Debug)]
pub(crate) struct Session<B> {
    pub(crate) place: Place,
    pub(crate) owner: Owner,
    pub(crate) in_flight: BTreeMap<Receipt, Flight<B>>,
    /// What was received from last; the next receive begins behind it.
    pub(crate) cursor: Option<(QueueName, Lane)>,
}

/// Who should look again.
#[derive(Debug, Default)]
pub(crate) struct Wakes {
    /// Tasks for which something has become ready, or whose roster is another.
    pub(crate) places: BTreeSet<Place>,
    /// Queues that have room again.
    pub(crate) rooms: BTreeSet<QueueName>,
    /// Sessions that are over.
    pub(crate) lost: Vec<SessionId>,
}

impl Wakes {
    /// Both.
    pub(crate) fn merge(&mut self, mut other: Wakes) {
        self.places.append(&mut other.places);
        self.rooms.append(&mut other.rooms);
        self.lost.append(&mut other.lost);
    }

    fn ready(&mut self, queue: &QueueName) {
        self.places.insert(Place { job: queue.job.clone(), task: queue.task.clone() });
    }
}

/// A message to be sent, as the ledger takes it.
#[derive(Clone, Debug)]
pub(crate) struct Sending<B> {
    pub(crate) queue: QueueName,
    pub(crate) lane: Lane,
    pub(crate) bytes: u64,
    pub(crate) body: B,
}

/// A transaction, as the ledger takes it.
#[derive(Clone, Debug)]
pub(crate) struct Entries<B> {
    pub(crate) holds: Vec<Receipt>,
    pub(crate) acks: Vec<Receipt>,
    pub(crate) sends: Vec<Sending<B>>,
    pub(crate) puts: Vec<(Key, Option<Bytes>)>,
    pub(crate) expects: Vec<(Key, Option<Bytes>)>,
}

#[derive(Debug)]
pub(crate) struct Ledger<B> {
    pub(crate) queues: BTreeMap<QueueName, Queue<B>>,
    pub(crate) tasks: BTreeMap<Place, Task>,
    pub(crate) sessions: BTreeMap<SessionId, Session<B>>,
    next_session: u64,
    next_receipt: u64,
    /// Messages up to this stamp can be received.
    pub(crate) visible: u64,
}

impl<B> Default for Ledger<B> {
    fn default() -> Ledger<B> {
        Ledger {
            queues: BTreeMap::new(),
            tasks: BTreeMap::new(),
            sessions: BTreeMap::new(),
            next_session: 0,
            next_receipt: 0,
            visible: 0,
        }
    }
}

impl<B: Clone> Ledger<B> {
    /// A roster; says whether it is news. Whoever is not on a newer one is fenced, and what is in
    /// flight from partitions that are now another's becomes ready for that one.
    pub(crate) fn announce(&mut self, place: &Place, roster: &Roster, wakes: &mut Wakes) -> bool {
        let task = self.tasks.entry(place.clone()).or_default();
        if task.roster.as_ref().is_some_and(|present| present.at >= roster.at) {
            return false;
        }
        task.roster = Some(roster.clone());
        wakes.places.insert(place.clone());
        let sessions: Vec<_> = task.sessions.iter().map(|(o, id)| (o.clone(), *id)).collect();
        for (owner, id) in sessions {
            if !roster.owners.contains(&owner) && mutant::is_on(Mutant::Unfenced) {
                let Some(session) = self.sessions.get_mut(&id) else { continue };
                let held = std::mem::take(&mut session.in_flight);
                self.put_back(held.into_values(), wakes);
                continue;
            }
            if !roster.owners.contains(&owner) {
                self.close(id, wakes);
                wakes.lost.push(id);
                continue;
            }
            let is_moved = |flight: &Flight<B>| {
                flight.lane.is_some_and(|partition| roster.owner_of(partition) != Some(&owner))
            };
            let Some(session) = self.sessions.get_mut(&id) else { continue };
            let moved = session.in_flight.extract_if(.., |_, flight| is_moved(flight));
            let moved: Vec<_> = moved.map(|(_, flight)| flight).collect();
            self.put_back(moved, wakes);
        }
        true
    }

    /// Begins a session, unless the newest roster is without its owner. An older session of the
    /// same owner ends: it is what a lost connection left behind.
    pub(crate) fn open(
        &mut self,
        place: &Place,
        owner: &Owner,
        wakes: &mut Wakes,
    ) -> Result<SessionId, Refused> {
        let task = self.tasks.entry(place.clone()).or_default();
        if !task.roster.as_ref().is_some_and(|roster| roster.owners.contains(owner)) {
            return Err(Refused::Lost);
        }
        if let Some(old) = task.sessions.get(owner).copied() {
            self.close(old, wakes);
            wakes.lost.push(old);
        }
        self.next_session += 1;
        let id = SessionId(self.next_session);
        let session = Session {
            place: place.clone(),
            owner: owner.clone(),
            in_flight: BTreeMap::new(),
            cursor: None,
        };
        self.sessions.insert(id, session);
        self.tasks.entry(place.clone()).or_default().sessions.insert(owner.clone(), id);
        Ok(id)
    }

    /// Ends a session: what it held is ready again.
    pub(crate) fn close(&mut self, id: SessionId, wakes: &mut Wakes) {
        let Some(session) = self.sessions.remove(&id) else { return };
        if let Some(task) = self.tasks.get_mut(&session.place) {
            task.sessions.retain(|_, held| *held != id);
        }
        self.put_back(session.in_flight.into_values(), wakes);
    }

    fn put_back(&mut self, flights: impl IntoIterator<Item = Flight<B>>, wakes: &mut Wakes) {
        for flight in flights {
            // The queue is there: only forgetting takes it away, and that ends its sessions first.
            let Some(queue) = self.queues.get_mut(&flight.queue) else { continue };
            queue.n_in_flight -= 1;
            queue.put(flight.lane, flight.id, flight.message);
            wakes.ready(&flight.queue);
        }
    }

    /// Gives messages back, to their old places. Those that are no longer the session's are
    /// somebody else's to care for.
    pub(crate) fn release(
        &mut self,
        id: SessionId,
        receipts: &[Receipt],
        wakes: &mut Wakes,
    ) -> Result<(), Refused> {
        let session = self.sessions.get_mut(&id).ok_or(Refused::Lost)?;
        let released: Vec<_> =
            receipts.iter().filter_map(|receipt| session.in_flight.remove(receipt)).collect();
        self.put_back(released, wakes);
        Ok(())
    }

    /// Everything in a transaction, or nothing.
    pub(crate) fn commit(
        &mut self,
        id: SessionId,
        entries: Entries<B>,
        stamp: u64,
        wakes: &mut Wakes,
    ) -> Result<Committed<B>, Refused> {
        self.check(id, &entries)?;
        let session = self.sessions.get_mut(&id).ok_or(Refused::Lost)?;
        let place = session.place.clone();
        let mut acks = Vec::with_capacity(entries.acks.len());
        for receipt in &entries.acks {
            let Some(flight) = session.in_flight.remove(receipt) else { continue };
            if let Some(queue) = self.queues.get_mut(&flight.queue) {
                let was_full = queue.is_full();
                queue.n_in_flight -= 1;
                queue.n_acked += 1;
                queue.bytes -= flight.message.bytes;
                if was_full && !queue.is_full() {
                    wakes.rooms.insert(flight.queue.clone());
                }
            }
            let Flight { queue, lane, id, message } = flight;
            acks.push(Acked { queue, lane, id, body: message.body });
        }
        let sends = entries.sends.into_iter().map(|sending| self.send(sending, stamp, wakes));
        let sends: Vec<_> = sends.collect();
        self.put_keys(&place, &entries.puts);
        Ok(Committed { place, acks, sends, puts: entries.puts })
    }

    /// Whether the session's owner has left, and nobody minds.
    fn is_zombie(&self, session: &Session<B>) -> bool {
        let roster = self.tasks.get(&session.place).and_then(|task| task.roster.as_ref());
        mutant::is_on(Mutant::Unfenced)
            && roster.is_some_and(|roster| !roster.owners.contains(&session.owner))
    }

    fn check(&self, id: SessionId, entries: &Entries<B>) -> Result<(), Refused> {
        let session = self.sessions.get(&id).ok_or(Refused::Lost)?;
        let mut receipts = entries.acks.clone();
        receipts.sort_unstable();
        let is_twice = receipts.windows(2).any(|pair| pair[0] == pair[1]);
        let is_ours =
            |receipt: &Receipt| session.in_flight.contains_key(receipt) || self.is_zombie(session);
        if is_twice || !receipts.iter().chain(&entries.holds).all(is_ours) {
            return Err(Refused::Lost);
        }
        let keys = self.tasks.get(&session.place).map(|task| &task.keys);
        for (key, expected) in &entries.expects {
            if keys.and_then(|keys| keys.get(key)) != expected.as_ref() {
                return Err(Refused::Changed(key.clone()));
            }
        }
        Ok(())
    }

    fn send(&mut self, sending: Sending<B>, stamp: u64, wakes: &mut Wakes) -> Sent<B> {
        let Sending { queue: name, lane, bytes, body } = sending;
        let queue = self.queues.entry(name.clone()).or_default();
        let id = MessageId(queue.next);
        let message = Message { attempt: 0, stamp, bytes, body: body.clone() };
        queue.next += 1;
        queue.n_enqueued += 1;
        queue.bytes += bytes;
        queue.put(lane, id, message);
        wakes.ready(&name);
        Sent { queue: name, lane, id, bytes, body }
    }

    fn put_keys(&mut self, place: &Place, puts: &[(Key, Option<Bytes>)]) {
        if puts.is_empty() {
            return;
        }
        let keys = &mut self.tasks.entry(place.clone()).or_default().keys;
        for (key, value) in puts {
            match value {
                Some(value) => drop(keys.insert(key.clone(), value.clone())),
                None => drop(keys.remove(key)),
            }
        }
    }

    /// A job is over: its queues, keys, rosters and sessions go. Returns the bodies of its messages,
    /// or `None` if there was nothing of it.
    pub(crate) fn forget(&mut self, job: &str, wakes: &mut Wakes) -> Option<Vec<B>> {
        let over: Vec<_> = self.sessions.iter().filter(|(_, it)| it.place.job == job).collect();
        let over: Vec<_> = over.into_iter().map(|(id, _)| *id).collect();
        for id in over {
            self.close(id, wakes);
            wakes.lost.push(id);
        }
        let before = self.queues.len() + self.tasks.len();
        let mut bodies = Vec::new();
        for (name, queue) in self.queues.extract_if(.., |name, _| name.job == job) {
            let messages = queue.ready.into_values().flat_map(BTreeMap::into_values);
            bodies.extend(messages.map(|message| message.body));
            wakes.rooms.insert(name);
        }
        let tasks = self.tasks.extract_if(.., |place, _| place.job == job);
        wakes.places.extend(tasks.map(|(place, _)| place));
        (self.queues.len() + self.tasks.len() < before).then_some(bodies)
    }

    /// The jobs that have a queue, a key or a roster.
    pub(crate) fn jobs(&self) -> Vec<String> {
        let queues = self.queues.keys().map(|name| &name.job);
        let jobs: BTreeSet<_> = queues.chain(self.tasks.keys().map(|place| &place.job)).collect();
        jobs.into_iter().cloned().collect()
    }

    pub(crate) fn depth(&self, queue: &QueueName) -> Depth {
        self.queues.get(queue).map(Queue::depth).unwrap_or_default()
    }

    /// Whether senders should wait.
    pub(crate) fn is_full(&self, queue: &QueueName) -> bool {
        self.queues.get(queue).is_some_and(Queue::is_full)
    }

    pub(crate) fn get(&self, id: SessionId, key: &str) -> Result<Option<Bytes>, Refused> {
        let place = &self.sessions.get(&id).ok_or(Refused::Lost)?.place;
        Ok(self.tasks.get(place).and_then(|task| task.keys.get(key)).cloned())
    }

    pub(crate) fn scan(&self, id: SessionId, prefix: &str) -> Result<Vec<(Key, Bytes)>, Refused> {
        let place = &self.sessions.get(&id).ok_or(Refused::Lost)?.place;
        Ok(self.peek(place, prefix))
    }

    /// The keys of a task that begin so, in their order.
    pub(crate) fn peek(&self, place: &Place, prefix: &str) -> Vec<(Key, Bytes)> {
        let Some(task) = self.tasks.get(place) else { return Vec::new() };
        let from = task.keys.range(prefix.to_owned()..);
        let found = from.take_while(|(key, _)| key.starts_with(prefix));
        found.map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}
