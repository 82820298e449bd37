//! Properties of every log, with shrinking: a failure comes with its smallest log.

use proptest::prelude::*;
use sardonyx_core::{Entry, JoinProtocol, Position, Replica, apply, diff, laws, wire};

use crate::{garbage::any_command, rng::Rng};

prop_compose! {
    /// A log of mostly senseless commands at growing positions.
    fn any_log()(seeds in prop::collection::vec(any::<u64>(), 0..80), gaps in 1..4_u64)
        -> Vec<Entry>
    {
        let entry = |(index, seed): (usize, u64)| Entry {
            position: Position(index as u64 * gaps),
            command: any_command(&mut Rng::new(seed)),
        };
        seeds.into_iter().enumerate().map(entry).collect()
    }
}

fn any_protocol() -> impl Strategy<Value = Option<JoinProtocol>> {
    prop_oneof![
        Just(None),
        Just(Some(JoinProtocol::TwoPhase)),
        Just(Some(JoinProtocol::ThreePhase))
    ]
}

proptest! {
    #[test]
    fn replay_from_any_origin_is_replay_from_zero(
        log in any_log(), protocol in any_protocol(), cut in any::<prop::sample::Index>(),
    ) {
        let cut = cut.index(log.len() + 1);
        let mut from_zero = Replica::configured(protocol, None);
        for entry in &log[..cut] {
            _ = from_zero.play(entry);
        }
        let origin = wire::replica_to_json(&from_zero);
        let mut from_origin = wire::replica_from_json(&origin).unwrap();
        prop_assert_eq!(&from_origin, &from_zero);
        for entry in &log[cut..] {
            prop_assert_eq!(from_origin.play(entry), from_zero.play(entry));
            prop_assert_eq!(wire::digest(&from_origin), wire::digest(&from_zero));
        }
    }

    #[test]
    fn peers_that_played_the_same_entries_are_equal(log in any_log(), protocol in any_protocol()) {
        // One keeps every replica, the other changes one in place.
        let mut in_place = Replica::configured(protocol, None);
        let mut history = vec![in_place.clone()];
        for entry in &log {
            let (next, outcome) = apply(history.last().unwrap(), entry);
            prop_assert_eq!(in_place.play(entry), outcome);
            prop_assert_eq!(&in_place, &next);
            laws::check(&next).unwrap();
            history.push(next);
        }
        // What was kept did not change behind our back.
        let mut again = Replica::configured(protocol, None);
        for (entry, kept) in log.iter().zip(&history) {
            prop_assert_eq!(&again, kept);
            _ = again.play(entry);
        }
    }

    #[test]
    fn a_difference_is_empty_exactly_when_nothing_changed(log in any_log()) {
        let mut replica = Replica::new();
        for entry in &log {
            let (next, _) = apply(&replica, entry);
            prop_assert_eq!(diff(&replica, &next).is_empty(), replica == next);
            replica = next;
        }
    }

    #[test]
    fn both_forms_of_a_command_read_back(seed in any::<u64>(), position in any::<u64>()) {
        let command = any_command(&mut Rng::new(seed));
        let bytes = wire::command_to_bytes(&command).unwrap();
        prop_assert_eq!(wire::command_from_bytes(&bytes), Ok(command.clone()));
        let entry = Entry { position: Position(position), command };
        prop_assert_eq!(wire::entry_from_json(&wire::entry_to_json(&entry)), Ok(entry));
    }
}
