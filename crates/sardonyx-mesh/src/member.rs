//! One member as a machine: [`Member::step`] takes what happened and says what to do.
//!
//! What the driver must keep to:
//!
//! - Messages of an output may be sent at once. Whatever depends on a write is held back inside
//!   until [`Input::Saved`] says that the write is on the disk.
//! - A [`Save`] is the whole of what is kept; of several that wait, only the newest need be written,
//!   and its id then stands for all before it.
//! - `step` is called again at `wake` at the latest, with [`Input::Tick`] if nothing else happened;
//!   messages that are there are handed over before a tick.
//! - `now` never goes back. After a restart it may begin anywhere.

use crate::{
    address::{Address, Incarnation, NodeId},
    change::Change,
    claim::FencingToken,
    config::Config,
    kept::Kept,
    message::{Message, Outgoing},
    moment::Moment,
    report::Report,
};

/// What can happen to a member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Input {
    /// Time has passed.
    Tick,
    /// A message came. The transport vouches for the sender.
    Message {
        /// Who sent it.
        from: NodeId,
        /// What it says.
        message: Message,
    },
    /// The write with this id, and all before it, are on the disk.
    Saved(u64),
    /// The operator wants this member to leave; [`Change::Stopped`] says when it may be ended.
    Leave,
    /// The operator wants this leader to hand its office to another member.
    Transfer {
        /// To whom.
        to: Address,
    },
    /// The operator gives the slot of a voter that will not come back to another member.
    ReplaceVoter {
        /// Who votes no more.
        old: Address,
        /// Who votes instead: an active member.
        new: Address,
    },
    /// The operator allows a new cluster to be founded, where that is not automatic.
    Found,
}

/// What a member wants done.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Output {
    /// To be sent at once, in order.
    pub messages: Vec<Outgoing>,
    /// To be written and synced; then [`Input::Saved`].
    pub save: Option<Save>,
    /// For the user, in order.
    pub changes: Vec<Change>,
    /// Why the operator's wish in the input was not granted.
    pub refused: Option<String>,
    /// When to call again at the latest.
    pub wake: Moment,
}

/// A write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Save {
    /// Grows from write to write.
    pub id: u64,
    /// All of it.
    pub kept: Kept,
}

/// A member of a mesh, or one that wants to be.
#[derive(Clone, Debug)]
pub struct Member {
    config: Config,
    me: NodeId,
}

impl Member {
    /// A member that begins a new life. `incarnation` must be larger than that in `kept`; `random`
    /// is any number that others do not have. Nothing happens before the first step.
    pub fn new(
        config: Config,
        kept: Kept,
        incarnation: Incarnation,
        random: u64,
        now: Moment,
    ) -> Member {
        let me = NodeId { address: config.address.clone(), incarnation };
        let _ = (kept, random, now);
        Member { config, me }
    }

    /// Takes one input at the time `now`.
    pub fn step(&mut self, now: Moment, input: Input) -> Output {
        let _ = input;
        Output { wake: now + self.config.timers.heartbeat_interval, ..Output::default() }
    }

    /// The token, while this member is the established leader and its lease is valid.
    pub fn token(&self, now: Moment) -> Option<FencingToken> {
        let _ = (now, &self.me);
        None
    }

    /// What it knows and does.
    pub fn status(&self, now: Moment) -> Report {
        let _ = now;
        unreachable!("interface first")
    }
}
