//! The journal keeps what is needed and not much more.

use std::path::Path;

use bytes::Bytes;

use super::{SMALL, open};
use crate::{
    Body, OpenError, Outgoing, Queues, Transaction,
    suite::{alone, depth_becomes, note, place, queue, receive_n, run, sending, text},
};

fn disk_bytes(dir: &Path) -> u64 {
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let segments = files.filter(|it| it.file_name().to_str().unwrap().starts_with("queue-"));
    segments.map(|it| it.metadata().unwrap().len()).sum()
}

#[test]
fn what_is_acknowledged_leaves_the_disk() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let here = place("here");
        let (input, aside) = (queue(&here, "up"), queue(&place("there"), "up"));
        let queues = open(dir.path(), SMALL).await;
        let session = alone(&queues, &here).await;
        // A large and a small message that stay, and keys, from the very beginning on.
        let large = Bytes::from(vec![5; 20 << 10]);
        let body = Body::Note(large.clone());
        let large_one = Outgoing { queue: aside.clone(), partition: None, body };
        let puts = vec![("key".into(), Some(Bytes::from_static(b"value")))];
        let sends = vec![note(&aside, None, "small"), large_one];
        session.commit(Transaction { sends, puts, ..Transaction::default() }).await.unwrap();
        let mut most = 0;
        for n in 0..400u32 {
            let body = Body::Note(Bytes::from(vec![n as u8; 5000]));
            let outgoing = Outgoing { queue: input.clone(), partition: None, body };
            session.commit(sending(vec![outgoing])).await.unwrap();
            let held = receive_n(&session, 1).await;
            let Body::Note(bytes) = &held[0].body else { panic!("a note") };
            assert_eq!(bytes[0], n as u8);
            let acks = vec![held[0].receipt];
            session.commit(Transaction { acks, ..Transaction::default() }).await.unwrap();
            most = most.max(disk_bytes(dir.path()));
        }
        // 2 MB went through segments of 32 KiB, of which one is kept for the large message. A file
        // grows ahead by 4 MiB, once.
        assert!(most < 5 << 20, "{most} bytes at most");
        assert!(super::super::segment::list(dir.path()).unwrap().len() <= 2);
        drop((session, queues));
        let queues = open(dir.path(), SMALL).await;
        depth_becomes(&queues, &input, 0, 0).await;
        depth_becomes(&queues, &aside, 2, 0).await;
        let there = crate::Place { job: aside.job.clone(), task: aside.task.clone() };
        let held = receive_n(&alone(&queues, &there).await, 2).await;
        assert_eq!(text(&held[0]), "small");
        assert!(matches!(&held[1].body, Body::Note(bytes) if *bytes == large));
        assert_eq!(queues.peek(&here, "").await.unwrap()[0].1, "value");
        // And when the job is over, all of it goes.
        queues.forget(&aside.job).await.unwrap();
        queues.forget(&here.job).await.unwrap();
        assert_eq!(queues.jobs().await.unwrap(), Vec::<String>::new());
    });
}

/// Found by the twin: the snapshot still names the segment that went after it was written.
#[test]
fn a_segment_that_went_is_not_missed() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let here = place("here");
        let input = queue(&here, "up");
        let queues = open(dir.path(), SMALL).await;
        let session = alone(&queues, &here).await;
        for n in 0..5u8 {
            let body = Body::Note(Bytes::from(vec![n; 9 << 10]));
            let outgoing = Outgoing { queue: input.clone(), partition: None, body };
            session.commit(sending(vec![outgoing])).await.unwrap();
        }
        let n_before = super::super::segment::list(dir.path()).unwrap().len();
        let held = receive_n(&session, 4).await;
        let acks = held.iter().map(|it| it.receipt).collect();
        session.commit(Transaction { acks, ..Transaction::default() }).await.unwrap();
        drop((session, queues));
        let n_after = super::super::segment::list(dir.path()).unwrap().len();
        assert!(n_before == 2 && n_after == 1, "{n_before} segments, then {n_after}");
        let queues = open(dir.path(), SMALL).await;
        depth_becomes(&queues, &input, 1, 0).await;
    });
}

#[test]
fn damage_in_an_older_segment_is_found_when_the_queues_are_opened() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let here = place("here");
        let input = queue(&here, "up");
        let queues = open(dir.path(), SMALL).await;
        let session = alone(&queues, &here).await;
        for n in 0..20u8 {
            let body = Body::Note(Bytes::from(vec![n; 10 << 10]));
            let outgoing = Outgoing { queue: input.clone(), partition: None, body };
            session.commit(sending(vec![outgoing])).await.unwrap();
        }
        drop((session, queues));
        let segments = super::super::segment::list(dir.path()).unwrap();
        assert!(segments.len() > 3, "{segments:?}");
        let oldest = &segments[0].1;
        let whole = std::fs::read(oldest).unwrap();
        let body = whole.windows(2000).position(|some| some == [0; 2000]).unwrap();
        let mut bytes = whole.clone();
        bytes[body + 1000] ^= 1;
        std::fs::write(oldest, &bytes).unwrap();
        let opened = Queues::embedded(dir.path(), SMALL).await;
        let Err(OpenError::Corrupt(why)) = opened else { panic!("{opened:?}") };
        assert!(why.contains(oldest.file_name().unwrap().to_str().unwrap()), "{why}");
        std::fs::remove_file(oldest).unwrap();
        let opened = Queues::embedded(dir.path(), SMALL).await;
        assert!(matches!(opened, Err(OpenError::Corrupt(_))), "{opened:?}");
        std::fs::write(oldest, &whole).unwrap();
        let queues = open(dir.path(), SMALL).await;
        let held = receive_n(&alone(&queues, &here).await, 20).await;
        for (n, it) in held.iter().enumerate() {
            assert!(matches!(&it.body, Body::Note(bytes) if bytes[..] == vec![n as u8; 10 << 10]));
        }
    });
}
