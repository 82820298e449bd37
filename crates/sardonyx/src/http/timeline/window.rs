//! A look at a stretch of the log: a replica before it, and its entries.

use std::{ops::Range, sync::Arc};

use sardonyx_core::{Entry, Outcome, Position, Replica};

use super::piece::Piece;

/// Everything that is needed to tell a part of the past, away from the lock.
#[derive(Debug)]
pub(crate) struct Window {
    replica: Replica,
    position: Option<Position>,
    seq: u64,
    pieces: Vec<Arc<Piece>>,
    wanted: Range<u64>,
}

/// One entry of a window, and what became of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Played {
    /// Its number.
    pub(crate) seq: u64,
    /// Where it stands.
    pub(crate) position: Position,
    /// What it is, and whether it was applied; `None`: this build cannot read it.
    pub(crate) entry: Option<(Entry, Outcome)>,
}

impl Window {
    pub(super) fn new(
        replica: Replica,
        position: Option<Position>,
        seq: u64,
        pieces: Vec<Arc<Piece>>,
        wanted: Range<u64>,
    ) -> Window {
        Window { replica, position, seq, pieces, wanted }
    }

    /// How many entries have to be played.
    #[cfg(test)]
    pub(crate) fn n_entries(&self) -> u64 {
        self.wanted.end.saturating_sub(self.seq)
    }

    /// The cluster at the end of the window, and the position of the last entry in it.
    pub(crate) fn replica(self) -> (Option<Position>, Replica) {
        self.play(|_| true)
    }

    /// Hands over each wanted entry with what became of it, until told to stop; then the cluster
    /// there.
    pub(crate) fn play(
        mut self,
        mut visit: impl FnMut(Played) -> bool,
    ) -> (Option<Position>, Replica) {
        for piece in &self.pieces {
            for seq in self.seq.max(piece.first())..piece.end().min(self.wanted.end) {
                let Some((position, entry)) = piece.entry(seq) else { break };
                let entry = entry.map(|entry| {
                    let outcome = self.replica.play(&entry);
                    (entry, outcome)
                });
                (self.position, self.seq) = (Some(position), seq + 1);
                if self.wanted.contains(&seq) && !visit(Played { seq, position, entry }) {
                    return (self.position, self.replica);
                }
            }
        }
        (self.position, self.replica)
    }
}
