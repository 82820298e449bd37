//! Jobs from end to end: started, sealed, completed, failed, taken away.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use sardonyx_core::{Replica, command::KillJob, replica::job::JobState};
use sardonyx_peer::{
    Event, Fatal, Reports, Task, Tasks, Work,
    job::{AnyNames, Job, Language},
};

use crate::world::{Node, client, job_id, memory, run, submit, task_id, waiting_job};

fn state(replica: &Replica, job: &str) -> Option<JobState> {
    replica.job(&job_id(job)).map(|job| job.state())
}

#[test]
fn tasks_seal_and_complete_and_the_job_is_over() {
    run(async {
        let store = memory().await;
        let nodes = [Node::start(&store, 3), Node::start(&store, 3)];
        nodes[0].sees("all are in", |replica| replica.n_peers() == 6).await;
        let text = "name = \"two\"\nworkflow = [[\"a\", \"b\"]]\n\
            [catalog.a]\ntype = \"input\"\nplugin = \"wait\"\nmax-peers = 3\n\
            [catalog.b]\ntype = \"output\"\nplugin = \"wait\"\nfor = \"10ms\"\n";
        let job = Job::read(text, Language::Toml, &AnyNames).unwrap();
        let said = client(&store).await.say(&submit("j", &job).into()).await.unwrap();
        assert_eq!(said.outcome, Some(Ok(())));
        nodes[0]
            .sees("b is done and a goes on", |replica| {
                let job = replica.job(&job_id("j"));
                job.is_some_and(|job| job.completions().eq([&task_id("b")]) && job.n_peers() == 3)
            })
            .await;
        nodes.iter().for_each(|node| node.tasks.release(&job_id("j"), &task_id("a")));
        nodes[1]
            .sees("it is over", |replica| state(replica, "j") == Some(JobState::Completed))
            .await;
        for node in &nodes {
            node.until("everything started has stopped", |events| {
                let count = |is: fn(&Event) -> bool| events.iter().filter(|it| is(it)).count();
                count(|it| matches!(it, Event::TaskStarted(..)))
                    == count(|it| matches!(it, Event::TaskStopped(..)))
            })
            .await;
        }
    });
}

#[test]
fn a_task_that_cannot_run_kills_its_job_and_says_why() {
    run(async {
        let store = memory().await;
        let node = Node::start(&store, 1);
        node.is_in(1).await;
        let plugin = "ж".repeat(4_000);
        let text = format!("name = \"x\"\n[catalog.t]\ntype = \"input\"\nplugin = \"{plugin}\"");
        let job = Job::read(&text, Language::Toml, &AnyNames).unwrap();
        client(&store).await.say(&submit("j", &job).into()).await.unwrap();
        node.sees("it is killed", |replica| state(replica, "j") == Some(JobState::Killed)).await;
        let mut log = store.subscribe(sardonyx_store::Start::Origin);
        loop {
            let delivery = log.next().await.unwrap();
            if let sardonyx_store::Delivery::Entry { command: Ok(command), .. } = delivery
                && let sardonyx_core::Command::KillJob(KillJob { reason, .. }) = command
            {
                assert!(reason.starts_with("task t: this build has no \"жж"), "{reason}");
                assert_eq!(reason.len(), 4095, "cut between two letters");
                return;
            }
        }
    });
}

/// Tasks that note what happens to them, and stop as slowly as they are told.
#[derive(Default)]
struct Noting {
    notes: Arc<Mutex<Vec<String>>>,
    stop_takes: Option<Duration>,
}

struct Noted {
    name: String,
    notes: Arc<Mutex<Vec<String>>>,
    stop_takes: Option<Duration>,
}

#[async_trait]
impl Tasks for Noting {
    async fn start(&self, work: Work, _: Reports) -> Result<Box<dyn Task>, String> {
        let name = work.job_id().to_string();
        self.notes.lock().unwrap().push(format!("start {name}"));
        Ok(Box::new(Noted { name, notes: Arc::clone(&self.notes), stop_takes: self.stop_takes }))
    }
}

#[async_trait]
impl Task for Noted {
    async fn seal(&mut self) {}

    async fn stop(self: Box<Self>) {
        match self.stop_takes {
            Some(stop_takes) => tokio::time::sleep(stop_takes).await,
            None => std::future::pending().await,
        }
        self.notes.lock().unwrap().push(format!("stop {}", self.name));
    }
}

#[test]
fn the_old_task_has_stopped_before_the_new_one_starts() {
    run(async {
        let store = memory().await;
        let tasks = Noting { stop_takes: Some(Duration::from_millis(50)), ..Noting::default() };
        let notes = Arc::clone(&tasks.notes);
        let node = Node::start_with(&store, 1, |config| config.tasks = Arc::new(tasks));
        node.is_in(1).await;
        let mut client = client(&store).await;
        for id in ["one", "two"] {
            client.say(&submit(id, &waiting_job(1)).into()).await.unwrap();
        }
        node.until("the first runs", |events| {
            !events.is_empty() && !notes.lock().unwrap().is_empty()
        })
        .await;
        client.say(&KillJob { job: job_id("one"), reason: String::new() }.into()).await.unwrap();
        node.until("the second runs", |_| notes.lock().unwrap().len() == 3).await;
        assert_eq!(*notes.lock().unwrap(), ["start one", "stop one", "start two"]);
    });
}

#[test]
fn a_task_that_does_not_stop_ends_the_node() {
    run(async {
        let store = memory().await;
        let tasks = Arc::new(Noting::default());
        let mut node = Node::start_with(&store, 1, |config| {
            config.tasks = tasks;
            config.task_stop_max = Duration::from_millis(50);
        });
        node.is_in(1).await;
        let mut client = client(&store).await;
        client.say(&submit("j", &waiting_job(1)).into()).await.unwrap();
        node.until("it runs", |all| all.iter().any(|it| matches!(it, Event::TaskStarted(..))))
            .await;
        client.say(&KillJob { job: job_id("j"), reason: String::new() }.into()).await.unwrap();
        let ended = node.driver.ended().await;
        assert!(matches!(ended, Err(Fatal::Stuck(..))), "it ends with {ended:?}");
    });
}
