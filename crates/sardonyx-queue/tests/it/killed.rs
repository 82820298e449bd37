//! kill -9 of a committing process, at many moments: what was acknowledged is there, and every
//! transaction is there whole or not at all.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Command, Stdio},
    time::Duration,
};

use bytes::Bytes;
use sardonyx_queue::{
    Place, Queues, Transaction,
    suite::{SOON, alone, note, queue, receive_n, run, sending, text},
};

const DIR: &str = "SARDONYX_QUEUE_KILLED_DIR";
const N_RUNS: u32 = 60;
const N_LANES: u64 = 4;

fn place(lane: u64) -> Place {
    Place { job: "killed".into(), task: format!("t{lane}") }
}

/// Not a test: the process that is killed. In each lane a message goes round: every commit takes it
/// and sends its successor, with the number in a key and an unmoved second message. Says every number
/// whose commit was acknowledged.
#[test]
fn killed_child() {
    let Ok(dir) = std::env::var(DIR) else { return };
    run(async {
        let queues = Queues::open(&format!("embedded:{dir}")).await.unwrap();
        std::io::stdout().lock().write_all(b"\n#ready\n").unwrap();
        let mut lanes = tokio::task::JoinSet::new();
        for lane in 0..N_LANES {
            lanes.spawn(go_round(queues.clone(), lane));
        }
        lanes.join_all().await;
    });
}

async fn go_round(queues: Queues, lane: u64) {
    let here = place(lane);
    let (ring, tally) = (queue(&here, "ring"), queue(&here, "tally"));
    let session = alone(&queues, &here).await;
    if session.get("n").await.unwrap().is_none() {
        let puts = vec![("n".into(), Some(Bytes::from_static(b"0")))];
        let sends = vec![note(&ring, None, "0")];
        session.commit(Transaction { sends, puts, ..Transaction::default() }).await.unwrap();
    }
    // The tally is not ours to work on: only counted at the end.
    loop {
        let held = receive_n(&session, 1).await.remove(0);
        if held.queue == tally {
            session
                .commit(Transaction { acks: vec![held.receipt], ..Default::default() })
                .await
                .unwrap();
            continue;
        }
        let n: u64 = text(&held).parse().unwrap();
        let next = (n + 1).to_string();
        let padding = "x".repeat((n % 300) as usize * 100);
        let turn = Transaction {
            acks: vec![held.receipt],
            sends: vec![note(&ring, None, &next), note(&tally, None, &padding)],
            puts: vec![("n".into(), Some(Bytes::from(next.clone())))],
            expects: vec![("n".into(), Some(Bytes::from(n.to_string())))],
            ..Transaction::default()
        };
        session.commit(turn).await.unwrap();
        // One write, so that a line is whole or not there.
        let line = format!("\n#{lane} {next}\n");
        std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
    }
}

/// Starts a child, kills it a `moment` after it was started or after it is ready, and returns the
/// highest number acknowledged per lane.
fn commit_until_killed(dir: &str, moment: Duration, is_early: bool) -> Vec<u64> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed::killed_child", "--nocapture"])
        .env(DIR, dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let (ready, is_ready) = std::sync::mpsc::channel();
    let killer = std::thread::spawn(move || {
        if !is_early {
            // An error means that it has ended, and then there is nothing to wait for.
            let _ = is_ready.recv_timeout(SOON);
        }
        // The moment is what is tested; there is nothing to wait for.
        std::thread::sleep(moment);
        child.kill().unwrap();
        child.wait().unwrap();
    });
    let mut highest = vec![0; N_LANES as usize];
    for line in output.split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8(line).unwrap_or_default();
        if line == "#ready" {
            let _ = ready.send(());
        }
        let pair = line.strip_prefix('#').and_then(|line| line.split_once(' '));
        if let Some((lane, n)) = pair {
            highest[lane.parse::<usize>().unwrap()] = n.parse().unwrap();
        }
    }
    killer.join().unwrap();
    highest
}

#[test]
fn what_was_acknowledged_outlives_kill_9() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut acknowledged = vec![0; N_LANES as usize];
    for number in 0..N_RUNS {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let moment = Duration::from_micros(random >> 33 & 0x1ffff);
        let killed = commit_until_killed(path, moment, number.is_multiple_of(5));
        for (all, one) in acknowledged.iter_mut().zip(killed) {
            *all = one.max(*all);
        }
        run(async {
            let queues = Queues::open(&format!("embedded:{path}")).await.unwrap();
            for lane in 0..N_LANES {
                let keys = queues.peek(&place(lane), "n").await.unwrap();
                let Some((_, n)) = keys.first() else { continue };
                let n: u64 = String::from_utf8_lossy(n).parse().unwrap();
                let known = acknowledged[lane as usize];
                assert!(
                    n >= known && n <= known + 1,
                    "lane {lane}: {known} acknowledged, {n} there"
                );
                acknowledged[lane as usize] = n;
                // The key and the message are of the same transaction.
                let ring = queue(&place(lane), "ring");
                assert_eq!(queues.depth(&ring).await.unwrap().total(), 1);
                let session = alone(&queues, &place(lane)).await;
                let tally = queue(&place(lane), "tally");
                let n_held = 1 + queues.depth(&tally).await.unwrap().total() as usize;
                let held = receive_n(&session, n_held).await;
                let found = held.iter().find(|it| it.queue == ring);
                assert_eq!(found.map(text), Some(n.to_string()));
            }
        });
    }
    let total: u64 = acknowledged.iter().sum();
    eprintln!("{total} turns in {N_RUNS} lives");
    assert!(total > 500, "too few to say anything: {total}");
    // And the directory is still good for more.
    run(async {
        let queues = Queues::open(&format!("embedded:{path}")).await.unwrap();
        let session = alone(&queues, &place(0)).await;
        let more = sending(vec![note(&queue(&place(0), "more"), None, "more")]);
        session.commit(more).await.unwrap();
    });
}
