//! The board of a task, as one process sees and changes it.
//!
//! A commit is one conditional write of the board, which then says what is to be carried out: messages
//! to send, keys to write, messages to take out. Whoever finds that not done does it, before
//! anything else; doing it twice changes nothing.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::{
    sync::{Notify, watch},
    task::JoinSet,
};
use tokio_stream::StreamExt as _;

use super::{
    board::{Board, Pending, Spot},
    keys,
    larder::Larder,
    servers::{Letter, Servers, Unwritten},
};
use crate::{
    message::{Body, QueueName, Segments},
    remote::frame,
    session::Place,
    transaction::{Key, Refused, Transaction},
};

/// A transaction up to this size stands on the board itself.
const INLINE_BYTES_MAX: usize = 32 << 10;

/// How often somebody who waits looks without having been woken.
const LOOK: Duration = Duration::from_secs(2);

/// How soon somebody who was woken looks again. Where hundreds of transactions are told in a second, each
/// would be looked for by itself, on every node; what comes within this time is taken together.
const BREATH: Duration = Duration::from_millis(10);

/// How long somebody else may take to carry a transaction out before we help.
const HELP_AFTER: Duration = Duration::from_millis(250);

/// How long a write of unknown outcome is tried again.
const PATIENCE: Duration = Duration::from_secs(30);

/// The board that was last seen, and its revision; 0 if there is none.
type Seen = (u64, Board);

/// A transaction whose messages are known by their spots.
pub(crate) struct Work {
    pub(crate) holds: Vec<Spot>,
    pub(crate) acks: Vec<Spot>,
    /// What is left of the transaction.
    pub(crate) rest: Transaction,
}

/// A task's board in this process.
pub(crate) struct Desk {
    pub(crate) servers: Arc<Servers>,
    pub(crate) place: Place,
    seen: tokio::sync::Mutex<Option<Seen>>,
    pub(super) larder: tokio::sync::Mutex<Larder>,
    /// Something may be there.
    pub(super) bell: Notify,
    /// The sessions of this process, and how they hear that they are over.
    sessions: Mutex<BTreeMap<u64, watch::Sender<bool>>>,
}

impl Desk {
    pub(crate) fn new(servers: Arc<Servers>, place: Place) -> Arc<Desk> {
        let desk = Arc::new(Desk {
            servers,
            place,
            seen: tokio::sync::Mutex::default(),
            larder: tokio::sync::Mutex::default(),
            bell: Notify::new(),
            sessions: Mutex::default(),
        });
        tokio::spawn(listen(Arc::downgrade(&desk)));
        desk
    }

    fn sessions(&self) -> MutexGuard<'_, BTreeMap<u64, watch::Sender<bool>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sessions of this process.
    pub(super) fn session_ids(&self) -> Vec<u64> {
        self.sessions().keys().copied().collect()
    }

    /// Has a session told when it is over.
    pub(crate) fn add_session(&self, id: u64, is_lost: watch::Sender<bool>) {
        self.sessions().insert(id, is_lost);
    }

    /// The board as it is on the servers.
    async fn load(&self, seen: &mut Option<Seen>) -> Result<(), Refused> {
        let board = read(&self.servers, &self.place).await?;
        self.tell(&board.1);
        *seen = Some(board);
        Ok(())
    }

    /// Tells sessions that are no longer on the board.
    fn tell(&self, board: &Board) {
        self.sessions().retain(|id, is_lost| {
            let stays = board.sessions.contains_key(id);
            if !stays {
                is_lost.send_replace(true);
            }
            stays
        });
    }

    /// Looks at the board again.
    async fn look(&self) {
        let mut seen = self.seen.lock().await;
        if self.load(&mut seen).await.is_err() {
            *seen = None;
        }
        drop(seen);
        self.bell.notify_waiters();
    }

