//! Messages that have been fetched and not been taken yet, and taking them.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use async_nats::header::NATS_MESSAGE_ID;
use tokio::task::JoinSet;

use super::{
    board::{Board, Origin, Spot, Taking},
    desk::{Desk, body},
    servers::{Extent, KIND, Servers},
};
use crate::{
    ledger::Lane,
    limits::{QUEUE_MESSAGES_MAX, RECEIVE_BYTES_MAX},
    message::{Body, QueueName},
    session::Place,
    transaction::Refused,
};

/// How many messages are fetched at once.
const FETCHES_MAX: u64 = 64;

/// How long a queue stands still before it is looked through for messages that are done with.
/// Again after twice as long, and then again, up to the longer of these.
const SWEEP_AFTER: Duration = Duration::from_secs(1);
const SWEEP_SELDOM: Duration = Duration::from_secs(60);

/// A message with its body.
#[derive(Clone, Debug)]
struct Fetched {
    lane: Lane,
    origin: Origin,
    bytes: u64,
    body: Body,
}

#[derive(Debug, Default)]
struct Shelf {
    /// Everything up to this sequence has been looked at.
    high: u64,
    messages: BTreeMap<u64, Fetched>,
    still: Option<Still>,
}

/// A queue in which nothing moves.
#[derive(Debug)]
struct Still {
    /// How it is, and how many transactions its task has had.
    stand: (Extent, u64),
    since: Instant,
    /// How long before it is looked through.
    wait: Duration,
}

impl Still {
    fn new(stand: (Extent, u64), wait: Duration) -> Still {
        Still { stand, since: Instant::now(), wait }
    }
}

impl Shelf {
    /// Whether the queue has stood still for long enough to be looked through; the next time that takes
    /// longer.
    fn is_due(&mut self, stand: (Extent, u64)) -> bool {
        let before = self.still.take_if(|still| still.stand == stand);
        let is_due = before.as_ref().is_some_and(|still| still.since.elapsed() >= still.wait);
        self.still = Some(match before {
            Some(still) if is_due => Still::new(stand, (still.wait * 2).min(SWEEP_SELDOM)),
            Some(still) => still,
            None => Still::new(stand, SWEEP_AFTER),
        });
        is_due
    }
}

/// What this process has fetched for a task, by sender.
#[derive(Debug, Default)]
pub(crate) struct Larder {
    /// For which roster, and for which sessions of this process: with others, other lanes count, and
    /// what was passed over must be looked at again.
    is_for: (u64, Vec<u64>),
    shelves: BTreeMap<String, Shelf>,
    n_rounds: usize,
    listed: Option<Listed>,
}

/// What is in a task's queues, for everybody who asked before it was looked up: sessions are all woken at
/// once, and each would ask the same.
#[derive(Debug)]
struct Listed {
    at: Instant,
    queues: Arc<Vec<(QueueName, Extent)>>,
}

/// A message that was taken.
pub(crate) struct Taken {
    pub(crate) spot: Spot,
    pub(crate) attempt: u32,
    pub(crate) body: Body,
}

async fn fetch(
    servers: &Servers,
    queue: &QueueName,
    sequence: u64,
) -> Result<Option<Fetched>, Refused> {
    let Some(message) = servers.fetch(queue, sequence).await? else { return Ok(None) };
    let kind = message.headers.get(KIND).map(|kind| kind.as_str().to_owned());
    let bytes = message.payload.len() as u64;
    let read = || {
        let lane = servers.names.lane_of(&message.subject)?;
        let id = message.headers.get(NATS_MESSAGE_ID)?;
        let origin = servers.names.origin_of(id.as_str())?;
        Some(Fetched { lane, origin, bytes, body: body(&kind?, message.payload.clone())? })
    };
    let strange = || Refused::Unavailable(format!("message {sequence} of {queue} is not ours"));
    read().map(Some).ok_or_else(strange)
}

