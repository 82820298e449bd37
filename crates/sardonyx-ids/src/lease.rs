//! The right to a worker number: a machine that is told what happened and says what to do.
//!
//! ```text
//!            ┌────────── refused: try another ──────────┐
//!   session ─▼─ list ── pick ── claim ──── held ── extend ─┐ every few seconds, or when half of
//!     ▲         ▲ │                         │ ▲            │ the window is left
//!     │         │ └─ none free: wait, say so │ └────────────┘
//!     └─ lost ──┴───────── refused: seal ◄──┘      stop: seal, release
//! ```
//!
//! Safety does not hang on the lease. Before a time is used, a mark behind it is made durable
//! (`until`); nothing at or behind the mark is handed out, and a successor begins at it. Marks of
//! one number form a chain: every write names the version of the one before, so of two writers one
//! is refused, whoever is late, paused, cut off or copied. The lease only says when others may try.
//!
//! - An answer that does not come means "not extended" until the store shows our attempt.
//! - A lost session is replaced while ids go on below the mark, and the number is claimed back on
//!   the condition that nobody wrote since.
//! - A number lost to another is sealed at once; the next one is sought without a restart.
//!
//! Not here: requests, clocks and sleeping (`keeper`), and which ticks are free (`generator`).

mod pick;
pub mod record;
#[cfg(test)]
pub(crate) mod shape;
pub(crate) mod step;
pub(crate) mod write;

use std::fmt;

use sardonyx_store::{Txn, Version};

use crate::layout::{BadLayout, Layout, Millis};
use record::{Fresh, Listing};

/// What a keeper can be told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Terms {
    /// How far ahead of the clock the mark is set. The longest outage of the store that nobody
    /// notices is this minus `period`.
    pub window: Millis,
    /// How often the mark is moved.
    pub period: Millis,
    /// Our clock may be ahead of those of the other holders by so much; beyond it nothing is
    /// written.
    pub ahead_max: Millis,
    /// With nobody there, a clock that is ahead of the last mark by so much is doubted: others may have
    /// lost their leases all at once, so it waits for them, as long as their marks may reach.
    pub doubt_min: Millis,
    /// How long to wait before looking for a free number again, about.
    pub retry: Millis,
    /// How long before the end of its times a layout is refused.
    pub left_min: Millis,
    /// What we call ourselves in the store.
    pub name: String,
}

impl Default for Terms {
    fn default() -> Self {
        Terms {
            window: 15_000,
            period: 3_000,
            ahead_max: 10_000,
            doubt_min: 86_400_000,
            retry: 500,
            left_min: crate::layout::YEAR,
            name: String::new(),
        }
    }
}

/// Why there is no number, or none any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Problem {
    /// Not there yet.
    Joining,
    /// Every number is held, retired or reserved. Keeps trying; a number comes free when a holder
    /// leaves.
    AtCapacity {
        /// How many numbers the layout has.
        workers: u32,
    },
    /// The other holders' clocks are far behind ours: ours is wrong, or all of theirs are. Nothing
    /// is written until they agree.
    ClockAhead {
        /// How far.
        by: Millis,
    },
    /// Nobody is there, and the last who was stopped without a word, long before what our clock shows.
    /// If it comes back, it knows better.
    ClockDoubted {
        /// How far our clock is ahead of the last mark.
        by: Millis,
        /// How long it still waits.
        wait: Millis,
    },
    /// The cluster has another layout. Start with that one, or in another cluster.
    OtherLayout {
        /// What the cluster has.
        theirs: Layout,
    },
    /// The layout's times end soon, or have not begun: a new cluster with another epoch is needed,
    /// or a clock is wrong.
    OutOfTime {
        /// What is left.
        left: Millis,
    },
    /// The store does not answer. Ids go on up to the mark.
    Store(String),
    /// What the store holds is not ours. Nothing is written; a person decides.
    Unreadable(String),
    /// It was stopped.
    Stopped,
}

impl Problem {
    /// Whether it can pass by itself.
    pub fn is_transient(&self) -> bool {
        match self {
            Problem::Joining
            | Problem::AtCapacity { .. }
            | Problem::ClockAhead { .. }
            | Problem::ClockDoubted { .. }
            | Problem::Store(_) => true,
            Problem::OtherLayout { .. }
            | Problem::OutOfTime { .. }
            | Problem::Unreadable(_)
            | Problem::Stopped => false,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Joining => f.write_str("no worker number yet: joining"),
            Problem::AtCapacity { workers } => write!(
                f,
                "at capacity: all {workers} worker numbers are in use; waiting until one is free"
            ),
            Problem::ClockAhead { by } => write!(
                f,
                "this machine's clock is {} s ahead of the cluster's; set it right",
                by / 1000
            ),
            Problem::ClockDoubted { by, wait } => write!(
                f,
                "the last id is from {} days before this machine's clock, and whoever made it did not \
                 say goodbye; waiting {} s in case it comes back",
                by / 86_400_000,
                wait.div_ceil(1000)
            ),
            Problem::OtherLayout { theirs } => write!(
                f,
                "the cluster's ids have {} bits of time, {} of worker, {} of sequence, from {}; \
                 use the same or another cluster",
                theirs.time_bits, theirs.worker_bits, theirs.sequence_bits, theirs.epoch
            ),
            Problem::OutOfTime { left } => write!(
                f,
                "the layout's times end in {} days or the clock is before its epoch; \
                 begin a cluster with a later epoch",
                left / 86_400_000
            ),
            Problem::Store(why) => f.write_str(why),
            Problem::Unreadable(why) => write!(f, "{why}; a person must decide"),
            Problem::Stopped => f.write_str("stopped"),
        }
    }
}

