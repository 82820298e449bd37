//! Who works on a task, and what is in whose hands: one small value per task, on the servers.
//!
//! Whoever changes it writes it whole, on the condition that nobody else did in between. So it has
//! one history, and a commit is one write of it. Pure; [`super::desk`] reads and writes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    ledger::Lane,
    session::{Owner, Roster},
    transaction::Refused,
};

/// A message by its place: from whom, in which lane, at which sequence of the queue's stream.
pub(crate) type Spot = (String, Lane, u64);

/// A message that was taken at least once and is not acknowledged.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Known {
    pub(crate) attempt: u32,
    /// The session that has it.
    pub(crate) holder: Option<u64>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct LaneBoard {
    /// Everything up to this sequence has been taken at least once.
    pub(crate) taken: u64,
    pub(crate) known: BTreeMap<u64, Known>,
}

/// A transaction that is committed and may not have been carried out yet.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Pending {
    pub(crate) session: u64,
    /// The transaction itself if it is small, else the number of its parts.
    pub(crate) content: Result<Vec<u8>, u32>,
    pub(crate) acks: Vec<Spot>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Board {
    /// Made up for every write, so that whoever lost an answer recognises its own.
    pub(crate) writer: u64,
    /// How many transactions there were.
    pub(crate) n: u64,
    pub(crate) roster: Option<Roster>,
    pub(crate) n_sessions: u64,
    pub(crate) sessions: BTreeMap<u64, Owner>,
    pub(crate) lanes: BTreeMap<(String, Lane), LaneBoard>,
    /// Carried out before anything else changes.
    pub(crate) pending: Option<Pending>,
}

impl Board {
    /// A roster; `false` if it is no news.
    pub(crate) fn announce(&mut self, roster: &Roster) -> bool {
        if self.roster.as_ref().is_some_and(|present| present.at >= roster.at) {
            return false;
        }
        self.roster = Some(roster.clone());
        self.sessions.retain(|_, owner| roster.owners.contains(owner));
        let sessions = &self.sessions;
        for ((_, lane), board) in &mut self.lanes {
            for known in board.known.values_mut() {
                let owner = known.holder.and_then(|holder| sessions.get(&holder));
                let stays = owner.is_some_and(|owner| {
                    lane.is_none_or(|partition| roster.owner_of(partition) == Some(owner))
                });
                if !stays {
                    known.holder = None;
                }
            }
        }
        true
    }

    /// Begins a session; an older one of the same owner ends.
    pub(crate) fn open(&mut self, owner: &Owner) -> Result<u64, Refused> {
        if !self.roster.as_ref().is_some_and(|roster| roster.owners.contains(owner)) {
            return Err(Refused::Lost);
        }
        let old = self.sessions.iter().find(|(_, other)| *other == owner).map(|(id, _)| *id);
        if let Some(old) = old {
            self.close(old);
        }
        self.n_sessions += 1;
        self.sessions.insert(self.n_sessions, owner.clone());
        Ok(self.n_sessions)
    }

    /// Ends a session; `false` if it was over.
    pub(crate) fn close(&mut self, session: u64) -> bool {
        let held = self.lanes.values_mut().flat_map(|lane| lane.known.values_mut());
        for known in held.filter(|known| known.holder == Some(session)) {
            known.holder = None;
        }
        self.sessions.remove(&session).is_some()
    }

    /// Whether a session may receive from a lane.
    pub(crate) fn is_for(&self, session: u64, lane: Lane) -> bool {
        let Some(owner) = self.sessions.get(&session) else { return false };
        let roster = self.roster.as_ref();
        lane.is_none_or(|partition| roster.and_then(|it| it.owner_of(partition)) == Some(owner))
    }

