//! One simulated process: a node, its connection, and what it is in the middle of.

use std::collections::{BTreeMap, VecDeque};

use sardonyx_core::{Command, PeerId, replica::job::Assignment};
use sardonyx_peer::Node;

use crate::store::{SessionId, Token};

pub(crate) struct Process {
    pub(crate) boot: u32,
    /// `None` while it is down.
    pub(crate) node: Option<Node>,
    /// Where it reads the log.
    pub(crate) reads_at: usize,
    /// Until when it is stopped, as by SIGSTOP: nothing in it moves.
    pub(crate) paused_until: u64,
    /// Until when it cannot reach the store.
    pub(crate) cut_off_until: u64,
    /// How long it takes to notice that the log has grown.
    pub(crate) read_delay: u64,
    pub(crate) outbox: VecDeque<(Token, Command)>,
    pub(crate) is_sending: bool,
    pub(crate) is_reading: bool,
    /// What its peers run.
    pub(crate) tasks: BTreeMap<PeerId, Assignment>,
}

impl Process {
    pub(crate) fn new() -> Process {
        Process {
            boot: 0,
            node: None,
            reads_at: 0,
            paused_until: 0,
            cut_off_until: 0,
            read_delay: 5,
            outbox: VecDeque::new(),
            is_sending: false,
            is_reading: false,
            tasks: BTreeMap::new(),
        }
    }

    pub(crate) fn session(&self, process: usize) -> SessionId {
        SessionId { process, boot: self.boot }
    }

    /// Everything that lived in memory is gone.
    pub(crate) fn crash(&mut self) {
        let boot = self.boot;
        *self = Process { boot, read_delay: self.read_delay, ..Process::new() };
    }
}
