//! Everything that the queues hold, as the first record of a segment.

use std::{
    io,
    path::Path,
    sync::{Arc, atomic::Ordering},
};

use bytes::Bytes;

use super::{
    format::{self, Blob, Event, HEADER_BYTES, Mark, RECORD_BYTES},
    group::Bodies,
    journal::create,
    segment::{Kept, Segment},
};
use crate::{
    ledger::{Ledger, Message},
    message::QueueName,
    session::{Place, Roster},
    transaction::Key,
};

/// Messages up to this size move to the new segment, so that they do not keep an old one.
const CARRIED_BYTES_MAX: u32 = 4 << 10;

/// Who works on a task, and its keys.
type Task = (Place, Option<Roster>, Vec<(Key, Bytes)>);

/// A copy of the ledger that shares its bytes.
pub(crate) struct Snapshot {
    tasks: Vec<Task>,
    messages: Vec<(Mark, u32, Arc<Kept>)>,
    /// Acknowledged messages, and the next number.
    queues: Vec<(QueueName, u64, u64)>,
}

/// A segment that begins with a snapshot.
pub(crate) struct Written {
    pub(crate) segment: Segment,
    pub(crate) len: u64,
    /// The messages whose bytes stand in it now, and where.
    pub(crate) carried: Vec<(Arc<Kept>, u64)>,
}

impl Snapshot {
    pub(crate) fn of(ledger: &Ledger<Arc<Kept>>) -> Snapshot {
        let keys = |keys: &std::collections::BTreeMap<Key, Bytes>| {
            keys.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
        };
        let tasks = ledger.tasks.iter();
        let tasks = tasks.map(|(place, it)| (place.clone(), it.roster.clone(), keys(&it.keys)));
        let mut messages = Vec::new();
        let mut add = |mark: Mark, message: &Message<Arc<Kept>>| {
            messages.push((mark, message.attempt, Arc::clone(&message.body)));
        };
        for (name, queue) in &ledger.queues {
            for (lane, ready) in &queue.ready {
                ready.iter().for_each(|(id, it)| add((name.clone(), *lane, *id), it));
            }
        }
        for flight in ledger.sessions.values().flat_map(|session| session.in_flight.values()) {
            add((flight.queue.clone(), flight.lane, flight.id), &flight.message);
        }
        // In the order of their numbers, as playing wants them.
        messages.sort_by(|(a, ..), (b, ..)| (&a.0, a.2).cmp(&(&b.0, b.2)));
        let queues = ledger.queues.iter();
        let queues = queues.map(|(name, queue)| (name.clone(), queue.n_acked, queue.next));
        Snapshot { tasks: tasks.collect(), messages, queues: queues.collect() }
    }

    /// Writes it as segment `number`. Messages in segments with less than `rest` bytes left move into
    /// it.
    pub(crate) fn write(
        self,
        dir: &Path,
        number: u64,
        sequence: u64,
        settled: u64,
        rest: u64,
    ) -> io::Result<Written> {
        let (mut meta, mut bodies, mut carried) = (Vec::new(), Bodies::default(), Vec::new());
        let mut push = |event: &Event| {
            let written = postcard::to_extend(event, std::mem::take(&mut meta));
            meta = written.map_err(io::Error::other)?;
            io::Result::Ok(())
        };
        for (place, roster, keys) in self.tasks {
            if let Some(roster) = roster {
                push(&Event::Announced(place.clone(), roster))?;
            }
            let mut puts = Vec::with_capacity(keys.len());
            for (key, value) in keys {
                bodies.push(&value);
                puts.push((key, Some(Blob::of(&value))));
            }
            push(&Event::Commit { place, acks: Vec::new(), sends: Vec::new(), puts })?;
        }
        for (mark, attempt, kept) in self.messages {
            let (kind, blob) = (kept.kind, kept.blob);
            let stays = kept.spot().filter(|(segment, _)| {
                blob.len > CARRIED_BYTES_MAX && segment.live_bytes.load(Ordering::Relaxed) >= rest
            });
            let spot = stays.map(|(segment, offset)| (segment.number, offset));
            if spot.is_none() {
                let bytes = kept.read().map_err(io::Error::other)?;
                carried.push((kept, bodies.len));
                bodies.push(&bytes);
            }
            push(&Event::Message { mark, attempt, kind, blob, spot })?;
        }
        for (queue, n_acked, next) in self.queues {
            push(&Event::Counted { queue, n_acked, next })?;
        }
        let salt = salt()?;
        let header = format::header(number, salt);
        let head = format::record_head(salt, sequence, settled, &meta, bodies.len);
        let start = (HEADER_BYTES + RECORD_BYTES + meta.len()) as u64;
        let len = start + bodies.len;
        carried.iter_mut().for_each(|(_, offset)| *offset += start);
        let segment = create(dir, number, salt, &[&header, &head, &meta], bodies.finish())?;
        Ok(Written { segment, len, carried })
    }
}

fn salt() -> io::Result<u64> {
    let mut salt = [0; 8];
    getrandom::fill(&mut salt).map_err(|why| io::Error::other(why.to_string()))?;
    Ok(u64::from_le_bytes(salt))
}