    /// Whether a message is there for somebody to take.
    pub(crate) fn is_ready(&self, spot: &Spot) -> bool {
        let Some(lane) = self.lanes.get(&(spot.0.clone(), spot.1)) else { return true };
        match lane.known.get(&spot.2) {
            Some(known) => known.holder.is_none(),
            None => spot.2 > lane.taken,
        }
    }

    /// Whether a message has been acknowledged.
    pub(crate) fn is_done(&self, spot: &Spot) -> bool {
        let lane = self.lanes.get(&(spot.0.clone(), spot.1));
        lane.is_some_and(|lane| spot.2 <= lane.taken && !lane.known.contains_key(&spot.2))
    }

    /// Messages that were taken and given back.
    pub(crate) fn given_back(&self, session: u64) -> Vec<Spot> {
        let lanes = self.lanes.iter().filter(|((_, lane), _)| self.is_for(session, *lane));
        let spots = lanes.flat_map(|((from, lane), board)| {
            let free = board.known.iter().filter(|(_, known)| known.holder.is_none());
            free.map(move |(sequence, _)| (from.clone(), *lane, *sequence))
        });
        spots.collect()
    }

    /// Takes those of the messages that are still there, in order; says which, and how often each was
    /// taken.
    pub(crate) fn take(&mut self, session: u64, spots: &[Spot]) -> Vec<(Spot, u32)> {
        let mut taken = Vec::new();
        for spot in spots {
            if !self.is_for(session, spot.1) || !self.is_ready(spot) {
                continue;
            }
            let lane = self.lanes.entry((spot.0.clone(), spot.1)).or_default();
            let known = lane.known.entry(spot.2).or_insert(Known { attempt: 0, holder: None });
            known.attempt += 1;
            known.holder = Some(session);
            lane.taken = lane.taken.max(spot.2);
            taken.push((spot.clone(), known.attempt));
        }
        taken
    }

    /// Gives messages back; `false` if none of them was the session's.
    pub(crate) fn release(&mut self, session: u64, spots: &[Spot]) -> bool {
        let mut is_changed = false;
        for (from, lane, sequence) in spots {
            let lane = self.lanes.get_mut(&(from.clone(), *lane));
            let known = lane.and_then(|lane| lane.known.get_mut(sequence));
            if let Some(known) = known.filter(|known| known.holder == Some(session)) {
                known.holder = None;
                is_changed = true;
            }
        }
        is_changed
    }

    /// Whether all of the messages are the session's.
    pub(crate) fn holds(&self, session: u64, spots: &[Spot]) -> bool {
        let is_held = |(from, lane, sequence): &Spot| {
            let lane = self.lanes.get(&(from.clone(), *lane));
            let known = lane.and_then(|lane| lane.known.get(sequence));
            known.is_some_and(|known| known.holder == Some(session))
        };
        self.sessions.contains_key(&session) && spots.iter().all(is_held)
    }

    /// Commits: the messages are done with, and the rest is to be carried out.
    pub(crate) fn commit(&mut self, pending: Pending) {
        for (from, lane, sequence) in &pending.acks {
            if let Some(lane) = self.lanes.get_mut(&(from.clone(), *lane)) {
                lane.known.remove(sequence);
            }
        }
        self.n += 1;
        self.pending = Some(pending);
    }

    /// How many messages from `from` were taken and are not acknowledged, and up to where some were.
    pub(crate) fn taken_from(&self, from: &str) -> (u64, u64) {
        let lanes = self.lanes.iter().filter(|((name, _), _)| name == from);
        lanes.fold((0, 0), |(n_known, top), (_, lane)| {
            (n_known + lane.known.len() as u64, top.max(lane.taken))
        })
    }

    /// How many messages from `from` are in somebody's hands.
    pub(crate) fn n_in_flight(&self, from: &str) -> u64 {
        let lanes = self.lanes.iter().filter(|((name, _), _)| name == from);
        let known = lanes.flat_map(|(_, lane)| lane.known.values());
        known.filter(|known| known.holder.is_some()).count() as u64
    }
}
