//! Rules that a test can switch off, to show that it would notice. Without the feature `mutants`
//! nothing can be switched.

/// A rule of the queues, by what is so without it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(not(any(test, feature = "mutants")), allow(unreachable_pub))]
pub enum Mutant {
    /// Who is no longer on a task's roster may still commit.
    Unfenced,
    /// What a transaction acknowledges and what it sends are two records.
    TwoRecords,
    /// A commit is answered before it is synced (the journal's rule, switched by its options).
    AnsweredFirst,
    /// A sync that failed is tried again (the journal's rule, switched by its options).
    SyncedAgain,
}

#[cfg(any(test, feature = "mutants"))]
thread_local! {
    static SWITCHED_OFF: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

/// Whether the rule is switched off in this thread.
#[cfg(any(test, feature = "mutants"))]
pub(crate) fn is_on(mutant: Mutant) -> bool {
    SWITCHED_OFF.get() == Some(mutant)
}

/// Never, in a release.
#[cfg(not(any(test, feature = "mutants")))]
pub(crate) const fn is_on(_: Mutant) -> bool {
    false
}

/// Runs `body` with a rule switched off, or with none, in this thread.
#[cfg(any(test, feature = "mutants"))]
pub fn with_mutant<T>(mutant: Option<Mutant>, body: impl FnOnce() -> T) -> T {
    /// Also when `body` panics.
    struct Restore(Option<Mutant>);
    impl Drop for Restore {
        fn drop(&mut self) {
            SWITCHED_OFF.set(self.0);
        }
    }
    let _restore = Restore(SWITCHED_OFF.replace(mutant));
    body()
}
