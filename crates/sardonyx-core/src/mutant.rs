//! Rules that can be switched off, to show that the tests would notice.
//!
//! In a release every question here is the constant `false` and costs nothing.

/// A rule that can be switched off, by what the cluster is like without it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutant {
    /// `accept-join-cluster` is taken as it comes, without asking whether it still makes sense.
    NoGuards,
    /// Watches change only at the commands that the documents list, instead of following the
    /// replica.
    EdgeWatches,
    /// A joiner that nobody can take does not look whether those who could are still alive.
    NoProbe,
    /// `prepare-join-cluster` is taken from somebody who is in or half in.
    PreparedTwice,
    /// `notify-join-cluster` and `notify-watchers` are taken for a join that is over.
    UncheckedNotify,
    /// A member that has a joiner is given another.
    BusyCandidate,
    /// A joiner does not watch the member at which it is stitched in.
    AnchorUnwatched,
    /// Joins go on after the member that they go through has left.
    JoinsOutliveLeave,
    /// A joiner whose join was forgotten waits on.
    NoAbortWhenForgotten,
    /// A joiner that nobody could take waits on.
    NoAbortWhenRefused,
    /// A peer that sees its own `leave-cluster` goes on.
    NoSelfStop,
    /// What a peer wants to say before it is in is said at once.
    Ungated,
    /// What a peer held back until it was in is said, whether it still makes sense or not.
    Uncollapsed,
    /// Idle peers look for work only when a job comes, as in the documents.
    IdleSleep,
    /// The right to seal a task outlives its holder.
    SealOutlivesSealer,
    /// A job may be submitted twice.
    SubmittedTwice,
    /// Jobs that were collected are forgotten without a trace.
    NoTombstone,
    /// The plan counts jobs that are over.
    EndedJobsPlanned,
    /// A protected job that can no longer be covered keeps its peers.
    CoverageKept,
    /// A peer that takes an origin or catches up does nothing about what it missed.
    NoReconcile,
    /// Who stitches a joiner in is not the same for everybody.
    Undetermined,
    /// A watch on a pulse that is absent already says nothing (the shell's rule).
    BlindWatches,
    /// A reader whose next entry is gone goes on with the first that is there (the shell's rule).
    SkippedGap,
    /// The watcher of a member that has a joiner is given a joiner too.
    WatcherTaken,
    /// A joiner whose notification was refused waits on.
    NoAbortWhenNotifyRefused,
    /// A joiner whose acceptance was refused waits on.
    NoAbortWhenAcceptRefused,
    /// A member whose old abort comes again tries to join once more.
    MemberAborts,
    /// Aborted joiners wait equally long.
    EvenWaits,
    /// Aborted joiners wait no longer for having failed before.
    SteadyWaits,
    /// The wait of an aborted joiner grows without end.
    EndlessWaits,
    /// A joiner that makes no progress has nobody's pulse checked.
    NoPeerGc,
    /// A volunteer that is no member is given a task.
    Ghosts,
    /// What a peer runs is guessed from the first list of peers that changed.
    TaskByShape,
    /// A task goes on until its peer is given another one.
    TaskOutlivesGrant,
    /// Only the last peer of a task may seal it, as in the documents.
    SealedByTheLast,
    /// The right to seal a task outlives the task.
    SealOutlivesTask,
    /// Completions are counted, and so many tasks from the first are taken for done.
    CompletionsByPlace,
    /// A killed job takes what everybody else runs with it.
    KillForgetsOthers,
    /// A job that is over can be killed.
    EndedTwice,
    /// Peers that a job cannot use go to jobs without a limit only, as in the documents.
    ExcessToUnlimited,
    /// The oldest jobs are first in the race for a hundred percent, not the largest.
    OldestSharesFirst,
    /// Peers lost by rounding shares, and all that nobody asked for, go to the largest job.
    LeftOversToTop,
    /// Peers are shared out by turns, whatever scheduler is configured.
    OneSchedulerForAll,
    /// Peers move so that the first of equals has one more.
    MovedForSymmetry,
    /// Every job is protected, also one that did not ask for it.
    CoverageForAll,
    /// An aborted joiner keeps its whole node waiting (the shell's rule).
    WaitsInLoop,
    /// Commands are appended before the effects that they claim (the shell's rule).
    CommandsFirst,
    /// A loop that failed leaves its pulses beating (the shell's rule).
    ZombieLoop,
    /// A process whose session is gone goes on (the shell's rule).
    SessionOutlived,
    /// What a task says counts after it was taken away (the shell's rule).
    StaleReports,
    /// A log that has grown is not trimmed by itself (the node's rule).
    NeverTrimmed,
    /// The origin is stored before the jobs that it does not hold (the node's rule).
    OriginBeforeJobs,
    /// An older origin replaces a newer one (the store's rule).
    OlderOriginWins,
    /// Entries are forgotten before the origin is stored (the store's rule).
    TrimBeforeOrigin,
    /// A joiner looks after others' pulses once, and then waits.
    CheckedOnce,
    /// Of the peers that are left over after an even share, only the numerator of the reduced
    /// fraction is handed out, as in the documents.
    ReducedRemainder,
    /// Peers lost by rounding shares stay idle.
    RoundedAway,
}

