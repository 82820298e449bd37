//! Properties of layout, text, generator, shared handle and clock.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use proptest::prelude::*;

use crate::{
    Clock, EPOCH, Form, Generator, Id, Layout, Local, Look, Parts, Refusal, Shared, Slack, Slewed,
};

fn layouts() -> impl Strategy<Value = Layout> {
    (36_u8..=60, 1_u8..=25).prop_filter_map("63 bits", |(time_bits, worker_bits)| {
        let sequence_bits = 63_u8.checked_sub(time_bits + worker_bits)?;
        Layout { time_bits, worker_bits, sequence_bits, epoch: EPOCH }.check().ok()
    })
}

proptest! {
    #[test]
    fn an_id_says_what_it_was_made_of(layout in layouts(), a in 0.0..1.0, b in 0.0..1.0, c in 0.0..1.0) {
        let part = |bits: u8, share: f64| (share * ((1_u64 << bits) as f64)) as u64;
        let time = EPOCH + part(layout.time_bits.min(50), a);
        let (worker, sequence) = (part(layout.worker_bits, b), part(layout.sequence_bits, c));
        let parts = Parts { time, worker: worker as u32, sequence: sequence as u32 };
        let id = layout.compose(parts).expect("room");
        prop_assert_eq!(layout.decode(id), parts);
        prop_assert_eq!(id.bits() >> 63, 0);
    }

    #[test]
    fn text_comes_back_and_sorts(a in 0..u64::MAX >> 1, b in 0..u64::MAX >> 1) {
        let (a, b) = (Id::from_bits(a).expect("63 bits"), Id::from_bits(b).expect("63 bits"));
        for form in [Form::Decimal, Form::Base32, Form::Base62] {
            prop_assert_eq!(form.read(&form.write(a)), Ok(a));
        }
        for form in [Form::Base32, Form::Base62] {
            prop_assert_eq!(form.write(a).cmp(&form.write(b)), a.cmp(&b));
        }
    }

    /// Whatever the clock does, ticks grow, stay in the window, and stay near the clock.
    #[test]
    fn ticks_grow_and_stay_in_the_window(
        steps in prop::collection::vec((-30_i64..60, 1_u64..9000, any::<bool>()), 1..200),
        max_future in 0_u64..3,
    ) {
        let layout = Layout::default();
        let mut generator = Generator::new(&layout, Slack { credit: 20, max_future });
        let (mut now, mut highest, mut last) = (EPOCH + 1000, 0, None);
        let mut until = now + 500;
        generator.open(now, until);
        for (step, n, extend) in steps {
            now = now.saturating_add_signed(step);
            highest = highest.max(now);
            if extend {
                until = until.max(now + 200);
                generator.extend(until);
            }
            let Ok(run) = generator.take(now, n) else { continue };
            prop_assert!(now < until && run.n <= n && run.n > 0);
            prop_assert!(last.is_none_or(|last| run.first > last));
            let end = run.first + run.n - 1;
            prop_assert!(layout.time(end) < until && layout.time(end) <= now + max_future);
            prop_assert!(layout.time(run.first) + 20 >= now);
            last = Some(end);
        }
        let sealed = generator.seal();
        prop_assert!(last.is_none_or(|last| layout.time(last) < sealed));
        prop_assert_eq!(generator.take(now, 1), Err(Refusal::Closed));
    }

    /// A clock that steps back is ridden out: our time never goes back and never stands still.
    #[test]
    fn our_time_goes_on(steps in prop::collection::vec((-5000_i64..400, 50_u64..300), 1..100)) {
        let (mut wall, mut boot) = (EPOCH, 77_u64);
        let mut slewed = Slewed::new(wall, boot);
        for (step, pause) in steps {
            let before = slewed.at(boot);
            boot += pause;
            wall = (wall + pause).saturating_add_signed(step);
            slewed.look(wall, boot);
            prop_assert!(slewed.at(boot) >= before + pause * 8 / 10);
        }
    }
}

#[test]
fn a_leap_is_not_followed_by_itself() {
    let mut slewed = Slewed::new(EPOCH, 0);
    let years = 10 * crate::YEAR;
    assert_eq!(slewed.look(EPOCH + years, 100), Look::Follows((years - 100) as i64));
    assert_eq!(slewed.at(100), EPOCH + 100);
    assert!(matches!(slewed.look(EPOCH + years, 10_100), Look::Leap(_)));
    assert_eq!(slewed.at(10_100), EPOCH + 10_100);
}

