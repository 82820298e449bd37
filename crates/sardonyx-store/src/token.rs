//! Tokens: how an append that was sent twice is read once.
//!
//! Every store handle is a *writer* with a random number; its appends are numbered. A retried
//! append keeps its number, so a reader can drop the second copy. The reader's memory must be
//! small, because it is part of the origin: whoever starts there has to drop the same copies as
//! everybody else. So a writer promises that its unsettled appends lie within
//! [`APPENDS_IN_FLIGHT_MAX`] numbers, and readers remember that many bits per writer.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

use sardonyx_core::Position;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::{
    error::{Error, Result},
    mutant::{self, Mutant},
};

/// How far apart the numbers of one writer's unsettled appends may be.
pub const APPENDS_IN_FLIGHT_MAX: u64 = 1024;

/// How many writers a reader remembers. The one that was silent for longest is forgotten first;
/// a copy that it sends after that is taken for new.
pub const WRITERS_MAX: usize = 1024;

const WORDS: usize = (APPENDS_IN_FLIGHT_MAX / 64) as usize;

/// What makes an append unlike any other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Token {
    /// Who wrote it.
    pub writer: u64,
    /// The writer's how manieth append it is, from 1.
    pub number: u64,
}

impl Token {
    /// Its length in front of an entry.
    pub const BYTES: usize = 16;

    /// As it stands in front of an entry.
    pub fn to_bytes(self) -> [u8; Token::BYTES] {
        (u128::from(self.writer) << 64 | u128::from(self.number)).to_be_bytes()
    }

    /// Cuts a stored entry into its token and its command; `None` if it has no token, so that
    /// nothing of ours can have written it.
    pub fn split(stored: &[u8]) -> Option<(Token, &[u8])> {
        let (token, command) = stored.split_first_chunk::<{ Token::BYTES }>()?;
        let token = u128::from_be_bytes(*token);
        Some((Token { writer: (token >> 64) as u64, number: token as u64 }, command))
    }
}

/// Numbers this handle's appends and keeps the unsettled ones close together.
#[derive(Debug)]
pub(crate) struct Writer {
    id: u64,
    recent: Mutex<Recent>,
    settled: Notify,
}

/// The appends from the oldest unsettled one on.
#[derive(Debug)]
struct Recent {
    /// The number of the first of them.
    first: u64,
    /// For each of them whether it is settled; the first is not.
    settled: VecDeque<bool>,
}

impl Writer {
    pub(crate) fn new() -> Result<Writer> {
        let recent = Mutex::new(Recent { first: 1, settled: VecDeque::new() });
        Ok(Writer { id: random()?, recent, settled: Notify::new() })
    }

    /// The next token, as soon as the oldest unsettled append is near enough.
    pub(crate) async fn begin(&self) -> InFlight<'_> {
        loop {
            let settled = self.settled.notified();
            {
                let mut recent = lock(&self.recent);
                let n_recent = recent.settled.len() as u64;
                if n_recent < APPENDS_IN_FLIGHT_MAX {
                    recent.settled.push_back(false);
                    let token = Token { writer: self.id, number: recent.first + n_recent };
                    return InFlight { token, writer: self };
                }
            }
            settled.await;
        }
    }
}

/// An append that may yet be sent again.
#[derive(Debug)]
pub(crate) struct InFlight<'a> {
    pub(crate) token: Token,
    writer: &'a Writer,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        let mut recent = lock(&self.writer.recent);
        let was_full = recent.settled.len() as u64 >= APPENDS_IN_FLIGHT_MAX;
        let index = (self.token.number - recent.first) as usize;
        recent.settled[index] = true;
        while recent.settled.front() == Some(&true) {
            recent.settled.pop_front();
            recent.first += 1;
        }
        if was_full && (recent.settled.len() as u64) < APPENDS_IN_FLIGHT_MAX {
            self.writer.settled.notify_waiters();
        }
    }
}

/// Which appends a reader has seen: a value, because it is part of the origin.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Seen {
    writers: BTreeMap<u64, Window>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(from = "Stored", into = "Stored")]
struct Window {
    /// Where its newest entry stands: the writer with the lowest is forgotten first.
    last: Position,
    highest: u64,
    /// Bit `n % APPENDS_IN_FLIGHT_MAX` says whether `n` was seen, for the numbers up to `highest`
    /// that are near enough; those further back count as seen. Only the words that such a number can
    /// be in: most writers append once, and a node remembers a thousand of them twice.
    bits: Vec<u64>,
}

/// A window as it stands in the origin: all words.
#[derive(Serialize, Deserialize)]
struct Stored {
    last: Position,
    highest: u64,
    bits: [u64; WORDS],
}

impl From<Stored> for Window {
    fn from(Stored { last, highest, bits }: Stored) -> Window {
        Window { last, highest, bits: bits[..n_words(highest)].to_vec() }
    }
}

impl From<Window> for Stored {
    fn from(Window { last, highest, bits }: Window) -> Stored {
        let word = |index| bits.get(index).copied().unwrap_or(0);
        Stored { last, highest, bits: std::array::from_fn(word) }
    }
}

impl Seen {
    /// Notes the append at `position`; false if it is a copy of one that was noted before.
    pub fn note(&mut self, token: Token, position: Position) -> bool {
        if !self.writers.contains_key(&token.writer) && self.writers.len() >= WRITERS_MAX {
            let silent = self.writers.iter().min_by_key(|(_, window)| window.last);
            if let Some(writer) = silent.map(|(writer, _)| *writer) {
                self.writers.remove(&writer);
            }
        }
        let fresh = || Window { last: position, highest: 0, bits: vec![0] };
        self.writers.entry(token.writer).or_insert_with(fresh).note(token.number, position)
    }

    /// How many writers it remembers.
    pub fn n_writers(&self) -> usize {
        self.writers.len()
    }
}

impl Window {
    fn note(&mut self, number: u64, position: Position) -> bool {
        if number > self.highest {
            let n_words = n_words(number);
            self.bits.reserve_exact(n_words - self.bits.len());
            self.bits.resize(n_words, 0);
            let skipped = (number - self.highest).min(APPENDS_IN_FLIGHT_MAX);
            for between in number - skipped + 1..=number {
                let (word, bit) = place(between);
                self.bits[word] &= !bit;
            }
            self.highest = number;
        } else if self.highest - number >= window() {
            return false;
        }
        let (word, bit) = place(number);
        let is_new = self.bits[word] & bit == 0;
        self.bits[word] |= bit;
        if is_new {
            self.last = position;
        }
        is_new
    }
}

/// How far back a reader remembers.
fn window() -> u64 {
    match mutant::is_on(Mutant::SmallWindow) {
        true => APPENDS_IN_FLIGHT_MAX / 16,
        false => APPENDS_IN_FLIGHT_MAX,
    }
}

/// How many words hold the numbers up to the highest.
fn n_words(highest: u64) -> usize {
    place(highest.min(APPENDS_IN_FLIGHT_MAX - 1)).0 + 1
}

fn place(number: u64) -> (usize, u64) {
    let index = number % APPENDS_IN_FLIGHT_MAX;
    ((index / 64) as usize, 1 << (index % 64))
}

/// A number that nobody else picks.
pub(crate) fn random() -> Result<u64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes)
        .map_err(|why| Error::NotConfigured(format!("this system gives no random bytes: {why}")))?;
    Ok(u64::from_be_bytes(bytes))
}

/// A lock whose holder cannot have left the value half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
