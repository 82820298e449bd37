//! A life that fails is followed by another, which has nothing of it.

use std::sync::{Arc, atomic::Ordering};

use async_trait::async_trait;
use sardonyx_core::Replica;
use sardonyx_peer::{Event, Reports, Task, Tasks, Work};

use crate::{
    disturbed::{Switches, disturbed},
    world::{Node, client, is_healthy, job_id, memory, run, submit, waiting_job},
};

#[test]
fn a_lost_session_stops_the_tasks_and_brings_new_ids() {
    run(async {
        let (store, switches) = (memory().await, Arc::new(Switches::default()));
        let stays = Node::start(&store, 2);
        stays.is_in(2).await;
        let node = Node::start(&disturbed(&store, &switches), 4);
        stays.sees("all are in", |replica| replica.n_peers() == 6).await;
        client(&store).await.say(&submit("j", &waiting_job(6)).into()).await.unwrap();
        let runs_all =
            |replica: &Replica| replica.job(&job_id("j")).is_some_and(|job| job.n_peers() == 6);
        stays.sees("all run it", runs_all).await;
        node.until("four of them here", |events| {
            events.iter().filter(|event| matches!(event, Event::TaskStarted(..))).count() == 4
        })
        .await;
        let old = node.life();
        switches.end_sessions();
        let is_old = |replica: &Replica| replica.peers().any(|it| it.as_str().starts_with(&old));
        stays.sees("six again, none of the old", |it| it.n_peers() == 6 && !is_old(it)).await;
        stays.sees("all run it again", runs_all).await;
        let events = node.events();
        let at = |wanted: &dyn Fn(&Event) -> bool| events.iter().position(wanted).unwrap();
        let stopped = events.iter().rposition(
            |it| matches!(it, Event::TaskStopped(peer, _) if peer.as_str().starts_with(&old)),
        );
        let n_stopped = events
            .iter()
            .filter(
                |it| matches!(it, Event::TaskStopped(peer, _) if peer.as_str().starts_with(&old)),
            )
            .count();
        assert_eq!(n_stopped, 4);
        let began = at(&|it| matches!(it, Event::Began(life, _) if *life != old));
        assert!(stopped.unwrap() < began, "tasks end before anybody comes back");
        is_healthy(&store, client(&store).await.replica()).await;
    });
}

#[test]
fn lost_answers_are_harmless() {
    run(async {
        let (store, switches) = (memory().await, Arc::new(Switches::default()));
        switches.lose_every.store(3, Ordering::Relaxed);
        let shaky = disturbed(&store, &switches);
        let nodes = [Node::start(&shaky, 5), Node::start(&shaky, 5)];
        nodes[0].sees("all are in", |replica| replica.n_peers() == 10).await;
        let said = client(&shaky).await.say(&submit("j", &waiting_job(10)).into()).await.unwrap();
        assert_eq!(said.outcome, Some(Ok(())), "applied once, though sent twice");
        nodes[1]
            .sees("all run it", |replica| {
                replica.job(&job_id("j")).is_some_and(|job| job.n_peers() == 10)
            })
            .await;
        is_healthy(&store, client(&store).await.replica()).await;
        let again = |event: &Event| matches!(event, Event::Again(..));
        assert!(!nodes.iter().any(|node| node.events().iter().any(again)));
    });
}

/// Panics once, where it hurts most: in the loop.
struct Bomb;

#[async_trait]
impl Tasks for Bomb {
    async fn start(&self, _: Work, _: Reports) -> Result<Box<dyn Task>, String> {
        Err("no tasks here".into())
    }
}

#[test]
fn a_panic_in_the_loop_leaves_no_zombie() {
    run(async {
        let store = memory().await;
        let stays = Node::start(&store, 2);
        stays.is_in(2).await;
        let fuse = Arc::new(std::sync::atomic::AtomicBool::new(true));
        let lit = Arc::clone(&fuse);
        let node = Node::start_with(&store, 3, |config| {
            config.tasks = Arc::new(Bomb);
            let watcher = Arc::clone(&config.watcher);
            config.watcher = Arc::new(move |event| {
                watcher(event);
                let is_due =
                    matches!(event, Event::Joined(_, 5)) && lit.swap(false, Ordering::Relaxed);
                assert!(!is_due, "the test wants it so");
            });
        });
        node.until("a second life begins", |events| {
            events.iter().filter(|event| matches!(event, Event::Began(..))).count() == 2
        })
        .await;
        let events = node.events();
        let first = events.iter().find_map(|event| {
            if let Event::Began(life, _) = event { Some(life.clone()) } else { None }
        });
        let first = first.unwrap();
        stays
            .sees("five, none of the first life", |replica| {
                replica.n_peers() == 5 && !replica.peers().any(|it| it.as_str().starts_with(&first))
            })
            .await;
        is_healthy(&store, client(&store).await.replica()).await;
    });
}

/// The loop stands still for longer than half a session, as when the process was stopped. Meanwhile
/// the session ends, which nobody has told it, and a task is given to it.
#[test]
fn who_was_away_asks_the_store_before_doing_anything() {
    run(async {
        let (store, switches) = (memory().await, Arc::new(Switches::default()));
        let (away, is_away) = std::sync::mpsc::channel();
        let (call_back, called_back) = std::sync::mpsc::channel::<()>();
        let called_back = std::sync::Mutex::new(Some(called_back));
        let node = Node::start_with(&disturbed(&store, &switches), 1, |config| {
            config.session_timeout = std::time::Duration::from_millis(400);
            let watcher = Arc::clone(&config.watcher);
            config.watcher = Arc::new(move |event| {
                watcher(event);
                if matches!(event, Event::Joined(..))
                    && let Some(called_back) = called_back.lock().unwrap().take()
                {
                    away.send(()).unwrap();
                    called_back.recv().unwrap();
                    std::thread::sleep(std::time::Duration::from_millis(250));
                }
            });
        });
        tokio::task::spawn_blocking(move || is_away.recv().unwrap()).await.unwrap();
        let first = node.life_that_began();
        let mut outside = client(&store).await;
        outside.say(&submit("j", &waiting_job(1)).into()).await.unwrap();
        let ours = outside.replica().peers().next().unwrap().clone();
        let volunteer = sardonyx_core::command::VolunteerForTask { peers: vec![ours.clone()] };
        outside.say(&volunteer.into()).await.unwrap();
        assert!(outside.replica().assignment(&ours).is_some(), "the task is given to it");
        switches.ended_up_to.store(1, Ordering::Relaxed);
        call_back.send(()).unwrap();
        node.until("a second life runs the task", |events| {
            events.iter().any(|event| matches!(event, Event::TaskStarted(..)))
        })
        .await;
        let events = node.events();
        let of_first = |event: &Event| matches!(event, Event::TaskStarted(peer, _) if peer.as_str().starts_with(&first));
        assert!(!events.iter().any(of_first), "it acted for a session that was over: {events:?}");
    });
}
