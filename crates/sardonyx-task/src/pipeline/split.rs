//! Reading splits: what an input task does instead of receiving segments.
//!
//! The splits of an input are messages of its own queue, put there once. A split stays in flight while
//! it is read; each batch is committed with the position behind it, under the condition that the
//! split is still ours. For a source that grows, one more message stands for looking again.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::{BufMut, Bytes, BytesMut};
use sardonyx_queue::{
    Body, Key, MessageId, Outgoing, QueueName, Receipt, Refused, Session, Transaction,
};
use tokio::{
    sync::{Notify, Semaphore, mpsc},
    time::Instant,
};
use xxhash_rust::xxh3::xxh3_64;

use super::{End, Never, Task, compute::Item, fetch::Note, worn::Came};
use crate::{
    Input,
    input::{Read, Reader, Splits},
    mutant::{self, Mutant},
    registry::Kind,
    spy::Phase,
};

/// How many rows a batch of an input has unless its task says otherwise.
pub(super) const BATCH_ROWS: usize = 8192;

/// What kind of note a message of an input is: the first byte.
const SPLIT: u8 = 0;
const LOOK_AGAIN: u8 = 1;

/// With what the keys of positions begin: nobody asks for one whose split is over.
const POSITION: &str = "once/at/";

/// Where the input left what it wants to remember between looks.
const MEMORY: &str = "splits/memory";

/// A split that is being read.
struct Open {
    receipt: Receipt,
    key: String,
    reader: Box<dyn Reader>,
    /// How far it is committed, if the reader does not know that yet.
    committed: Option<Bytes>,
    wakes: Option<(Instant, Option<Arc<Notify>>)>,
}

impl Open {
    fn read(&mut self, rows_max: usize) -> Result<Read, String> {
        if let Some(position) = self.committed.take() {
            self.reader.committed(&position)?;
        }
        self.reader.read(rows_max)
    }
}

/// The right to look for more splits, and when.
struct Look {
    receipt: Receipt,
    at: Instant,
}

/// Splits on their way from the queue to the reader: as many as it asks for, and no more, since the
/// rest is for others.
pub(super) struct Notes {
    notes: mpsc::Receiver<Note>,
    asks: Arc<Semaphore>,
    has_asked: bool,
}

impl Notes {
    pub(super) fn new(notes: mpsc::Receiver<Note>, asks: Arc<Semaphore>) -> Notes {
        Notes { notes, asks, has_asked: false }
    }

    fn ask(&mut self) {
        if !std::mem::replace(&mut self.has_asked, true) {
            self.asks.add_permits(1);
        }
    }

    async fn next(&mut self) -> Option<Note> {
        self.ask();
        let note = self.notes.recv().await;
        self.has_asked = false;
        note
    }

    fn try_next(&mut self) -> Option<Note> {
        self.ask();
        let note = self.notes.try_recv().ok()?;
        self.has_asked = false;
        Some(note)
    }
}

impl Task {
    /// Cuts the input into splits, unless somebody has.
    pub(super) async fn plan(&self, session: &Session, input: &Arc<dyn Input>) -> Result<(), End> {
        if session.get(MEMORY).await?.is_some() && !mutant::is_on(Mutant::PlanAgain) {
            return Ok(());
        }
        let splits = self.ask_for_splits(input, None).await?;
        let mut plan = self.plan_of(&splits);
        if !mutant::is_on(Mutant::PlanAgain) {
            plan.expects = vec![(MEMORY.into(), None)];
        }
        match session.commit(plan).await {
            Ok(()) | Err(Refused::Changed(_)) => Ok(()),
            Err(refused) => Err(refused.into()),
        }
    }

    async fn ask_for_splits(
        &self,
        input: &Arc<dyn Input>,
        memory: Option<Bytes>,
    ) -> Result<Splits, End> {
        let input = Arc::clone(input);
        let asked = self.desk.run(move || input.splits(memory.as_deref())).await?;
        asked.map_err(End::Failed)
    }

    fn plan_of(&self, splits: &Splits) -> Transaction {
        let queue = self.own_queue();
        let send = |body| Outgoing { queue: queue.clone(), partition: None, body };
        let mut sends: Vec<_> =
            splits.splits.iter().map(|split| send(Body::Note(note(SPLIT, split)))).collect();
        sends.push(send(match splits.again {
            Some(after) => Body::Note(look_again(after)),
            None => Body::Sentinel(self.sentinel()),
        }));
        let puts = vec![(MEMORY.into(), Some(splits.memory.clone()))];
        Transaction { sends, puts, ..Transaction::default() }
    }

    fn own_queue(&self) -> QueueName {
        let place = &self.order.place;
        QueueName { job: place.job.clone(), task: place.task.clone(), from: String::new() }
    }

