//! Opening: the newest segment is played, older ones are looked into for messages.

use std::{
    collections::BTreeMap,
    fs::File,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
};

use bytes::Bytes;

use super::{
    format::{self, End, Event, Header, Record},
    journal::{Resume, unusable},
    segment::{Kept, Segment, list, segment_path},
    snapshot::Snapshot,
};
use crate::{
    ledger::{Ledger, Sent, Wakes},
    location::OpenError,
};

/// What was in a directory.
pub(crate) struct Played {
    pub(crate) ledger: Ledger<Arc<Kept>>,
    pub(crate) resume: Resume,
}

/// Plays the journal in `dir`; begins one if there is none.
pub(crate) fn play(dir: &Path) -> Result<Played, OpenError> {
    let mut segments = list(dir)?;
    if segments.is_empty() {
        let empty = Snapshot::of(&Ledger::default());
        empty.write(dir, 0, 1, 0, 0).map_err(|why| unusable(dir, &why))?;
        segments = list(dir)?;
    }
    let Some((number, path)) = segments.pop() else {
        return Err(OpenError::Corrupt(format!("{}: no journal", dir.display())));
    };
    let mut player = Player::open(dir, number, path)?;
    let (end, next, torn_bytes) = player.play()?;
    player.check_older()?;
    for (number, path) in segments {
        let older = player.older.get(&number);
        if older.is_none_or(|it| it.n_live.load(Ordering::Relaxed) == 0) {
            // If it cannot be deleted it is in the way of nothing.
            let _ = std::fs::remove_file(path);
        }
    }
    let Player { mut ledger, segment, .. } = player;
    ledger.visible = next - 1;
    let resume = Resume { segment, end: end as u64, settled: next - 1, torn_bytes };
    Ok(Played { ledger, resume })
}

struct Player {
    dir: PathBuf,
    bytes: Bytes,
    segment: Arc<Segment>,
    older: BTreeMap<u64, Arc<Segment>>,
    /// Those of them that cannot be opened, and why.
    missing: Vec<(u64, String)>,
    ledger: Ledger<Arc<Kept>>,
}

fn corrupt(path: &Path, at: usize) -> OpenError {
    let path = path.display();
    OpenError::Corrupt(format!(
        "{path}: the first bad byte is in the record at byte {at}; restore the file from a copy, or \
         start with an empty directory"
    ))
}

impl Player {
    fn open(dir: &Path, number: u64, path: PathBuf) -> Result<Player, OpenError> {
        let bytes = Bytes::from(std::fs::read(&path).map_err(|why| unusable(&path, &why))?);
        let salt = match format::read_header(&bytes) {
            Header::Good { number: found, salt } if found == number => salt,
            Header::Good { .. } | Header::Bad => return Err(corrupt(&path, 0)),
            Header::Newer(version) => {
                let (path, reads) = (path.display(), format::VERSION);
                return Err(OpenError::NotConfigured(format!(
                    "{path} has format {version}, but this build reads up to {reads}: upgrade it"
                )));
            }
        };
        let file = File::options().read(true).write(true).open(&path);
        let file = file.map_err(|why| unusable(&path, &why))?;
        let segment = Arc::new(Segment::new(number, path, file, salt));
        let (older, ledger) = (BTreeMap::new(), Ledger::default());
        let missing = Vec::new();
        Ok(Player { dir: dir.to_owned(), bytes, segment, older, missing, ledger })
    }

    /// Plays all records; says where they end, the next sequence, and how many bytes behind the end
    /// were never finished.
    fn play(&mut self) -> Result<(usize, u64, u64), OpenError> {
        let (bytes, salt) = (self.bytes.clone(), self.segment.salt);
        let path = self.segment.path.clone();
        let mut at = format::HEADER_BYTES;
        // The snapshot was on the disk before the segment had a name.
        let first = format::read_record(&bytes, at, salt).ok_or_else(|| corrupt(&path, at))?;
        let mut sequence = first.sequence;
        let is_good = |record: &Record| record.end <= bytes.len();
        while let Some(record) = format::read_record(&bytes, at, salt).filter(is_good) {
            let Some(events) = format::read_events(&bytes, record) else {
                if !format::is_readable(&bytes, record) {
                    // Written as it is, and acknowledged: not to be taken for unfinished.
                    return Err(corrupt(&path, at));
                }
                break;
            };
            if record.sequence != sequence {
                break;
            }
            for (event, places) in events {
                self.apply(event, &places)
                    .map_err(|why| OpenError::Corrupt(format!("{}: {why}", self.at(at))))?;
            }
            sequence = sequence.checked_add(1).ok_or_else(|| corrupt(&path, at))?;
            at = record.end;
        }
        if sequence == first.sequence {
            return Err(corrupt(&path, at));
        }
        match format::judge_end(&bytes, at, sequence, salt) {
            End::Clean => Ok((at, sequence, 0)),
            End::Torn(end) => Ok((at, sequence, (end - at) as u64)),
            End::Damaged => Err(corrupt(&path, at)),
        }
    }

