//! The clock of the machine: monotonic, and it goes on while the computer sleeps. With one that
//! stops then, a leader that wakes up would believe in a lease that has long gone to somebody else.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

use crate::{address::Incarnation, moment::Moment};

pub(crate) fn now() -> Moment {
    let time = clock_gettime(ClockId::Boottime);
    let (seconds, nanos) = (time.tv_sec.cast_unsigned(), time.tv_nsec.cast_unsigned());
    Moment(seconds.saturating_mul(1_000_000).saturating_add(nanos / 1_000))
}

/// How long it is until `then`; nothing if that is over.
pub(crate) fn until(then: Moment) -> Duration {
    then.since(now())
}

/// A life that is later than `last`. The wall clock makes it so for a member whose file is gone;
/// where there is a file, the file does.
pub(crate) fn next_life(last: Incarnation) -> Incarnation {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let millis = u64::try_from(since.as_millis()).unwrap_or_default();
    Incarnation(last.0.saturating_add(1).max(millis))
}
