//! Holes of the original that can be opened again, to show that the tests would notice.
//!
//! In a release every question here is the constant `false` and costs nothing.

/// A hole, by its number in the list of holes.
#[cfg_attr(not(any(test, feature = "mutants")), allow(unreachable_pub))]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutant {
    /// The proposer takes the value of the last promise, not that of the highest ballot.
    H1,
    /// Promises and votes are not kept: a voter that restarts has forgotten them.
    H4,
    /// A leader that hears of its successor goes on leading.
    H7,
    /// A leader never asks whether a quorum still hears it.
    H9,
    /// Two leaders are compared by version and address alone, whoever elected them.
    H15,
}

impl Mutant {
    /// Every one of them.
    pub const ALL: [Mutant; 5] = [Mutant::H1, Mutant::H4, Mutant::H7, Mutant::H9, Mutant::H15];
}

#[cfg(any(test, feature = "mutants"))]
std::thread_local! {
    static OPENED: core::cell::Cell<Option<Mutant>> = const { core::cell::Cell::new(None) };
}

/// Whether the hole is open in this thread.
#[cfg(any(test, feature = "mutants"))]
pub(crate) fn is_on(mutant: Mutant) -> bool {
    OPENED.get() == Some(mutant)
}

#[cfg(not(any(test, feature = "mutants")))]
pub(crate) const fn is_on(_mutant: Mutant) -> bool {
    false
}

/// Runs `body` with one hole open, or with none.
#[cfg(any(test, feature = "mutants"))]
pub fn with_mutant<T>(mutant: Option<Mutant>, body: impl FnOnce() -> T) -> T {
    let before = OPENED.replace(mutant);
    let result = body();
    OPENED.set(before);
    result
}
