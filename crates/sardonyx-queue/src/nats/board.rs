//! Who works on a task, and what is in whose hands: one small value per task, on the servers.
//!
//! Whoever changes it writes it whole, on the condition that nobody else did in between. So it has
//! one history, and a commit is one write of it. Pure; [`super::desk`] reads and writes.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{
    ledger::Lane,
    session::{Owner, Roster},
    transaction::Refused,
};

/// Nobody counts that far, and who goes on from there still has numbers left.
const COUNT_MAX: u64 = u64::MAX / 2;

/// A message by its place: from whom, in which lane, at which sequence of the queue's stream.
pub(crate) type Spot = (String, Lane, u64);

/// Which message of its sender it is: the number of the transaction, and the place in it. A message that
/// was sent twice has the same twice.
pub(crate) type Origin = (u64, u32);

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
    /// The newest transaction of the sender of which something was taken, and what of it.
    newest: (u64, BTreeSet<u32>),
}

impl LaneBoard {
    /// Whether a message that is taken for the first time was taken before, at another sequence. The
    /// servers drop what is sent twice, but not if they were killed in between and it had been deleted:
    /// then nothing of it is left to be known by. All of a transaction is there before its sender
    /// commits the next, and a lane is taken in order: so what is older than the newest is a copy.
    fn is_repeated(&mut self, (n, index): Origin) -> bool {
        if n > self.newest.0 {
            self.newest = (n, BTreeSet::new());
        }
        n < self.newest.0 || !self.newest.1.insert(index)
    }
}

/// What came of taking: messages, with how often each was taken, and copies of what was taken before.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Taking {
    pub(crate) taken: Vec<(Spot, u32)>,
    pub(crate) repeated: Vec<Spot>,
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
    /// Reads one that lies on the servers. With numbers at their end a later transaction or session would
    /// get one that was had before.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Board, String> {
        let board: Board = postcard::from_bytes(bytes).map_err(|why| why.to_string())?;
        match board.n.max(board.n_sessions) {
            ..=COUNT_MAX => Ok(board),
            n => Err(format!("{n} transactions or sessions cannot be")),
        }
    }

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

    /// Takes those of the messages that are still there, in order.
    pub(crate) fn take(&mut self, session: u64, spots: &[(Spot, Origin)]) -> Taking {
        let mut taking = Taking::default();
        for (spot, origin) in spots {
            if !self.is_for(session, spot.1) || !self.is_ready(spot) {
                continue;
            }
            let lane = self.lanes.entry((spot.0.clone(), spot.1)).or_default();
            if !lane.known.contains_key(&spot.2) && lane.is_repeated(*origin) {
                lane.taken = lane.taken.max(spot.2);
                taking.repeated.push(spot.clone());
                continue;
            }
            let known = lane.known.entry(spot.2).or_insert(Known { attempt: 0, holder: None });
            known.attempt = known.attempt.saturating_add(1);
            known.holder = Some(session);
            lane.taken = lane.taken.max(spot.2);
            taking.taken.push((spot.clone(), known.attempt));
        }
        taking
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

#[cfg(test)]
mod tests {
    use super::*;

    fn board() -> Board {
        let owner = Owner { peer: "a".into(), epoch: 1 };
        let mut board = Board::default();
        assert!(board.announce(&Roster { at: 1, owners: vec![owner.clone()] }));
        assert_eq!(board.open(&owner), Ok(1));
        board
    }

    fn take(board: &mut Board, messages: &[(u64, Origin)]) -> (Vec<u64>, Vec<u64>) {
        let spot = |sequence: u64| ("up".to_owned(), None, sequence);
        let spots: Vec<_> = messages.iter().map(|(at, origin)| (spot(*at), *origin)).collect();
        let Taking { taken, repeated } = board.take(1, &spots);
        let taken = taken.into_iter().map(|(spot, _)| spot.2).collect();
        (taken, repeated.into_iter().map(|spot| spot.2).collect())
    }

    #[test]
    fn a_copy_is_not_taken_and_is_done_with() {
        let mut board = board();
        assert_eq!(take(&mut board, &[(1, (7, 0)), (2, (7, 1))]), (vec![1, 2], vec![]));
        // Of the same transaction: one that was sent twice, and one that came late.
        assert_eq!(take(&mut board, &[(3, (7, 1)), (4, (7, 2))]), (vec![4], vec![3]));
        assert_eq!(take(&mut board, &[(5, (9, 0)), (6, (7, 2))]), (vec![5], vec![6]));
        assert!(board.is_done(&("up".to_owned(), None, 6)));
        assert!(!board.is_done(&("up".to_owned(), None, 5)), "somebody has it");
    }

    /// Found by the fuzzing: the next transaction had a number that was had before, or none.
    #[test]
    fn a_board_at_the_end_of_numbers_is_refused() {
        let read = |board: &Board| Board::from_bytes(&postcard::to_stdvec(board).unwrap());
        let full = |n, n_sessions| Board { n, n_sessions, ..board() };
        assert!(read(&full(COUNT_MAX, COUNT_MAX)).is_ok());
        assert!(read(&full(u64::MAX, 0)).unwrap_err().contains("cannot be"));
        assert!(read(&full(0, COUNT_MAX + 1)).unwrap_err().contains("cannot be"));
        let mut board = board();
        assert_eq!(take(&mut board, &[(1, (7, 0))]), (vec![1], vec![]));
        let known = board.lanes.values_mut().flat_map(|it| it.known.values_mut());
        known.for_each(|it| *it = Known { attempt: u32::MAX, holder: None });
        assert_eq!(take(&mut board, &[(1, (7, 0))]), (vec![1], vec![]), "however often");
    }

    #[test]
    fn what_is_given_back_is_no_copy() {
        let mut board = board();
        assert_eq!(take(&mut board, &[(1, (7, 0)), (2, (8, 0))]), (vec![1, 2], vec![]));
        assert!(board.release(1, &[("up".to_owned(), None, 1)]));
        assert_eq!(take(&mut board, &[(1, (7, 0))]), (vec![1], vec![]));
    }
}
