//! When the log is to be trimmed, and by whom.
//!
//! All nodes count the same entries. When there are enough, the node of the oldest member says
//! `gc`; if nothing came of it after a tenth more, that of the second oldest, and so on around. So one
//! node does it, whichever are alive, without asking each other. Nodes in a mesh have a leader for
//! that, who does it alone (`chores.rs`).

use sardonyx_core::{
    Command, Entry, PeerId, Replica,
    mutant::{self, Mutant},
};

/// How long the log is, as one node counts it.
#[derive(Debug)]
pub struct LogSize {
    trim_after: Option<u64>,
    n_entries: u64,
    n_asked: u64,
}

impl LogSize {
    /// Nothing is counted yet. From `trim_after` entries on somebody is to trim; `None` leaves that to
    /// operators.
    pub fn new(trim_after: Option<u64>) -> LogSize {
        LogSize { trim_after, n_entries: 0, n_asked: 0 }
    }

    /// An entry was played. From a `gc` on, whoever sent it, counting begins again.
    pub fn note(&mut self, entry: &Entry) {
        self.n_entries += 1;
        if matches!(entry.command, Command::Gc(_)) {
            self.begin_again();
        }
    }

    /// An origin was taken.
    pub fn begin_again(&mut self) {
        (self.n_entries, self.n_asked) = (0, 0);
    }

    /// How many entries there are, if that is too many. For whoever does it alone.
    pub fn over(&self) -> Option<u64> {
        let trim_after = self.trim_after?.max(1);
        (self.n_entries >= trim_after).then_some(self.n_entries)
    }

    /// The member that is to say `gc` now. Says so once for each member.
    pub fn whose_turn(&mut self, replica: &Replica) -> Option<PeerId> {
        let trim_after = self.trim_after.filter(|_| !mutant::is_on(Mutant::NeverTrimmed))?.max(1);
        let over = self.n_entries.checked_sub(trim_after)?;
        let turn = over / (trim_after / 10).max(1);
        if turn < self.n_asked {
            return None;
        }
        self.n_asked = turn + 1;
        // Around and around: whoever begins to read a log that is far too long is past every turn.
        let rank = turn.checked_rem(replica.n_peers() as u64)?;
        replica.peers().nth(usize::try_from(rank).ok()?).cloned()
    }
}

#[cfg(test)]
mod tests {
    use sardonyx_core::{Position, command::PrepareJoinCluster};

    use super::*;

    fn peer(name: &str) -> PeerId {
        PeerId::new(name).unwrap()
    }

    fn entry(command: impl Into<Command>) -> Entry {
        Entry { position: Position(0), command: command.into() }
    }

    #[test]
    fn the_oldest_member_trims_and_then_the_next() {
        let mut replica = Replica::new();
        let join = entry(PrepareJoinCluster { joiner: peer("a") });
        replica.play(&join).unwrap();
        let mut size = LogSize::new(Some(100));
        (0..99).for_each(|_| size.note(&join));
        assert_eq!((size.whose_turn(&replica), size.over()), (None, None));
        size.note(&join);
        assert_eq!(size.over(), Some(100));
        assert_eq!(size.whose_turn(&replica), Some(peer("a")));
        assert_eq!(size.whose_turn(&replica), None, "once is enough");
        (0..10).for_each(|_| size.note(&join));
        assert_eq!(size.whose_turn(&replica), Some(peer("a")), "there is no second member");
        assert_eq!(size.n_asked, 2);
        size.note(&entry(sardonyx_core::command::Gc { caller: peer("x") }));
        assert_eq!(size.whose_turn(&replica), None);
        assert_eq!(size.n_entries, 0);
    }

    #[test]
    fn a_log_that_was_found_far_too_long_is_trimmed_too() {
        let mut replica = Replica::new();
        let join = entry(PrepareJoinCluster { joiner: peer("a") });
        replica.play(&join).unwrap();
        let mut size = LogSize::new(Some(100));
        (0..100_000).for_each(|_| size.note(&join));
        assert_eq!(size.whose_turn(&replica), Some(peer("a")));
    }

    #[test]
    fn an_operator_may_keep_it_to_himself() {
        let mut size = LogSize::new(None);
        let join = entry(PrepareJoinCluster { joiner: peer("a") });
        (0..1000).for_each(|_| size.note(&join));
        assert_eq!((size.whose_turn(&Replica::new()), size.over()), (None, None));
    }
}
