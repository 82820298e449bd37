//! What a reader remembers, against a reader that remembers everything.

use std::collections::BTreeSet;

use super::*;

fn token(writer: u64, number: u64) -> Token {
    Token { writer, number }
}

#[test]
fn copies_are_dropped_in_any_order_within_the_window() {
    let (mut seen, mut all) = (Seen::default(), BTreeSet::new());
    let (mut random, mut base, mut highest) = (1_u64, 1, [0; 4]);
    for position in 0..100_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        if random >> 60 < 4 {
            base += 1;
        }
        let number = base + (random >> 33) % (APPENDS_IN_FLIGHT_MAX - 1);
        let writer = (random >> 40 & 3) as usize;
        highest[writer] = number.max(highest[writer]);
        // Its writer promises not to send what lies further back.
        if highest[writer] - number < APPENDS_IN_FLIGHT_MAX {
            let is_new = seen.note(token(writer as u64, number), Position(position));
            assert_eq!(is_new, all.insert((writer, number)), "{number} of {writer}");
        }
    }
}

#[test]
fn what_is_far_back_counts_as_seen() {
    let mut seen = Seen::default();
    assert!(seen.note(token(1, 5000), Position(0)));
    assert!(!seen.note(token(1, 5000 - APPENDS_IN_FLIGHT_MAX), Position(1)));
    assert!(seen.note(token(1, 5001 - APPENDS_IN_FLIGHT_MAX), Position(2)));
    assert!(!seen.note(token(1, 5001 - APPENDS_IN_FLIGHT_MAX), Position(3)));
}

#[test]
fn what_is_stored_is_remembered_as_it_was() {
    let mut seen = Seen::default();
    for (position, number) in [1, 63, 64, 2, 1023, 1024, 1087, 5000, 4500].into_iter().enumerate() {
        assert!(seen.note(token(number % 2, number), Position(position as u64)));
        let stored = postcard::to_stdvec(&seen).unwrap();
        assert_eq!(postcard::from_bytes::<Seen>(&stored).unwrap(), seen);
    }
    assert!(seen.note(token(9, 0), Position(9)), "nobody of ours writes it");
    // Every word is in it, one byte each: as long as this for whoever reads it, old and new.
    let mut once = Seen::default();
    assert!(once.note(token(1, 1), Position(1)));
    assert_eq!(postcard::to_stdvec(&once).unwrap().len(), 4 + WORDS);
    assert_eq!(once.writers[&1].bits.capacity(), 1, "but in memory only what is needed");
}

#[test]
fn the_writer_that_was_silent_for_longest_is_forgotten() {
    let mut seen = Seen::default();
    for writer in 0..WRITERS_MAX as u64 {
        assert!(seen.note(token(writer, 1), Position(writer)));
    }
    assert!(seen.note(token(0, 2), Position(9000)), "the first one speaks again");
    assert!(seen.note(token(77_777, 1), Position(9001)));
    assert_eq!(seen.n_writers(), WRITERS_MAX);
    assert!(!seen.note(token(0, 1), Position(9002)), "it is remembered");
    assert!(seen.note(token(1, 1), Position(9003)), "the next one is forgotten");
}

#[tokio::test]
async fn unsettled_appends_stay_close_together() {
    let writer = Writer::new().unwrap();
    let first = writer.begin().await;
    for _ in 1..APPENDS_IN_FLIGHT_MAX {
        drop(writer.begin().await);
    }
    let too_far = tokio::time::timeout(std::time::Duration::from_millis(20), writer.begin());
    assert!(too_far.await.is_err(), "the first one is not settled yet");
    drop(first);
    assert_eq!(writer.begin().await.token.number, APPENDS_IN_FLIGHT_MAX + 1);
}
