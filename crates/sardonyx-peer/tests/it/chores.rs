//! With an office, one node does the chores, and who takes it over goes on.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use sardonyx_core::{
    Command, PeerId,
    command::{Gc, KillJob, PeerGc},
    replica::job::JobOutcome,
};
use sardonyx_peer::{Event, HistoryTerms, Office, Term};
use sardonyx_store::Store;

use crate::world::{Node, client, job_id, memory, run, submit, waiting_job};

const NOBODY: usize = usize::MAX;
const FOR_EVER: HistoryTerms = HistoryTerms { jobs_max: None, age_max: None };

/// An office that passes from node to node as the test says.
#[derive(Clone)]
struct Seat(Arc<AtomicUsize>);

impl Seat {
    fn new() -> Seat {
        Seat(Arc::new(AtomicUsize::new(NOBODY)))
    }

    fn give(&self, to: usize) {
        self.0.store(to, Ordering::SeqCst);
    }

    fn office(&self, me: usize, history: HistoryTerms) -> Office {
        let seat = Arc::clone(&self.0);
        let held = move || seat.load(Ordering::SeqCst) == me;
        let term = Term { version: me as u64, left: Duration::from_millis(50) };
        Office { term: Arc::new(move || held().then_some(term)), history }
    }
}

async fn nodes(store: &Store, seat: &Seat, history: HistoryTerms, trim_after: u64) -> [Node; 2] {
    let start = |me: usize| {
        Node::start_with(store, 2, |config| {
            config.trim_after = Some(trim_after);
            config.office = Some(seat.office(me, history));
        })
    };
    let nodes = [start(0), start(1)];
    nodes[0].sees("all are in", |replica| replica.n_peers() == 4).await;
    nodes
}

async fn lengthen(store: &Store, n_entries: usize) {
    let nothing: Command = PeerGc { peer: PeerId::new("nobody").unwrap() }.into();
    for _ in 0..n_entries {
        store.append(&nothing).await.unwrap();
    }
}

fn n_trimmed(node: &Node) -> usize {
    node.events().iter().filter(|event| matches!(event, Event::Trimmed(_))).count()
}

async fn trims(node: &Node, n: usize) {
    let is_trimmed = |it: &&Event| matches!(it, Event::Trimmed(_));
    node.until("it trims", |events| events.iter().filter(is_trimmed).count() >= n).await;
}

#[test]
fn only_who_holds_the_office_trims_and_its_successor_goes_on() {
    run(async {
        let (store, seat) = (memory().await, Seat::new());
        let nodes = nodes(&store, &seat, FOR_EVER, 200).await;
        lengthen(&store, 1_000).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!((n_trimmed(&nodes[0]), n_trimmed(&nodes[1])), (0, 0), "nobody may");
        seat.give(1);
        trims(&nodes[1], 1).await;
        lengthen(&store, 300).await;
        trims(&nodes[1], 2).await;
        assert_eq!(n_trimmed(&nodes[0]), 0);
        seat.give(0);
        let before = n_trimmed(&nodes[1]);
        lengthen(&store, 300).await;
        trims(&nodes[0], 1).await;
        assert_eq!(n_trimmed(&nodes[1]), before, "its time is over");
        let collecting = |node: &Node, version| {
            let is_it = |it: &&Event| matches!(it, Event::Collecting(_, it) if *it == version);
            node.events().iter().filter(is_it).count()
        };
        assert!(collecting(&nodes[0], 0) >= 1 && collecting(&nodes[1], 1) >= 2);
        let origin = store.origin().await.unwrap().expect("it was trimmed");
        assert!(origin.position.0 > 1_000);
    });
}

#[test]
fn who_takes_the_office_trims_what_its_predecessor_left() {
    run(async {
        let (store, seat) = (memory().await, Seat::new());
        let nodes = nodes(&store, &seat, FOR_EVER, 1_000_000).await;
        lengthen(&store, 300).await;
        // Whoever said this died before it could trim.
        let gone = Gc { caller: PeerId::new("gone-1").unwrap() };
        let said = store.append(&gone.into()).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(store.origin().await.unwrap(), None);
        seat.give(1);
        trims(&nodes[1], 1).await;
        assert!(store.origin().await.unwrap().unwrap().position > said);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(n_trimmed(&nodes[1]), 1, "once is enough");
        seat.give(0);
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(n_trimmed(&nodes[0]), 0, "nothing was left");
    });
}

/// Ends `names` and says how the cluster remembers them, once nobody knows more than that.
async fn expire(history: HistoryTerms, names: &[&str], kept: usize) {
    let (store, seat) = (memory().await, Seat::new());
    let nodes = nodes(&store, &seat, history, 1_000_000).await;
    let mut client = client(&store).await;
    for name in names.iter().chain(&["alive"]) {
        client.say(&submit(name, &waiting_job(1)).into()).await.unwrap();
    }
    for name in names {
        let kill = KillJob { job: job_id(name), reason: "enough".into() };
        client.say(&kill.into()).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    client.catch_up().await.unwrap();
    assert_eq!(client.replica().jobs().count(), names.len() + 1, "nobody is to expire them");
    seat.give(0);
    if kept == 0 {
        nodes[1].sees("they are over", |replica| replica.jobs().count() == 1).await;
    } else {
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    client.catch_up().await.unwrap();
    assert_eq!(client.replica().jobs().count(), kept + 1);
    if kept == 0 {
        for name in names {
            assert_eq!(client.replica().outcome(&job_id(name)), Some(JobOutcome::Killed));
        }
        trims(&nodes[0], 1).await;
    }
}

#[test]
fn more_ended_jobs_than_are_kept_expire() {
    run(expire(HistoryTerms { jobs_max: Some(2), age_max: None }, &["a", "b", "c"], 0));
}

#[test]
fn as_many_ended_jobs_as_are_kept_stay() {
    run(expire(HistoryTerms { jobs_max: Some(3), age_max: None }, &["a", "b", "c"], 3));
}

#[test]
fn old_ended_jobs_expire() {
    let age_max = Some(Duration::from_secs(1));
    run(expire(HistoryTerms { jobs_max: None, age_max }, &["a"], 0));
}
