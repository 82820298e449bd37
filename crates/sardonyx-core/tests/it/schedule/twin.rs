//! The plan once more, slowly and in the plainest way, from nothing but what people see.
//!
//! It is the text of the design turned into loops. The real one must agree with it on every
//! cluster.

use std::{cmp::Reverse, collections::BTreeMap};

use sardonyx_core::{Replica, wire};
use serde_json::Value;

/// What each peer should run, as `(job, task)`.
pub type Allocation = BTreeMap<String, Option<(String, String)>>;

#[derive(Debug)]
pub struct Task {
    pub id: String,
    pub low: usize,
    /// What of `low` the job must be able to give.
    pub must: usize,
    pub high: usize,
    pub share: usize,
    /// The sealer first, then by length of service.
    pub peers: Vec<String>,
    pub sealer: Option<String>,
}

#[derive(Debug)]
pub struct Job {
    pub id: String,
    pub scheduler: String,
    pub share: usize,
    /// The unfinished ones.
    pub tasks: Vec<Task>,
}

impl Job {
    pub fn low(&self) -> usize {
        self.tasks.iter().map(|task| task.must).sum()
    }

    pub fn high(&self) -> usize {
        self.tasks.iter().fold(0, |sum, task| sum.saturating_add(task.high))
    }

    pub fn present(&self) -> usize {
        self.tasks.iter().map(|task| task.peers.len()).sum()
    }
}

pub struct Seen {
    pub scheduler: String,
    pub peers: Vec<String>,
    pub jobs: Vec<Job>,
}

pub fn look(replica: &Replica) -> Seen {
    let json: Value = serde_json::from_str(&wire::replica_to_json(replica)).unwrap();
    let strings = |value: &Value| -> Vec<String> {
        value.as_array().unwrap().iter().map(|it| it.as_str().unwrap().into()).collect()
    };
    // Twins only see whole percentages.
    let number = |value: &Value| value.as_u64().map(|it| it as usize);
    let jobs = json["jobs"].as_array().unwrap().iter();
    let live = jobs.filter(|job| ["pending", "running"].contains(&job["state"].as_str().unwrap()));
    let job = |job: &Value| {
        let done = strings(&job["completions"]);
        let covered = job["partial-coverage-protection"].as_bool().unwrap();
        let unfinished = strings(&job["tasks"]).into_iter().filter(|task| !done.contains(task));
        let task = |id: String| {
            let (limits, mut peers) = (&job["limits"][&id], strings(&job["allocations"][&id]));
            let sealer = job["sealing"][&id].as_str().map(String::from);
            peers.sort_by_key(|peer| Some(peer) != sealer.as_ref());
            let mut high = number(&limits["max-peers"]).unwrap_or(usize::MAX);
            let mut low = number(&limits["min-peers"]).unwrap_or(0).max(usize::from(covered));
            let mut must = low;
            if sealer.is_some() {
                high = high.min(peers.len());
                must = low.min(1);
                low = 1;
            }
            let share = number(&limits["percentage"]).unwrap_or(0);
            Task { id, low, must, high, share, peers, sealer }
        };
        Job {
            id: job["id"].as_str().unwrap().into(),
            scheduler: job["task-scheduler"].as_str().unwrap().into(),
            share: number(&job["percentage"]).unwrap_or(0),
            tasks: unfinished.map(task).collect(),
        }
    };
    Seen {
        scheduler: json["job-scheduler"].as_str().unwrap().into(),
        peers: strings(&json["peers"]),
        jobs: live.map(job).collect(),
    }
}

pub fn plan(seen: &Seen) -> Allocation {
    let job_counts = match seen.scheduler.as_str() {
        "greedy" => greedy_jobs(seen),
        "round-robin" => round_robin_jobs(seen),
        _ => percentage_jobs(seen),
    };
    let mut task_counts = Vec::new();
    for (job, &count) in seen.jobs.iter().zip(&job_counts) {
        let counts = match job.scheduler.as_str() {
            "greedy" => greedy_tasks(job, count),
            "round-robin" => round_robin_tasks(job, count),
            _ => percentage_tasks(job, count),
        };
        task_counts.push(counts);
    }
    who(seen, &task_counts)
}

fn greedy_jobs(seen: &Seen) -> Vec<usize> {
    let mut left = seen.peers.len();
    let mut counts = Vec::new();
    for job in &seen.jobs {
        let count = if job.low() > left { 0 } else { job.high().min(left) };
        left -= count;
        counts.push(count);
    }
    counts
}

fn round_robin_jobs(seen: &Seen) -> Vec<usize> {
    let mut left = seen.peers.len();
    let mut counts = vec![0; seen.jobs.len()];
    let mut covered = vec![false; seen.jobs.len()];
    for (at, job) in seen.jobs.iter().enumerate() {
        if job.low() <= left {
            covered[at] = true;
            counts[at] = job.low();
            left -= job.low();
        }
    }
    while left > 0 {
        let room = (0..counts.len()).filter(|&at| covered[at] && counts[at] < seen.jobs[at].high());
        let key = |&at: &usize| (counts[at], seen.jobs[at].present() <= counts[at], at);
        let Some(fewest) = room.min_by_key(key) else { break };
        counts[fewest] += 1;
        left -= 1;
    }
    counts
}

