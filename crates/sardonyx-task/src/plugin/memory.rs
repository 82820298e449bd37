//! The input and the output `memory`: channels by name, for programs that embed Sardonyx, and tests.
//!
//! A channel belongs to the process. The input reads exactly what is pushed, at least once: a session
//! that dies is read again, as far back as the channel keeps. The output delivers what is committed,
//! and nothing else; a process that dies takes its channels with it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use arrow::{array::RecordBatch, compute::concat_batches};
use bytes::Bytes;

use super::{CAPACITY_ROWS, Channel, lock};
use crate::{
    Input, Output, Terms,
    input::{Reader, Splits},
    output::Writer,
};

/// What the input reads of a task.
pub(crate) const INPUT_KEYS: &[&str] = &["channel", "capacity"];

/// What the output reads of a task.
pub(crate) const OUTPUT_KEYS: &[&str] = &["channel", "capacity"];

/// If nobody takes anything for so long, nobody will.
const ROOM_WAIT_MAX: Duration = Duration::from_secs(60);

static CHANNELS: Mutex<BTreeMap<String, Arc<Channel>>> = Mutex::new(BTreeMap::new());

/// The channel of this name, made if need be.
pub fn channel(name: &str) -> Arc<Channel> {
    channel_with(name, CAPACITY_ROWS)
}

/// The channel of this name; if it is made now, at most about `capacity_rows` wait in it.
pub fn channel_with(name: &str, capacity_rows: usize) -> Arc<Channel> {
    let mut channels = lock(&CHANNELS);
    let made = || Arc::new(Channel::new(capacity_rows));
    channels.entry(name.into()).or_insert_with(made).clone()
}

/// Forgets a name. Who holds the channel keeps it; the next who asks gets another.
pub fn remove(name: &str) {
    lock(&CHANNELS).remove(name);
}

fn of(terms: &Terms) -> Result<(Arc<Channel>, String), String> {
    let name = terms.required_text("channel", "orders")?;
    let capacity = terms.number("capacity")?;
    if capacity == Some(0) {
        return Err("capacity is a number of rows, at least 1: write capacity = 100000".into());
    }
    let rows = capacity.map_or(CAPACITY_ROWS, |rows| usize::try_from(rows).unwrap_or(usize::MAX));
    Ok((channel_with(name, rows), format!("the channel {name:?}")))
}

pub(crate) fn input(terms: &Terms) -> Result<Arc<dyn Input>, String> {
    let (channel, what) = of(terms)?;
    Ok(Arc::new(MemoryInput { channel, what }))
}

pub(crate) fn output(terms: &Terms) -> Result<Arc<dyn Output>, String> {
    let (channel, what) = of(terms)?;
    Ok(Arc::new(MemoryOutput { channel, what }))
}

struct MemoryInput {
    channel: Arc<Channel>,
    what: String,
}

impl Input for MemoryInput {
    fn splits(&self, _memory: Option<&[u8]>) -> Result<Splits, String> {
        Ok(Splits { splits: vec![Bytes::from_static(b"channel")], ..Splits::default() })
    }

    fn open(&self, _split: &[u8], position: Option<&[u8]>) -> Result<Box<dyn Reader>, String> {
        Ok(Box::new(self.channel.reader(position, &self.what)?))
    }
}

struct MemoryOutput {
    channel: Arc<Channel>,
    what: String,
}

impl Output for MemoryOutput {
    fn open(&self, _part: &str) -> Result<Box<dyn Writer>, String> {
        let (channel, what) = (self.channel.clone(), self.what.clone());
        Ok(Box::new(MemoryWriter { channel, what, written: Vec::new(), prepared: Vec::new() }))
    }

    fn finish(&self, _parts: &[(String, Bytes)]) -> Result<(), String> {
        self.channel.close();
        Ok(())
    }
}

struct MemoryWriter {
    channel: Arc<Channel>,
    what: String,
    written: Vec<RecordBatch>,
    prepared: Vec<RecordBatch>,
}

impl Writer for MemoryWriter {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), String> {
        if batch.num_rows() > 0 {
            self.written.push(batch.clone());
        }
        Ok(())
    }

    fn prepare(&mut self, _is_durable: bool) -> Result<Option<Bytes>, String> {
        if self.written.is_empty() {
            return Ok(None);
        }
        // Waiting belongs here: behind the commit it would be too late to say no.
        if !self.channel.wait_for_room(ROOM_WAIT_MAX) {
            let wait = ROOM_WAIT_MAX.as_secs();
            return Err(format!(
                "{} is full, and for {wait} s nobody took anything: take from it, or raise capacity",
                self.what
            ));
        }
        if self.channel.is_closed() {
            return Err(format!("{} is closed: nobody takes rows from it any more", self.what));
        }
        self.prepared.append(&mut together(std::mem::take(&mut self.written))?);
        Ok(None)
    }

    fn committed(&mut self) -> Result<(), String> {
        for batch in self.prepared.drain(..) {
            // It was open when this was prepared; who closed it since does not want it.
            let _ = self.channel.push(batch);
        }
        Ok(())
    }
}

/// One batch of many, as long as they have the same columns.
fn together(batches: Vec<RecordBatch>) -> Result<Vec<RecordBatch>, String> {
    match batches.first() {
        Some(first) if batches.iter().all(|batch| batch.schema() == first.schema()) => {
            let schema = first.schema();
            let batch = concat_batches(&schema, &batches).map_err(|why| why.to_string())?;
            Ok(vec![batch])
        }
        Some(_) | None => Ok(batches),
    }
}
