//! A clock that leaps ahead while another holder is there: what is written to the store stays near
//! the true time, or a number would be of no use until the leap has come true.

use super::world::{FakeStore, Process, Rules};
use crate::{
    clock::{LEAP, LEAP_LASTS, Look, Slewed},
    layout::{EPOCH, Layout, Millis, YEAR},
    lease::{Action, Input, Now, Terms},
};

const START: Millis = EPOCH + YEAR;

/// How often both look at their clocks.
const STEP: Millis = 100;

struct Node {
    process: Process,
    slewed: Slewed,
    /// How far the wall clock is ahead of the truth.
    ahead: Millis,
    leapt: Option<Millis>,
    n_steps: u64,
}

impl Node {
    fn new(owner: u64, now: Millis, ahead: Millis) -> Node {
        let process = Process::new(Layout::default(), &Terms::default(), owner);
        let slewed = Slewed::new(now + ahead, now - START);
        Node { process, slewed, ahead, leapt: None, n_steps: 0 }
    }

    /// As the keeper does: looks at the clocks, takes a step, and does what it says until there is
    /// nothing more to ask.
    fn turn(&mut self, true_now: Millis, store: &mut FakeStore) {
        let (wall, boot) = (true_now + self.ahead, true_now - START);
        let is_news = self.leapt.is_none_or(|at| boot - at >= LEAP_LASTS);
        let mut input = match self.slewed.look(wall, boot) {
            Look::Leap(_) if is_news => {
                self.leapt = Some(boot);
                Input::Leap(wall)
            }
            Look::Leap(_) | Look::Follows(_) => Input::Tick,
        };
        loop {
            self.n_steps += 1;
            let clock = self.slewed.at(boot);
            let now = Now { clock, boot, offset: 0, dice: self.n_steps };
            let todo = self.process.lease.step(input, now);
            if todo.contains(&Action::FollowLeap) {
                self.slewed.follow(wall, boot);
            }
            input = match self.process.perform(todo, Rules::Ours) {
                Some(Action::OpenSession) => {
                    self.process.session = Some(store.open_session());
                    Input::Session(Ok(()))
                }
                Some(Action::List) => Input::Listed(Ok(store.list())),
                Some(Action::Commit { txn, in_session }) => {
                    let session = self.process.session.filter(|_| in_session);
                    Input::Committed(store.commit(&txn, session))
                }
                Some(_) | None => return,
            };
        }
    }
}

/// When a mark is first further ahead than two clocks that agree could set it, if ever.
pub(super) fn first_poisoned(seed: u64) -> Option<Millis> {
    let dice = |n: u64| (seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20).wrapping_mul(n) >> 8;
    let leap = 1000 << (dice(3) % 29);
    // In every third run the clock is wrong from the beginning.
    let leaps_at = START + if seed.is_multiple_of(3) { 0 } else { dice(5) % 30_000 };
    let mut store = FakeStore::default();
    let terms = Terms::default();
    let mut good = Node::new(1, START, 0);
    good.turn(START, &mut store);
    let begins_at = START + 1000;
    let mut bad = Node::new(2, begins_at, if leaps_at == START { leap } else { 0 });
    let bound = terms.window + terms.ahead_max + LEAP;
    for now in (begins_at..START + 60_000).step_by(STEP as usize) {
        if now >= leaps_at {
            bad.ahead = leap;
        }
        good.turn(now, &mut store);
        bad.turn(now, &mut store);
        let marks = store.list().fresh;
        if marks.values().any(|fresh| fresh.value.until > now + bound) {
            return Some(now - START);
        }
    }
    None
}

#[test]
fn no_mark_follows_a_clock_that_leaps_away_from_the_others() {
    for seed in 1..=300 {
        assert_eq!(first_poisoned(seed), None, "seed {seed}");
    }
}