fn percentage_jobs(seen: &Seen) -> Vec<usize> {
    let n = seen.peers.len();
    let mut rank: Vec<usize> = (0..seen.jobs.len()).collect();
    rank.sort_by_key(|&at| (Reverse(seen.jobs[at].share), at));
    let mut sum = 0;
    let mut inside = Vec::new();
    for at in rank {
        if sum + seen.jobs[at].share > 100 {
            break;
        }
        sum += seen.jobs[at].share;
        inside.push(at);
    }
    let mut counts = vec![0; seen.jobs.len()];
    for &at in &inside {
        counts[at] = n * seen.jobs[at].share / 100;
    }
    let mut left = n * sum / 100 - counts.iter().sum::<usize>();
    inside.sort_by_key(|&at| Reverse(n * seen.jobs[at].share % 100));
    for at in inside {
        if left > 0 {
            counts[at] += 1;
            left -= 1;
        }
    }
    for (count, job) in counts.iter_mut().zip(&seen.jobs) {
        *count = if *count < job.low() { 0 } else { (*count).min(job.high()) };
    }
    counts
}

fn minima(job: &Job, count: usize) -> (Vec<usize>, usize) {
    let mut left = count;
    let mut counts = Vec::new();
    for task in &job.tasks {
        counts.push(task.must.min(left));
        left -= task.must.min(left);
    }
    for (count, task) in counts.iter_mut().zip(&job.tasks) {
        let more = task.low.saturating_sub(*count).min(left);
        *count += more;
        left -= more;
    }
    (counts, left)
}

fn greedy_tasks(job: &Job, count: usize) -> Vec<usize> {
    let (mut counts, mut left) = minima(job, count);
    while left > 0 {
        let Some(at) = (0..counts.len()).find(|&at| counts[at] < job.tasks[at].high) else { break };
        counts[at] += 1;
        left -= 1;
    }
    counts
}

fn round_robin_tasks(job: &Job, count: usize) -> Vec<usize> {
    let (mut counts, mut left) = minima(job, count);
    while left > 0 {
        let room = (0..counts.len()).filter(|&at| counts[at] < job.tasks[at].high);
        let key = |&at: &usize| (counts[at], job.tasks[at].peers.len() <= counts[at], at);
        let Some(at) = room.min_by_key(key) else { break };
        counts[at] += 1;
        left -= 1;
    }
    counts
}

fn percentage_tasks(job: &Job, count: usize) -> Vec<usize> {
    fn share(tasks: &[(usize, &Task)], count: usize) -> BTreeMap<usize, usize> {
        let whole: usize = tasks.iter().map(|(_, task)| task.share).sum();
        let weight = |task: &Task| if whole == 0 { 1 } else { task.share };
        let whole = if whole == 0 { tasks.len().max(1) } else { whole };
        let mut counts: BTreeMap<_, _> =
            tasks.iter().map(|(at, task)| (*at, count * weight(task) / whole)).collect();
        let mut left = count - counts.values().sum::<usize>();
        let mut order: Vec<_> = tasks.to_vec();
        order.sort_by_key(|(at, task)| (Reverse(count * weight(task) % whole), *at));
        for (at, _) in order {
            if left > 0 {
                *counts.get_mut(&at).unwrap() += 1;
                left -= 1;
            }
        }
        let over: usize = tasks.iter().map(|(at, it)| counts[at].saturating_sub(it.high)).sum();
        let under: usize = tasks.iter().map(|(at, it)| it.low.saturating_sub(counts[at])).sum();
        if over == 0 && under == 0 {
            return counts;
        }
        let (fixed, open): (Vec<_>, Vec<_>) = tasks.iter().partition(|(at, task)| {
            if over >= under { counts[at] > task.high } else { counts[at] < task.low }
        });
        let fixed: BTreeMap<usize, usize> = fixed
            .iter()
            .map(|(at, task)| (*at, if over >= under { task.high } else { task.low }))
            .collect();
        let left = count.saturating_sub(fixed.values().sum());
        share(&open, left).into_iter().chain(fixed).collect()
    }
    let tasks: Vec<_> = job.tasks.iter().enumerate().collect();
    if count <= job.tasks.iter().map(|task| task.low).sum() {
        return minima(job, count).0;
    }
    share(&tasks, count).into_values().collect()
}

fn who(seen: &Seen, counts: &[Vec<usize>]) -> Allocation {
    let mut allocation: Allocation = seen.peers.iter().map(|peer| (peer.clone(), None)).collect();
    let seat = |peer: &String| seen.peers.iter().position(|it| it == peer);
    let (mut gaps, mut surplus, mut busy) = (Vec::new(), Vec::new(), Vec::new());
    for (job, counts) in seen.jobs.iter().zip(counts) {
        let (mut own_gaps, mut own_surplus) = (Vec::new(), Vec::new());
        for (task, &count) in job.tasks.iter().zip(counts) {
            let place = Some((job.id.clone(), task.id.clone()));
            for (index, peer) in task.peers.iter().enumerate() {
                busy.push(peer.clone());
                match index < count {
                    true => _ = allocation.insert(peer.clone(), place.clone()),
                    false => own_surplus.push(peer.clone()),
                }
            }
            own_gaps.extend((task.peers.len()..count).map(|_| place.clone()));
        }
        own_surplus.sort_by_key(seat);
        while !own_gaps.is_empty() && !own_surplus.is_empty() {
            allocation.insert(own_surplus.remove(0), own_gaps.remove(0));
        }
        gaps.extend(own_gaps);
        surplus.extend(own_surplus);
    }
    surplus.sort_by_key(seat);
    let idle = seen.peers.iter().filter(|peer| !busy.contains(peer)).cloned();
    let mut fillers: Vec<_> = surplus.into_iter().chain(idle).take(gaps.len()).collect();
    fillers.sort_by_key(seat);
    allocation.extend(fillers.into_iter().zip(gaps));
    allocation
}
