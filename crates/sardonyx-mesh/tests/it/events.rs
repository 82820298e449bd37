//! Users' events: whisper, roar, ask; order, limits, and receivers that do not receive.

use std::time::{Duration, Instant};

use bytes::Bytes;
use sardonyx_mesh::{
    Mesh, Status,
    events::{AskError, Event, Question, SendError},
    wire::limits::EVENT_BYTES_MAX,
};
use serde::{Deserialize, Serialize};

use crate::cluster::{Cluster, Kind, SOON, eventually};

#[derive(Serialize, Deserialize, PartialEq, Debug)]
struct Number(u64);

impl Event for Number {
    const KIND: &'static str = "number";
}

#[derive(Serialize, Deserialize)]
struct Double(u64);

impl Event for Double {
    const KIND: &'static str = "double";
}

impl Question for Double {
    type Answer = u64;
}

/// A member is known here only once the leader's word has come.
async fn knows_all(mesh: &Mesh, n: usize) {
    let active = || {
        let view = mesh.members();
        view.members.iter().filter(|row| row.status == Status::Active).count() == n
    };
    eventually("all are active", active).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_arrive_in_order_with_their_sender() {
    for kind in [Kind::Memory, Kind::Tcp, Kind::Tls] {
        let cluster = Cluster::started(kind, 3, 1).await;
        let (one, two) = (cluster.node(1), cluster.node(2));
        let (mut numbers, mut all) = (two.receive::<Number>(), two.receive_raw(None));
        for n in 0..500 {
            one.send(cluster.address(2), &Number(n)).await.expect("sent");
        }
        one.whisper_raw(cluster.address(2), "note", Bytes::from_static(b"hello")).expect("sent");
        for n in 0..500 {
            let envelope = tokio::time::timeout(SOON, numbers.next()).await;
            let envelope = envelope.expect("in time").expect("an event");
            assert_eq!((&*envelope.from, envelope.event), (one.node(), Number(n)));
            assert_eq!(&*all.next().await.expect("an event").kind, "number");
        }
        let note = tokio::time::timeout(SOON, all.next()).await.expect("in time").expect("a note");
        assert_eq!((&*note.kind, &*note.body, &*note.name), ("note", &b"hello"[..], "n1"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_roar_reaches_everybody_and_reports_for_each() {
    let cluster = Cluster::started(Kind::Tcp, 3, 1).await;
    for including_self in [true, false] {
        let mut heard: Vec<_> = cluster.living().map(Mesh::receive::<Number>).collect();
        let report = cluster.node(0).roar(&Number(9), including_self).expect("written");
        assert_eq!(report.len(), if including_self { 3 } else { 2 });
        assert!(report.iter().all(|(_, sent)| sent.is_ok()), "{report:?}");
        for (index, events) in heard.iter_mut().enumerate() {
            if index > 0 || including_self {
                let envelope = tokio::time::timeout(SOON, events.next()).await.expect("in time");
                assert_eq!(envelope.expect("an event").event, Number(9));
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t20_a_receiver_takes_its_own_type_and_one_for_all_takes_everything() {
    let cluster = Cluster::started(Kind::Memory, 2, 1).await;
    let (from, to) = (cluster.node(0), cluster.address(1));
    let receiver = cluster.node(1);
    let (mut all, mut texts) = (receiver.receive_raw(None), receiver.receive_raw(Some("text")));
    let mut numbers = [receiver.receive::<Number>(), receiver.receive::<Number>()];
    from.whisper(to, &Number(1)).expect("sent");
    from.whisper_raw(to, "text", Bytes::from_static(b"hello")).expect("sent");
    from.whisper(to, &Number(2)).expect("sent");
    let mut kinds = Vec::new();
    for _ in 0..3 {
        let event = tokio::time::timeout(SOON, all.next()).await.expect("in time");
        kinds.push(event.expect("an event").kind.to_string());
    }
    assert_eq!(kinds, [Number::KIND, "text", Number::KIND]);
    let text = tokio::time::timeout(SOON, texts.next()).await.expect("in time").expect("it");
    assert_eq!(&*text.body, b"hello");
    assert!(texts.try_next().is_none(), "a number is no text");
    for events in &mut numbers {
        for expected in [1, 2] {
            let number = tokio::time::timeout(SOON, events.next()).await.expect("in time");
            assert_eq!(number.expect("an event").event, Number(expected), "each has all of them");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_has_an_answer_or_a_reason() {
    let cluster = Cluster::started(Kind::Tcp, 2, 1).await;
    let (asker, to) = (cluster.node(0), cluster.address(1).clone());
    let nobody = asker.ask(&to, &Double(4), SOON).await;
    assert_eq!(nobody, Err(AskError::NoAnswer("nobody there receives \"double\"".to_owned())));
    let mut questions = cluster.node(1).receive::<Double>();
    let answering = tokio::spawn(async move {
        let envelope = questions.next().await.expect("a question");
        let double = envelope.event.0 * 2;
        envelope.answer(&double);
        drop(questions.next().await.expect("a second question"));
        let kept = questions.next().await.expect("a third question");
        (questions, kept)
    });
    assert_eq!(asker.ask(&to, &Double(4), SOON).await, Ok(8));
    let dropped = asker.ask(&to, &Double(4), SOON).await;
    assert!(
        matches!(&dropped, Err(AskError::NoAnswer(why)) if why.contains("dropped")),
        "{dropped:?}"
    );
    let short = Duration::from_millis(50);
    assert_eq!(asker.ask(&to, &Double(4), short).await, Err(AskError::TimedOut));
    drop(answering.await.expect("no panic"));
    // To oneself, on the same path.
    cluster.node(1).on::<Double>(|envelope| {
        let double = envelope.event.0 * 2;
        envelope.answer(&double);
    });
    assert_eq!(cluster.node(1).ask(&to, &Double(21), SOON).await, Ok(42));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_sent_fails_at_once_and_says_why() {
    let cluster = Cluster::started(Kind::Memory, 2, 1).await;
    let (mesh, to) = (cluster.node(0), cluster.address(1));
    let stranger = "127.0.0.1:1".parse().expect("an address");
    let not_member = mesh.whisper(&stranger, &Number(1));
    assert_eq!(not_member, Err(SendError::NotMember(stranger)));
    let mut received = cluster.node(1).receive_raw(Some("big"));
    // Ten bytes and a little go for the head.
    let fits = Bytes::from(vec![7; EVENT_BYTES_MAX - 64]);
    mesh.whisper_raw(to, "big", fits.clone()).expect("the largest");
    let big = tokio::time::timeout(SOON, received.next()).await.expect("in time").expect("it");
    assert_eq!(big.body, fits);
    let too_large = mesh.whisper_raw(to, "big", Bytes::from(vec![7; EVENT_BYTES_MAX]));
    assert!(matches!(too_large, Err(SendError::TooLarge { .. })), "{too_large:?}");
    for kind in [String::new(), "k".repeat(257)] {
        let refused = mesh.whisper_raw(to, &kind, Bytes::new());
        assert!(matches!(refused, Err(SendError::Unwritable(_))), "{refused:?}");
    }
    assert!(mesh.whisper_raw(to, &"k".repeat(256), Bytes::new()).is_ok());
}

/// A receiver that never takes anything: its senders are told so, and no heartbeat is late.
#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_has_stopped_stops_nothing_else() {
    let cluster = Cluster::started(Kind::Tcp, 3, 1).await;
    let before = cluster.table(0);
    let _never_read = cluster.node(1).receive_raw(Some("bulk"));
    let (to, body) = (cluster.address(1), Bytes::from(vec![7; 1 << 20]));
    let begun = Instant::now();
    let mut n_full = 0;
    while begun.elapsed() < Duration::from_millis(1_500) {
        let asked = Instant::now();
        match cluster.node(2).whisper_raw(to, "bulk", body.clone()) {
            Ok(()) => {}
            Err(SendError::QueueFull(_)) => n_full += 1,
            Err(other) => panic!("{other}"),
        }
        assert!(asked.elapsed() < Duration::from_millis(100), "{:?}", asked.elapsed());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(n_full > 100, "{n_full}");
    assert_eq!(cluster.table(0), before, "nobody was missed");
    // Another sender to another receiver is not in its way.
    let mut heard = cluster.node(1).receive::<Number>();
    cluster.node(0).whisper(to, &Number(1)).expect("sent");
    let envelope = tokio::time::timeout(SOON, heard.next()).await.expect("in time");
    assert_eq!(envelope.expect("an event").event, Number(1));
}

/// Megabytes at full speed while the timers are those of the tests.
#[tokio::test(flavor = "multi_thread")]
async fn bulk_does_not_disturb_the_membership() {
    let cluster = Cluster::started(Kind::Tcp, 2, 1).await;
    let before = cluster.table(0);
    let mut received = cluster.node(1).receive_raw(Some("bulk"));
    let body = Bytes::from(vec![7; 1_000_000]);
    let n = 400;
    let counting = tokio::spawn(async move {
        for _ in 0..n {
            assert_eq!(received.next().await.expect("an event").body.len(), 1_000_000);
        }
    });
    for _ in 0..n {
        cluster.node(0).send_raw(cluster.address(1), "bulk", body.clone()).await.expect("sent");
    }
    tokio::time::timeout(SOON, counting).await.expect("in time").expect("all of them");
    knows_all(cluster.node(0), 2).await;
    assert_eq!(cluster.table(0), before);
}
