//! Is there one order of these operations that explains every answer? A small checker for small
//! objects, after Wing and Gong: it tries what could have come next and never looks at the same
//! situation twice.
//!
//! An operation takes effect at one moment between its call and its return. One whose answer was
//! lost may take effect at any later moment, or never.

use std::{collections::HashSet, fmt::Debug, hash::Hash};

/// How an object behaves.
pub trait Object {
    /// What it is at one moment.
    type State: Clone + Eq + Hash + Default;
    /// What it is asked.
    type Ask: Debug;
    /// What it answers.
    type Answer: Debug;

    /// What it is after `ask`, if it may answer `answer`. Without an answer, anything may have been
    /// answered.
    fn step(
        state: &Self::State,
        ask: &Self::Ask,
        answer: Option<&Self::Answer>,
    ) -> Option<Self::State>;
}

/// An operation, with the moments of a clock that all share.
#[derive(Clone, Debug)]
pub struct Operation<O: Object> {
    /// When it was called.
    pub called: u64,
    /// When it returned, and with what; `None` if the answer was lost.
    pub returned: Option<(u64, O::Answer)>,
    /// What was asked.
    pub ask: O::Ask,
}

/// How many situations are looked at before the checker gives up.
const SITUATIONS_MAX: usize = 300_000;

/// What a history is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// One order explains it.
    Linearizable,
    /// None does.
    Not,
    /// Too many orders to try: this history says nothing.
    Void,
}

/// Looks for an order that explains all of `history`.
pub fn judge<O: Object>(history: &[Operation<O>]) -> Verdict {
    let n_returned = history.iter().filter(|it| it.returned.is_some()).count();
    let mut seen = HashSet::new();
    // Which operations have taken effect, how many of those had an answer, and what it is now.
    let mut open = vec![(vec![0_u64; history.len().div_ceil(64)], 0, O::State::default())];
    while let Some((done, n_done, state)) = open.pop() {
        if n_done == n_returned {
            return Verdict::Linearizable;
        }
        let is_done = |index: usize| done[index / 64] & 1 << (index % 64) != 0;
        let left = || history.iter().enumerate().filter(|(index, _)| !is_done(*index));
        let returns = |it: &Operation<O>| it.returned.as_ref().map_or(u64::MAX, |it| it.0);
        let earliest = left().map(|(_, it)| returns(it)).min().unwrap_or(u64::MAX);
        for (index, it) in left().filter(|(_, it)| it.called < earliest) {
            let answer = it.returned.as_ref().map(|(_, answer)| answer);
            let Some(next) = O::step(&state, &it.ask, answer) else { continue };
            let mut with = done.clone();
            with[index / 64] |= 1 << (index % 64);
            if seen.len() >= SITUATIONS_MAX {
                return Verdict::Void;
            }
            if seen.insert((with.clone(), next.clone())) {
                open.push((with, n_done + usize::from(answer.is_some()), next));
            }
        }
    }
    Verdict::Not
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value that is read, written, and written if it is as expected.
    struct Register;

    #[derive(Clone, Debug)]
    enum Ask {
        Read,
        Write(u32),
        Swap(u32, u32),
    }

    impl Object for Register {
        type State = u32;
        type Ask = Ask;
        /// What was read, or whether it was written.
        type Answer = u32;

        fn step(state: &u32, ask: &Ask, answer: Option<&u32>) -> Option<u32> {
            let (next, says) = match ask {
                Ask::Read => (*state, *state),
                Ask::Write(value) => (*value, 1),
                Ask::Swap(from, to) if from == state => (*to, 1),
                Ask::Swap(..) => (*state, 0),
            };
            answer.is_none_or(|answer| *answer == says).then_some(next)
        }
    }

    fn op(called: u64, returned: u64, ask: Ask, answer: u32) -> Operation<Register> {
        Operation { called, returned: Some((returned, answer)), ask }
    }

    fn lost(called: u64, ask: Ask) -> Operation<Register> {
        Operation { called, returned: None, ask }
    }

    fn is(history: &[Operation<Register>]) -> bool {
        match judge(history) {
            Verdict::Linearizable => true,
            Verdict::Not => false,
            Verdict::Void => panic!("a history of a few operations is void"),
        }
    }

    #[test]
    fn what_overlaps_may_be_in_either_order() {
        assert!(is(&[op(0, 9, Ask::Write(1), 1), op(1, 2, Ask::Read, 0), op(3, 4, Ask::Read, 1)]));
        assert!(is(&[op(0, 9, Ask::Write(1), 1), op(1, 2, Ask::Read, 1)]));
    }

    #[test]
    fn a_stale_read_is_noticed() {
        assert!(!is(&[op(0, 1, Ask::Write(1), 1), op(2, 3, Ask::Read, 0)]));
        let back = [op(0, 9, Ask::Write(1), 1), op(1, 2, Ask::Read, 1), op(3, 4, Ask::Read, 0)];
        assert!(!is(&back), "what was read once cannot be unread");
    }

    #[test]
    fn two_winners_are_noticed() {
        let both = [op(0, 5, Ask::Swap(0, 1), 1), op(1, 6, Ask::Swap(0, 2), 1)];
        assert!(!is(&both));
        assert!(is(&[op(0, 5, Ask::Swap(0, 1), 1), op(1, 6, Ask::Swap(0, 2), 0)]));
    }

    #[test]
    fn a_lost_answer_may_be_late_or_never() {
        let write = || lost(0, Ask::Write(7));
        assert!(is(&[write(), op(1, 2, Ask::Read, 0)]), "never");
        assert!(is(&[write(), op(1, 2, Ask::Read, 0), op(3, 4, Ask::Read, 7)]), "late");
        let twice =
            [write(), op(1, 2, Ask::Read, 7), op(3, 4, Ask::Write(8), 1), op(5, 6, Ask::Read, 7)];
        assert!(!is(&twice), "but not twice");
    }

    #[test]
    fn more_orders_than_can_be_tried_are_no_verdict() {
        let writes = (0..64).map(|value| op(0, 100, Ask::Write(value), 1));
        let impossible = op(0, 100, Ask::Read, 1000);
        let history: Vec<_> = writes.chain([impossible]).collect();
        assert_eq!(judge(&history), Verdict::Void);
    }
}
