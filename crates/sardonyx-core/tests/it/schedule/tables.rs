//! How many peers a job or a task gets: the rule as a table.

use sardonyx_core::{Entry, Position, Replica, command::VolunteerForTask, wire};

use crate::text;

/// Each row is a number of peers and what the jobs then have. `jobs` are written as in the
/// examples, each with one greedy task unless it names more.
fn jobs(scheduler: &str, jobs: &[&str], table: &str) {
    check(scheduler, jobs, table, |replica| {
        replica.jobs().map(sardonyx_core::replica::job::Job::n_peers).collect()
    });
}

/// Each row is a number of peers and what the tasks of one job then have.
fn tasks(job: &str, table: &str) {
    check("greedy", &[job], table, |replica| {
        let job = replica.jobs().next().unwrap();
        job.allocations().map(|(_, peers)| peers.count()).collect()
    });
}

fn check(scheduler: &str, jobs: &[&str], table: &str, counts: impl Fn(&Replica) -> Vec<usize>) {
    for line in table.lines().map(|line| line.split("//").next().unwrap_or_default().trim()) {
        let row: Vec<usize> = line.split_whitespace().map(|n| n.parse().unwrap()).collect();
        let Some((&n_peers, expected)) = row.split_first() else { continue };
        let peers: Vec<_> = (0..n_peers).map(|index| format!("p{index:03}")).collect();
        let origin = format!(r#"{{"job-scheduler":"{scheduler}","peers":{peers:?}}}"#);
        let mut replica = wire::replica_from_json(&origin).unwrap();
        let commands = jobs.iter().map(|job| text::submit(&job.split(' ').collect::<Vec<_>>()));
        for (position, command) in commands.enumerate() {
            replica.play(&Entry { position: Position(position as u64), command }).unwrap();
        }
        let peers = replica.peers().cloned().collect();
        let command = VolunteerForTask { peers }.into();
        _ = replica.play(&Entry { position: Position(100), command });
        assert_eq!(counts(&replica), expected, "{scheduler} {jobs:?} with {n_peers} peers");
    }
}

#[test]
fn greedy_jobs() {
    jobs(
        "greedy",
        &["a greedy t", "b greedy t"],
        "
        0   0 0
        1   1 0
        8   8 0
    ",
    );
    jobs(
        "greedy",
        &["a greedy t:max=2", "b greedy t:min=3", "c greedy t"],
        "
        2   2 0 0
        4   2 0 2   // Two are left, b needs three and is passed over.
        5   2 3 0
        9   2 7 0
    ",
    );
}

#[test]
fn round_robin_jobs() {
    jobs(
        "round-robin",
        &["a greedy t", "b greedy t", "c greedy t"],
        "
        0   0 0 0
        2   1 1 0
        8   3 3 2   // The document's example.
        10  4 3 3
    ",
    );
    // Ten peers for four jobs: the remainder is two, not the numerator of a reduced half.
    jobs("round-robin", &["a greedy t", "b greedy t", "c greedy t", "d greedy t"], "10  3 3 2 2");
    // What a saturated job leaves goes to any other with room, also to one with a limit.
    jobs("round-robin", &["a greedy t:max=2", "b greedy t:max=6"], "8  2 6");
    // Lower bounds first: both fit.
    jobs(
        "round-robin",
        &["a greedy t:min=8", "b greedy t:min=3"],
        "
        11  8 3
        10  10 0   // b cannot be covered; a has room for everybody.
    ",
    );
    jobs("round-robin", &["a greedy t:min=8", "b greedy t:min=3"], "7  0 7");
}

#[test]
fn percentage_jobs() {
    jobs(
        "percentage",
        &["a greedy pct=70 t", "b greedy pct=30 t"],
        "
        10  7 3
        9   6 3   // 6.3 and 2.7: the seat goes to the larger remainder.
        1   1 0
    ",
    );
    // Integers: 29 percent of 100 is 29, whatever a float says.
    jobs("percentage", &["a greedy pct=29 t", "b greedy pct=58 t"], "100  29 58");
    // The higher percentage wins the race for the hundred, not the earlier job.
    jobs("percentage", &["a greedy pct=60 t", "b greedy pct=70 t"], "10  0 7");
    // The first that does not fit ends the list, even if a later one would fit.
    jobs(
        "percentage",
        &["a greedy pct=50 t", "b greedy pct=60 t", "c greedy pct=10 t"],
        "10  0 6 0",
    );
    // What nobody asked for stays idle, and so does what does not cover a job.
    jobs("percentage", &["a greedy pct=50 t:max=2", "b greedy pct=20 t:min=3"], "10  2 0");
    jobs(
        "percentage",
        &["a greedy pct=33.33 t", "b greedy pct=33.33 t", "c greedy pct=33.34 t"],
        "
        3   1 1 1
        100 33 33 34
    ",
    );
}

#[test]
fn greedy_tasks() {
    tasks(
        "j greedy t1 t2:min=1 t3",
        "
        1   0 1 0
        2   1 1 0
        5   4 1 0
    ",
    );
    tasks(
        "j greedy t1:max=2 t2:max=1 t3",
        "
        2   2 0 0
        3   2 1 0
        7   2 1 4
    ",
    );
}

#[test]
fn round_robin_tasks() {
    tasks(
        "j round-robin t1 t2 t3",
        "
        2   1 1 0
        4   2 1 1
        8   3 3 2
    ",
    );
    tasks(
        "j round-robin covered t1 t2 t3",
        "
        2   0 0 0   // Fewer peers than tasks: the job waits.
        3   1 1 1
        4   2 1 1
    ",
    );
    tasks(
        "j round-robin t1:min=3 t2 t3:max=1",
        "
        2   0 0 0
        3   3 0 0
        5   3 1 1
        8   4 3 1
    ",
    );
}

#[test]
fn percentage_tasks() {
    tasks(
        "j percentage t1:pct=70 t2:pct=20 t3:pct=10",
        "
        10  7 2 1
        1   1 0 0
        5   4 1 0   // 3.5, 1 and 0.5: equal remainders go by topology.
    ",
    );
    // Percentages that do not add up to a hundred are a ratio.
    tasks("j percentage t1:pct=20 t2:pct=20", "8  4 4");
    // No percentages at all: equal shares.
    tasks("j percentage t1 t2", "3  2 1");
    tasks(
        "j percentage t1:pct=70:max=4 t2:pct=20:min=3 t3:pct=10",
        "
        10  4 4 2
        3   0 3 0
        4   1 3 0
    ",
    );
    // The maximum and the minimum together leave room for both.
    tasks("j percentage t1:pct=90:max=3 t2:pct=5:min=2 t3:pct=5", "4  2 2 0");
}