#[test]
fn the_end_of_the_layout_is_an_error_and_no_wrap() {
    let layout = Layout::default();
    let mut generator = Generator::new(&layout, Slack::default());
    generator.open(layout.end() - 1, u64::MAX);
    let run = generator.take(layout.end() - 1, u64::MAX).expect("the last millisecond");
    assert_eq!(layout.id(run.first + run.n - 1, 1023).bits(), u64::MAX >> 1);
    assert_eq!(generator.take(layout.end(), 1), Err(Refusal::Closed));
    assert_eq!(layout.compose(Parts { time: layout.end(), worker: 0, sequence: 0 }), None);
    assert_eq!(layout.compose(Parts { time: EPOCH, worker: 1024, sequence: 0 }), None);
}

#[test]
fn a_caller_that_was_away_gets_what_it_missed() {
    let layout = Layout::default();
    let mut generator = Generator::new(&layout, Slack::default());
    let now = EPOCH + 1000;
    generator.open(now, now + 10_000);
    assert_eq!(generator.take(now, 5000).map(|run| run.n), Ok(4096));
    // Fifteen milliseconds were slept through; all of them can be had.
    assert_eq!(generator.take(now + 15, u64::MAX).map(|run| run.n), Ok(15 * 4096));
    // Somebody who asks for little gets the present.
    let later = generator.take(now + 5000, 1).expect("an id");
    assert_eq!(layout.time(later.first), now + 5000);
}

struct Hand(AtomicU64);

impl Clock for Hand {
    fn now(&self) -> u64 {
        // Every reading is a little later, so that threads meet all edges.
        self.0.fetch_add(1, Ordering::Relaxed) / 8
    }
}

#[test]
fn threads_share_a_generator() {
    let hand = Hand(AtomicU64::new((EPOCH + 1000) * 8));
    let shared = Arc::new(Shared::new(Layout::default(), Slack::default(), hand));
    shared.open(3, EPOCH, u64::MAX);
    let take = |kind: usize| {
        let shared = Arc::clone(&shared);
        std::thread::spawn(move || {
            let (mut local, mut ids) = (Local::new(Arc::clone(&shared)), Vec::new());
            while ids.len() < 200_000 {
                match kind {
                    0 => ids.extend(local.next()),
                    1 => ids.extend(shared.next()),
                    2 => ids.extend(shared.range(100).iter().flat_map(|it| it.iter())),
                    _ => {
                        let mut some = [Id::default(); 300];
                        let n = shared.fill(&mut some).unwrap_or(0);
                        ids.extend(&some[..n]);
                        shared.refresh();
                    }
                }
            }
            assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "handle {kind} goes back");
            ids
        })
    };
    let threads: Vec<_> = (0..4).map(take).collect();
    let mut ids: Vec<_> = threads.into_iter().flat_map(|it| it.join().expect("a thread")).collect();
    let n = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), n, "an id twice");
}

/// Whoever draws after another has drawn gets a larger id: one at a time, from several threads that
/// stay alone for a while and then meet, with ranges and with blocks taken back in between.
#[test]
fn ids_grow_from_thread_to_thread() {
    let shared = Shared::new(
        Layout::default(),
        Slack { credit: 20, max_future: 60_000 },
        Ticking::default(),
    );
    shared.open(1, 0, u64::MAX);
    let last = std::sync::Mutex::new(0);
    std::thread::scope(|scope| {
        for thread in 0..3_u64 {
            let (shared, last) = (&shared, &last);
            scope.spawn(move || {
                for round in 0..300_u64 {
                    let mut last = last.lock().unwrap();
                    // Long enough to be given a block for oneself, and to be in the middle of it.
                    for draw in 0..(round * 37 + thread * 11) % 400 {
                        let id = match (round + draw) % 97 {
                            0 => shared.range(3).map(|range| range.iter().last().unwrap()),
                            1 => {
                                shared.refresh();
                                shared.next()
                            }
                            _ => shared.next(),
                        };
                        let id = id.unwrap().bits();
                        assert!(id > *last, "{id:x} after {:x}", *last);
                        *last = id;
                    }
                }
            });
        }
    });
}

/// A millisecond for every hundred looks.
#[derive(Default)]
struct Ticking(std::sync::atomic::AtomicU64);

impl Clock for Ticking {
    fn now(&self) -> u64 {
        EPOCH + 1000 + self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed) / 100
    }
}
