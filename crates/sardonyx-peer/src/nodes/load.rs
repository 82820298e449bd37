//! What this process uses: processor time between two looks, memory now.

use std::time::Duration;

use super::Load;

/// Looks that are closer together than this share one answer: over less time the share of the
/// processor says nothing.
const LOOK_MIN: Duration = Duration::from_millis(500);

/// Remembers the last look.
#[derive(Debug, Default)]
pub(super) struct Meter {
    last: Option<Look>,
    cpu_percent: u32,
}

#[derive(Clone, Copy, Debug)]
struct Look {
    at: Duration,
    cpu: Duration,
}

impl Meter {
    /// The load at `now`, a time that grows.
    pub(super) fn read(&mut self, now: Duration, tasks: u64) -> Load {
        self.note(Look { at: now, cpu: cpu_time() });
        Load { cpu_percent: self.cpu_percent, memory_bytes: memory(), tasks }
    }

    fn note(&mut self, look: Look) {
        // Before the first look there is the process's whole life; nobody knows here how long.
        let Some(last) = self.last else {
            self.last = Some(look);
            return;
        };
        let passed = look.at.saturating_sub(last.at);
        if passed >= LOOK_MIN {
            let used = look.cpu.saturating_sub(last.cpu).as_micros();
            let percent = used * 100 / passed.as_micros().max(1);
            self.cpu_percent = u32::try_from(percent).unwrap_or(u32::MAX);
            self.last = Some(look);
        }
    }
}

fn cpu_time() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let seconds = u64::try_from(used.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(used.tv_nsec).unwrap_or_default())
}

/// 0 where there is no /proc.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or_default() * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_the_processor_is_that_since_the_last_look() {
        let mut meter = Meter::default();
        let ms = Duration::from_millis;
        meter.note(Look { at: ms(0), cpu: ms(9_000) });
        assert_eq!(meter.cpu_percent, 0, "one look says nothing");
        meter.note(Look { at: ms(499), cpu: ms(9_499) });
        assert_eq!(meter.cpu_percent, 0, "nor do two that are too close");
        meter.note(Look { at: ms(1_000), cpu: ms(11_500) });
        assert_eq!(meter.cpu_percent, 250);
        meter.note(Look { at: ms(2_000), cpu: ms(11_500) });
        assert_eq!(meter.cpu_percent, 0);
    }

    #[test]
    fn a_process_that_runs_uses_something() {
        assert!(cpu_time() > Duration::ZERO);
        assert!(memory() > 100_000);
    }
}
