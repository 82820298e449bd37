//! The files of `embedded:` under damage: what was never finished is dropped, what was damaged is
//! named, and neither is taken for the other.

use std::{fs, path::Path};

use sardonyx_store::{
    Delivery, Error, Options, Origin, Seen, Start, Store, check,
    suite::{label, labelled, run},
};

const JOURNAL: &str = "journal-00000000000000000000";

async fn open(dir: &Path) -> Result<Store, Error> {
    Store::open(&format!("embedded:{}", dir.display()), Options::default()).await
}

/// Writes labels `from..to`, one group each, and closes the store.
async fn write(dir: &Path, from: u32, to: u32) {
    let store = open(dir).await.unwrap();
    for n in from..to {
        store.append(&labelled(&n.to_string())).await.unwrap();
    }
    store.close().await;
}

async fn read(dir: &Path) -> Result<Vec<String>, Error> {
    let n = check(dir)?.next;
    let store = open(dir).await?;
    let mut subscription = store.subscribe(Start::Origin);
    let mut labels = Vec::new();
    while (labels.len() as u64) < n {
        if let Delivery::Entry { command, .. } = subscription.next().await? {
            labels.push(label(&command.unwrap()));
        }
    }
    drop(subscription);
    store.close().await;
    Ok(labels)
}

fn labels(n: u32) -> Vec<String> {
    (0..n).map(|n| n.to_string()).collect()
}

/// The offset behind the last byte that is not zero.
fn used(journal: &[u8]) -> usize {
    journal.iter().rposition(|byte| *byte != 0).unwrap() + 1
}

#[test]
fn a_frame_that_was_never_finished_is_dropped_and_written_over() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), 0, 3).await;
        let whole = fs::read(dir.path().join(JOURNAL)).unwrap();
        let seal = 24;
        let before = used(&whole) - seal;
        write(dir.path(), 3, 4).await;
        let with_last = fs::read(dir.path().join(JOURNAL)).unwrap();
        let after = used(&with_last) - seal;
        // As if the power had failed at every byte of the last group.
        for cut in before..after {
            let mut torn = with_last.clone();
            torn[cut..].fill(0);
            fs::write(dir.path().join(JOURNAL), &torn).unwrap();
            assert_eq!(
                read(dir.path()).await.unwrap(),
                labels(3),
                "cut at {cut} of {before}..{after}"
            );
        }
        write(dir.path(), 3, 6).await;
        assert_eq!(read(dir.path()).await.unwrap(), labels(6));
    });
}

#[test]
fn a_flipped_bit_is_never_taken_for_an_unfinished_end() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), 0, 20).await;
        let whole = fs::read(dir.path().join(JOURNAL)).unwrap();
        // Everything that was acknowledged, to the last byte; behind it is the seal.
        let end = used(&whole) - 24;
        let (mut named, mut harmless) = (0, 0);
        for byte in (0..end).step_by(7) {
            let mut damaged = whole.clone();
            damaged[byte] ^= 1 << (byte % 8);
            fs::write(dir.path().join(JOURNAL), &damaged).unwrap();
            match check(dir.path()) {
                Err(Error::Corrupt(why)) => {
                    assert!(why.contains(JOURNAL) && why.contains("at byte"), "{why}");
                    named += 1;
                }
                // A byte of the header that nothing reads.
                Ok(report) if report.next == 20 => harmless += 1,
                other => panic!("byte {byte}: {other:?}"),
            }
        }
        eprintln!("{named} flips named, {harmless} harmless");
        assert!(harmless <= 2);
    });
}

#[test]
fn the_first_bad_record_is_named() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), 0, 20).await;
        let path = dir.path().join(JOURNAL);
        let mut journal = fs::read(&path).unwrap();
        let entry = journal.windows(2).position(|it| it == b"12").unwrap();
        journal[entry] ^= 1;
        fs::write(&path, &journal).unwrap();
        let Err(Error::Corrupt(why)) = check(dir.path()) else { panic!("it is damaged") };
        let (_, at) = why.split_once("at byte ").unwrap();
        let at: usize = at.split(';').next().unwrap().parse().unwrap();
        assert!(at <= entry && entry < at + 64, "{why}, but the flip is at {entry}");
        assert!(matches!(open(dir.path()).await, Err(Error::Corrupt(_))), "it is not opened");
    });
}

#[test]
fn a_newer_format_is_refused() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), 0, 1).await;
        let path = dir.path().join(JOURNAL);
        let mut journal = fs::read(&path).unwrap();
        journal[8] = 9;
        let crc = crc32c::crc32c(&journal[..24]);
        journal[24..28].copy_from_slice(&crc.to_le_bytes());
        fs::write(&path, &journal).unwrap();
        let Err(Error::NotConfigured(why)) = open(dir.path()).await else { panic!("it is newer") };
        assert!(why.contains("format 9") && why.contains("upgrade"), "{why}");
    });
}

#[test]
fn trimmed_segments_are_deleted_and_the_rest_is_there() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path()).await.unwrap();
        let large = vec![1; 500_000];
        for round in 0..3 {
            let mut last = None;
            for _ in 0..12 {
                last = Some(store.append_bytes(&large).await.unwrap());
            }
            let replica = sardonyx_core::Replica::new();
            let origin = Origin { position: last.unwrap(), replica, seen: Seen::default() };
            assert!(store.set_origin(&origin).await.unwrap(), "round {round}");
            store.trim().await.unwrap();
        }
        let last = store.append(&labelled("last")).await.unwrap();
        store.close().await;
        let files = fs::read_dir(dir.path()).unwrap();
        let bytes: u64 = files.map(|file| file.unwrap().metadata().unwrap().len()).sum();
        assert!(bytes < 16 << 20, "{bytes} bytes are kept of 18 million written");
        let store = open(dir.path()).await.unwrap();
        let mut subscription = store.subscribe(Start::Origin);
        let first = subscription.next().await.unwrap();
        assert!(matches!(first, Delivery::Origin(_)), "{first:?}");
        let next = subscription.next().await.unwrap();
        assert_eq!(next, Delivery::Entry { position: last, command: Ok(labelled("last")) });
    });
}

/// A child that is just being started has a copy of every open file for a moment. The lock must not
/// outlive its owner in such a copy.
#[test]
fn a_closed_directory_is_free_while_children_are_being_started() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let done = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let is_done = std::sync::Arc::clone(&done);
        let starter = std::thread::spawn(move || {
            while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                std::process::Command::new("true").status().unwrap();
            }
        });
        for _ in 0..200 {
            open(dir.path()).await.unwrap().close().await;
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        starter.join().unwrap();
    });
}