    /// The board with nothing left to be carried out; loaded if it is not known.
    async fn settled(&self, seen: &mut Option<Seen>) -> Result<Seen, Refused> {
        loop {
            if seen.is_none() {
                self.load(seen).await?;
            }
            let Some((revision, board)) = seen.clone() else { continue };
            let Some(pending) = &board.pending else { return Ok((revision, board)) };
            let begun = Instant::now();
            let is_same = |seen: &Option<Seen>| seen.as_ref().is_some_and(|it| it.0 == revision);
            while begun.elapsed() < HELP_AFTER && is_same(seen) {
                tokio::time::sleep(Duration::from_millis(10)).await;
                self.load(seen).await?;
            }
            if is_same(seen) {
                self.carry_out(board.n, pending).await?;
                self.clear(seen).await?;
            }
        }
    }

    /// Sees to it that everything committed has been carried out.
    pub(crate) async fn settle(&self) -> Result<Board, Refused> {
        let mut seen = self.seen.lock().await;
        *seen = None;
        self.settled(&mut seen).await.map(|(_, board)| board)
    }

    /// The board as it was last seen.
    pub(crate) async fn board(&self) -> Result<Board, Refused> {
        let mut seen = self.seen.lock().await;
        self.settled(&mut seen).await.map(|(_, board)| board)
    }

    /// Changes the board. `change` may be asked several times, each time with the newest; `Ok(None)`
    /// leaves it as it is.
    pub(crate) async fn change<T>(
        &self,
        mut change: impl FnMut(&mut Board) -> Result<Option<T>, Refused>,
    ) -> Result<Option<T>, Refused> {
        let mut seen = self.seen.lock().await;
        let mut is_fresh = seen.is_none();
        loop {
            let (revision, mut board) = self.settled(&mut seen).await?;
            match change(&mut board) {
                Ok(Some(answer)) => {
                    if self.write(&mut seen, revision, board).await? {
                        return Ok(Some(answer));
                    }
                }
                // What was seen may be old; what is decided against somebody must not be.
                Ok(None) | Err(_) if !is_fresh => self.load(&mut seen).await?,
                decided => return decided,
            }
            is_fresh = true;
        }
    }

