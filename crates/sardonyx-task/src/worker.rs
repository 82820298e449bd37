//! The computing part of a task: segments in, messages out. No queues, no clock, no async.
//!
//! One worker belongs to one session: what it holds beyond a commit (groups, an open output) is
//! thrown away with it.

mod grouped;

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use arrow::{array::RecordBatch, compute::concat_batches};
use bytes::Bytes;
use sardonyx_queue::{
    Body, Compression, Key, Outgoing, Place, QueueName, Queues, Segments, Transaction,
};

use self::grouped::Grouped;
use crate::{
    Function, Registry,
    blueprint::{Blueprint, Next},
    flow::Flow,
    group::Gatherer,
    on_error::{self, Failed},
    output::Writer,
    partition,
    registry::Kind,
    spy::{Phase, Spy},
};

/// How many rows a message has at most: what a function makes of a batch may be larger.
const MESSAGE_ROWS_MAX: usize = 1 << 16;

/// With what the keys of parts begin: what each session of an output has committed. Where parts are
/// forgotten, nobody asks for them again.
pub(crate) const PART: &str = "once/part/";

/// Batches with fewer rows are put together: applying a function, sending and writing cost about as much
/// for a few rows as for so many.
const SMALL_ROWS: usize = 256;

/// What went through.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) rows_in: u64,
    pub(crate) rows_out: u64,
    pub(crate) rows_failed: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: &Counts) {
        self.rows_in += other.rows_in;
        self.rows_out += other.rows_out;
        self.rows_failed += other.rows_failed;
    }
}

/// In what form messages and values travel, and how large they may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Carriage {
    pub(crate) is_encoded: bool,
    pub(crate) message_bytes_max: usize,
    pub(crate) value_bytes_max: usize,
}

impl Carriage {
    /// As these queues want it.
    pub(crate) fn of(queues: &Queues) -> Carriage {
        Carriage {
            is_encoded: queues.carries_bytes(),
            message_bytes_max: queues.message_bytes_max(),
            value_bytes_max: queues.value_bytes_max(),
        }
    }
}

/// A batch as bytes: in one piece, or in several if one would be too large. A row that is too large by
/// itself stays so, and is refused where it is sent.
pub(crate) fn encode_within(
    batch: &RecordBatch,
    compression: Compression,
    bytes_max: usize,
) -> Result<Vec<Bytes>, String> {
    let bytes = Segments::Batch(batch.clone()).encode(compression);
    let bytes = bytes.map_err(|why| format!("a batch cannot travel: {why}"))?;
    let n_rows = batch.num_rows();
    if bytes.len() <= bytes_max || n_rows < 2 {
        return Ok(vec![bytes]);
    }
    let half = n_rows / 2;
    let mut pieces = encode_within(&batch.slice(0, half), compression, bytes_max)?;
    pieces.extend(encode_within(&batch.slice(half, n_rows - half), compression, bytes_max)?);
    Ok(pieces)
}

enum Role {
    /// Segments of an input go on as they came.
    Input,
    Function(Box<dyn Function>),
    Grouped(Grouped),
    Output {
        writer: Box<dyn Writer>,
        part: String,
    },
}

pub(crate) struct Worker {
    place: Place,
    blueprint: Arc<Blueprint>,
    role: Role,
    spy: Arc<dyn Spy>,
    carriage: Carriage,
    compression: Compression,
    batch_rows: Option<usize>,
    flow: Option<Flow>,
    /// For tasks downstream that group: their segments are grouped before they travel.
    gatherers: BTreeMap<String, Gatherer>,
}

/// What came of some segments.
pub(crate) type Done = Result<(Vec<Outgoing>, Counts), String>;

impl Worker {
    pub(crate) fn new(
        place: &Place,
        blueprint: &Arc<Blueprint>,
        registry: &Registry,
        spy: &Arc<dyn Spy>,
        carriage: Carriage,
        part: &str,
    ) -> Result<Worker, String> {
        let terms = &blueprint.terms;
        let role = match (blueprint.kind, &blueprint.grouping) {
            (Kind::Input, _) => Role::Input,
            (Kind::Function, Some(grouping)) if grouping.has_aggregates() => {
                Role::Grouped(Grouped::new(grouping, carriage.value_bytes_max))
            }
            // Without aggregates, grouping only says which peer sees which keys.
            (Kind::Function, _) => Role::Function(registry.make_function(terms)?),
            (Kind::Output, _) => {
                let writer = registry.make_output(terms)?.open(part)?;
                Role::Output { writer, part: part.to_owned() }
            }
        };
        let compression = match terms.text("compression")? {
            None | Some("none") => Compression::None,
            Some("lz4") => Compression::Lz4,
            Some("zstd") => Compression::Zstd,
            Some(other) => {
                return Err(format!("compression is none, lz4 or zstd, not {other:?}"));
            }
        };
        let batch_rows = terms.number("batch-size")?.and_then(|rows| usize::try_from(rows).ok());
        Ok(Worker {
            place: place.clone(),
            blueprint: Arc::clone(blueprint),
            role,
            spy: Arc::clone(spy),
            carriage,
            compression,
            batch_rows: batch_rows.filter(|_| blueprint.kind == Kind::Function),
            flow: blueprint.flow(registry)?,
            gatherers: blueprint
                .downstream
                .iter()
                .filter_map(|next| {
                    Some((next.task.clone(), Gatherer::new(next.grouping.as_ref()?)))
                })
                .collect(),
        })
    }

