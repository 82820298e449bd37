//! Computing and committing: what was read becomes a transaction.
//!
//! While a transaction is being committed the next one grows. A grouped task also lets it grow for a
//! moment when nothing is being committed, since saving a group costs the same whether it was
//! changed once or a thousand times.

use std::{future::Future, pin::Pin, sync::atomic::Ordering::Relaxed, time::Duration};

use arrow::array::RecordBatch;
use bytes::Bytes;
use sardonyx_queue::{Key, Receipt, Refused, Segments, Session, Transaction};
use tokio::{sync::mpsc, time::Instant};
use tracing::Instrument as _;

use super::{End, ITEMS_MAX, Never, Task};
use crate::{
    mutant::{self, Mutant},
    spy::Phase,
    worker::{Carriage, Counts, Worker},
};

/// How long a grouped task gathers before it saves its groups.
const GATHER: Duration = Duration::from_millis(100);

/// How many rows it gathers at most: they are in flight, and count against their queue.
const GATHER_ROWS_MAX: u64 = 1 << 20;

/// How many rows a transaction may take in before reading has to wait for it.
const PENDING_ROWS_MAX: u64 = 1 << 21;

/// What was read.
pub(super) enum Item {
    /// Messages with segments.
    Segments(Vec<(Receipt, Option<u16>, Segments)>),
    /// Rows of a split, and the position behind them.
    Rows { batch: RecordBatch, receipt: Receipt, key: String, position: Bytes },
    /// A split that came often has been looked at, and has nothing yet.
    Harmless { receipt: Receipt },
    /// A split has been read to its end.
    SplitOver { receipt: Receipt, key: String },
}

type Committing<'a> = Pin<Box<dyn Future<Output = Result<(), Refused>> + Send + 'a>>;

/// A transaction on its way: its outcome, what it counts, and how far splits are then read.
type OnItsWay<'a> = (Committing<'a>, Counts, Vec<(Key, Option<Bytes>)>);

/// The transaction that grows.
#[derive(Default)]
struct Pending {
    transaction: Transaction,
    counts: Counts,
    since: Option<Instant>,
}

impl Pending {
    /// Takes in what becomes of `item` beside its rows, and gives those.
    fn note(&mut self, item: Item) -> Vec<(Option<u16>, Segments)> {
        let transaction = &mut self.transaction;
        match item {
            Item::Segments(messages) => {
                transaction.acks.extend(messages.iter().map(|(receipt, ..)| *receipt));
                messages.into_iter().map(|(_, partition, batch)| (partition, batch)).collect()
            }
            Item::Rows { batch, receipt, key, position } => {
                if !mutant::is_on(Mutant::NoPosition) {
                    put(transaction, key, Some(position));
                }
                if !transaction.holds.contains(&receipt) {
                    transaction.holds.push(receipt);
                }
                vec![(None, Segments::Batch(batch))]
            }
            Item::Harmless { receipt } => {
                if !transaction.holds.contains(&receipt) {
                    transaction.holds.push(receipt);
                }
                Vec::new()
            }
            Item::SplitOver { receipt, key } => {
                put(transaction, key, None);
                transaction.holds.retain(|held| *held != receipt);
                transaction.acks.push(receipt);
                Vec::new()
            }
        }
    }
}

impl Task {
    pub(super) async fn compute(
        &self,
        session: &Session,
        mut items: mpsc::Receiver<Item>,
        n_session: u32,
    ) -> Result<Never, End> {
        let mut worker = self.worker(n_session)?;
        let mut pending = Pending::default();
        let mut committing: Option<OnItsWay<'_>> = None;
        let trigger = self.order.blueprint.terms.duration("trigger").map_err(End::Failed)?;
        let mut fires = trigger.map(|every| Instant::now() + every);
        let gather = if worker.is_grouped() { GATHER } else { Duration::ZERO };
        let mut read = Vec::with_capacity(ITEMS_MAX);
        loop {
            let due = pending.since.map(|since| match pending.counts.rows_in > GATHER_ROWS_MAX {
                true => since,
                false => since + gather,
            });
            if committing.is_none() && due.is_some_and(|due| due <= Instant::now()) {
                let whole = std::mem::take(&mut pending);
                let (saved, mut transaction) = self.save(worker, whole.transaction).await?;
                worker = saved;
                self.forgive(&mut transaction);
                let positions = self.positions_of(&transaction);
                let span = tracing::info_span!("commit", rows = whole.counts.rows_in);
                let commit = Box::pin(session.commit(transaction).instrument(span));
                committing = Some((commit, whole.counts, positions));
            }
            let forever = Instant::now() + Duration::from_secs(3600);
            tokio::select! {
                biased;
                committed = poll(&mut committing), if committing.is_some() => {
                    committed?;
                    self.saw(Phase::Commit);
                    if let Some((_, counts, positions)) = committing.take() {
                        self.count(&counts);
                        self.committed_to(positions);
                    }
                    worker = self.committed(worker).await?;
                }
                () = tokio::time::sleep_until(fires.unwrap_or(forever)), if fires.is_some() => {
                    fires = trigger.map(|every| Instant::now() + every);
                    worker = self.fire(worker, &mut pending).await?;
                }
                n_read = items.recv_many(&mut read, ITEMS_MAX),
                    if pending.counts.rows_in < PENDING_ROWS_MAX => {
                    if n_read == 0 {
                        return std::future::pending().await;
                    }
                    worker = self.take(session, worker, &mut pending, &mut read).await?;
                }
                () = tokio::time::sleep_until(due.unwrap_or(forever)),
                    if due.is_some() && committing.is_none() => {}
            }
        }
    }

