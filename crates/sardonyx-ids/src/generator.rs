//! The generator: which ticks may be handed out now. Pure: time is an input.
//!
//! ```text
//!            from            next                  now            until
//!  ───────────┼───────────────┼──────────────────────┼────────────────┼──────────► ticks
//!   another's │ handed out    │ free: past credit    │ only with      │ another's,
//!   for ever  │               │ or the clock's       │ max_future     │ or nobody's yet
//! ```
//!
//! Laws. A tick is handed out once. Ticks grow. Every tick lies in a window that was opened, and
//! none is handed out while the clock stands at or behind the window's end, whatever the tick.
//!
//! *Past credit*: a caller that takes all it can get and is then not scheduled for some
//! milliseconds would lose their ids for good, since nobody may borrow from the future. So ticks
//! that were refused a caller may be had later, up to `credit` behind the clock. Credit is only for
//! those who were turned away a short while ago; everybody else gets the present time.
//!
//! A clock that steps back changes nothing but the limit: `next` stays, and what is left up to the
//! highest time seen can still be had (the shells give us a clock that does not step anyway).

use crate::{
    layout::{Layout, Millis, Tick},
    mutant::{self, Mutant},
};

/// How far from the clock ids may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slack {
    /// How far behind the clock a tick may be that was refused before.
    pub credit: Millis,
    /// How far ahead of the clock a tick may be.
    pub max_future: Millis,
}

impl Default for Slack {
    fn default() -> Self {
        Slack { credit: 20, max_future: 0 }
    }
}

/// Ticks in a row: `first .. first + n`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// The first.
    pub first: Tick,
    /// How many; at least one.
    pub n: u64,
}

/// Why there is no tick now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// All that the clock allows has been handed out. More at this time.
    Exhausted {
        /// When to ask again.
        at: Millis,
    },
    /// No window is open, or its end is reached: ids could belong to another owner.
    Closed,
}

/// One worker's ticks.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Generator {
    sequence_bits: u8,
    epoch: Millis,
    /// The layout's end: behind it a time would run into the worker number.
    end: Millis,
    credit: Millis,
    max_future: Millis,
    /// The next tick that nobody has.
    next: Tick,
    /// The window's end: no tick at or behind it, and none once the clock is there.
    until: Millis,
    /// When a caller was last turned away.
    turned_away: Option<Millis>,
}

/// For how many times `credit` somebody who was turned away may come back for what was refused.
const CREDIT_LASTS: Millis = 10;

impl Generator {
    /// A generator without a window: it refuses.
    pub fn new(layout: &Layout, slack: Slack) -> Generator {
        let Layout { sequence_bits, epoch, .. } = *layout;
        let Slack { credit, max_future } = slack;
        let (end, next, until, turned_away) = (layout.end(), 0, 0, None);
        Generator { sequence_bits, epoch, end, credit, max_future, next, until, turned_away }
    }

    fn tick(&self, time: Millis) -> Tick {
        time.saturating_sub(self.epoch) << self.sequence_bits
    }

    /// Opens the window of a new term, `from .. until`, in place of any other. What is left of an
    /// old one is dropped; ticks never go back within one generator.
    pub fn open(&mut self, from: Millis, until: Millis) {
        self.next = self.next.max(self.tick(from));
        self.until = until.min(self.end);
    }

    /// Moves the end of the window: it has been made durable. Opens none: what was sealed stays
    /// sealed.
    pub fn extend(&mut self, until: Millis) {
        if self.until > 0 {
            self.until = self.until.max(until.min(self.end));
        }
    }

    /// Closes the window for good, and says where a successor may begin: behind every tick that
    /// was handed out.
    pub fn seal(&mut self) -> Millis {
        self.until = 0;
        self.used_until()
    }

    /// The first millisecond of which no tick was handed out.
    pub fn used_until(&self) -> Millis {
        self.next.div_ceil(1 << self.sequence_bits) + self.epoch
    }

    /// The end of the window; 0 when there is none.
    pub fn until(&self) -> Millis {
        self.until
    }

    /// Takes between one and `n` ticks in a row.
    pub fn take(&mut self, now: Millis, n: u64) -> Result<Run, Refusal> {
        self.take_up_to(now, n, u64::MAX)
    }

    /// Takes between one and `n` ticks in a row, all of one millisecond: their ids are neighbours.
    pub fn take_within(&mut self, now: Millis, n: u64) -> Result<Run, Refusal> {
        self.take_up_to(now, n, 1 << self.sequence_bits)
    }

    /// Whether a millisecond was begun and the clock shows another one.
    fn is_another(&self, now: Millis) -> bool {
        let is_begun = self.next.trailing_zeros() < u32::from(self.sequence_bits);
        is_begun && self.next >> self.sequence_bits != now.saturating_sub(self.epoch)
    }

    /// `span`: no run goes on over a multiple of it.
    fn take_up_to(&mut self, now: Millis, n: u64, span: u64) -> Result<Run, Refusal> {
        if now >= self.until {
            return Err(Refusal::Closed);
        }
        let owed = |at: Millis| now.saturating_sub(at) <= self.credit * CREDIT_LASTS;
        let earliest = match self.turned_away {
            Some(at) if owed(at) => now.saturating_sub(self.credit),
            Some(_) | None => now,
        };
        let first = match mutant::is_on(Mutant::SequenceFirst) && self.is_another(now) {
            true => self.tick(now),
            false => self.next.max(self.tick(earliest)),
        };
        let limit = self.tick((now + 1 + self.max_future).min(self.until));
        let n_free = limit.saturating_sub(first);
        if n_free < n {
            self.turned_away = Some(now);
        }
        if n_free == 0 {
            let at = self.epoch + (first >> self.sequence_bits);
            let at = at.saturating_sub(self.max_future);
            // At the window's end the clock decides, not the tick: then it is closed.
            return Err(Refusal::Exhausted { at: at.max(now + 1) });
        }
        let n = n.clamp(1, n_free).min(span - first % span);
        self.next = first + n;
        Ok(Run { first, n })
    }
}
