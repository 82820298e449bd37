//! Rules that a test can switch off, to show that it would notice. Without the feature `mutants`
//! nothing can be switched.

/// A rule of the pipeline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutant {
    /// A queue is drained when nothing is ready, whatever is in flight.
    ReadyOnly,
    /// Groups are emitted by every sealer.
    EmitAgain,
    /// How far a split was read is not remembered.
    NoPosition,
    /// The queues are not told who has left.
    NoAnnounce,
    /// Splits are planned by every peer that begins.
    PlanAgain,
    /// A task is drained when one of its inputs is.
    FirstDrained,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Mutant; 6] = [
        Mutant::ReadyOnly,
        Mutant::EmitAgain,
        Mutant::NoPosition,
        Mutant::NoAnnounce,
        Mutant::PlanAgain,
        Mutant::FirstDrained,
    ];
}

#[cfg(feature = "mutants")]
thread_local! {
    static SWITCHED: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

/// Whether this rule is switched off, in this thread.
#[cfg(feature = "mutants")]
pub(crate) fn is_on(mutant: Mutant) -> bool {
    SWITCHED.get() == Some(mutant)
}

/// Whether this rule is switched off, in this thread.
#[cfg(not(feature = "mutants"))]
pub(crate) fn is_on(_: Mutant) -> bool {
    false
}

/// Runs something with a rule switched off, in this thread.
#[cfg(feature = "mutants")]
pub fn with<T>(mutant: Mutant, run: impl FnOnce() -> T) -> T {
    struct Off;
    impl Drop for Off {
        fn drop(&mut self) {
            SWITCHED.set(None);
        }
    }
    SWITCHED.set(Some(mutant));
    let _off = Off;
    run()
}
