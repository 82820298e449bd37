//! What can go wrong. A new fault is a variant here, and every workload meets it.

use crate::rng::Rng;

/// A fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// kill -9; comes back after a while.
    Crash,
    /// kill -9 of everybody at once.
    MassDeath,
    /// SIGSTOP for less or more than the session's timeout.
    Pause,
    /// The process runs on, but cannot reach the store, for less or more than the timeout.
    CutOff,
    /// The store gives up a session that is alive.
    SessionLost,
    /// From now on this process is slow to read, or fast again.
    SlowReader,
    /// Somebody trims the log.
    Gc,
    /// One process is started beside the others.
    Start,
}

/// Every fault there is.
pub const FAULTS: [Fault; 8] = [
    Fault::Crash,
    Fault::MassDeath,
    Fault::Pause,
    Fault::CutOff,
    Fault::SessionLost,
    Fault::SlowReader,
    Fault::Gc,
    Fault::Start,
];

/// How bad it is: drawn once for a run, because a storm that never lets up only ever sees the
/// same few states.
#[derive(Clone, Debug)]
pub struct Weather {
    /// The faults of this run.
    pub faults: Vec<Fault>,
    /// The mean time between two faults, in milliseconds.
    pub every: u64,
    /// How many appends of a hundred lose their answer, and are sent again.
    pub lost_answers: u64,
    /// The longest a message takes, in milliseconds.
    pub latency: u64,
}

impl Weather {
    pub(crate) fn draw(rng: &mut Rng) -> Weather {
        let mut faults: Vec<_> = FAULTS.into_iter().filter(|_| rng.chance(60)).collect();
        if faults.is_empty() {
            faults.push(Fault::Crash);
        }
        Weather {
            faults,
            every: *rng.pick(&[100, 400, 1_500]).unwrap_or(&400),
            lost_answers: *rng.pick(&[0, 5, 30]).unwrap_or(&0),
            latency: *rng.pick(&[2, 20, 200]).unwrap_or(&20),
        }
    }
}
