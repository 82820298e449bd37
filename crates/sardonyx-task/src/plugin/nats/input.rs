//! The input `nats`: what a stream has is cut into ranges of sequences, for as many peers; with `follow`,
//! one more split stands for what comes.

use std::sync::Arc;

use async_nats::jetstream::Message;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, mpsc};
use tokio_stream::StreamExt as _;

use super::{AGAIN, Failed, PATIENCE, Place, runtime, wait};
use crate::{
    Format, Input, Terms,
    format::{
        Records, Unfit,
        infer::{Found, Plan, Said},
        lines::Lines,
        ndjson::Ndjson,
    },
    input::{Read, Reader, Splits},
    plugin::{file, number_of},
};

/// What it reads of a task.
pub(crate) const KEYS: &[&str] =
    &["url", "user", "password", "token", "subject", "follow", "format", "columns", "schema"];

/// Into how many splits what is there is cut.
const SPLITS: u64 = 8;

/// How many messages are looked at for their columns.
const INFER_MESSAGES: usize = 1000;

/// A batch is made when so many bytes have come.
const BATCH_BYTES: usize = 4 << 20;

/// How many batches wait for the reader.
const WAITING_MAX: usize = 2;

/// A reader looks this often even if nobody wakes it.
const LOOK_EVERY: std::time::Duration = std::time::Duration::from_secs(1);

pub(crate) fn input(terms: &Terms) -> Result<Arc<dyn Input>, String> {
    let format = terms.text("format")?.map_or(Ok(Format::Ndjson), Format::parse)?;
    if !matches!(format, Format::Lines | Format::Ndjson) {
        let name = format.name();
        return Err(format!("messages are ndjson or lines, not {name}: write format = \"ndjson\""));
    }
    let follows = terms.truth("follow")?.unwrap_or(false);
    Ok(Arc::new(Nats { place: Place::read(terms)?, follows, format, said: file::said(terms)? }))
}

struct Nats {
    place: Place,
    follows: bool,
    format: Format,
    said: Said,
}

/// Messages with sequences from `first` on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Split {
    first: u64,
    /// The last of them; `None` is endless.
    last: Option<u64>,
    /// The columns, found once for all splits.
    plan: Option<Plan>,
}

impl Nats {
    /// The columns: what the job says, or what the first messages have. `None` if there are none yet.
    async fn plan(place: &Place, said: &Said) -> Result<Option<Plan>, String> {
        if let Some(plan) = said.plan() {
            return Ok(Some(plan));
        }
        let link = place.link_in_time(None).await?;
        let consumer = link.from(1, place.subject.as_deref()).await?;
        if consumer.cached_info().num_pending == 0 {
            return Ok(None);
        }
        let mut messages = consumer.messages().await.map_err(|why| format!("NATS: {why}"))?;
        let mut found = Found::default();
        for _ in 0..INFER_MESSAGES {
            let Some(message) = messages.next().await else { break };
            let message = message.map_err(|why| format!("NATS: {why}"))?;
            let seen = found.ndjson(&message.payload, true);
            seen.map_err(|fault| format!("a message on {}: {}", message.subject, fault.why))?;
            if place_of(&message)?.1 == 0 {
                break;
            }
        }
        if found.is_empty() { Ok(None) } else { said.plan_with(&found).map(Some) }
    }
}

impl Input for Nats {
    fn check(&self) -> Result<(), String> {
        let place = self.place.clone();
        wait(async move { place.link(None).await.map(drop).map_err(Failed::why) })
    }

    fn is_endless(&self) -> bool {
        self.follows
    }

    fn splits(&self, _memory: Option<&[u8]>) -> Result<Splits, String> {
        let (place, said, format) = (self.place.clone(), self.said.clone(), self.format);
        let (plan, first, last) = wait(async move {
            let plan = match format {
                Format::Ndjson => Nats::plan(&place, &said).await?,
                Format::Lines | Format::Csv | Format::Parquet => None,
            };
            let link = place.link_in_time(None).await?;
            let state = &link.stream.cached_info().state;
            Ok((plan, state.first_sequence.max(1), state.last_sequence))
        })?;
        if plan.is_none() && self.format == Format::Ndjson {
            if self.follows {
                return Err("the stream has no message yet, so its columns are not known: write \
                            columns = [\"user\"] and schema = { user = \"text\" }"
                    .into());
            }
            return Ok(Splits::default());
        }
        let n = (last + 1).saturating_sub(first);
        let begin = |number: u64| first + n * number / SPLITS;
        let mut splits: Vec<Split> = (0..SPLITS)
            .map(|at| (begin(at), begin(at + 1)))
            .filter(|(from, to)| from < to)
            .map(|(from, to)| Split { first: from, last: Some(to - 1), plan: plan.clone() })
            .collect();
        if self.follows {
            splits.push(Split { first: last + 1, last: None, plan });
        }
        let bytes = |split: &Split| serde_json::to_vec(split).map(Bytes::from);
        let splits: Result<_, _> = splits.iter().map(bytes).collect();
        Ok(Splits { splits: splits.map_err(|why| why.to_string())?, ..Splits::default() })
    }

    fn open(&self, split: &[u8], position: Option<&[u8]>) -> Result<Box<dyn Reader>, String> {
        let mut split: Split = serde_json::from_slice(split)
            .map_err(|why| format!("this is no split of a NATS stream: {why}"))?;
        if let Some(position) = position {
            split.first = number_of(position, "nats")? + 1;
        }
        let records: Box<dyn Records> = match &split.plan {
            Some(plan) => Box::new(Ndjson::new(plan)),
            None => Box::new(Lines::new()),
        };
        Ok(Box::new(NatsReader { place: self.place.clone(), split, records, chunks: None }))
    }
}

