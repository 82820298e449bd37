//! Real processes on a real etcd: stopped, killed and started again, while every id is collected.
//! `IDS_FAULT_SECONDS=300` runs longer than the usual few seconds.

use std::{
    fs::File,
    io::Write,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use sardonyx_ids::{Config, Id, Ids, Layout};
use sardonyx_store::{
    Store,
    suite::{Arena, servers::EtcdCluster},
};

use super::{config, run};

const URL: &str = "SARDONYX_IDS_URL";
const FILE: &str = "SARDONYX_IDS_FILE";

/// Four numbers for eight processes: they are taken over again and again.
fn terms() -> Config {
    let layout = Layout { worker_bits: 2, sequence_bits: 20, ..Layout::default() };
    Config { layout, ..config(Duration::from_secs(2)) }
}

/// Not a test: the process that `every_id_of_every_process_differs` starts. Draws ids for ever and
/// writes down each run: its first id, and how many.
#[test]
fn ids_child() {
    let (Ok(url), Ok(file)) = (std::env::var(URL), std::env::var(FILE)) else { return };
    run(async {
        let store = Store::open(&url, Default::default()).await.expect("the store opens");
        let ids = Ids::start(&store, terms()).expect("a layout");
        let mut file = File::create(file).expect("a file");
        loop {
            let mut records = Vec::new();
            for _ in 0..50 {
                for (first, n) in ids.range(10_000).iter().flat_map(|it| it.runs()) {
                    records.extend(first.bits().to_le_bytes());
                    records.extend(n.to_le_bytes());
                }
            }
            file.write_all(&records).expect("written");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
}

fn start(url: &str, file: &Path) -> Child {
    let this = std::env::current_exe().expect("this binary");
    Command::new(this)
        .args(["--exact", "processes::ids_child", "--nocapture"])
        .env(URL, url)
        .env(FILE, file)
        .stdout(Stdio::null())
        .spawn()
        .expect("a child")
}

fn signal(child: &Child, name: &str) {
    let kill = Command::new("kill").args([name, &child.id().to_string()]).status();
    assert!(kill.expect("kill runs").success());
}

fn end(child: &mut Child) {
    // It may have ended by itself.
    let _ = child.kill();
    let _ = child.wait();
}

/// The runs that a process wrote down whole.
fn runs(file: &Path) -> Vec<(u64, u64)> {
    let bytes = std::fs::read(file).unwrap_or_default();
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    bytes.chunks_exact(16).map(|it| (number(&it[..8]), number(&it[8..]))).collect()
}

#[test]
fn every_id_of_every_process_differs() {
    let seconds = std::env::var("IDS_FAULT_SECONDS").ok().and_then(|it| it.parse().ok());
    let time = Duration::from_secs(seconds.unwrap_or(15));
    let dir = tempfile::tempdir().expect("a directory");
    run(async {
        let cluster = EtcdCluster::start(3).await;
        let url = cluster.url("ids");
        let mut files = 0;
        let mut begin = || {
            files += 1;
            let file = dir.path().join(files.to_string());
            (start(&url, &file), file)
        };
        let mut children: Vec<_> = (0..8).map(|_| begin()).collect();
        let (begun, mut round, mut done) = (Instant::now(), 0, Vec::new());
        while begun.elapsed() < time {
            let index = round % children.len();
            match round % 4 {
                0 => signal(&children[index].0, "-STOP"),
                1 => {
                    end(&mut children[index].0);
                    done.push(std::mem::replace(&mut children[index], begin()).1);
                }
                2 => children.iter().for_each(|(child, _)| signal(child, "-CONT")),
                _ => {
                    let leader = cluster.leader().await.unwrap_or(0);
                    cluster.kill(leader);
                    cluster.restart(leader).await;
                }
            }
            // Stopped for longer than a lease, some of the time.
            tokio::time::sleep(Duration::from_millis(900)).await;
            round += 1;
        }
        children.iter_mut().for_each(|(child, _)| end(child));
        done.extend(children.into_iter().map(|(_, file)| file));
        let mut all: Vec<_> = done.iter().flat_map(|file| runs(file)).collect();
        let n: u64 = all.iter().map(|(_, n)| n).sum();
        all.sort_unstable();
        for pair in all.windows(2) {
            let ((a, n), (b, _)) = (pair[0], pair[1]);
            assert!(a + n <= b, "{a} and {n} more overlap {b}");
        }
        println!("{n} ids of {} processes in {} runs", done.len(), all.len());
        // The marks only grow, so what is below the last one was below the one of its time.
        let store = Store::open(&url, Default::default()).await.expect("the store opens");
        let numbers = sardonyx_ids::admin::overview(&store).await.expect("the marks").numbers;
        let layout = terms().layout;
        for (first, n) in all {
            let last = Id::from_bits(first + n - 1).map(|id| layout.decode(id)).expect("an id");
            let mark = numbers.iter().find(|it| it.number == last.worker).and_then(|it| it.until);
            assert!(mark.is_some_and(|mark| last.time < mark), "{last:?} is not below {mark:?}");
        }
        assert!(n > 1_000_000, "{n} ids");
    });
}

/// A thousand and twenty-four join at once for as many numbers; the next one waits and says so.
#[test]
fn as_many_as_there_are_numbers_join_at_once() {
    run(async {
        let arena = Arena::etcd(1).await;
        let store = arena.open().await;
        // What is measured is the protocol, not how long etcd may take on a busy machine.
        let (lease, patience) = (Duration::from_secs(60), Duration::from_secs(20));
        let config = Config { lease, patience, ..Config::default() };
        let begun = Instant::now();
        let starts = (0..1024).map(|_| Ids::start(&store, config.clone()).expect("a layout"));
        let all: Vec<Ids> = starts.collect();
        for ids in &all {
            let ready = tokio::time::timeout(super::SOON, ids.ready()).await;
            ready.expect("soon").expect("a number");
        }
        let (elapsed, calls) = (begun.elapsed(), all.iter().map(Ids::calls).sum::<u64>());
        let mut numbers: Vec<_> =
            all.iter().flat_map(Ids::status).filter_map(|it| it.worker).collect();
        numbers.sort_unstable();
        numbers.dedup();
        println!("{elapsed:?}, {} calls each", calls as f64 / 1024.0);
        assert_eq!(numbers.len(), 1024);
        assert!(calls < 5 * 1024, "{calls} calls");
        let next = Ids::start(&store, config).expect("a layout");
        let mut status = next.watch();
        let full = status.wait_for(|it| {
            it.problem.as_ref().is_some_and(|it| it.to_string().contains("at capacity"))
        });
        tokio::time::timeout(super::SOON, full).await.expect("soon").expect("a status");
    });
}
