//! After a loss of power at any moment, and after a sync that fails, everything is there that was
//! acknowledged.

use bytes::Bytes;

use super::open;
use crate::{
    Body, Outgoing, Queues,
    embedded::{Options, power::Power},
    mutant::Mutant,
    suite::{owner, place, queue, roster, run, sending},
};

const N_COMMITS: u64 = 12;

/// Commits again and again, and after each answer asks what a loss of power would leave. Returns how
/// many were acknowledged, or the first after which something that was is missing.
pub(super) fn commits_outlive_the_power(
    mutant: Option<Mutant>,
    fails_at: Option<u64>,
) -> Result<u64, u64> {
    let power = Power::new(mutant, fails_at);
    let options = Options { power: Some(power), ..Options::default() };
    let mut n_acknowledged = 0;
    let mut missing = None;
    run(async {
        let dir = tempfile::tempdir().unwrap();
        // A sync that fails while the journal is opened is an error, and nothing was promised yet.
        let Ok(queues) = Queues::embedded(dir.path(), options).await else { return };
        let here = place("here");
        let input = queue(&here, "up");
        let owner = owner("alone", 1);
        let opened = queues.session(&here, &owner, &roster(1, &[&owner])).await;
        let Ok(session) = opened else { return };
        for n in 0..N_COMMITS {
            let body = Body::Note(Bytes::from(vec![n as u8; 3000]));
            let outgoing = Outgoing { queue: input.clone(), partition: None, body };
            if session.commit(sending(vec![outgoing])).await.is_err() {
                break;
            }
            n_acknowledged += 1;
            let left = tempfile::tempdir().unwrap();
            power.leave(left.path()).unwrap();
            let again = open(left.path(), Options::default()).await;
            let n_there = again.depth(&input).await.unwrap().total();
            if n_there < n_acknowledged {
                missing = Some(n + 1);
                return;
            }
        }
    });
    match missing {
        Some(at) => Err(at),
        None => Ok(n_acknowledged),
    }
}

#[test]
fn what_was_acknowledged_outlives_the_power() {
    assert_eq!(commits_outlive_the_power(None, None), Ok(N_COMMITS));
}

#[test]
fn after_a_sync_that_failed_nothing_more_is_promised() {
    for fails_at in 1..=N_COMMITS {
        let n = commits_outlive_the_power(None, Some(fails_at));
        // One sync when the journal is opened, one for the session, one when the file first grows.
        assert!(n.is_ok_and(|n| n < fails_at), "sync {fails_at}: {n:?}");
    }
}