    fn at(&self, at: usize) -> String {
        format!("{}, the record at byte {at}", self.segment.path.display())
    }

    fn apply(&mut self, event: Event, places: &[usize]) -> Result<(), String> {
        let mut places = places.iter().copied();
        let mut place_of = || places.next().unwrap_or_default();
        match event {
            Event::Commit { place, acks, sends, puts } => {
                for (queue, lane, id) in acks {
                    let acked = self.ledger.replay_ack(&queue, lane, id);
                    let kept = acked.ok_or_else(|| format!("{queue} has no message {}", id.0))?;
                    forget(&kept);
                }
                for ((queue, lane, id), kind, blob) in sends {
                    let offset = place_of() as u64;
                    let kept = Kept::on_disk(kind, blob, Arc::clone(&self.segment), offset);
                    self.send((queue, lane, id), 0, kept)?;
                }
                let put = |(key, blob): (String, Option<format::Blob>)| {
                    let value = blob.map(|blob| {
                        let start = place_of();
                        Bytes::copy_from_slice(&self.bytes[start..start + blob.len as usize])
                    });
                    (key, value)
                };
                let puts: Vec<_> = puts.into_iter().map(put).collect();
                self.ledger.replay_puts(&place, &puts);
            }
            Event::Delivered(marks) => {
                for (queue, lane, id) in marks {
                    self.ledger.replay_delivery(&queue, lane, id);
                }
            }
            Event::Announced(place, roster) => {
                self.ledger.announce(&place, &roster, &mut Wakes::default());
            }
            Event::Forgotten(job) => {
                let bodies = self.ledger.forget(&job, &mut Wakes::default());
                bodies.unwrap_or_default().iter().for_each(forget);
            }
            Event::Message { mark, attempt, kind, blob, spot } => {
                let (segment, offset) = match spot {
                    None => (Arc::clone(&self.segment), place_of() as u64),
                    Some((number, offset)) => (self.older(number)?, offset),
                };
                self.send(mark, attempt, Kept::on_disk(kind, blob, segment, offset))?;
            }
            Event::Counted { queue, n_acked, next } => {
                let complaint = format!("{queue} counts what cannot be");
                if !self.ledger.replay_counts(queue, n_acked, next) {
                    return Err(complaint);
                }
            }
        }
        Ok(())
    }

    fn send(&mut self, mark: format::Mark, attempt: u32, kept: Kept) -> Result<(), String> {
        let (queue, lane, id) = mark;
        let complaint = format!("{queue} has had a message {} before", id.0);
        let bytes = kept.blob.len;
        if let Some((segment, _)) = kept.spot() {
            segment.add(bytes);
        }
        let sent = Sent { queue, lane, id, bytes: u64::from(bytes), body: Arc::new(kept) };
        match self.ledger.replay_send(sent, attempt) {
            true => Ok(()),
            false => Err(complaint),
        }
    }

    fn older(&mut self, number: u64) -> Result<Arc<Segment>, String> {
        if let Some(segment) = self.older.get(&number) {
            return Ok(Arc::clone(segment));
        }
        let path = segment_path(&self.dir, number);
        // Missing is right if all that it had is acknowledged by a later record. Until that is known
        // another file stands in for it, which nobody reads.
        let file = File::open(&path).or_else(|why| {
            self.missing.push((number, why.to_string()));
            self.segment.file.try_clone()
        });
        let file = file.map_err(|why| format!("{}: {why}", path.display()))?;
        let segment = Arc::new(Segment::new(number, path, file, 0));
        self.older.insert(number, Arc::clone(&segment));
        Ok(segment)
    }

    /// Reads every message in older segments: damage is noticed now, and not when it is in the way.
    fn check_older(&self) -> Result<(), OpenError> {
        for (number, why) in &self.missing {
            let segment = self.older.get(number);
            if let Some(it) = segment.filter(|it| it.n_live.load(Ordering::Relaxed) > 0) {
                let path = it.path.display();
                let why = format!("{path} is needed: {why}; restore it from a copy");
                return Err(OpenError::Corrupt(why));
            }
        }
        let queues = self.ledger.queues.values();
        let messages = queues.flat_map(|queue| queue.ready.values().flat_map(BTreeMap::values));
        for message in messages {
            let spot = message.body.spot();
            if spot.is_some_and(|(segment, _)| segment.number != self.segment.number) {
                message.body.read().map_err(OpenError::Corrupt)?;
            }
        }
        Ok(())
    }
}

fn forget(kept: &Arc<Kept>) {
    if let Some((segment, _)) = kept.spot() {
        segment.subtract(kept.blob.len);
    }
}
