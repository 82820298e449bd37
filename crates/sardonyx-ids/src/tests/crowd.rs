//! Many who seek a number at the same moment: whoever meets them stands back, and nobody else waits.

use crate::{
    EPOCH, Layout, YEAR,
    lease::{
        Action, Answer, Input, Lease, Now, Terms,
        record::Listing,
        step::{CROWD_MAX, SLOW},
    },
};

const DICE: u64 = 77;

fn step(lease: &mut Lease, input: Input, boot: u64) -> Vec<Action> {
    lease.step(input, Now { clock: EPOCH + YEAR + boot, boot, offset: 0, dice: DICE })
}

/// A machine whose session took so long to open, and what it does then.
fn opened_after(millis: u64) -> (Lease, Vec<Action>) {
    let mut lease = Lease::new(Layout::default(), Terms::default(), "me".into()).expect("a layout");
    step(&mut lease, Input::Tick, 0);
    let todo = step(&mut lease, Input::Session(Ok(())), millis);
    (lease, todo)
}

fn lists(todo: &[Action]) -> bool {
    matches!(todo, [Action::List])
}

#[test]
fn whoever_is_answered_soon_goes_on_at_once() {
    assert!(lists(&opened_after(0).1));
    assert!(lists(&opened_after(SLOW - 1).1));
}

#[test]
fn whoever_is_answered_late_waits_for_up_to_as_long_again() {
    for (took, rest) in [(SLOW, DICE), (DICE + 1000, DICE), (100 * CROWD_MAX, DICE % CROWD_MAX)] {
        let (mut lease, todo) = opened_after(took);
        assert!(todo.is_empty(), "{took}");
        assert!(step(&mut lease, Input::Tick, took + rest - 1).is_empty(), "{took}");
        assert!(lists(&step(&mut lease, Input::Tick, took + rest)), "{took}");
    }
}

#[test]
fn whoever_loses_a_number_or_the_founding_looks_again_a_little_later() {
    let layouts = [None, Some(Layout::default())];
    for layout in layouts {
        let (mut lease, _) = opened_after(0);
        let listing = Listing { layout, ..Listing::default() };
        let todo = step(&mut lease, Input::Listed(Ok(listing)), 0);
        assert!(matches!(todo[..], [Action::Commit { .. }]), "{layout:?}");
        assert!(step(&mut lease, Input::Committed(Answer::Refused), 1).is_empty());
        let rest = DICE % (Terms::default().retry / 2);
        assert!(step(&mut lease, Input::Tick, rest).is_empty());
        assert!(lists(&step(&mut lease, Input::Tick, 1 + rest)));
    }
}

#[test]
fn whoever_stops_meanwhile_does_not_wait() {
    let (mut lease, _) = opened_after(0);
    let listing = Listing { layout: Some(Layout::default()), ..Listing::default() };
    step(&mut lease, Input::Listed(Ok(listing)), 0);
    step(&mut lease, Input::Stop(0), 1);
    let todo = step(&mut lease, Input::Committed(Answer::Refused), 2);
    assert!(!todo.is_empty());
}