impl Desk {
    /// Takes up to `max` messages for a session; none if there are none. May be given up at any point:
    /// what was fetched stays for the others, and what was taken goes with the session.
    pub(crate) async fn take(&self, session: u64, max: usize) -> Result<Vec<Taken>, Refused> {
        let asked_at = Instant::now();
        let mut larder = self.larder.lock().await;
        let queues = self.queues(&mut larder, asked_at).await?;
        // Not before it is our turn: by an older board the larder would be for the wrong sessions.
        let board = self.board().await?;
        let roster_at = board.roster.as_ref().map_or(0, |roster| roster.at);
        // As this board has them: one that begins now is not in it, and counts from the next look on.
        let mut sessions = self.session_ids();
        sessions.retain(|id| board.sessions.contains_key(id));
        let is_for = (roster_at, sessions);
        if larder.is_for != is_for {
            *larder = Larder { is_for, listed: larder.listed.take(), ..Larder::default() };
        }
        self.stock(&mut larder, &board, &queues, max).await?;
        let spots = larder.choose(&board, session, max);
        if spots.is_empty() {
            self.sweep(&mut larder, &board, &queues).await?;
            if board.sessions.contains_key(&session) {
                return Ok(Vec::new());
            }
        }
        let taken = self.change(|board| {
            if !board.sessions.contains_key(&session) {
                return Err(Refused::Lost);
            }
            let taking = board.take(session, &spots);
            Ok((taking != Taking::default()).then_some(taking))
        });
        let Taking { taken, repeated } = taken.await?.unwrap_or_default();
        for (from, _, sequence) in repeated {
            tracing::info!(%from, sequence, "a copy of what was taken before");
            // If it stays, the next sweep takes it out.
            let _ = self.servers.delete(&self.queue(&from), sequence).await;
        }
        let unpack = |(spot, attempt): (Spot, u32)| {
            let shelf = larder.shelves.get_mut(&spot.0)?;
            let body = shelf.messages.remove(&spot.2)?.body;
            Some(Taken { spot, attempt, body })
        };
        Ok(taken.into_iter().filter_map(unpack).collect())
    }

    /// The task's queues, as they were at some time after `asked_at`.
    async fn queues(
        &self,
        larder: &mut Larder,
        asked_at: Instant,
    ) -> Result<Arc<Vec<(QueueName, Extent)>>, Refused> {
        if let Some(Listed { at, queues }) = &larder.listed
            && *at >= asked_at
        {
            return Ok(Arc::clone(queues));
        }
        let (at, Place { job, task }) = (Instant::now(), &self.place);
        let found = self.servers.queues(&self.servers.names.queues(Some(job), Some(task))).await?;
        let queues = Arc::new(found);
        larder.listed = Some(Listed { at, queues: Arc::clone(&queues) });
        Ok(queues)
    }

    /// Fetches what may be taken: what was given back, and what is new.
    async fn stock(
        &self,
        larder: &mut Larder,
        board: &Board,
        queues: &[(QueueName, Extent)],
        max: usize,
    ) -> Result<(), Refused> {
        let sessions = larder.is_for.1.clone();
        let mut wanted: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        let given_back = sessions.iter().flat_map(|id| board.given_back(*id).into_iter().take(max));
        for (from, _, sequence) in given_back.collect::<BTreeSet<_>>() {
            let shelf = larder.shelves.entry(from.clone()).or_default();
            if !shelf.messages.contains_key(&sequence) {
                wanted.entry(from).or_default().push(sequence);
            }
        }
        for (from, sequences) in wanted {
            let queue = self.queue(&from);
            let fetched = self.fetch_all(&queue, sequences).await?;
            larder.shelves.entry(from).or_default().messages.extend(fetched);
        }
        for (queue, extent) in queues {
            let shelf = larder.shelves.entry(queue.from.clone()).or_default();
            shelf.messages.retain(|sequence, fetched| {
                board.is_ready(&(queue.from.clone(), fetched.lane, *sequence))
            });
            shelf.high = shelf.high.max(extent.first.saturating_sub(1));
            // One lane may stand behind all of another.
            let enough = if extent.n_lanes > 1 { QUEUE_MESSAGES_MAX as usize } else { max };
            while shelf.high < extent.last
                && shelf.messages.len() < enough
                && shelf.messages.values().map(|it| it.bytes).sum::<u64>() < RECEIVE_BYTES_MAX
            {
                let end = extent.last.min(shelf.high + FETCHES_MAX.min(enough as u64));
                let fetched = self.fetch_all(queue, (shelf.high + 1..=end).collect()).await?;
                let is_ours = |lane| sessions.iter().any(|id| board.is_for(*id, lane));
                let ours = fetched.into_iter().filter(|(sequence, it)| {
                    is_ours(it.lane) && board.is_ready(&(queue.from.clone(), it.lane, *sequence))
                });
                shelf.messages.extend(ours);
                shelf.high = end;
            }
        }
        Ok(())
    }

