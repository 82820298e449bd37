//! One node: a disk that survives, a clock that is not quite right, and perhaps a process.

use std::collections::{BTreeMap, VecDeque};

use sardonyx_mesh::{
    Address, Change, Claim, Config, Input, Kept, Member, Moment, NodeId, Status,
    address::Incarnation,
};

/// A clock that runs a little fast or slow and began at some other time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    /// How many millionths of a second it shows too much or too little per second.
    pub(super) ppm: i64,
    pub(super) offset: u64,
}

impl Clock {
    pub(super) fn local(self, now: u64) -> Moment {
        let drift = i128::from(now) * i128::from(self.ppm) / 1_000_000;
        let local = i128::from(now) + drift + i128::from(self.offset);
        Moment(u64::try_from(local).unwrap_or(0))
    }

    /// The first true time at which the clock shows at least `local`.
    pub(super) fn global(self, local: Moment) -> u64 {
        let shown = i128::from(local.0) - i128::from(self.offset);
        let mut now = u64::try_from(shown.max(0) * 1_000_000 / (1_000_000 + i128::from(self.ppm)));
        if let Ok(now) = &mut now {
            while self.local(*now) < local {
                *now += 1;
            }
        }
        now.unwrap_or(0)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) config: Config,
    pub(super) clock: Clock,
    /// What is on the disk: nothing, or the last write that was synced.
    pub(super) disk: Option<Kept>,
    /// How long a sync takes, in microseconds.
    pub(super) sync_micros: u64,
    /// Until when it is busy: one write is synced after the other.
    pub(super) busy_until: u64,
    pub(super) lives: u64,
    pub(super) process: Option<Process>,
    /// Whether its disk was ever lost.
    pub(super) lost_disk: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Process {
    pub(super) member: Member,
    pub(super) node: NodeId,
    /// Tells wake-ups and syncs of this life and this plan from those of another.
    pub(super) wake_no: u64,
    pub(super) paused: bool,
    pub(super) inbox: VecDeque<Input>,
    /// What was told to the user, counted by status.
    pub(super) counts: BTreeMap<Status, usize>,
    pub(super) changes: Vec<Change>,
    /// The last status that the user was told of each member.
    pub(super) walks: BTreeMap<NodeId, Status>,
    pub(super) has_stopped: bool,
    /// Whom it followed after its last step.
    pub(super) claim: Option<Claim>,
}

impl Node {
    pub(super) fn new(config: Config) -> Node {
        Node {
            config,
            clock: Clock { ppm: 0, offset: 1_000_000_000 },
            disk: None,
            sync_micros: 200,
            busy_until: 0,
            lives: 0,
            process: None,
            lost_disk: false,
        }
    }

    pub(super) fn address(&self) -> &Address {
        &self.config.address
    }

    pub(super) fn start(&mut self, now: u64, random: u64) {
        self.lives += 1;
        let kept = self.disk.clone().unwrap_or_else(|| Kept::empty(self.config.address.clone()));
        let incarnation = Incarnation(self.lives);
        let local = self.clock.local(now);
        let member = Member::new(self.config.clone(), kept, incarnation, random, local);
        self.process = Some(Process {
            node: member.node().clone(),
            member,
            wake_no: 0,
            paused: false,
            inbox: VecDeque::new(),
            counts: BTreeMap::new(),
            changes: Vec::new(),
            walks: BTreeMap::new(),
            has_stopped: false,
            claim: None,
        });
    }
}
