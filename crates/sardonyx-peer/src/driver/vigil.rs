//! Noticing that we were away.
//!
//! A process that was stopped, or a machine that slept, finds its timers and messages in any
//! order: an entry may be at hand before the news that our session ended long ago. So whoever was
//! away for too long asks the store before doing anything else.

use std::time::Duration;

use tokio::time::Instant;

#[derive(Debug)]
pub(super) struct Vigil {
    timeout: Duration,
    /// On the clock that goes on while the machine sleeps.
    seen: Duration,
}

impl Vigil {
    pub(super) fn new(timeout: Duration) -> Vigil {
        Vigil { timeout, seen: boot_clock() }
    }

    /// Waits until it is time to look around, even if nothing else happens.
    pub(super) async fn tick(&self) {
        tokio::time::sleep_until(Instant::now() + self.timeout / 8).await;
    }

    /// Whether we were away for so long that our session may be over.
    pub(super) fn was_away(&mut self) -> bool {
        self.was_away_at(boot_clock())
    }

    fn was_away_at(&mut self, now: Duration) -> bool {
        let away = now.saturating_sub(self.seen);
        self.seen = now;
        away >= self.timeout / 2
    }
}

/// The clock that goes on while the machine sleeps.
pub(super) fn boot_clock() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_timeout_is_away_and_a_little_less_is_not() {
        let second = Duration::from_secs(1);
        let mut vigil = Vigil { timeout: 2 * second, seen: 100 * second };
        assert!(!vigil.was_away_at(101 * second - Duration::from_nanos(1)));
        assert!(vigil.was_away_at(102 * second));
        assert!(!vigil.was_away_at(102 * second), "it has looked around since");
    }
}
