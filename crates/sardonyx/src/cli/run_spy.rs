//! Failpoints: a test can have this process end, or stand still, at a phase of a task.
//!
//! `SARDONYX_AT=commit:count:3=kill` ends it with SIGKILL when task `count` has committed for the
//! third time; `=stop` stops it with SIGSTOP. The task may be left out. In release builds the variable
//! is not read.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use sardonyx::{NoSpy, Phase, Place, Spy};

use super::Failure;

/// What the environment asks for.
pub(super) fn from_environment() -> Result<Arc<dyn Spy>, Failure> {
    match std::env::var("SARDONYX_AT") {
        Ok(text) if cfg!(debug_assertions) => {
            let wrong = || {
                let phases: Vec<_> = Phase::ALL.iter().map(|phase| phase.name()).collect();
                Failure::input(format!(
                    "SARDONYX_AT={text:?}: write PHASE:TASK:N=kill or =stop; the phases are {}",
                    phases.join(", ")
                ))
            };
            Ok(Arc::new(Failpoint::read(&text).ok_or_else(wrong)?))
        }
        _ => Ok(Arc::new(NoSpy)),
    }
}

struct Failpoint {
    phase: Phase,
    task: Option<String>,
    left: AtomicU64,
    signal: rustix::process::Signal,
}

impl Failpoint {
    fn read(text: &str) -> Option<Failpoint> {
        let (place, action) = text.split_once('=')?;
        let signal = match action {
            "kill" => rustix::process::Signal::KILL,
            "stop" => rustix::process::Signal::STOP,
            _ => return None,
        };
        let parts: Vec<_> = place.split(':').collect();
        let (phase, task, n) = match parts[..] {
            [phase, n] => (phase, None, n),
            [phase, task, n] => (phase, Some(task.to_owned()), n),
            _ => return None,
        };
        let phase = Phase::ALL.into_iter().find(|it| it.name() == phase)?;
        let left = AtomicU64::new(n.parse().ok().filter(|n| *n > 0)?);
        Some(Failpoint { phase, task, left, signal })
    }
}

impl Spy for Failpoint {
    fn saw(&self, place: &Place, phase: Phase, _: Option<&arrow::array::RecordBatch>) {
        let is_here =
            phase == self.phase && self.task.as_ref().is_none_or(|task| *task == place.task);
        if is_here && self.left.fetch_sub(1, Relaxed) == 1 {
            // It cannot fail for our own process; if it does, the test that asked for it does.
            let _ = rustix::process::kill_process(rustix::process::getpid(), self.signal);
        }
    }
}
