//! A clock that is far ahead, and nobody there to say so: after an outage of the store all leases are
//! gone at once, and whoever comes first must not be the one whose clock is wrong.

use sardonyx_store::Version;

use crate::{
    EPOCH, Layout, YEAR,
    lease::{
        Action, Input, Lease, Now, Problem, Terms,
        record::{Fresh, Held, Listing, Live},
    },
};

const LAST: u64 = EPOCH + YEAR;

fn listing(is_released: bool, is_there: bool) -> Listing {
    let version = Version(7);
    let owner = "good".to_owned();
    let fresh = Fresh {
        until: LAST,
        from: EPOCH,
        owner: owner.clone(),
        attempt: "1".into(),
        offset: 0,
        is_released,
    };
    let mut listing = Listing { layout: Some(Layout::default()), ..Listing::default() };
    listing.fresh.insert(5, Held { value: fresh, version });
    if is_there {
        let value = Live { owner, name: String::new(), since: EPOCH };
        listing.live.insert(5, Held { value, version });
    }
    listing
}

/// A machine with a session, and a step that shows it a listing.
struct Bench {
    lease: Lease,
    clock: u64,
}

impl Bench {
    fn new(clock: u64) -> Bench {
        let lease = Lease::new(Layout::default(), Terms::default(), "me".into()).expect("a layout");
        let mut bench = Bench { lease, clock };
        bench.step(Input::Tick, 0);
        bench.step(Input::Session(Ok(())), 0);
        bench
    }

    fn step(&mut self, input: Input, boot: u64) -> Vec<Action> {
        self.lease.step(input, Now { clock: self.clock + boot, boot, offset: 0, dice: 11 })
    }

    /// Whether it asks for a number when it sees this.
    fn claims(&mut self, listing: Listing, boot: u64) -> bool {
        let todo = self.step(Input::Listed(Ok(listing)), boot);
        todo.iter().any(|it| matches!(it, Action::Commit { .. }))
    }
}

#[test]
fn with_nobody_there_a_clock_far_ahead_waits_for_those_who_may_come_back() {
    let window = Terms::default().window;
    let mut bench = Bench::new(LAST + 10 * YEAR);
    assert!(!bench.claims(listing(false, false), 0));
    assert!(matches!(bench.lease.problem(), Some(Problem::ClockDoubted { .. })));
    assert!(!bench.claims(listing(false, false), window - 1));
    // The good one is back: now it is known who is wrong.
    assert!(!bench.claims(listing(false, true), window + 5));
    assert!(matches!(bench.lease.problem(), Some(Problem::ClockAhead { .. })));
    // Gone again: the wait begins anew, since it was there a moment ago.
    let mut moved = listing(false, false);
    moved.fresh.get_mut(&5).expect("there").value.until += 3000;
    assert!(!bench.claims(moved.clone(), window + 10));
    assert!(!bench.claims(moved.clone(), 2 * window + 9));
    assert!(bench.claims(moved, 2 * window + 10));
}

#[test]
fn nobody_waits_after_a_goodbye_or_a_short_while() {
    assert!(Bench::new(LAST + 10 * YEAR).claims(listing(true, false), 0), "it was given back");
    let day = Terms::default().doubt_min;
    assert!(Bench::new(LAST + day - 1).claims(listing(false, false), 0));
    assert!(!Bench::new(LAST + day).claims(listing(false, false), 0));
    let empty = Listing { layout: Some(Layout::default()), ..Listing::default() };
    assert!(Bench::new(LAST + 10 * YEAR).claims(empty, 0), "nobody was ever there");
}