/// Some messages, a line each, and the sequence of the last.
struct Chunk {
    lines: Vec<u8>,
    last: u64,
}

type Pumped = Result<Chunk, String>;

struct NatsReader {
    place: Place,
    split: Split,
    records: Box<dyn Records>,
    /// What comes, and who rings when it does; once somebody reads.
    chunks: Option<(mpsc::Receiver<Pumped>, Arc<Notify>)>,
}

impl Reader for NatsReader {
    fn read(&mut self, rows_max: usize) -> Result<Read, String> {
        let (chunks, bell) = match &mut self.chunks {
            Some(chunks) => chunks,
            none @ None => {
                let (sender, chunks) = mpsc::channel(WAITING_MAX);
                let bell = Arc::new(Notify::new());
                let pump = Pump {
                    place: self.place.clone(),
                    next: self.split.first,
                    last: self.split.last,
                    messages_max: rows_max.max(1),
                    chunks: sender,
                    bell: Arc::clone(&bell),
                };
                runtime()?.spawn(pump.run());
                none.insert((chunks, bell))
            }
        };
        loop {
            let chunk = match chunks.try_recv() {
                Ok(chunk) => chunk?,
                Err(mpsc::error::TryRecvError::Empty) => {
                    return Ok(Read::Wait(LOOK_EVERY, Some(Arc::clone(bell))));
                }
                Err(mpsc::error::TryRecvError::Disconnected) => return Ok(Read::End),
            };
            let taken = self.records.take(&chunk.lines, true, usize::MAX);
            let position = chunk.last;
            taken.map_err(|fault| {
                format!("a message up to the sequence {position} of the stream: {}", fault.why)
            })?;
            if self.records.n_rows() == 0 {
                continue;
            }
            let batch = self.records.finish().map_err(|unfit| match unfit {
                Unfit::NotUtf8 => format!("a message before {position} is not UTF-8"),
                Unfit::Other(why) => why,
            })?;
            return Ok(Read::Batch(batch, Bytes::from(position.to_string())));
        }
    }
}

/// Brings messages to a reader, until it goes away.
struct Pump {
    place: Place,
    next: u64,
    last: Option<u64>,
    messages_max: usize,
    chunks: mpsc::Sender<Pumped>,
    bell: Arc<Notify>,
}

impl Pump {
    async fn run(mut self) {
        let mut failing_since = None;
        loop {
            let before = self.next;
            let sender = self.chunks.clone();
            let pumped = tokio::select! {
                () = sender.closed() => return,
                pumped = self.pump() => pumped,
            };
            match pumped {
                Ok(()) => break,
                Err(Failed::ForGood(why)) => return self.fail(why).await,
                Err(Failed::Now(why)) => {
                    if self.next > before {
                        failing_since = None;
                    }
                    let since = *failing_since.get_or_insert_with(std::time::Instant::now);
                    if since.elapsed() > PATIENCE {
                        return self.fail(why).await;
                    }
                    tracing::warn!("{why}");
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
        let bell = Arc::clone(&self.bell);
        // The reader sees the end when the sender is gone.
        drop(self);
        bell.notify_one();
    }

    async fn fail(self, why: String) {
        // Nobody is there any more: then nobody wants to know.
        let _ = self.chunks.send(Err(why)).await;
        self.bell.notify_one();
    }

    fn is_over(&self) -> bool {
        self.last.is_some_and(|last| self.next > last)
    }

    /// Until the end of the split, or until something goes wrong.
    async fn pump(&mut self) -> Result<(), Failed> {
        if self.is_over() {
            return Ok(());
        }
        let now = |why: &dyn std::fmt::Display| Failed::Now(format!("NATS: {why}"));
        let link = self.place.link(None).await?;
        let consumer = link.from(self.next, self.place.subject.as_deref()).await;
        let consumer = consumer.map_err(Failed::Now)?;
        if self.last.is_some() && consumer.cached_info().num_pending == 0 {
            return Ok(());
        }
        let mut messages = consumer.messages().await.map_err(|why| now(&why))?;
        let (mut lines, mut n_messages) = (Vec::new(), 0);
        while let Some(message) = messages.next().await {
            let message = message.map_err(|why| now(&why))?;
            let (sequence, n_pending) = place_of(&message).map_err(Failed::Now)?;
            let is_ours = self.last.is_none_or(|last| sequence <= last);
            if is_ours {
                let payload = &message.payload;
                lines.extend_from_slice(payload.strip_suffix(b"\n").unwrap_or(payload));
                lines.push(b'\n');
                n_messages += 1;
            }
            let is_end = self.last.is_some_and(|last| sequence >= last || n_pending == 0);
            let is_enough = n_messages == self.messages_max || lines.len() >= BATCH_BYTES;
            if is_end || is_enough || n_pending == 0 {
                let last = if is_ours { sequence } else { sequence - 1 };
                let chunk = Chunk { lines: std::mem::take(&mut lines), last };
                n_messages = 0;
                if self.chunks.send(Ok(chunk)).await.is_err() {
                    return Ok(());
                }
                self.bell.notify_one();
                self.next = last + 1;
            }
            if is_end {
                return Ok(());
            }
        }
        Err(Failed::Now("NATS: the stream stopped coming".into()))
    }
}

/// Where a message stands in its stream, and how many come behind it.
fn place_of(message: &Message) -> Result<(u64, u64), String> {
    let info = message.info().map_err(|why| format!("NATS: a message without a place: {why}"))?;
    Ok((info.stream_sequence, info.pending))
}