    /// Writes the board; `false` if somebody else did, and then it has been loaded again.
    async fn write(
        &self,
        seen: &mut Option<Seen>,
        revision: u64,
        mut board: Board,
    ) -> Result<bool, Refused> {
        board.writer = random()?;
        let unwritable = |why| Refused::Unavailable(format!("the board: {why}"));
        let bytes = Bytes::from(postcard::to_stdvec(&board).map_err(unwritable)?);
        let max = self.servers.payload_bytes_max;
        if bytes.len() > max {
            let is = bytes.len();
            let why =
                format!("the board of {:?} has {is} bytes, and {max} is the most", self.place);
            return Err(Refused::TooLarge(why));
        }
        let subject = self.servers.names.board(&self.place);
        let (begun, mut doubt) = (Instant::now(), None);
        *seen = None;
        loop {
            match self.servers.write(&subject, revision, bytes.clone()).await {
                Ok(revision) => {
                    self.tell(&board);
                    *seen = Some((revision, board));
                    return Ok(true);
                }
                Err(Unwritten::Changed) => {
                    self.load(seen).await?;
                    let is_ours = seen.as_ref().is_some_and(|it| it.1.writer == board.writer);
                    // The answer to an earlier try may have been lost, and what it wrote may have
                    // been written over since.
                    return match doubt {
                        Some(why) if !is_ours => Err(Refused::Unknown(why)),
                        _ => Ok(is_ours),
                    };
                }
                // Once more on the same condition: at most one of the tries happens.
                Err(Unwritten::Unknown(why)) if begun.elapsed() < PATIENCE => {
                    tracing::debug!("a board is written again: {why}");
                    doubt = Some(why);
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                Err(Unwritten::Unknown(why)) => return Err(Refused::Unknown(why)),
            }
        }
    }

    /// Takes what has been carried out off the board.
    async fn clear(&self, seen: &mut Option<Seen>) -> Result<(), Refused> {
        let Some((revision, mut board)) = seen.clone() else { return Ok(()) };
        board.pending = None;
        // Whoever was first has done the same.
        self.write(seen, revision, board).await.map(drop)
    }

    /// Commits, carries out, and answers.
    pub(crate) async fn commit(&self, session: u64, work: Work) -> Result<(), Refused> {
        let Work { holds, acks, rest } = work;
        let Transaction { sends, puts, expects, .. } = rest;
        let sends_to: Vec<_> = sends.iter().map(|outgoing| outgoing.queue.clone()).collect();
        for (key, _) in puts.iter().chain(&expects) {
            self.servers.names.key(&self.place, key)?;
        }
        let mut seen = self.seen.lock().await;
        let mut is_fresh = seen.is_none();
        let mut content = None;
        let mut todo = Some(Transaction { sends, puts, ..Transaction::default() });
        let n = loop {
            let (revision, mut board) = self.settled(&mut seen).await?;
            let refused = match board.holds(session, &holds) && board.holds(session, &acks) {
                true => self.unexpected(&expects).await?,
                false => Some(Refused::Lost),
            };
            match refused {
                Some(_) if !is_fresh => {
                    self.load(&mut seen).await?;
                    is_fresh = true;
                    continue;
                }
                Some(refused) => return Err(refused),
                None => {}
            }
            if let Some(todo) = todo.take() {
                content = Some(self.prepare(session, todo).await?);
            }
            let content = content.clone().unwrap_or(Ok(Vec::new()));
            board.commit(Pending { session, content, acks: acks.clone() });
            let n = board.n;
            if self.write(&mut seen, revision, board).await? {
                break n;
            }
            is_fresh = true;
        };
        // It is committed. What fails from here on is made good by whoever comes next.
        let pending = seen.as_ref().and_then(|(_, board)| board.pending.clone());
        let done = match &pending {
            Some(pending) => self.carry_out(n, pending).await,
            None => Ok(()),
        };
        match done {
            Ok(()) => drop(self.clear(&mut seen).await),
            Err(why) => {
                tracing::warn!("a transaction is committed and not carried out yet: {why}");
                *seen = None;
            }
        }
        drop(seen);
        for queue in sends_to.iter().collect::<std::collections::BTreeSet<_>>() {
            self.servers.wake(&queue.job, &queue.task).await;
        }
        Ok(())
    }

    /// The first key that has not the expected value.
    async fn unexpected(
        &self,
        expects: &[(Key, Option<Bytes>)],
    ) -> Result<Option<Refused>, Refused> {
        for (key, expected) in expects {
            if keys::read(&self.servers, &self.place, key).await?.1 != *expected {
                return Ok(Some(Refused::Changed(key.clone())));
            }
        }
        Ok(None)
    }

    /// A transaction as it stands on the board: whole, or in parts beside it.
    async fn prepare(
        &self,
        session: u64,
        todo: Transaction,
    ) -> Result<Result<Vec<u8>, u32>, Refused> {
        let (outline, bodies) = frame::outline(todo)?;
        let too_large = |why: std::io::Error| Refused::TooLarge(why.to_string());
        let bytes = Bytes::from(frame::encode(&outline, bodies).map_err(too_large)?.concat());
        if bytes.len() <= INLINE_BYTES_MAX {
            return Ok(Ok(bytes.to_vec()));
        }
        let mut n_parts = 0;
        for start in (0..bytes.len()).step_by(self.servers.payload_bytes_max) {
            let end = (start + self.servers.payload_bytes_max).min(bytes.len());
            let subject = self.servers.names.part(&self.place, session, n_parts);
            self.servers.put(subject, bytes.slice(start..end)).await?;
            n_parts += 1;
        }
        Ok(Err(n_parts as u32))
    }

    /// Does what a transaction says. May happen twice, and by several at once.
    async fn carry_out(&self, n: u64, pending: &Pending) -> Result<(), Refused> {
        let bytes = match &pending.content {
            Ok(bytes) => Bytes::copy_from_slice(bytes),
            Err(n_parts) => match self.own_parts(n, pending, *n_parts as usize).await? {
                Some(bytes) => bytes,
                None => return Ok(()),
            },
        };
        let unreadable = |why: std::io::Error| Refused::Unavailable(why.to_string());
        let Transaction { sends, puts, .. } = match bytes.is_empty() {
            true => Transaction::default(),
            false => {
                let (outline, rest) = frame::decode(&bytes).map_err(unreadable)?;
                frame::Rest(rest).transaction(outline).map_err(unreadable)?
            }
        };
        let mut messages = Vec::with_capacity(sends.len());
        for (index, outgoing) in sends.into_iter().enumerate() {
            let subject = self.servers.names.lane(&outgoing.queue, outgoing.partition);
            let (kind, payload) = payload(outgoing.body)?;
            let id = self.servers.names.message_id(&self.place, n, index);
            messages.push(Letter { queue: outgoing.queue, subject, id, kind, payload });
        }
        self.servers.send(messages).await?;
        let mut tasks = JoinSet::new();
        // Within one transaction the last word counts.
        for (key, value) in puts.into_iter().collect::<BTreeMap<_, _>>() {
            let (servers, place) = (Arc::clone(&self.servers), self.place.clone());
            tasks.spawn(async move { keys::put(&servers, &place, &key, value, n).await });
        }
        for (from, _, sequence) in &pending.acks {
            let (servers, queue) = (Arc::clone(&self.servers), self.queue(from));
            let sequence = *sequence;
            tasks.spawn(async move { servers.delete(&queue, sequence).await });
        }
        while let Some(done) = tasks.join_next().await {
            done.map_err(|why| Refused::Unavailable(why.to_string()))??;
        }
        Ok(())
    }

    /// What somebody does who was held up.
    #[cfg(test)]
    pub(super) async fn carry_out_again(&self, n: u64, pending: &Pending) -> Result<(), Refused> {
        self.carry_out(n, pending).await
    }

    /// The parts of transaction `n`; `None` if it has been carried out. A session's next transaction has
    /// its parts in the same place, from the moment on at which this one is off the board: what was
    /// read is ours only if the board still says so afterwards.
    async fn own_parts(
        &self,
        n: u64,
        pending: &Pending,
        n_parts: usize,
    ) -> Result<Option<Bytes>, Refused> {
        let bytes = self.parts(pending.session, n_parts).await;
        let mut now = None;
        self.load(&mut now).await?;
        match now {
            Some(seen) if stands(&seen, n)? && seen.1.pending.as_ref() == Some(pending) => {
                bytes.map(Some)
            }
            _ => Ok(None),
        }
    }

    async fn parts(&self, session: u64, n_parts: usize) -> Result<Bytes, Refused> {
        let mut all = Vec::new();
        for n in 0..n_parts {
            let subject = self.servers.names.part(&self.place, session, n);
            let part = self.servers.read(&subject).await?;
            let gone = || Refused::Unavailable(format!("part {n} of a transaction is gone"));
            all.extend_from_slice(&part.ok_or_else(gone)?.1);
        }
        Ok(Bytes::from(all))
    }

    /// The queue of this task that `from` sends to.
    pub(crate) fn queue(&self, from: &str) -> QueueName {
        let Place { job, task } = self.place.clone();
        QueueName { job, task, from: from.to_owned() }
    }
}

/// Looks at the board whenever somebody says so, and now and then.
///
/// Hearing does not wait for looking: whatever is said during one look, the next one answers all of it.
/// Left lying, it would become more with every look, and each word keeps the whole buffer that it came
/// in.
async fn listen(desk: Weak<Desk>) {
    let Some((client, subject)) = desk.upgrade().map(|desk| {
        let Place { job, task } = &desk.place;
        (desk.servers.client.clone(), desk.servers.names.wake(job, task))
    }) else {
        return;
    };
    let woken = Notify::new();
    let hear = async {
        let Ok(mut wakes) = client.subscribe(subject).await else { return };
        while wakes.next().await.is_some() {
            woken.notify_one();
        }
    };
    let look = async {
        loop {
            // Woken, or long enough ago.
            let _ = tokio::time::timeout(LOOK, woken.notified()).await;
            let Some(desk) = desk.upgrade() else { return };
            desk.look().await;
            drop(desk);
            tokio::time::sleep(BREATH).await;
        }
    };
    tokio::pin!(look);
    tokio::select! {
        () = &mut look => {}
        // Nobody can be heard any more: what is left is to look now and then.
        () = hear => look.await,
    }
}

/// A task's board as it is on the servers.
async fn read(servers: &Servers, place: &Place) -> Result<Seen, Refused> {
    let Some((revision, bytes)) = servers.read(&servers.names.board(place)).await? else {
        return Ok((0, Board::default()));
    };
    let board = Board::from_bytes(&bytes);
    let bad = |why| Refused::Unavailable(format!("{place:?}: {why}"));
    Ok((revision, board.map_err(bad)?))
}

/// Whether transaction `n` is still to be carried out.
pub(super) async fn is_open(servers: &Servers, place: &Place, n: u64) -> Result<bool, Refused> {
    stands(&read(servers, place).await?, n)
}

/// Whether transaction `n` stands on this board, still to be carried out. It has been there: a board that
/// does not know of it, or none at all, comes from a server that led once and has not heard that it was
/// overruled. Or the job is over and forgotten; whoever looks next finds nothing left to do.
fn stands((_, board): &Seen, n: u64) -> Result<bool, Refused> {
    if board.n < n {
        let why = format!("the board ends at transaction {}, and {n} was on it already", board.n);
        return Err(Refused::Unavailable(why));
    }
    Ok(board.n == n && board.pending.is_some())
}

fn random() -> Result<u64, Refused> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|why| Refused::Unavailable(why.to_string()))?;
    Ok(u64::from_le_bytes(bytes))
}

