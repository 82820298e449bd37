//! Many jobs at once, through the library.

use std::time::Duration;

use sardonyx::{Embedded, JobOutcome, Options, Registry, job};

/// How many jobs; `JOBS` asks for more.
const JOBS: usize = 200;

const JOB: &str = r#"{
    "name": "small", "workflow": [["in", "f"], ["f", "out"]],
    "catalog": {
        "in": {"type": "input", "plugin": "generate", "count": 100, "splits": 2},
        "f": {"type": "function", "fn": "sql", "query": "select n + 1 as n from segments"},
        "out": {"type": "output", "plugin": "null"}
    }
}"#;

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
fn jobs_that_are_submitted_together_all_complete() {
    let n_jobs = std::env::var("JOBS").map_or(JOBS, |jobs| jobs.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let names = job::RegisteredNames::new(Registry::built_in());
        let job = job::Job::read(JOB, job::Language::Json, &names).unwrap();
        let options = Options { peers: 16, ..Options::default() };
        let cluster = Embedded::start(options).await.unwrap();
        let mut all = Vec::new();
        for at in 0..n_jobs {
            all.push(cluster.submit(&job, &format!("small-{at}")).await.unwrap());
        }
        let (mut early, half) = (0, n_jobs / 2);
        for (at, submitted) in all.into_iter().enumerate() {
            let ended = tokio::time::timeout(Duration::from_secs(120), submitted.ended()).await;
            let ended = ended.unwrap_or_else(|_| panic!("small-{at} did not end")).unwrap();
            assert_eq!(ended.outcome, JobOutcome::Completed, "small-{at}: {:?}", ended.reason);
            if at == half {
                early = resident_bytes();
            }
        }
        let late = resident_bytes();
        println!("{n_jobs} jobs; {} MB half-way, {} MB in the end", early >> 20, late >> 20);
        // The log and the replica remember every job; what a job moved through is gone.
        let per_job = late.saturating_sub(early) / (n_jobs - half).max(1) as u64;
        assert!(per_job < 100_000, "every job leaves {per_job} bytes behind");
        // Forgetting is done on the side.
        let forgotten = async {
            while !cluster.queues().jobs().await.unwrap().is_empty() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), forgotten).await.unwrap();
        cluster.stop().await.unwrap();
    });
}
