//! A clock that does not step: the boot clock plus an offset that follows the wall clock.
//!
//! The boot clock counts evenly, also while the machine sleeps. Where the wall clock is a little
//! ahead we follow at once; where it is behind we go a tenth slower until it has caught up, so
//! that an hour's step back refuses nobody; where it leaps ahead we stay, and ask (see
//! [`Look::Leap`]), because a wrong leap that is written to the store makes a number useless.

use std::sync::Arc;

use rustix::time::{ClockId, clock_gettime};

use crate::{
    layout::Millis,
    mutant::{self, Mutant},
    shared::Clock,
    sync::{AtomicU64, Ordering},
};

/// A wall clock that is ahead by no more is followed without a question.
pub const LEAP: Millis = 500;

/// How long a leap must last before it is believed, if the store does not speak against it.
pub const LEAP_LASTS: Millis = 10_000;

/// The offset between the boot clock and the time we go by. Pure: clocks are inputs.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Slewed {
    /// Added to the boot clock gives our time. Wraps, as a boot clock may be ahead of the wall's.
    offset: u64,
    looked: Millis,
    leap_since: Option<Millis>,
}

/// What a look at both clocks showed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Look {
    /// We go by the wall clock, or go towards it. How far it is ahead of us.
    Follows(i64),
    /// The wall clock has been ahead by so much for a while: believe it with
    /// [`follow`](Slewed::follow) or do not.
    Leap(Millis),
}

impl Slewed {
    /// Begins with the wall clock's time.
    pub fn new(wall: Millis, boot: Millis) -> Slewed {
        Slewed { offset: wall.wrapping_sub(boot), looked: boot, leap_since: None }
    }

    /// Our time at `boot`.
    pub fn at(&self, boot: Millis) -> Millis {
        boot.wrapping_add(self.offset)
    }

    /// What to add to the boot clock.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Looks at both clocks; to be done a few times a second.
    pub fn look(&mut self, wall: Millis, boot: Millis) -> Look {
        let elapsed = boot.saturating_sub(self.looked);
        self.looked = self.looked.max(boot);
        let ahead = wall as i64 - self.at(boot) as i64;
        if ahead > LEAP as i64 && !mutant::is_on(Mutant::LeapBelieved) {
            let since = *self.leap_since.get_or_insert(boot);
            return match boot - since >= LEAP_LASTS {
                true => Look::Leap(ahead as Millis),
                false => Look::Follows(ahead),
            };
        }
        self.leap_since = None;
        let step = if ahead >= 0 { ahead } else { -((-ahead).min((elapsed / 10) as i64)) };
        self.offset = self.offset.wrapping_add(step as u64);
        Look::Follows(ahead - step)
    }

    /// Believes a leap.
    pub fn follow(&mut self, wall: Millis, boot: Millis) {
        self.offset = wall.wrapping_sub(boot);
        self.leap_since = None;
    }
}

/// Where time comes from; a test has its own.
pub trait Source: Send + Sync {
    /// The wall clock.
    fn wall(&self) -> Millis;

    /// Milliseconds since some moment before this process began; grows evenly.
    fn boot(&self) -> Millis;
}

/// The machine's clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

fn millis(clock: ClockId) -> Millis {
    let time = clock_gettime(clock);
    time.tv_sec.max(0) as u64 * 1000 + time.tv_nsec.max(0) as u64 / 1_000_000
}

impl Source for System {
    fn wall(&self) -> Millis {
        millis(ClockId::Realtime)
    }

    fn boot(&self) -> Millis {
        // Not `Instant`: that stands still while the machine sleeps.
        millis(ClockId::Boottime)
    }
}

/// The clock of a generator: the source's boot clock plus an offset that its keeper sets.
pub struct Steady {
    source: Arc<dyn Source>,
    offset: AtomicU64,
}

impl Steady {
    /// Begins with the wall clock's time.
    pub fn new(source: Arc<dyn Source>) -> Steady {
        let offset = AtomicU64::new(source.wall().wrapping_sub(source.boot()));
        Steady { source, offset }
    }

    /// The clocks behind it.
    pub fn source(&self) -> &dyn Source {
        &*self.source
    }

    /// Takes a new offset.
    pub fn set(&self, slewed: &Slewed) {
        self.offset.store(slewed.offset(), Ordering::Relaxed);
    }
}

impl Clock for Steady {
    fn now(&self) -> Millis {
        self.source.boot().wrapping_add(self.offset.load(Ordering::Relaxed))
    }
}