    pub(crate) fn is_grouped(&self) -> bool {
        matches!(self.role, Role::Grouped(_))
    }

    pub(crate) fn is_output(&self) -> bool {
        matches!(self.role, Role::Output { .. })
    }

    /// Makes messages of messages: decode, apply, route, encode.
    pub(crate) fn process(&mut self, batches: Vec<(Option<u16>, Segments)>) -> Done {
        let (mut sends, mut counts) = (Vec::new(), Counts::default());
        for (partition, batch) in self.decode(batches)? {
            counts.rows_in += batch.num_rows() as u64;
            let rows = self.batch_rows.unwrap_or(usize::MAX).clamp(1, batch.num_rows().max(1));
            for from in (0..batch.num_rows()).step_by(rows) {
                let slice = batch.slice(from, rows.min(batch.num_rows() - from));
                let (made, failed) = self.apply(&slice, partition)?;
                if let Some(made) = made {
                    self.saw(Phase::ApplyFunction, &made);
                    self.send(&made, &mut sends, &mut counts)?;
                }
                self.send_failed(failed, &mut sends, &mut counts)?;
            }
        }
        Ok((sends, counts))
    }

    /// Record batches, small ones put together, and those for a function that wants batches of a size.
    fn decode(
        &self,
        messages: Vec<(Option<u16>, Segments)>,
    ) -> Result<Vec<(Option<u16>, RecordBatch)>, String> {
        let mut batches: Vec<(Option<u16>, RecordBatch)> = Vec::with_capacity(messages.len());
        for (partition, segments) in messages {
            let batch = segments.decode().map_err(|why| format!("a message is damaged: {why}"))?;
            self.saw(Phase::Decode, &batch);
            match batches.last_mut() {
                Some((before, last))
                    if last.num_rows() < self.batch_rows.unwrap_or(SMALL_ROWS)
                        && *before == partition
                        && last.schema() == batch.schema() =>
                {
                    let whole = concat_batches(&batch.schema(), [&*last, &batch]);
                    *last = whole.map_err(|why| format!("batches do not fit together: {why}"))?;
                }
                _ => batches.push((partition, batch)),
            }
        }
        Ok(batches)
    }

    /// What its function makes of a batch, and what it failed on.
    fn apply(
        &mut self,
        batch: &RecordBatch,
        partition: Option<u16>,
    ) -> Result<(Option<RecordBatch>, Vec<Failed>), String> {
        match &mut self.role {
            Role::Input => Ok((Some(batch.clone()), Vec::new())),
            Role::Function(function) => {
                let applied =
                    on_error::apply_with(function.as_mut(), batch, &self.blueprint.policy)?;
                Ok((Some(applied.batch), applied.failed))
            }
            Role::Grouped(groups) => {
                groups.add(partition.unwrap_or(0), batch)?;
                Ok((None, Vec::new()))
            }
            Role::Output { writer, .. } => {
                writer.write(batch)?;
                Ok((None, Vec::new()))
            }
        }
    }

