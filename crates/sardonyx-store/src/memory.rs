//! `memory:` keeps everything in this process. A real backend: tests and single runs use it, and
//! it passes the same suite as the others.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use bytes::Bytes;
use sardonyx_core::Position;

use crate::{
    backend::Raw,
    engine::{Op, Outcome, State},
    error::Result,
    local::{Local, Medium, Shared},
    token::lock,
};

/// How many entries are handed out at once.
const READ_ENTRIES_MAX: usize = 1024;

/// After this many bytes no further entry is handed out.
const READ_BYTES_MAX: usize = 1 << 20;

pub(crate) fn open() -> Local {
    let shared = Arc::new(Shared::new(State::default()));
    let memory = Memory { shared: Arc::clone(&shared), entries: Mutex::default() };
    Local::new(shared, Box::new(memory))
}

struct Memory {
    shared: Arc<Shared>,
    /// The entries from `State::first` on. Locked while a request is applied, so that an entry's
    /// index and its position agree.
    entries: Mutex<VecDeque<Bytes>>,
}

#[async_trait]
impl Medium for Memory {
    async fn submit(&self, op: Op) -> Result<Outcome> {
        let mut entries = lock(&self.entries);
        if let Op::Append(bytes) = &op {
            entries.push_back(bytes.clone());
        }
        let mut outcomes = self.shared.apply([op]);
        let (first, next) = self.shared.bounds();
        while entries.len() as u64 > next - first {
            entries.pop_front();
        }
        Ok(outcomes.pop().unwrap_or(Outcome::Done))
    }

    async fn read(&self, from: u64) -> Result<Vec<Raw>> {
        let entries = lock(&self.entries);
        let (first, next) = self.shared.bounds();
        let from = from.clamp(first, next);
        let mut bytes_left = Some(READ_BYTES_MAX);
        let has_room = |entry: &&Bytes| {
            let had_room = bytes_left.is_some();
            bytes_left = bytes_left.and_then(|left| left.checked_sub(entry.len()));
            had_room
        };
        let entries = entries.iter().skip((from - first) as usize).take(READ_ENTRIES_MAX);
        let wanted = entries.take_while(has_room);
        let raw = |(position, bytes): (u64, &Bytes)| Raw {
            position: Position(position),
            bytes: bytes.clone(),
        };
        Ok((from..).zip(wanted).map(raw).collect())
    }
}
