//! What a cluster would do with a job, asked before any byte of data moves.

use serde_json::{Value, json};

use crate::program::sardonyx;

fn settle(args: &[&str], entries: &[Value]) -> Vec<Value> {
    let log: String = entries
        .iter()
        .enumerate()
        .map(|(id, entry)| {
            let mut entry = entry.clone();
            entry["id"] = json!(id);
            format!("{entry}\n")
        })
        .collect();
    let ran = sardonyx(&[&["replay", "--settle"], args].concat(), &log);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn join(peer: &str) -> Value {
    json!({"fn": "prepare-join-cluster", "args": {"joiner": peer}})
}

fn submit(id: &str, scheduler: &str, tasks: &[&str]) -> Value {
    let job = json!({"name": id, "task-scheduler": scheduler});
    json!({"fn": "submit-job", "args": {"id": id, "job": job, "tasks": tasks}})
}

#[test]
fn in_the_seven_peer_shift_three_volunteer_and_four_say_nothing() {
    let peers = ["A", "B", "C", "D", "E", "F", "G"];
    let mut log: Vec<_> = peers.iter().map(|peer| join(peer)).collect();
    log.push(submit("j1", "greedy", &["t1", "t2"]));
    log.push(submit("j2", "greedy", &["u1", "u2"]));
    for peer in peers {
        let lines = settle(&["--job-scheduler", "round-robin", "--as", peer], &log);
        let last = lines.last().unwrap();
        let jobs = &last["replica"]["jobs"];
        assert_eq!(jobs[0]["allocations"]["t1"], json!(["A", "B", "C", "D"]));
        assert_eq!(jobs[1]["allocations"]["u1"], json!(["E", "F", "G"]));
        let says = last["reactions"].as_array().unwrap();
        match ["E", "F", "G"].contains(&peer) {
            true => {
                let volunteer = json!({"fn": "volunteer-for-task", "args": {"peers": [peer]}});
                assert_eq!(*says, [volunteer]);
                assert_eq!(last["effects"][0]["effect"], "stop-task");
                assert_eq!(last["effects"][1]["effect"], "start-task");
                assert_eq!(last["effects"][1]["task"], "u1");
            }
            false => assert!(says.is_empty(), "{peer} says {says:?}"),
        }
    }
}

#[test]
fn a_job_that_waits_says_why_and_a_job_that_cannot_be_is_rejected() {
    let job = json!({"partial-coverage-protection": true});
    let covered = json!({"id": "j1", "job": job, "tasks": ["t1", "t2", "t3"]});
    let log = [join("a"), join("b"), json!({"fn": "submit-job", "args": covered})];
    let lines = settle(&[], &log);
    let job = &lines[2]["replica"]["jobs"][0];
    assert_eq!(job["state"], "pending");
    assert_eq!(job["waiting"], "needs 3 peers, 2 available");
    let lines = settle(&[], &[submit("j1", "greedy", &[])]);
    assert_eq!(lines[0]["rejected"], "a job has at least one task");
}

#[test]
fn an_origin_whose_plan_is_not_carried_out_is_carried_out() {
    let origin = json!({
        "peers": ["a", "b"], "job-scheduler": "greedy",
        "jobs": [{"id": "j1", "tasks": ["t1"], "task-scheduler": "greedy"}],
    });
    let path = std::env::temp_dir().join(format!("sardonyx-jobs-{}.json", std::process::id()));
    std::fs::write(&path, origin.to_string()).unwrap();
    let lines = settle(&["--origin", path.to_str().unwrap()], &[join("c")]);
    std::fs::remove_file(&path).unwrap();
    let allocations = &lines[0]["replica"]["jobs"][0]["allocations"];
    assert_eq!(allocations["t1"], json!(["a", "b", "c"]));
}
