//! The suite that every backend runs.
//!
//! ```text
//! sardonyx_queue::suite!(memory, Arena::memory());
//! ```
//!
//! Each scenario is a function of an [`Arena`]; [`suite!`](crate::suite!) makes tests of them. A new
//! backend adds an arena and one such line. Scenarios wait for conditions with a bound, never for a
//! time to pass, except where silence itself is what is tested.

mod arena;
mod commits;
mod keys;
mod limits;
pub mod nats;
mod order;
mod owners;
mod workers;

use std::{sync::atomic::AtomicU64, time::Duration};

use bytes::Bytes;

pub use arena::Arena;
pub use commits::{
    a_commit_is_all_or_nothing, commits_keep_their_order, segments_arrive_as_they_were,
    what_is_refused_leaves_no_trace,
};
pub use keys::{a_job_is_forgotten, a_write_once_cell_has_one_winner, keys_are_kept_and_found};
pub use limits::{a_full_queue_makes_senders_wait, limits_hold_at_their_edges};
pub use order::{
    a_dropped_receive_loses_nothing, deliveries_are_counted, depth_counts_what_is_in_flight,
    queues_take_turns, what_is_released_keeps_its_place,
};
pub use owners::{
    a_closed_session_gives_back, a_late_owner_finds_its_partitions, a_newer_session_ends_the_older,
    an_old_roster_changes_nothing, partitions_move, who_left_is_fenced,
};
pub use workers::everything_moves_exactly_once;

use crate::{
    Body, Delivery, Depth, Outgoing, Owner, Place, QueueName, Queues, Refused, Roster, Session,
    Transaction,
};

/// The bound for anything that should happen soon. Nothing is expected to take this long: it is
/// there so that a test which hangs says so, also on a machine that is busy with other things.
pub const SOON: Duration = Duration::from_secs(120);

/// Makes a module of tests that run every scenario on an arena.
#[macro_export]
macro_rules! suite {
    ($name:ident, $arena:expr) => {
        mod $name {
            use super::*;
            $crate::suite_tests! { $arena,
                commits [a_commit_is_all_or_nothing what_is_refused_leaves_no_trace
                    commits_keep_their_order segments_arrive_as_they_were]
                owners [who_left_is_fenced an_old_roster_changes_nothing partitions_move
                    a_late_owner_finds_its_partitions a_newer_session_ends_the_older
                    a_closed_session_gives_back]
                order [depth_counts_what_is_in_flight what_is_released_keeps_its_place
                    queues_take_turns deliveries_are_counted a_dropped_receive_loses_nothing]
                keys [keys_are_kept_and_found a_write_once_cell_has_one_winner
                    a_job_is_forgotten]
                limits [limits_hold_at_their_edges]
                room [a_full_queue_makes_senders_wait]
                workers [everything_moves_exactly_once]
            }
        }
    };
}

/// The tests of [`suite!`](crate::suite!): a name, and the scenarios that share one arena.
#[macro_export]
macro_rules! suite_tests {
    ($arena:expr, $($test:ident [$($scenario:ident)*])*) => {$(
        #[test]
        fn $test() {
            $crate::suite::run(async {
                let arena = $arena;
                $(
                    eprintln!("{}", stringify!($scenario));
                    $crate::suite::soon($crate::suite::$scenario(&arena)).await;
                )*
            });
        }
    )*};
}

/// Runs a scenario on a runtime of its own.
pub fn run(scenario: impl Future<Output = ()>) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(scenario);
}

/// Awaits something that must happen soon.
pub async fn soon<T>(it: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, it).await.expect("it happens soon")
}

/// A task of a job that no other scenario has.
pub fn place(task: &str) -> Place {
    static N_JOBS: AtomicU64 = AtomicU64::new(0);
    let n = N_JOBS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    Place { job: format!("job-{n}"), task: task.into() }
}

/// A peer since an entry.
pub fn owner(peer: &str, epoch: u64) -> Owner {
    Owner { peer: peer.into(), epoch }
}

/// Who works on a task since entry `at`.
pub fn roster(at: u64, owners: &[&Owner]) -> Roster {
    Roster { at, owners: owners.iter().copied().cloned().collect() }
}

/// The queue of `place` that `from` sends to.
pub fn queue(place: &Place, from: &str) -> QueueName {
    QueueName { job: place.job.clone(), task: place.task.clone(), from: from.into() }
}

/// A session of the only owner of a task.
pub async fn alone(queues: &Queues, place: &Place) -> Session {
    let owner = owner("alone", 1);
    queues.session(place, &owner, &roster(1, &[&owner])).await.expect("a session")
}

/// A message that says `text`.
pub fn note(queue: &QueueName, partition: Option<u16>, text: &str) -> Outgoing {
    let body = Body::Note(Bytes::copy_from_slice(text.as_bytes()));
    Outgoing { queue: queue.clone(), partition, body }
}

/// A transaction that only sends.
pub fn sending(sends: Vec<Outgoing>) -> Transaction {
    Transaction { sends, ..Transaction::default() }
}

/// What a message says.
pub fn text(delivery: &Delivery) -> String {
    match &delivery.body {
        Body::Note(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Body::Sentinel(_) | Body::Segments(_) => panic!("{delivery:?} is no note"),
    }
}

/// Receives exactly `n` messages, one by one.
pub async fn receive_n(session: &Session, n: usize) -> Vec<Delivery> {
    let mut received = Vec::new();
    while received.len() < n {
        received.extend(soon(session.receive(n - received.len())).await.expect("a message"));
    }
    received
}

/// Receives `n` messages and says what they say.
pub async fn receive_texts(session: &Session, n: usize) -> Vec<String> {
    receive_n(session, n).await.iter().map(text).collect()
}

/// Whether nothing is to be received, as far as a moment can tell.
pub async fn is_silent(session: &Session) -> bool {
    let moment = Duration::from_millis(300);
    tokio::time::timeout(moment, session.receive(1)).await.is_err()
}

/// Waits until a queue has this depth. Where others count, the count may lag.
pub async fn depth_becomes(queues: &Queues, queue: &QueueName, ready: u64, in_flight: u64) {
    let wanted = Depth { ready, in_flight };
    let mut found = Depth::default();
    for _ in 0..200 {
        found = queues.depth(queue).await.expect("a depth");
        if found == wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{queue} has {found:?}, not {wanted:?}");
}

/// Whether an answer says that the session is over.
pub fn is_lost<T>(answer: &Result<T, Refused>) -> bool {
    matches!(answer, Err(Refused::Lost))
}

/// Numbers that look random and are the same every time.
#[derive(Clone, Debug)]
pub struct Dice(pub u64);

impl Dice {
    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n.max(1)
    }
}