    /// Takes messages out that were acknowledged and are there all the same: a server that was killed
    /// does not remember what it deleted last, and a queue that has them would never be empty. Only
    /// where nothing moves: what is looked at one by one is then little, or somebody else's.
    async fn sweep(
        &self,
        larder: &mut Larder,
        board: &Board,
        queues: &[(QueueName, Extent)],
    ) -> Result<(), Refused> {
        for (queue, extent) in queues {
            let (n_known, top) = board.taken_from(&queue.from);
            let shelf = larder.shelves.entry(queue.from.clone()).or_default();
            if extent.messages <= n_known || !shelf.is_due((*extent, board.n)) {
                continue;
            }
            let mut present = self.servers.present(queue).await?;
            present.retain(|sequence| *sequence <= top);
            for some in present.chunks(FETCHES_MAX as usize) {
                for (sequence, fetched) in self.fetch_all(queue, some.to_vec()).await? {
                    if board.is_done(&(queue.from.clone(), fetched.lane, sequence)) {
                        tracing::info!(%queue, sequence, "acknowledged, and there again");
                        self.servers.delete(queue, sequence).await?;
                    }
                }
            }
        }
        Ok(())
    }

    async fn fetch_all(
        &self,
        queue: &QueueName,
        sequences: Vec<u64>,
    ) -> Result<BTreeMap<u64, Fetched>, Refused> {
        let mut tasks = JoinSet::new();
        for sequence in sequences {
            let (servers, queue) = (Arc::clone(&self.servers), queue.clone());
            tasks.spawn(async move { (sequence, fetch(&servers, &queue, sequence).await) });
        }
        let mut all = BTreeMap::new();
        while let Some(done) = tasks.join_next().await {
            let (sequence, fetched) = done.map_err(|why| Refused::Unavailable(why.to_string()))?;
            if let Some(fetched) = fetched? {
                all.insert(sequence, fetched);
            }
        }
        Ok(all)
    }
}

impl Larder {
    /// The sessions of this process that it is for.
    #[cfg(test)]
    pub(super) fn sessions(&self) -> &[u64] {
        &self.is_for.1
    }

    /// Messages for a session: lanes take turns, in order within each.
    fn choose(&mut self, board: &Board, session: u64, max: usize) -> Vec<(Spot, Origin)> {
        let mut lanes: BTreeMap<(String, Lane), VecDeque<_>> = BTreeMap::new();
        for (from, shelf) in &self.shelves {
            for (sequence, fetched) in &shelf.messages {
                let spot = (from.clone(), fetched.lane, *sequence);
                if board.is_for(session, fetched.lane) && board.is_ready(&spot) {
                    let lane = lanes.entry((from.clone(), fetched.lane)).or_default();
                    lane.push_back((spot, fetched.origin, fetched.bytes));
                }
            }
        }
        let mut lanes: Vec<_> = lanes.into_iter().collect();
        if lanes.is_empty() {
            return Vec::new();
        }
        self.n_rounds += 1;
        let n_lanes = lanes.len();
        lanes.rotate_left(self.n_rounds % n_lanes);
        let (mut spots, mut bytes) = (Vec::new(), 0);
        while !lanes.is_empty() {
            for (_, messages) in &mut lanes {
                if spots.len() >= max || bytes >= RECEIVE_BYTES_MAX {
                    return spots;
                }
                if let Some((spot, origin, size)) = messages.pop_front() {
                    spots.push((spot, origin));
                    bytes += size;
                }
            }
            lanes.retain(|(_, messages)| !messages.is_empty());
        }
        spots
    }
}
