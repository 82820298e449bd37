//! The block that a thread holds of a shared generator while nobody else draws from it.
//!
//! Raising a word that others might raise costs eight nanoseconds where looking at one costs less than
//! one. So a thread that has refilled a shared generator a few times in a row gets the next block for
//! itself, under a *turn*: a number that never comes again. The generator shows whose turn it is.
//!
//! ```text
//!   holder:   turn is mine, and something is left? the next of mine
//!   another:  (locked) takes a block behind all others; turn = 0; then hands out from it
//! ```
//!
//! Ids still grow for everybody. Who sees that it is its turn takes part at that moment, before whoever
//! ends the turn; who looks after that sees that it is over, and what it held is dropped. Nobody can
//! tell the order of two calls that overlap, and of two that do not, the later one looks later.

use std::cell::Cell;

use super::sync::{AtomicU64, Ordering};

/// After how many refills in a row a thread gets a block for itself.
#[cfg(not(feature = "loom"))]
pub(crate) const REFILLS_MIN: u32 = 4;
#[cfg(feature = "loom")]
pub(crate) const REFILLS_MIN: u32 = 0;

/// How long after somebody came between nobody gets one: each time the rest of a block is lost.
pub(crate) const SHARED_FOR: u64 = 100;

/// Nobody's turn.
pub(crate) const NOBODY: u64 = 0;

/// Numbers that never come again, in the whole process: turns of all generators, and names of threads.
static NUMBERS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(NOBODY + 1);

pub(crate) fn number() -> u64 {
    NUMBERS.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

/// What this thread holds.
pub(crate) struct Held {
    turn: Cell<u64>,
    word: Cell<u64>,
    end: Cell<u64>,
    thread: Cell<u64>,
}

impl Held {
    const fn nothing() -> Held {
        // A turn that nobody ever has.
        let turn = Cell::new(u64::MAX);
        Held { turn, word: Cell::new(0), end: Cell::new(0), thread: Cell::new(0) }
    }
}

#[cfg(not(feature = "loom"))]
thread_local! {
    static HELD: Held = const { Held::nothing() };
}
#[cfg(feature = "loom")]
loom::thread_local! {
    static HELD: Held = Held::nothing();
}

/// Takes between one and `n` neighbouring words of what this thread holds, if it is its turn.
#[inline]
pub(crate) fn take(turn: &AtomicU64, n: u64) -> Option<(u64, u64)> {
    HELD.with(|held| {
        let (word, end) = (held.word.get(), held.end.get());
        let is_ours = turn.load(Ordering::Acquire) == held.turn.get();
        (is_ours && word < end).then(|| {
            let n = n.min(end - word);
            held.word.set(word + n);
            (word, n)
        })
    })
}

/// Whether the turn is this thread's.
pub(crate) fn is_ours(turn: u64) -> bool {
    HELD.with(|held| held.turn.get() == turn)
}

/// Holds words under a turn. What was held before, of whichever generator, is dropped.
pub(crate) fn hold(turn: u64, first: u64, n: u64) {
    HELD.with(|held| {
        held.turn.set(turn);
        held.word.set(first);
        held.end.set(first + n);
    });
}

/// A name for this thread.
pub(crate) fn thread() -> u64 {
    HELD.with(|held| {
        if held.thread.get() == 0 {
            held.thread.set(number());
        }
        held.thread.get()
    })
}
