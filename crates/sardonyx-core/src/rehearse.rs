//! Rehearsal: what a cluster would do if an entry came, played to the end.
//!
//! After an entry, every living peer says what it has to say, all of that is played, and so on,
//! until nobody has anything to say. Nobody dies meanwhile and no timer fires. This answers "what
//! would happen if I submitted this job, lost these peers?" without a single running peer.

use alloc::{collections::VecDeque, vec::Vec};

use crate::{
    command::{Command, Entry, Outcome, apply},
    effect::Effect,
    id::{PeerId, Position},
    reaction::{Response, owed, respond},
    replica::Replica,
};

/// How many entries the peers may add in answer to one. Reactions die out by themselves; a cluster
/// that reaches this goes in circles, and that is worth an error.
pub const SAID_MAX: usize = 1_000_000;

/// A cluster to be tried out.
#[derive(Clone, Debug)]
pub struct Rehearsal {
    replica: Replica,
    /// Those who asked to join and are not in yet, in the order in which they came.
    outside: Vec<PeerId>,
    /// Nothing was played yet, so nothing was said yet of what is owed.
    is_fresh: bool,
}

/// What came of one entry.
#[derive(Clone, Debug)]
pub struct Settled {
    /// What became of the entry itself.
    pub outcome: Outcome,
    /// What was appended in answer, in order, and what became of it.
    pub said: Vec<(Entry, Outcome)>,
    /// What the peer that was asked for did, in order.
    pub effects: Vec<Effect>,
    /// What the peer that was asked for said, in order.
    pub reactions: Vec<Command>,
}

/// The peers went on talking after [`SAID_MAX`] entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NeverSettles;

impl core::fmt::Display for NeverSettles {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "the peers still have something to say after {SAID_MAX} entries")
    }
}

impl core::error::Error for NeverSettles {}

impl Rehearsal {
    /// Everybody who is in `replica`, or half in, lives, and has said nothing yet.
    pub fn new(replica: Replica) -> Rehearsal {
        let outside = replica.anchors.keys().cloned().collect();
        Rehearsal { replica, outside, is_fresh: true }
    }

    /// The cluster now.
    pub fn replica(&self) -> &Replica {
        &self.replica
    }

    /// Plays `command` at `position`, and at the positions after it all that follows from it.
    /// What `me` did and said is part of the answer.
    pub fn settle(
        &mut self,
        position: Position,
        command: Command,
        me: Option<&PeerId>,
    ) -> Result<Settled, NeverSettles> {
        let mut waiting = VecDeque::new();
        let mut settled = Settled {
            outcome: Ok(()),
            said: Vec::new(),
            effects: Vec::new(),
            reactions: Vec::new(),
        };
        let entry = Entry { position, command };
        settled.outcome = self.play(&entry, me, &mut waiting, &mut settled);
        let mut position = position;
        while let Some(command) = waiting.pop_front() {
            if settled.said.len() == SAID_MAX {
                return Err(NeverSettles);
            }
            position = position.next();
            let entry = Entry { position, command };
            let outcome = self.play(&entry, me, &mut waiting, &mut settled);
            settled.said.push((entry, outcome));
        }
        Ok(settled)
    }

    fn play(
        &mut self,
        entry: &Entry,
        me: Option<&PeerId>,
        waiting: &mut VecDeque<Command>,
        settled: &mut Settled,
    ) -> Outcome {
        if let Command::PrepareJoinCluster(it) = &entry.command
            && !self.replica.is_member(&it.joiner)
            && !self.outside.contains(&it.joiner)
        {
            self.outside.push(it.joiner.clone());
        }
        let (new, outcome) = apply(&self.replica, entry);
        let old = core::mem::replace(&mut self.replica, new);
        if let Command::LeaveCluster(it) = &entry.command {
            self.outside.retain(|peer| *peer != it.peer);
        }
        let new = &self.replica;
        let outside = self.outside.iter().filter(|peer| !new.is_member(peer));
        for peer in new.peers().chain(outside) {
            let Response { effects, mut commands } = respond(entry, &outcome, &old, new, peer);
            if self.is_fresh {
                let owed = owed(new, peer).into_iter();
                commands.extend(owed.filter(|it| !commands.contains(it)).collect::<Vec<_>>());
            }
            if Some(peer) == me {
                settled.effects.extend(effects);
                settled.reactions.extend(commands.iter().cloned());
            }
            waiting.extend(commands);
        }
        self.outside.retain(|peer| !new.is_member(peer));
        self.is_fresh = false;
        outcome
    }
}
