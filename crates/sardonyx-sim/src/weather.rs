//! What can go wrong, as data. A new fault is a variant here, and every workload meets it.

use sardonyx_peer::TRIM_STEPS;
use serde::{Deserialize, Serialize};

use crate::rng::Rng;

/// A fault. Processes go by number, and what befalls one that is not there befalls nobody; spans are
/// milliseconds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// kill -9; comes back after a while.
    Crash {
        /// Who.
        process: usize,
        /// For how long.
        down: u64,
    },
    /// Stopped on purpose: leaves the ring first, and comes back after a while.
    Stop {
        /// Who.
        process: usize,
        /// For how long.
        down: u64,
    },
    /// kill -9 of everybody at once; each comes back within the span.
    MassDeath {
        /// How long at most.
        down: u64,
    },
    /// Processes are started, all at once.
    MassStart {
        /// The number of the first.
        first: usize,
        /// How many.
        processes: usize,
    },
    /// SIGSTOP, for less or more than the session's timeout.
    Pause {
        /// Who.
        process: usize,
        /// For how long.
        lasts: u64,
    },
    /// The process runs on, but cannot reach the store.
    CutOff {
        /// Who.
        process: usize,
        /// For how long.
        lasts: u64,
    },
    /// The store gives up a session that is alive.
    SessionLost {
        /// Whose.
        process: usize,
    },
    /// Appends get lost on the way there, or their answers on the way back; both are sent again.
    LostAnswers {
        /// How many of a hundred.
        percent: u64,
        /// For how long.
        lasts: u64,
    },
    /// A command comes again, later and as a new one: somebody did not know that it was heard.
    Echo {
        /// How many entries it lies back.
        back: usize,
    },
    /// Notices late that the log has grown.
    SlowReader {
        /// Who.
        process: usize,
        /// How late.
        delay: u64,
        /// For how long.
        lasts: u64,
    },
    /// Does not read at all, while everything else in it goes on.
    StuckReader {
        /// Who.
        process: usize,
        /// For how long.
        lasts: u64,
    },
    /// Somebody trims the log.
    Gc {
        /// After how many steps of trimming it dies.
        dies_after: usize,
        /// How long a step takes.
        pace: u64,
    },
    /// Something happens just when an entry of a kind has landed.
    Ambush {
        /// Of which kind.
        moment: Moment,
        /// What happens.
        harm: Harm,
    },
    /// The clock of a process jumps.
    ClockStep {
        /// Whose.
        process: usize,
        /// Forwards, or backwards.
        by: i64,
    },
    /// Something in the loop of a process fails.
    LoopFails {
        /// Whose.
        process: usize,
    },
}

/// The moments at which a cluster is easiest to hurt: right after such an entry was applied.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Moment {
    /// A joiner has been given its anchor.
    Prepared,
    /// A join is in its last phase.
    Notified,
    /// A joiner is in.
    Accepted,
    /// Somebody is gone.
    Left,
    /// A task is being sealed.
    Sealed,
    /// Peers have got their tasks.
    Volunteered,
}

/// Every moment there is.
pub const MOMENTS: [Moment; 6] = [
    Moment::Prepared,
    Moment::Notified,
    Moment::Accepted,
    Moment::Left,
    Moment::Sealed,
    Moment::Volunteered,
];

/// What happens in an ambush. Peers are those that the entry names, counted around.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Harm {
    /// The process of one of them crashes.
    Crash {
        /// Which of the peers.
        who: usize,
        /// For how long.
        down: u64,
    },
    /// The process of one of them is stopped.
    Pause {
        /// Which of the peers.
        who: usize,
        /// For how long.
        lasts: u64,
    },
    /// Everybody dies.
    MassDeath {
        /// How long at most.
        down: u64,
    },
    /// The log is trimmed.
    Gc,
}

/// How many kinds of faults there are.
pub const KINDS: u64 = 15;

impl Fault {
    /// A fault of a kind, by number, for a cluster of so many processes.
    pub(crate) fn draw(kind: u64, n_processes: usize, rng: &mut Rng) -> Fault {
        let process = rng.below(n_processes as u64) as usize;
        // Up to three times the session's timeout: half are noticed, half are not.
        let lasts = rng.between(10, 3_000);
        match kind {
            0 => Fault::Crash { process, down: rng.below(6_000) },
            1 => Fault::Stop { process, down: rng.below(3_000) },
            2 => Fault::MassDeath { down: rng.below(6_000) },
            3 => Fault::MassStart { first: n_processes, processes: rng.between(1, 4) as usize },
            4 => Fault::Pause { process, lasts },
            5 => Fault::CutOff { process, lasts },
            6 => Fault::SessionLost { process },
            7 => Fault::LostAnswers { percent: rng.between(5, 60), lasts },
            8 => Fault::Echo { back: rng.below(30) as usize },
            9 => {
                let delay = *rng.pick(&[50, 200, 3_000]).unwrap_or(&50);
                Fault::SlowReader { process, delay, lasts: 2 * lasts }
            }
            10 => Fault::StuckReader { process, lasts: 2 * lasts },
            11 => {
                let dies = rng.chance(30).then(|| rng.below(TRIM_STEPS as u64) as usize);
                let pace = *rng.pick(&[0, 20, 1_000]).unwrap_or(&0);
                Fault::Gc { dies_after: dies.unwrap_or(TRIM_STEPS), pace }
            }
            12 => {
                let moment = *rng.pick(&MOMENTS).unwrap_or(&Moment::Notified);
                Fault::Ambush { moment, harm: Harm::draw(rng) }
            }
            13 => Fault::LoopFails { process },
            _ => Fault::ClockStep { process, by: rng.between(0, 20_000) as i64 - 10_000 },
        }
    }
}

impl Fault {
    /// Whom it befalls, if it is one process.
    pub(crate) fn process(&self) -> Option<usize> {
        match self {
            Fault::Crash { process, .. }
            | Fault::Stop { process, .. }
            | Fault::Pause { process, .. }
            | Fault::CutOff { process, .. }
            | Fault::SessionLost { process }
            | Fault::SlowReader { process, .. }
            | Fault::StuckReader { process, .. }
            | Fault::LoopFails { process }
            | Fault::ClockStep { process, .. } => Some(*process),
            Fault::MassDeath { .. }
            | Fault::MassStart { .. }
            | Fault::LostAnswers { .. }
            | Fault::Echo { .. }
            | Fault::Gc { .. }
            | Fault::Ambush { .. } => None,
        }
    }
}

impl Harm {
    fn draw(rng: &mut Rng) -> Harm {
        let who = rng.below(3) as usize;
        match rng.below(8) {
            0 => Harm::MassDeath { down: rng.below(6_000) },
            1 => Harm::Gc,
            2 | 3 => Harm::Pause { who, lasts: rng.between(10, 3_000) },
            _ => Harm::Crash { who, down: rng.below(6_000) },
        }
    }
}
