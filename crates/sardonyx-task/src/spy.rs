//! Spies: every phase of a task can be watched, and a test can end the process there.

use arrow::array::RecordBatch;
use sardonyx_queue::Place;

/// What a task goes through with each batch, in this order; the last three once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Phase {
    /// A session was opened.
    OpenSession,
    /// Messages or rows were read.
    ReadBatch,
    /// They are record batches now.
    Decode,
    /// A sentinel was taken out of what was read.
    StripSentinel,
    /// The sentinel waits for what is still queued or in flight; it stays where it is.
    RequeueSentinel,
    /// The function made something of them.
    ApplyFunction,
    /// It is known where the results go.
    Route,
    /// The results are in the form in which they travel.
    Encode,
    /// The transaction is complete: what is sent, acknowledged and remembered.
    Write,
    /// The transaction was committed.
    Commit,
    /// The session was closed.
    CloseSession,
    /// All input has ended and everything downstream was told.
    Seal,
    /// The task is about to say that it is complete.
    Complete,
}

impl Phase {
    /// All of them, in order.
    pub const ALL: [Phase; 13] = [
        Phase::OpenSession,
        Phase::ReadBatch,
        Phase::Decode,
        Phase::StripSentinel,
        Phase::RequeueSentinel,
        Phase::ApplyFunction,
        Phase::Route,
        Phase::Encode,
        Phase::Write,
        Phase::Commit,
        Phase::CloseSession,
        Phase::Seal,
        Phase::Complete,
    ];

    /// As it is written on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Phase::OpenSession => "open-session",
            Phase::ReadBatch => "read-batch",
            Phase::Decode => "decode",
            Phase::StripSentinel => "strip-sentinel",
            Phase::RequeueSentinel => "requeue-sentinel",
            Phase::ApplyFunction => "apply-function",
            Phase::Route => "route",
            Phase::Encode => "encode",
            Phase::Write => "write",
            Phase::Commit => "commit",
            Phase::CloseSession => "close-session",
            Phase::Seal => "seal",
            Phase::Complete => "complete",
        }
    }
}

/// Sees what a task does. Called in the middle of the work: be quick.
pub trait Spy: Send + Sync {
    /// `place` has just been through `phase`, with these rows if it is about rows.
    fn saw(&self, place: &Place, phase: Phase, rows: Option<&RecordBatch>);
}

/// Sees nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSpy;

impl Spy for NoSpy {
    fn saw(&self, _: &Place, _: Phase, _: Option<&RecordBatch>) {}
}