fn payload(body: Body) -> Result<(&'static str, Bytes), Refused> {
    Ok(match body {
        Body::Segments(segments) => {
            let wrong = |why| Refused::Unavailable(format!("a batch cannot be encoded: {why}"));
            ("segments", segments.encode(crate::Compression::None).map_err(wrong)?)
        }
        Body::Sentinel(name) => ("sentinel", Bytes::from(name)),
        Body::Note(bytes) => ("note", bytes),
    })
}

/// The body that a payload of this kind is.
pub(super) fn body(kind: &str, payload: Bytes) -> Option<Body> {
    Some(match kind {
        "segments" => Body::Segments(Segments::Encoded(payload)),
        "sentinel" => Body::Sentinel(String::from_utf8(payload.to_vec()).ok()?),
        "note" => Body::Note(payload),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(revision: u64, n: u64, is_pending: bool) -> Seen {
        let content = Ok(Vec::new());
        let pending = is_pending.then(|| Pending { session: 1, content, acks: Vec::new() });
        (revision, Board { n, pending, ..Board::default() })
    }

    #[test]
    fn a_transaction_stands_until_it_is_carried_out() {
        assert!(stands(&seen(9, 5, true), 5).unwrap());
        assert!(!stands(&seen(10, 5, false), 5).unwrap());
        assert!(!stands(&seen(11, 6, true), 5).unwrap());
    }

    /// From a server that led once: whoever believed it would leave a key unwritten.
    #[test]
    fn a_board_that_is_too_old_says_nothing() {
        for old in [seen(8, 4, false), (0, Board::default())] {
            let asked = stands(&old, 5);
            assert!(matches!(asked, Err(Refused::Unavailable(_))), "{asked:?}");
        }
    }
}
