//! Rules that the tests switch off, to show that they would notice. Outside of tests every question
//! here is the constant `false`.

#[cfg(test)]
mod tests;

/// A rule of the store's handles, by what is so without it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mutant {
    /// Readers remember fewer appends than a writer may have in flight.
    SmallWindow,
    /// A reader takes what it is woken for, instead of what comes next.
    WokenFor,
    /// An append whose answer was lost is sent again under another token.
    FreshTokens,
}

#[cfg(test)]
thread_local! {
    static SWITCHED_OFF: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

/// Whether the rule is switched off in this thread.
#[cfg(test)]
pub(crate) fn is_on(mutant: Mutant) -> bool {
    SWITCHED_OFF.get() == Some(mutant)
}

/// Never, outside of tests.
#[cfg(not(test))]
pub(crate) const fn is_on(_: Mutant) -> bool {
    false
}

/// Runs `body` with a rule switched off, or with none.
#[cfg(test)]
pub(crate) fn with_mutant<T>(mutant: Option<Mutant>, body: impl FnOnce() -> T) -> T {
    let before = SWITCHED_OFF.replace(mutant);
    let result = body();
    SWITCHED_OFF.set(before);
    result
}