    /// Reads splits, several in turns if they have no end.
    pub(super) async fn read_splits(
        &self,
        session: &Session,
        mut notes: Notes,
        items: &mpsc::Sender<Item>,
        input: Option<Arc<dyn Input>>,
    ) -> Result<Never, End> {
        let Some(input) = input else { return std::future::pending().await };
        let egress = self.egress();
        let rows_max = self.batch_rows()?;
        let (mut open, mut look) = (VecDeque::new(), None);
        loop {
            while self.wants_more(open.len(), &*input).await? {
                let note = match open.is_empty() && look.is_none() {
                    true => notes.next().await,
                    false => notes.try_next(),
                };
                let Some(note) = note else { break };
                self.take_note(session, &input, note, &mut open, &mut look).await?;
            }
            if let Some(due) = look.take_if(|look: &mut Look| look.at <= Instant::now()) {
                look = self.look_again(session, &input, due).await?;
            }
            let awake =
                |split: &Open| split.wakes.as_ref().is_none_or(|(at, _)| *at <= Instant::now());
            let (next, asleep): (VecDeque<_>, _) = open.into_iter().partition(awake);
            open = asleep;
            if !next.is_empty() {
                session.room(&egress).await?;
                self.read(next, rows_max, items, &mut open).await?;
            } else if !open.is_empty() || look.is_some() {
                self.sleep(session, &input, &mut notes, &mut open, &mut look).await?;
            }
        }
    }

    /// Whether another split is to be begun: one at a time, or our share of those without end.
    async fn wants_more(&self, n_open: usize, input: &dyn Input) -> Result<bool, End> {
        if n_open == 0 || !input.is_endless() {
            return Ok(n_open == 0);
        }
        let depth = self.engine.queues.depth(&self.own_queue()).await?;
        let n_owners = self.order.roster.borrow().owners.len().max(1);
        Ok(n_open < usize::try_from(depth.total()).unwrap_or(usize::MAX).div_ceil(n_owners))
    }

    async fn take_note(
        &self,
        session: &Session,
        input: &Arc<dyn Input>,
        Note { receipt, id, bytes, attempt }: Note,
        open: &mut VecDeque<Open>,
        look: &mut Option<Look>,
    ) -> Result<(), End> {
        let Some((&kind, _)) = bytes.split_first() else {
            return Err(End::Failed("a split without a kind".into()));
        };
        let rest = bytes.slice(1..);
        if kind == LOOK_AGAIN {
            let after = rest.as_ref().try_into().map(u64::from_le_bytes).unwrap_or(1_000);
            *look = Some(Look { receipt, at: Instant::now() + Duration::from_millis(after) });
            return Ok(());
        }
        let key = position_key(&rest, id);
        let position = session.get(&key).await?;
        // What lasts for weeks is held by many, one after the other; rows of it speak for it.
        if position.is_none() {
            let queue = &self.own_queue();
            self.dare(session, &Came { queue, partition: None, id, receipt, attempt }).await?;
        }
        let input = Arc::clone(input);
        let opened = self.desk.run(move || input.open(&rest, position.as_deref())).await?;
        let reader = opened.map_err(End::Failed)?;
        open.push_back(Open { receipt, key, reader, committed: None, wakes: None });
        Ok(())
    }

    /// Reads a batch of each of these splits, or of the first ones if those have enough together: the way
    /// to a compute thread costs more than a few rows. What is not over goes back to `open`, those that
    /// had no turn to its front.
    async fn read(
        &self,
        mut splits: VecDeque<Open>,
        rows_max: usize,
        items: &mpsc::Sender<Item>,
        open: &mut VecDeque<Open>,
    ) -> Result<(), End> {
        for split in &mut splits {
            split.wakes = None;
            split.committed = self.positions().remove(&split.key).or(split.committed.take());
        }
        let read_all = move || {
            let (mut reads, mut n_rows) = (Vec::new(), 0);
            for split in &mut splits {
                let read = split.read(rows_max);
                n_rows += read.as_ref().map_or(0, Read::n_rows);
                reads.push(read);
                if n_rows >= rows_max {
                    break;
                }
            }
            (splits, reads)
        };
        let (mut splits, reads) = self.desk.run(read_all).await?;
        for split in splits.drain(reads.len()..).rev() {
            open.push_front(split);
        }
        for (mut split, read) in splits.into_iter().zip(reads) {
            let (receipt, key) = (split.receipt, split.key.clone());
            let item = match read.map_err(End::Failed)? {
                Read::Batch(batch, position) => {
                    self.engine.spy.saw(&self.order.place, Phase::ReadBatch, Some(&batch));
                    open.push_back(split);
                    Item::Rows { batch, receipt, key, position }
                }
                Read::Wait(after, notify) => {
                    split.wakes = Some((Instant::now() + after, notify));
                    open.push_back(split);
                    if !self.is_dared(receipt) {
                        continue;
                    }
                    Item::Harmless { receipt }
                }
                Read::End => Item::SplitOver { receipt, key },
            };
            // Only the end of the session closes it.
            let _ = items.send(item).await;
        }
        Ok(())
    }

