//! Holes of the original that can be opened again, and other rules that can be switched off, to show
//! that the tests would notice.
//!
//! In a release every question here is the constant `false` and costs nothing.

/// A hole, by its number in the list of holes, or a rule by what is so without it.
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
    /// A leader that nobody elected has a token.
    UnelectedToken,
    /// A seed that leads by itself begins with version 1 again.
    VersionReset,
    /// A proposer does not count its own vote. In a storm all come back in the end, and then the
    /// others' votes are enough; where exactly a quorum is left they are not.
    OwnVoteUncounted,
    /// Of two connections to a peer both are kept.
    BothKept,
}

impl Mutant {
    /// Those of the machine, which storms find.
    pub const ALL: [Mutant; 7] = [
        Mutant::H1,
        Mutant::H4,
        Mutant::H7,
        Mutant::H9,
        Mutant::H15,
        Mutant::UnelectedToken,
        Mutant::VersionReset,
    ];
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