    /// Routes a batch: to whom, into which partition, and in what form.
    fn send(
        &mut self,
        batch: &RecordBatch,
        sends: &mut Vec<Outgoing>,
        counts: &mut Counts,
    ) -> Result<(), String> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        match &self.flow {
            None => {
                for next in &Arc::clone(&self.blueprint).downstream {
                    self.send_to(next, batch, sends, counts)?;
                }
                Ok(())
            }
            Some(flow) => {
                let routed = flow.route(batch)?;
                self.send_routed(&routed, sends, counts)
            }
        }
    }

    fn send_routed(
        &mut self,
        routed: &[(String, RecordBatch)],
        sends: &mut Vec<Outgoing>,
        counts: &mut Counts,
    ) -> Result<(), String> {
        let blueprint = Arc::clone(&self.blueprint);
        for (to, batch) in routed {
            if let Some(next) = blueprint.downstream.iter().find(|next| next.task == *to) {
                self.send_to(next, batch, sends, counts)?;
            }
        }
        Ok(())
    }

    fn send_to(
        &mut self,
        next: &Next,
        batch: &RecordBatch,
        sends: &mut Vec<Outgoing>,
        counts: &mut Counts,
    ) -> Result<(), String> {
        self.saw(Phase::Route, batch);
        counts.rows_out += batch.num_rows() as u64;
        let gathered = match self.gatherers.get_mut(&next.task) {
            Some(gatherer) => gatherer.gather(batch),
            None => Cow::Borrowed(batch),
        };
        let parts = match &next.grouping {
            None => vec![(None, batch.clone())],
            Some(grouping) => partition::split(&gathered, grouping.keys(), grouping.partitions())
                .map_err(|why| format!("group-by of {}: {why}", next.task))?
                .into_iter()
                .map(|(at, part)| (Some(at), part))
                .collect(),
        };
        for (partition, part) in parts {
            for from in (0..part.num_rows()).step_by(MESSAGE_ROWS_MAX) {
                let rows = MESSAGE_ROWS_MAX.min(part.num_rows() - from);
                for segments in self.encode(part.slice(from, rows))? {
                    let (queue, body) = (self.queue_to(&next.task), Body::Segments(segments));
                    sends.push(Outgoing { queue, partition, body });
                }
            }
        }
        Ok(())
    }

    fn encode(&self, batch: RecordBatch) -> Result<Vec<Segments>, String> {
        let segments = match self.carriage.is_encoded {
            false => vec![Segments::Batch(batch)],
            true => {
                let max = self.carriage.message_bytes_max;
                let pieces = encode_within(&batch, self.compression, max)?;
                pieces.into_iter().map(Segments::Encoded).collect()
            }
        };
        self.spy.saw(&self.place, Phase::Encode, None);
        Ok(segments)
    }

    /// Records that failed go where the job says: first the routes for exceptions, then the dead
    /// letters. What nothing is for ends the job, unless it is to be skipped.
    fn send_failed(
        &mut self,
        failed: Vec<Failed>,
        sends: &mut Vec<Outgoing>,
        counts: &mut Counts,
    ) -> Result<(), String> {
        if failed.is_empty() {
            return Ok(());
        }
        counts.rows_failed += failed.len() as u64;
        let left = match self.flow.as_ref().filter(|flow| flow.has_exceptions()) {
            Some(flow) => {
                let routed = flow.route_failed(&failed)?;
                self.send_routed(&routed.batches, sends, counts)?;
                routed.left
            }
            None => failed,
        };
        let blueprint = Arc::clone(&self.blueprint);
        let policy = &blueprint.policy;
        policy.settle(&left)?;
        if let Some(to) = policy.dead_letters.clone().filter(|_| !left.is_empty()) {
            let letters = on_error::letters(self.blueprint.task(), &left)?;
            self.send_to(&Next { task: to, grouping: None }, &letters, sends, counts)?;
        }
        Ok(())
    }

    /// Puts into a transaction what has to be remembered with it.
    pub(crate) fn save(
        &mut self,
        is_durable: bool,
        transaction: &mut Transaction,
    ) -> Result<(), String> {
        match &mut self.role {
            Role::Input | Role::Function(_) => Ok(()),
            Role::Grouped(groups) => groups.save(transaction),
            Role::Output { writer, part } => {
                if let Some(position) = writer.prepare(is_durable)? {
                    transaction.puts.push((format!("{PART}{part}"), Some(position)));
                }
                Ok(())
            }
        }
    }

    /// The last transaction was committed.
    pub(crate) fn committed(&mut self) -> Result<(), String> {
        match &mut self.role {
            Role::Output { writer, .. } => writer.committed(),
            Role::Input | Role::Function(_) | Role::Grouped(_) => Ok(()),
        }
    }

    /// Whether the groups of a partition are known here.
    pub(crate) fn has_partition(&self, partition: u16) -> bool {
        match &self.role {
            Role::Grouped(groups) => groups.has(partition),
            Role::Input | Role::Function(_) | Role::Output { .. } => true,
        }
    }

    /// Takes in the groups of a partition as they were committed.
    pub(crate) fn load(
        &mut self,
        partition: u16,
        head: Option<Bytes>,
        saved: &[(Key, Bytes)],
    ) -> Result<(), String> {
        match &mut self.role {
            Role::Grouped(groups) => groups.load(partition, head, saved),
            Role::Input | Role::Function(_) | Role::Output { .. } => Ok(()),
        }
    }

    /// Under which key and which prefix the groups of a partition are kept.
    pub(crate) fn state_keys(partition: u16) -> (Key, Key) {
        grouped::keys(partition)
    }

    /// What all groups have come to.
    pub(crate) fn emit_all(&mut self) -> Done {
        self.emit(false)
    }

    /// What those groups have come to that changed since the last time.
    pub(crate) fn emit_changed(&mut self) -> Done {
        self.emit(true)
    }

    fn emit(&mut self, only_changed: bool) -> Done {
        let (mut sends, mut counts) = (Vec::new(), Counts::default());
        let emitted = match &mut self.role {
            Role::Grouped(groups) => groups.emit(only_changed)?,
            Role::Input | Role::Function(_) | Role::Output { .. } => Vec::new(),
        };
        for batch in emitted {
            self.saw(Phase::ApplyFunction, &batch);
            self.send(&batch, &mut sends, &mut counts)?;
        }
        Ok((sends, counts))
    }

    fn queue_to(&self, to: &str) -> QueueName {
        let Place { job, task } = &self.place;
        QueueName { job: job.clone(), task: to.to_owned(), from: task.clone() }
    }

    fn saw(&self, phase: Phase, batch: &RecordBatch) {
        self.spy.saw(&self.place, phase, Some(batch));
    }
}