    /// How far a transaction says that splits are read; `None` of those that are over.
    pub(super) fn positions_of(&self, transaction: &Transaction) -> Vec<(Key, Option<Bytes>)> {
        if self.order.blueprint.kind != Kind::Input {
            return Vec::new();
        }
        transaction.puts.iter().filter(|(key, _)| key.starts_with(POSITION)).cloned().collect()
    }

    /// It is committed: readers are told before they read on. Of splits that are over nobody asks.
    pub(super) fn committed_to(&self, positions: Vec<(Key, Option<Bytes>)>) {
        tell(&mut self.positions(), positions);
    }

    /// Readers of a session before this one are gone, and what was for them.
    pub(super) fn forget_positions(&self) {
        self.positions().clear();
    }

    fn positions(&self) -> MutexGuard<'_, BTreeMap<Key, Bytes>> {
        self.positions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn look_again(
        &self,
        session: &Session,
        input: &Arc<dyn Input>,
        look: Look,
    ) -> Result<Option<Look>, End> {
        let memory = session.get(MEMORY).await?;
        let splits = self.ask_for_splits(input, memory.clone()).await?;
        let mut plan = self.plan_of(&splits);
        if let Some(after) = splits.again {
            // The note that says so stays with us.
            plan.sends.pop();
            plan.holds.push(look.receipt);
            if !plan.sends.is_empty() || Some(&splits.memory) != memory.as_ref() {
                session.commit(plan).await?;
            }
            return Ok(Some(Look { at: Instant::now() + after, ..look }));
        }
        plan.acks.push(look.receipt);
        session.commit(plan).await?;
        Ok(None)
    }

    /// Nothing to read now: until a split wakes, it is time to look again, or a new split comes.
    async fn sleep(
        &self,
        session: &Session,
        input: &Arc<dyn Input>,
        notes: &mut Notes,
        open: &mut VecDeque<Open>,
        look: &mut Option<Look>,
    ) -> Result<(), End> {
        let wakes = open.iter().filter_map(|split| split.wakes.as_ref()).map(|(at, _)| *at);
        let until = wakes.chain(look.as_ref().map(|look| look.at)).min();
        let Some(until) = until else { return Ok(()) };
        let bell = open.iter().find_map(|split| split.wakes.as_ref()?.1.clone());
        let rung = async {
            match bell {
                Some(bell) => bell.notified().await,
                None => std::future::pending().await,
            }
        };
        let wants_more = self.wants_more(open.len(), &**input).await?;
        tokio::select! {
            biased;
            () = tokio::time::sleep_until(until) => Ok(()),
            () = rung => {
                open.iter_mut().for_each(|split| split.wakes = None);
                Ok(())
            }
            Some(note) = notes.next(), if wants_more => {
                self.take_note(session, input, note, open, look).await
            }
        }
    }

    fn batch_rows(&self) -> Result<usize, End> {
        let rows = self.order.blueprint.terms.number("batch-size").map_err(End::Failed)?;
        Ok(rows.map_or(BATCH_ROWS, |rows| usize::try_from(rows).unwrap_or(BATCH_ROWS).max(1)))
    }
}

/// Where the position of a split is: its message is a part of the name, because a file that was written
/// anew may have the same piece once more.
fn position_key(split: &[u8], id: MessageId) -> String {
    format!("{POSITION}{:016x}-{}", xxh3_64(split), id.0)
}

fn tell(known: &mut BTreeMap<Key, Bytes>, positions: Vec<(Key, Option<Bytes>)>) {
    for (key, position) in positions {
        match position {
            Some(position) => known.insert(key, position),
            None => known.remove(&key),
        };
    }
}

fn note(kind: u8, rest: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(1 + rest.len());
    bytes.put_u8(kind);
    bytes.put_slice(rest);
    bytes.freeze()
}

fn look_again(after: Duration) -> Bytes {
    let millis = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
    note(LOOK_AGAIN, &millis.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use sardonyx_queue::ONCE;

    use super::*;
    use crate::worker::PART;

    /// A stream has new ones every second, for as long as it runs.
    #[test]
    fn keys_of_what_is_over_leave_nothing_behind() {
        assert!(POSITION.starts_with(ONCE) && PART.starts_with(ONCE));
    }

    /// The commit of a split's last rows may be answered after the reader has seen its end.
    #[test]
    fn nothing_is_kept_of_splits_that_are_over() {
        let key = position_key(b"a.ndjson 0..80", MessageId(1));
        let mut known = BTreeMap::new();
        tell(&mut known, vec![(key.clone(), Some(Bytes::from_static(b"80")))]);
        assert_eq!(known.len(), 1);
        tell(&mut known, vec![(key, None)]);
        assert!(known.is_empty());
    }

    /// A key that is used once must be: the same rows of a file that was written anew are another split.
    #[test]
    fn the_same_piece_once_more_has_a_position_of_its_own() {
        let of = |id| position_key(b"a.ndjson 0..80", MessageId(id));
        assert_ne!(of(1), of(2));
        assert_eq!(of(1), of(1), "whoever gets the message again goes on where it was");
    }
}
