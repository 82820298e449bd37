//! Rules that can be switched off, to show that the tests would notice.
//!
//! In a release every question here is the constant `false` and costs nothing.

#[cfg_attr(not(any(test, feature = "mutants")), allow(unreachable_pub))]
/// A rule of the join protocol, by what the cluster is like without it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutant {
    /// `accept-join-cluster` is taken as it comes, without asking whether it still makes sense.
    NoGuards,
    /// Watches change only at the commands that the documents list, instead of following the
    /// replica.
    EdgeWatches,
    /// A joiner that nobody can take does not look whether those who could are still alive.
    NoProbe,
}

#[cfg(any(test, feature = "mutants"))]
std::thread_local! {
    static SWITCHED_OFF: core::cell::Cell<Option<Mutant>> = const { core::cell::Cell::new(None) };
}

/// Whether the rule is switched off in this thread.
#[cfg(any(test, feature = "mutants"))]
pub(crate) fn is_on(mutant: Mutant) -> bool {
    SWITCHED_OFF.get() == Some(mutant)
}

#[cfg(not(any(test, feature = "mutants")))]
pub(crate) const fn is_on(_mutant: Mutant) -> bool {
    false
}

/// Runs `body` with one rule switched off, or with none.
#[cfg(any(test, feature = "mutants"))]
pub fn with_mutant<T>(mutant: Option<Mutant>, body: impl FnOnce() -> T) -> T {
    let before = SWITCHED_OFF.replace(mutant);
    let result = body();
    SWITCHED_OFF.set(before);
    result
}
