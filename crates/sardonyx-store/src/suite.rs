//! The suite that every backend runs, and the servers it needs.
//!
//! ```text
//! sardonyx_store::suite!(memory, Arena::memory());
//! ```
//!
//! Each scenario is a function of an [`Arena`]; [`suite!`](crate::suite!) makes tests of them. A
//! new backend adds an arena and one such line. Scenarios wait for conditions with a bound, never
//! for a time to pass, except where silence itself is what is tested.

mod arena;
mod child;
mod history;
mod lease;
pub mod linear;
mod log;
mod pulse;
pub mod servers;
mod stalls;

use std::time::Duration;

use sardonyx_core::{Command, PeerId, Position, wire};

pub use arena::Arena;
pub use child::{Child, hold_pulse};
pub use history::one_order_explains_every_answer;
pub use lease::{a_cell_has_one_winner, an_old_holder_cannot_write, versions_never_repeat};
pub use log::{
    a_second_copy_is_read_once, a_trimmed_reader_takes_the_origin, all_readers_see_one_order,
    nothing_is_lost_or_doubled_across_reconnects, the_latest_origin_wins,
    what_is_too_large_is_refused, what_is_unreadable_is_handed_over, write_and_compare,
};
pub use pulse::{
    a_killed_process_loses_its_pulse, a_paused_process_loses_its_pulse,
    a_pulse_ends_with_its_owner, load_ends_no_pulse, watches_that_were_given_up_are_over,
};

use crate::{Delivery, Result, Start, Store, Subscription};

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
                one_order [all_readers_see_one_order]
                reconnects [nothing_is_lost_or_doubled_across_reconnects]
                entries [a_second_copy_is_read_once what_is_unreadable_is_handed_over
                    what_is_too_large_is_refused the_latest_origin_wins
                    a_trimmed_reader_takes_the_origin]
                history [one_order_explains_every_answer]
                leases [a_cell_has_one_winner versions_never_repeat an_old_holder_cannot_write]
                pulses [a_pulse_ends_with_its_owner a_killed_process_loses_its_pulse
                    a_paused_process_loses_its_pulse]
                watches [watches_that_were_given_up_are_over]
                load [load_ends_no_pulse]
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
                    $crate::suite::$scenario(&arena).await;
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

/// A command that stands for the text `label`.
pub fn labelled(label: &str) -> Command {
    wire::command_from_json("peer-gc", &format!(r#"{{"peer":"{label}"}}"#)).expect("a command")
}

/// The text that a command of [`labelled`] stands for.
pub fn label(command: &Command) -> String {
    let json = wire::command_to_json(command);
    let label = json.rsplit_once(r#""peer":""#).map(|(_, label)| label.trim_end_matches("\"}}"));
    label.unwrap_or(&json).trim_end_matches(['"', '}']).to_owned()
}

fn peer(name: &str) -> PeerId {
    PeerId::new(name).expect("a peer id")
}

/// Reads `n` entries from the beginning: positions and labels.
async fn read_all(store: &Store, n: usize) -> Vec<(Position, String)> {
    let mut subscription = store.subscribe(Start::Origin);
    soon(read(&mut subscription, n)).await.expect("the log is read")
}

async fn read(subscription: &mut Subscription, n: usize) -> Result<Vec<(Position, String)>> {
    let mut entries = Vec::new();
    while entries.len() < n {
        if let Delivery::Entry { position, command } = subscription.next().await? {
            entries.push((position, label(&command.expect("a readable entry"))));
        }
    }
    Ok(entries)
}

/// Awaits something that must happen soon.
async fn soon<T>(it: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, it).await.expect("it happens soon")
}
