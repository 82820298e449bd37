//! A disk that is full: what was acknowledged is there, what was refused is not, and all are told.

use std::{path::Path, process::Command};

use bytes::Bytes;
use sardonyx_queue::{
    Body, Outgoing, Queues, Refused,
    suite::{alone, is_lost, place, queue, receive_n, run, sending, soon},
};

/// A small file system.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// `None` if this is not root, which is then said aloud; a root that cannot mount is a failure.
    fn mount() -> Option<SmallDisk> {
        let id = Command::new("id").arg("-u").output().unwrap();
        if id.stdout.trim_ascii() != b"0" {
            eprintln!("NOT CHECKED: a small file system to fill needs root");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=10m", "tmpfs"])
            .arg(dir.path())
            .output()
            .unwrap();
        assert!(mount.status.success(), "mount: {}", String::from_utf8_lossy(&mount.stderr));
        Some(SmallDisk(dir))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

/// Small records, which fill what was grown ahead, and large ones, which fail in the middle.
#[test]
fn a_full_disk_loses_nothing() {
    for size in [50_000, 900_000] {
        let Some(disk) = SmallDisk::mount() else { return };
        run(async {
            let url = format!("embedded:{}", disk.path().join("queues").display());
            let ballast = disk.path().join("ballast");
            std::fs::write(&ballast, vec![1; 2 << 20]).unwrap();
            let queues = Queues::open(&url).await.unwrap();
            let here = place("here");
            let input = queue(&here, "up");
            let session = alone(&queues, &here).await;
            let message = |n: u8| {
                let body = Body::Note(Bytes::from(vec![n; size]));
                sending(vec![Outgoing { queue: input.clone(), partition: None, body }])
            };
            let mut n = 0;
            let full = loop {
                match soon(session.commit(message(n))).await {
                    Ok(()) => n += 1,
                    Err(why) => break why,
                }
                assert!(n < 250, "the disk never filled up");
            };
            let said = full.to_string();
            assert!(matches!(full, Refused::Unavailable(_) | Refused::Unknown(_)), "{said}");
            assert!(said.contains("free some room"), "{said}");
            assert!(n > 3, "{n} messages fit");
            soon(session.lost()).await;
            assert!(is_lost(&session.commit(message(n)).await));
            assert!(matches!(queues.depth(&input).await, Err(Refused::Unavailable(_))));
            drop((session, queues));
            // With room again, everything that was acknowledged is there and goes on.
            std::fs::remove_file(&ballast).unwrap();
            let queues = Queues::open(&url).await.unwrap();
            assert_eq!(queues.depth(&input).await.unwrap().total(), u64::from(n));
            let session = alone(&queues, &here).await;
            let held = receive_n(&session, n.into()).await;
            for (n, it) in held.iter().enumerate() {
                let Body::Note(bytes) = &it.body else { panic!("a note") };
                assert!(bytes.len() == size && bytes.iter().all(|byte| *byte == n as u8));
            }
            session.commit(message(n)).await.unwrap();
        });
    }
}