    /// Everything that is there at once: the way to a compute thread costs more than a small batch.
    async fn take(
        &self,
        session: &Session,
        mut worker: Worker,
        pending: &mut Pending,
        items: &mut Vec<Item>,
    ) -> Result<Worker, End> {
        pending.since.get_or_insert_with(Instant::now);
        let mut batches = Vec::new();
        for item in items.drain(..) {
            batches.extend(pending.note(item));
        }
        for (partition, _) in &batches {
            if let Some(partition) = partition
                && !worker.has_partition(*partition)
            {
                self.load(session, &mut worker, *partition).await?;
            }
        }
        if batches.is_empty() {
            return Ok(worker);
        }
        let computed = self
            .desk
            .run(move || {
                let done = worker.process(batches);
                (worker, done)
            })
            .await?;
        let (worker, done) = computed;
        let (sends, counts) = done.map_err(End::Failed)?;
        pending.transaction.sends.extend(sends);
        pending.counts.add(&counts);
        Ok(worker)
    }

    /// Fetches the groups of a partition, as they were last committed.
    pub(super) async fn load(
        &self,
        session: &Session,
        worker: &mut Worker,
        partition: u16,
    ) -> Result<(), End> {
        let (head, prefix) = Worker::state_keys(partition);
        let head = session.get(&head).await?;
        let saved = session.scan(&prefix).await?;
        worker.load(partition, head, &saved).map_err(End::Failed)
    }

    async fn save(
        &self,
        mut worker: Worker,
        mut transaction: Transaction,
    ) -> Result<(Worker, Transaction), End> {
        if !worker.is_grouped() && !worker.is_output() {
            self.saw(Phase::Write);
            return Ok((worker, transaction));
        }
        let is_durable = self.engine.queues.is_durable();
        let saved = self
            .desk
            .run(move || {
                let saved = worker.save(is_durable, &mut transaction);
                (worker, transaction, saved)
            })
            .await?;
        let (worker, transaction, saved) = saved;
        saved.map_err(End::Failed)?;
        self.saw(Phase::Write);
        Ok((worker, transaction))
    }

    async fn committed(&self, mut worker: Worker) -> Result<Worker, End> {
        if !worker.is_output() {
            return Ok(worker);
        }
        let (worker, told) = self
            .desk
            .run(move || {
                let told = worker.committed();
                (worker, told)
            })
            .await?;
        told.map_err(End::Failed)?;
        Ok(worker)
    }

    /// The trigger of a stream: what has changed since the last time goes out.
    async fn fire(&self, mut worker: Worker, pending: &mut Pending) -> Result<Worker, End> {
        let (worker, emitted) = self
            .desk
            .run(move || {
                let emitted = worker.emit_changed();
                (worker, emitted)
            })
            .await?;
        let (sends, counts) = emitted.map_err(End::Failed)?;
        if !sends.is_empty() {
            pending.since.get_or_insert_with(Instant::now);
            pending.transaction.sends.extend(sends);
            pending.counts.add(&counts);
        }
        Ok(worker)
    }

    pub(super) fn worker(&self, n_session: u32) -> Result<Worker, End> {
        let part = self.part(n_session);
        Worker::new(
            &self.order.place,
            &self.order.blueprint,
            &self.engine.registry,
            &self.engine.spy,
            Carriage::of(&self.engine.queues),
            &part,
        )
        .map_err(End::Failed)
    }

    pub(super) fn count(&self, counts: &Counts) {
        let meter = self.engine.meters.of(&self.order.place);
        meter.rows_in.fetch_add(counts.rows_in, Relaxed);
        meter.rows_out.fetch_add(counts.rows_out, Relaxed);
        meter.rows_failed.fetch_add(counts.rows_failed, Relaxed);
        meter.commits.fetch_add(1, Relaxed);
    }
}

/// A later value of a key takes the place of an earlier one.
fn put(transaction: &mut Transaction, key: String, value: Option<Bytes>) {
    transaction.puts.retain(|(other, _)| *other != key);
    transaction.puts.push((key, value));
}

async fn poll(committing: &mut Option<OnItsWay<'_>>) -> Result<(), Refused> {
    match committing {
        Some((commit, ..)) => commit.await,
        None => std::future::pending().await,
    }
}