/// Something for the machine.
#[derive(Clone, PartialEq, Debug)]
pub enum Input {
    /// Time has passed.
    Tick,
    /// The request for a session went well, or not.
    Session(Result<(), Problem>),
    /// The session is over; what hung on it is gone or will be.
    SessionLost,
    /// What the listing showed.
    Listed(Result<Listing, Problem>),
    /// What became of the transaction.
    Committed(Answer),
    /// The wall clock has leapt ahead and stayed there; it shows this time.
    Leap(Millis),
    /// Stop. The generator is sealed; nothing at or behind this time was handed out.
    Stop(Millis),
}

/// What became of a transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Carried out; the versions of what was written.
    Done(Vec<Version>),
    /// A condition did not hold.
    Refused,
    /// Nobody knows, yet.
    Unknown(String),
    /// The session was gone: nothing was written.
    NoSession,
}

/// Something to do. In the order given; at most one of them is a request, and it is the last.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Request: open a session, in place of any that was.
    OpenSession,
    /// Request: list everything below [`record::PREFIX`].
    List,
    /// Request: carry out a transaction.
    Commit {
        /// Which.
        txn: Txn,
        /// Whether it needs the session.
        in_session: bool,
    },
    /// The generator may hand out `from .. until` as this worker.
    Open {
        /// The worker number.
        number: u32,
        /// From here.
        from: Millis,
        /// To before here.
        until: Millis,
    },
    /// The generator may go on to before here.
    Extend(Millis),
    /// The generator must stop at once: the number is another's.
    Seal,
    /// The wall clock's leap is believed.
    FollowLeap,
    /// End the session; there is nothing more to do.
    Close,
}

/// The clocks and the dice, at the moment of an input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Now {
    /// The steady clock, in milliseconds since 1970.
    pub clock: Millis,
    /// The boot clock.
    pub boot: Millis,
    /// How far the wall clock is ahead of the steady one.
    pub offset: i64,
    /// A random number.
    pub dice: u64,
}

/// The machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lease {
    layout: Layout,
    terms: Terms,
    owner: String,
    session: Session,
    term: Option<Term>,
    /// Writes of ours whose fate is unknown. One may yet show up in the store.
    unknown: Vec<Fresh>,
    asked: Asked,
    problem: Option<Problem>,
    /// Not before this time on the boot clock, unless something happens.
    rest_until: Millis,
    leap: Option<Millis>,
    stop: Option<Millis>,
    /// The mark that makes us doubt our clock, and since when on the boot clock.
    doubt: Option<(Millis, Millis)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Session {
    None,
    Open,
}

/// A number that we hold.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Term {
    hold: write::Hold,
    from: Millis,
    until: Millis,
    /// Whether the liveness key hangs on the present session.
    is_attached: bool,
}

/// The request whose answer we wait for.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Asked {
    Nothing,
    /// Since when, on the boot clock.
    Session(Millis),
    List,
    Claim(u32, Fresh),
    Extend(Fresh),
    Layout,
    Release,
    Ended,
}

impl Lease {
    /// A machine that holds nothing yet. `owner` must be new for every process.
    pub fn new(layout: Layout, terms: Terms, owner: String) -> Result<Lease, BadLayout> {
        Ok(Lease {
            layout: layout.check()?,
            terms,
            owner,
            session: Session::None,
            term: None,
            unknown: Vec::new(),
            asked: Asked::Nothing,
            problem: Some(Problem::Joining),
            rest_until: 0,
            leap: None,
            stop: None,
            doubt: None,
        })
    }

    /// The number that is held.
    pub fn number(&self) -> Option<u32> {
        self.term.as_ref().map(|term| term.hold.number)
    }

    /// Why there is no number, or what stands in the way of keeping it.
    pub fn problem(&self) -> Option<&Problem> {
        self.problem.as_ref()
    }

    /// Whether it waits for an answer.
    pub fn is_waiting(&self) -> bool {
        self.asked != Asked::Nothing
    }

    /// Whether it has stopped for good.
    pub fn has_ended(&self) -> bool {
        self.asked == Asked::Ended
    }

    /// When to tick it next, on the boot clock.
    pub fn rest_until(&self) -> Millis {
        self.rest_until
    }
}
