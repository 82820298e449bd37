//! kill -9 of a writing process, at two hundred moments.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Write as _},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use sardonyx_store::{
    Delivery, Options, Start, Store, check,
    suite::{label, labelled, run},
};

const DIR: &str = "SARDONYX_KILLED_DIR";
const RUN: &str = "SARDONYX_KILLED_RUN";
const N_RUNS: u32 = 200;
const N_LANES: u32 = 8;

/// Not a test: the process that is killed. Says every label whose append was acknowledged.
#[test]
fn killed_child() {
    let (Ok(dir), Ok(number)) = (std::env::var(DIR), std::env::var(RUN)) else { return };
    run(async {
        let store = Store::open(&format!("embedded:{dir}"), Options::default()).await.unwrap();
        let mut lanes = tokio::task::JoinSet::new();
        for lane in 0..N_LANES {
            let (store, number) = (store.clone(), number.clone());
            lanes.spawn(async move {
                for n in 0.. {
                    let label = format!("{number}-{lane}-{n}");
                    store.append(&labelled(&label)).await.unwrap();
                    let line = format!("\n#{label}\n");
                    // One write, so that a line is whole or not there.
                    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
                }
            });
        }
        lanes.join_all().await;
    });
}

/// Starts a writer, kills it after `moment`, and returns the labels that it had acknowledged.
fn write_until_killed(dir: &str, number: u32, moment: Duration) -> Vec<String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed::killed_child", "--nocapture"])
        .env(DIR, dir)
        .env(RUN, number.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let killer = std::thread::spawn(move || {
        let since = Instant::now();
        // The moment is what is tested; there is nothing to wait for.
        std::thread::sleep(moment.saturating_sub(since.elapsed()));
        child.kill().unwrap();
        child.wait().unwrap();
    });
    let lines = output.split(b'\n').map_while(Result::ok);
    let labels =
        lines.filter_map(|line| String::from_utf8(line).ok()?.strip_prefix('#').map(str::to_owned));
    let labels: Vec<_> = labels.filter(|label| label.split('-').count() == 3).collect();
    killer.join().unwrap();
    labels
}

#[test]
fn what_was_acknowledged_outlives_kill_9() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let mut acknowledged: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    let (mut n_acknowledged, mut random) = (0, 0x9e37_79b9_7f4a_7c15_u64);
    for number in 0..N_RUNS {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let moment = Duration::from_micros(random >> 33 & 0xffff);
        for label in write_until_killed(path, number, moment) {
            let (run, lane, n) = parse(&label);
            let acknowledged = acknowledged.entry((run, lane)).or_default();
            *acknowledged = (*acknowledged).max(n + 1);
            n_acknowledged += 1;
        }
        // A run that was killed before it made the directory leaves nothing to check.
        if number > 20 {
            check(dir.path()).unwrap();
        }
    }
    let report = check(dir.path()).unwrap();
    eprintln!("{n_acknowledged} acknowledged of {} stored; {report:?}", report.next);
    assert!(n_acknowledged > 1000, "too few to say anything: {n_acknowledged}");
    run(async {
        let store = Store::open(&format!("embedded:{path}"), Options::default()).await.unwrap();
        let mut subscription = store.subscribe(Start::Origin);
        let mut stored: BTreeMap<(u32, u32), u32> = BTreeMap::new();
        for position in 0..report.next {
            let Delivery::Entry { position: at, command } = subscription.next().await.unwrap()
            else {
                panic!("no origin was written");
            };
            assert_eq!(at.0, position, "no gap");
            let (run, lane, n) = parse(&label(&command.unwrap()));
            let stored = stored.entry((run, lane)).or_default();
            assert_eq!(n, *stored, "each writer's entries in order, each once");
            *stored += 1;
        }
        for (lane, acknowledged) in &acknowledged {
            let stored = stored.get(lane).copied().unwrap_or_default();
            assert!(
                stored >= *acknowledged,
                "{lane:?}: {acknowledged} acknowledged, {stored} there"
            );
            assert!(stored <= acknowledged + 1, "{lane:?}: at most one was under way");
        }
    });
}

fn parse(label: &str) -> (u32, u32, u32) {
    let mut numbers = label.split('-').map(|number| number.parse().unwrap());
    let mut next = || numbers.next().unwrap();
    (next(), next(), next())
}
