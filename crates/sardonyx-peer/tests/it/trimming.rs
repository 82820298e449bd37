//! The log is trimmed, by hand and by itself, and nobody loses anything.

use std::time::Duration;

use sardonyx_core::{Command, PeerId, command::PeerGc, replica::job::JobState};
use sardonyx_peer::{
    Event, JOB_PIECE_BYTES_MAX,
    job::{AnyNames, Job, Language},
};
use sardonyx_store::{Delivery, Start, Store};

use crate::world::{Node, client, is_healthy, job_id, memory, run, submit, task_id, waiting_job};

async fn lengthen(store: &Store, n_entries: usize) {
    let nothing: Command = PeerGc { peer: PeerId::new("nobody").unwrap() }.into();
    for _ in 0..n_entries {
        store.append(&nothing).await.unwrap();
    }
}

#[test]
fn the_log_is_trimmed_by_itself_and_stays_short() {
    run(async {
        let store = memory().await;
        let change = |config: &mut sardonyx_peer::Config| config.trim_after = Some(200);
        let nodes = [Node::start_with(&store, 2, change), Node::start_with(&store, 2, change)];
        nodes[0].sees("all are in", |replica| replica.n_peers() == 4).await;
        for _ in 0..10 {
            lengthen(&store, 100).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let n_trimmed = || {
            let all = nodes.iter().flat_map(Node::events);
            all.filter(|event| matches!(event, Event::Trimmed(_))).count()
        };
        let begun = std::time::Instant::now();
        while n_trimmed() < 3 {
            assert!(begun.elapsed() < crate::world::SOON, "{} times", n_trimmed());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let origin = store.origin().await.unwrap().unwrap();
        let end = store.end().await.unwrap().unwrap();
        assert!(end.0 - origin.position.0 < 400, "from {} to {end}", origin.position);
        is_healthy(&store, client(&store).await.replica()).await;
    });
}

#[test]
fn a_job_whose_entry_is_gone_still_runs_on_whoever_comes_later() {
    run(async {
        let store = memory().await;
        let first = Node::start(&store, 1);
        first.is_in(1).await;
        let filler = "x".repeat(2 * JOB_PIECE_BYTES_MAX);
        let text = format!(
            "{{\"name\": \"big\", \"catalog\": {{\"t\": {{\"type\": \"input\", \"plugin\": \"wait\", \
             \"cell\": \"go\", \"params\": \"{filler}\"}}}}}}"
        );
        let job = Job::read(&text, Language::Json, &AnyNames).unwrap();
        let mut client = client(&store).await;
        client.say(&submit("big", &job).into()).await.unwrap();
        client.say(&submit("over", &waiting_job(1)).into()).await.unwrap();
        client.gc().await.unwrap().expect("ours is the latest");
        client.gc().await.unwrap().expect("and again, with nothing new");
        let pieces = store.items("job/").await.unwrap();
        assert_eq!(pieces.len(), 4, "three of the big one, one of the other");
        drop(first);
        let second = Node::start(&store, 1);
        second
            .until("it runs the job", |events| {
                events
                    .iter()
                    .any(|it| matches!(it, Event::TaskStarted(_, it) if it.job == job_id("big")))
            })
            .await;
        store.fill_cell("go", "now").await.unwrap();
        second
            .sees("it is over", |replica| {
                replica.job(&job_id("big")).is_some_and(|job| job.state() == JobState::Completed)
            })
            .await;
        second.tasks.release(&job_id("over"), &task_id("t"));
        second.sees("both are", |replica| replica.jobs().all(|job| !job.is_live())).await;
        client.gc().await.unwrap().expect("ours is the latest");
        assert_eq!(store.items("job/").await.unwrap().len(), 0, "nothing is left behind");
    });
}

#[test]
fn a_slow_reader_survives() {
    run(async {
        let store = memory().await;
        let mut slow = store.subscribe(Start::Origin);
        let node = Node::start(&store, 3);
        node.is_in(3).await;
        lengthen(&store, 20_000).await;
        let mut client = client(&store).await;
        client.gc().await.unwrap().expect("ours is the latest");
        lengthen(&store, 10).await;
        client.catch_up().await.unwrap();
        let mut replica = sardonyx_core::Replica::new();
        let (mut took_origin, mut at) = (false, None);
        while at != client.position() {
            match slow.next().await.unwrap() {
                Delivery::Origin(origin) => {
                    took_origin = true;
                    (at, replica) = (Some(origin.position), origin.replica);
                }
                Delivery::Entry { position, command } => {
                    at = Some(position);
                    let command = command.unwrap();
                    let _ = replica.play(&sardonyx_core::Entry { position, command });
                }
            }
        }
        assert!(took_origin, "it was too slow to read everything");
        assert_eq!(&replica, client.replica());
    });
}

/// While the loop of a node stands still a job comes, the log grows far beyond what is read ahead,
/// and is trimmed. The node takes the origin, and the job from where it was put aside.
#[test]
fn a_node_that_is_overtaken_goes_on_under_the_same_ids() {
    run(async {
        let store = memory().await;
        let (away, is_away) = std::sync::mpsc::channel();
        let (call_back, called_back) = std::sync::mpsc::channel::<()>();
        let called_back = std::sync::Mutex::new(Some(called_back));
        let node = Node::start_with(&store, 1, |config| {
            config.session_timeout = Duration::from_secs(60);
            let watcher = std::sync::Arc::clone(&config.watcher);
            config.watcher = std::sync::Arc::new(move |event| {
                watcher(event);
                if matches!(event, Event::Joined(..))
                    && let Some(called_back) = called_back.lock().unwrap().take()
                {
                    away.send(()).unwrap();
                    called_back.recv().unwrap();
                }
            });
        });
        tokio::task::spawn_blocking(move || is_away.recv().unwrap()).await.unwrap();
        let mut client = client(&store).await;
        lengthen(&store, 20_000).await;
        client.say(&submit("j", &waiting_job(1)).into()).await.unwrap();
        client.gc().await.unwrap().expect("ours is the latest");
        lengthen(&store, 10).await;
        client.catch_up().await.unwrap();
        call_back.send(()).unwrap();
        node.until("it runs the job", |events| {
            events.iter().any(|event| matches!(event, Event::TaskStarted(..)))
        })
        .await;
        client.catch_up().await.unwrap();
        let (now, at) = (client.replica().clone(), client.position());
        let mut view = node.driver.view();
        view.wait_for(|view| view.position >= at).await.unwrap();
        assert_eq!(view.borrow().replica, now);
        let lives = node.events();
        let lives = lives.iter().filter(|event| matches!(event, Event::Began(..))).count();
        assert_eq!(lives, 1, "nothing was lost, so nothing begins again");
    });
}
