//! When a node tells its figures, and the loop that does it.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use sardonyx_core::Replica;
use sardonyx_store::{Session, Txn, Write};
use tokio::sync::watch;

use super::{Figures, PREFIX, Told};
use crate::driver::View;

/// How often a node through which something goes tells its figures, at most.
const TELL_EVERY: Duration = Duration::from_secs(2);

/// So many nodes together tell theirs in a second, however many there are.
const TELLS_PER_SECOND: u32 = 20;

/// How long to wait between two tellings in a cluster of so many nodes.
fn tell_every(n_nodes: usize) -> Duration {
    let n_nodes = u32::try_from(n_nodes).unwrap_or(u32::MAX);
    TELL_EVERY.max(Duration::from_secs(1) * n_nodes / TELLS_PER_SECOND)
}

/// How many nodes have peers in the ring: a peer's id begins with the name of its node's life.
fn n_nodes(replica: &Replica) -> usize {
    let life =
        |peer: &'_ str| peer.rsplit_once('-').map_or(peer.to_owned(), |(it, _)| it.to_owned());
    replica.peers().map(|peer| life(peer.as_str())).collect::<BTreeSet<_>>().len()
}

/// What a life has told so far. Pure.
#[derive(Debug, Default)]
struct Teller {
    last: Option<Told>,
}

impl Teller {
    /// What is to be told when these are the figures, if anything. While something goes through
    /// tasks, that is every turn; then once when it has stopped, and once more when it is a minute
    /// ago, since the history of who has stopped telling is not known to move on.
    fn turn(&self, now: Told, every: Duration) -> Option<Told> {
        let again_ms = Some(u64::try_from(every.as_millis()).unwrap_or(u64::MAX));
        let Some(last) = &self.last else {
            let is_blank = now.has_faded() && now.has_same_meters(&Told::default());
            let again_ms = again_ms.filter(|_| !now.is_quiet());
            return (!is_blank).then_some(Told { again_ms, ..now });
        };
        if !now.is_quiet() {
            return Some(Told { again_ms, ..now });
        }
        let has_moved = !now.has_same_meters(last);
        let has_stopped = last.again_ms.is_some();
        let has_faded = now.has_faded() && !last.has_faded();
        (has_moved || has_stopped || has_faded).then_some(now)
    }
}

/// Tells the figures of this node for as long as a life lasts.
pub(crate) async fn tell(
    figures: Figures,
    session: Arc<Session>,
    life: String,
    view: watch::Receiver<View>,
) {
    let mut teller = Teller::default();
    loop {
        let every = tell_every(n_nodes(&view.borrow().replica));
        tokio::time::sleep(every).await;
        let now = Told::new(figures.origin(), figures.now(), figures.own());
        let Some(told) = teller.turn(now, every) else { continue };
        let Some(bytes) = told.to_bytes() else { continue };
        let item = Write::Lease(format!("{PREFIX}{life}"), bytes);
        // A store that does not answer hears it at the next turn.
        if session.commit(&Txn { when: Vec::new(), then: vec![item] }).await.is_ok() {
            teller.last = Some(told);
        }
    }
}

#[cfg(test)]
mod tests {
    use sardonyx_queue::Place;

    use super::{super::Figure, *};

    const EVERY: Duration = Duration::from_secs(2);

    fn told(rows_in: u64, in_per_second: u64, history: &[u64]) -> Told {
        let place = Place { job: "j".into(), task: "t".into() };
        let history = history.to_vec();
        let figure = Figure { rows_in, in_per_second, history, ..Figure::default() };
        Told { tasks: vec![(place, figure)], ..Told::default() }
    }

    #[test]
    fn what_nodes_write_in_a_second_does_not_grow_with_the_cluster() {
        assert_eq!(tell_every(0), TELL_EVERY);
        assert_eq!(tell_every(40), TELL_EVERY);
        assert_eq!(tell_every(200), Duration::from_secs(10));
    }

    #[test]
    fn a_node_tells_while_something_flows_and_then_twice_more_and_then_nothing() {
        let mut teller = Teller::default();
        let mut tells = |now: Told| {
            let told = teller.turn(now, EVERY);
            let again = told.as_ref().map(|it| it.again_ms);
            teller.last = told.or(teller.last.take());
            again
        };
        assert_eq!(tells(Told::default()), None, "it has no tasks");
        assert_eq!(tells(told(5, 5, &[5])), Some(Some(2_000)));
        assert_eq!(tells(told(9, 4, &[5, 4])), Some(Some(2_000)));
        assert_eq!(tells(told(9, 1, &[5, 4, 0])), Some(Some(2_000)), "the rate goes down slowly");
        assert_eq!(tells(told(9, 0, &[5, 4, 0, 0])), Some(None), "it has stopped");
        assert_eq!(tells(told(9, 0, &[4, 0, 0, 0])), None);
        assert_eq!(tells(told(9, 0, &[0, 0, 0, 0])), Some(None), "that is a minute ago");
        for _ in 0..100 {
            assert_eq!(tells(told(9, 0, &[0, 0, 0, 0])), None, "nothing happens");
        }
        assert_eq!(tells(told(10, 0, &[0, 0, 0, 1])), Some(None), "one segment in three seconds");
        assert_eq!(tells(Told::default()), Some(None), "its jobs were forgotten");
        assert_eq!(tells(Told::default()), None);
    }

    #[test]
    fn a_new_life_tells_once_what_the_process_has_counted() {
        let teller = Teller::default();
        let quiet = told(9, 0, &[0, 0]);
        assert_eq!(teller.turn(quiet.clone(), EVERY), Some(quiet.clone()));
        assert_eq!(Teller { last: Some(quiet.clone()) }.turn(quiet, EVERY), None);
    }
}