impl Mutant {
    /// Every rule that can be switched off.
    pub const ALL: [Mutant; 57] = [
        Mutant::NoGuards,
        Mutant::EdgeWatches,
        Mutant::NoProbe,
        Mutant::PreparedTwice,
        Mutant::UncheckedNotify,
        Mutant::BusyCandidate,
        Mutant::AnchorUnwatched,
        Mutant::JoinsOutliveLeave,
        Mutant::NoAbortWhenForgotten,
        Mutant::NoAbortWhenRefused,
        Mutant::NoSelfStop,
        Mutant::Ungated,
        Mutant::Uncollapsed,
        Mutant::IdleSleep,
        Mutant::SealOutlivesSealer,
        Mutant::SubmittedTwice,
        Mutant::NoTombstone,
        Mutant::EndedJobsPlanned,
        Mutant::CoverageKept,
        Mutant::NoReconcile,
        Mutant::Undetermined,
        Mutant::BlindWatches,
        Mutant::SkippedGap,
        Mutant::WatcherTaken,
        Mutant::NoAbortWhenNotifyRefused,
        Mutant::NoAbortWhenAcceptRefused,
        Mutant::MemberAborts,
        Mutant::EvenWaits,
        Mutant::SteadyWaits,
        Mutant::EndlessWaits,
        Mutant::NoPeerGc,
        Mutant::Ghosts,
        Mutant::TaskByShape,
        Mutant::TaskOutlivesGrant,
        Mutant::SealedByTheLast,
        Mutant::SealOutlivesTask,
        Mutant::CompletionsByPlace,
        Mutant::KillForgetsOthers,
        Mutant::EndedTwice,
        Mutant::ExcessToUnlimited,
        Mutant::OldestSharesFirst,
        Mutant::LeftOversToTop,
        Mutant::OneSchedulerForAll,
        Mutant::MovedForSymmetry,
        Mutant::CoverageForAll,
        Mutant::WaitsInLoop,
        Mutant::CommandsFirst,
        Mutant::ZombieLoop,
        Mutant::SessionOutlived,
        Mutant::StaleReports,
        Mutant::NeverTrimmed,
        Mutant::OriginBeforeJobs,
        Mutant::OlderOriginWins,
        Mutant::TrimBeforeOrigin,
        Mutant::CheckedOnce,
        Mutant::ReducedRemainder,
        Mutant::RoundedAway,
    ];
}

#[cfg(any(test, feature = "mutants"))]
std::thread_local! {
    static SWITCHED_OFF: core::cell::Cell<Option<Mutant>> = const { core::cell::Cell::new(None) };
    static ASKED: core::cell::Cell<u64> = const { core::cell::Cell::new(0) };
}

/// What a position must be moved by so that not everybody chooses the same: how often anybody has
/// asked, which is nobody's business.
#[cfg(any(test, feature = "mutants"))]
pub(crate) fn drift() -> u64 {
    let asked = ASKED.get() + 1;
    ASKED.set(asked);
    if is_on(Mutant::Undetermined) { asked } else { 0 }
}

/// Nothing, in a release.
#[cfg(not(any(test, feature = "mutants")))]
pub(crate) const fn drift() -> u64 {
    0
}

/// Whether the rule is switched off in this thread.
#[cfg(any(test, feature = "mutants"))]
pub fn is_on(mutant: Mutant) -> bool {
    SWITCHED_OFF.get() == Some(mutant)
}

#[cfg(not(any(test, feature = "mutants")))]
/// Never, in a release.
pub const fn is_on(_mutant: Mutant) -> bool {
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
