//! One simulated process: a node, its connection, its clock, and what it is in the middle of.

use std::collections::{BTreeMap, VecDeque};

use sardonyx_core::{Command, PeerId, Position, replica::job::Assignment};
use sardonyx_peer::{LogSize, Node};

use crate::{
    rng::Rng,
    store::{SessionId, Token},
};

/// Something on its way to the log.
#[derive(Clone)]
pub(crate) struct Letter {
    pub(crate) token: Token,
    pub(crate) command: Command,
    /// The run of a task for which it speaks.
    pub(crate) run: Option<Position>,
}

pub(crate) struct Process {
    pub(crate) boot: u32,
    /// `None` while it is down.
    pub(crate) node: Option<Node>,
    /// Set while it leaves on purpose: how long it will be down.
    pub(crate) stops_for: Option<u64>,
    /// Where it reads the log.
    pub(crate) reads_at: usize,
    /// Until when it is stopped, as by SIGSTOP: nothing in it moves.
    pub(crate) paused_until: u64,
    /// Until when it cannot reach the store.
    pub(crate) cut_off_until: u64,
    /// Until when it does not read.
    pub(crate) stuck_until: u64,
    /// How long it takes to notice that the log has grown, and until when that is so.
    pub(crate) slow: (u64, u64),
    /// How far its clock is ahead.
    pub(crate) clock: i64,
    /// When to wake whom, by its clock; and the how-manieth alarm that is.
    pub(crate) alarms: BTreeMap<(i64, u64), PeerId>,
    pub(crate) n_alarms: u64,
    pub(crate) outbox: VecDeque<Letter>,
    pub(crate) is_sending: bool,
    pub(crate) is_reading: bool,
    /// When it is to read next, if nothing keeps it.
    pub(crate) reads_by: u64,
    /// Until when its loop waits for something: never, unless a rule is switched off.
    pub(crate) held_until: u64,
    /// Its loop has failed and nobody has noticed: never, unless a rule is switched off.
    pub(crate) is_zombie: bool,
    /// How long the log is, as it counts.
    pub(crate) size: LogSize,
    /// What its peers run.
    pub(crate) tasks: BTreeMap<PeerId, Assignment>,
    /// Where its delays come from: its own, so that they do not depend on what others do.
    pub(crate) rng: Rng,
}

impl Process {
    pub(crate) fn new(seed: u64, index: usize) -> Process {
        let own = Rng::new(seed ^ (index as u64 + 1).wrapping_mul(0xd134_2543_de82_ef95));
        Process::with(own)
    }

    fn with(rng: Rng) -> Process {
        Process {
            boot: 0,
            node: None,
            stops_for: None,
            reads_at: 0,
            paused_until: 0,
            cut_off_until: 0,
            stuck_until: 0,
            slow: (0, 0),
            clock: 0,
            alarms: BTreeMap::new(),
            n_alarms: 0,
            outbox: VecDeque::new(),
            is_sending: false,
            is_reading: false,
            reads_by: 0,
            held_until: 0,
            is_zombie: false,
            size: LogSize::new(None),
            tasks: BTreeMap::new(),
            rng,
        }
    }

    pub(crate) fn session(&self, process: usize) -> SessionId {
        SessionId { process, boot: self.boot }
    }

    /// Everything that lived in memory is gone; the machine's clock and its slowness are not.
    pub(crate) fn crash(&mut self) {
        let (boot, slow, clock, rng) = (self.boot, self.slow, self.clock, self.rng.clone());
        *self = Process { boot, slow, clock, ..Process::with(rng) };
    }
}
