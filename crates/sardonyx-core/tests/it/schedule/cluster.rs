//! Random clusters with jobs, in any state that a log could have brought about.

use sardonyx_core::{Entry, Position, Replica, wire};
use serde_json::{Value, json};

use crate::{rng::Rng, text};

pub fn any_cluster(rng: &mut Rng) -> Replica {
    let n_peers = rng.below(14);
    let peers: Vec<_> = (0..n_peers).map(|index| format!("p{index:02}")).collect();
    let mut idle = peers.clone();
    let jobs: Vec<_> = (0..rng.below(6)).map(|job| any_job(rng, job, &mut idle)).collect();
    let scheduler = ["greedy", "round-robin", "percentage"][rng.below(3)];
    let origin = json!({
        "join-protocol": "three-phase", "job-scheduler": scheduler, "peers": peers, "jobs": jobs,
    });
    let replica = wire::replica_from_json(&origin.to_string());
    let mut replica = replica.unwrap_or_else(|why| panic!("{why}: {origin}"));
    // Any entry clears the protected jobs that cannot be covered, which no log leaves behind.
    let command = text::command(r#"configure-cluster {"outcomes-max": 7}"#);
    replica.play(&Entry { position: Position(0), command }).unwrap();
    replica
}

fn any_job(rng: &mut Rng, number: usize, idle: &mut Vec<String>) -> Value {
    let killed = rng.chance(10);
    let tasks: Vec<_> = (0..1 + rng.below(4)).map(|task| format!("t{task}")).collect();
    let mut completions: Vec<_> = tasks.iter().filter(|_| rng.chance(20)).cloned().collect();
    if killed || completions.len() == tasks.len() {
        completions.pop();
    }
    let (mut limits, mut allocations, mut sealing) = (json!({}), json!({}), json!({}));
    let share = |rng: &mut Rng| rng.chance(70).then(|| rng.below(101));
    // Jobs without any bounds are common, and some rules are about them alone.
    let bounded = if rng.chance(50) { 40 } else { 0 };
    for task in &tasks {
        let min = rng.chance(bounded).then(|| rng.below(4));
        let max = rng.chance(bounded).then(|| min.unwrap_or(0).max(1) + rng.below(4));
        limits[task] = json!({"min-peers": min, "max-peers": max, "percentage": share(rng)});
        if killed || completions.contains(task) || rng.chance(40) {
            continue;
        }
        let room = max.unwrap_or(usize::MAX).min(idle.len());
        let n = if room == 0 { 0 } else { rng.below(room.min(4) + 1) };
        let on_task: Vec<_> = (0..n).map(|_| idle.swap_remove(rng.below(idle.len()))).collect();
        if !on_task.is_empty() && rng.chance(20) {
            sealing[task] = json!(on_task[rng.below(on_task.len())]);
        }
        allocations[task] = json!(on_task);
    }
    let scheduler = ["greedy", "round-robin", "percentage"][rng.below(3)];
    json!({
        "id": format!("j{number}"),
        "state": if killed { "killed" } else { "pending" },
        "task-scheduler": scheduler,
        "percentage": share(rng),
        "partial-coverage-protection": rng.chance(25),
        "tasks": tasks,
        "limits": limits,
        "allocations": allocations,
        "completions": completions,
        "sealing": sealing,
    })
}
