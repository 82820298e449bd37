//! Which bits of an id mean what, and where its time begins.
//!
//! ```text
//!  63  62                                22 21        12 11          0
//! ┌───┬────────────────────────────────────┬────────────┬─────────────┐
//! │ 0 │ milliseconds since the epoch (41)  │ worker (10)│ sequence(12)│
//! └───┴────────────────────────────────────┴────────────┴─────────────┘
//! ```
//!
//! Law: the sign bit is 0, every id has one decoding, and composing what was decoded gives the id
//! back. A *tick* is the id without its worker number, `time << sequence_bits | sequence`: ticks of
//! one worker are consecutive numbers, so a run of ids is two integers.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Milliseconds since 1970, as clocks tell them and as the store keeps them.
pub type Millis = u64;

/// A time and a sequence number in one: what a worker counts. See the module.
pub type Tick = u64;

/// A year, for those who ask how long a layout lasts.
pub const YEAR: Millis = 31_556_952_000;

/// How the 63 bits are divided. Fixed when the cluster takes its first number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Layout {
    /// Bits for the milliseconds.
    pub time_bits: u8,
    /// Bits for the worker number.
    pub worker_bits: u8,
    /// Bits for the place within a millisecond.
    pub sequence_bits: u8,
    /// Where time begins, in milliseconds since 1970.
    pub epoch: Millis,
}

/// 2026-01-01T00:00:00Z: with 41 bits, ids last until 2095.
pub const EPOCH: Millis = 1_767_225_600_000;

impl Default for Layout {
    fn default() -> Self {
        Layout { time_bits: 41, worker_bits: 10, sequence_bits: 12, epoch: EPOCH }
    }
}

/// A layout that no cluster could use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadLayout {
    /// The three widths do not make 63 bits.
    Width(u32),
    /// A part has fewer bits than anybody could live with.
    Narrow(&'static str, u8),
}

impl fmt::Display for BadLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadLayout::Width(bits) => {
                write!(f, "the layout's parts must make 63 bits together, these make {bits}")
            }
            BadLayout::Narrow(part, bits) => write!(f, "{bits} bits are too few for the {part}"),
        }
    }
}

impl std::error::Error for BadLayout {}

/// What an id says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parts {
    /// When, in milliseconds since 1970.
    pub time: Millis,
    /// By whom.
    pub worker: u32,
    /// Its place in that millisecond.
    pub sequence: u32,
}

impl Layout {
    /// The one place where a layout is refused.
    pub fn check(self) -> Result<Layout, BadLayout> {
        let width = [self.time_bits, self.worker_bits, self.sequence_bits];
        let width: u32 = width.into_iter().map(u32::from).sum();
        match self {
            _ if width != 63 => Err(BadLayout::Width(width)),
            // 32 bits of milliseconds are seven weeks.
            Layout { time_bits: bits @ ..36, .. } => Err(BadLayout::Narrow("time", bits)),
            Layout { worker_bits: bits @ 0, .. } => Err(BadLayout::Narrow("worker number", bits)),
            Layout { sequence_bits: bits @ 0, .. } => Err(BadLayout::Narrow("sequence", bits)),
            fine => Ok(fine),
        }
    }

    /// How many worker numbers there are: the first is 0.
    pub fn workers(&self) -> u32 {
        1 << self.worker_bits
    }

    /// The first millisecond that no id can carry.
    pub fn end(&self) -> Millis {
        self.epoch + (1 << self.time_bits)
    }

    /// The first tick of a millisecond. Times before the epoch count as the epoch and times behind
    /// the end as the end, so that a ceiling made of any time is a ceiling.
    pub fn tick(&self, time: Millis) -> Tick {
        (time.clamp(self.epoch, self.end()) - self.epoch) << self.sequence_bits
    }

    /// The millisecond of a tick.
    pub fn time(&self, tick: Tick) -> Millis {
        (tick >> self.sequence_bits) + self.epoch
    }

    /// The id of `tick` made by `worker`. Both must be in range; a [`Generator`](crate::Generator)
    /// sees to that once, for all its ids.
    #[inline]
    pub fn id(&self, tick: Tick, worker: u32) -> Id {
        let sequence = tick & ((1 << self.sequence_bits) - 1);
        let time = (tick >> self.sequence_bits) << (self.worker_bits + self.sequence_bits);
        Id(time | u64::from(worker) << self.sequence_bits | sequence)
    }

    /// Makes an id of its parts; `None` if one of them has no room.
    pub fn compose(&self, parts: Parts) -> Option<Id> {
        let has_room = (self.epoch..self.end()).contains(&parts.time)
            && parts.worker < self.workers()
            && u64::from(parts.sequence) < 1 << self.sequence_bits;
        let tick = || self.tick(parts.time) | u64::from(parts.sequence);
        has_room.then(|| self.id(tick(), parts.worker))
    }

    /// What an id says. Every id says something: whether it was ever made is another question.
    pub fn decode(&self, id: Id) -> Parts {
        let mask = |bits: u8| (1_u64 << bits) - 1;
        Parts {
            time: (id.0 >> (self.worker_bits + self.sequence_bits)) + self.epoch,
            worker: (id.0 >> self.sequence_bits & mask(self.worker_bits)) as u32,
            sequence: (id.0 & mask(self.sequence_bits)) as u32,
        }
    }
}

/// A unique id: 63 bits, ordered by time. Written for people and JSON as text, because a JSON
/// number loses digits above 2^53.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Id(u64);

impl Id {
    /// The id with these bits; `None` if the sign bit is set.
    pub fn from_bits(bits: u64) -> Option<Id> {
        (bits >> 63 == 0).then_some(Id(bits))
    }

    /// Bits that a layout made, or a sum that stays within one.
    #[inline]
    pub(crate) fn from_word(word: u64) -> Id {
        Id(word)
    }

    /// Its bits. The sign bit is 0, so that it is the same number in languages without `u64`.
    #[inline]
    pub fn bits(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
