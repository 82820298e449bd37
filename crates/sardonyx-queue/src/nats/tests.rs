//! What happens when somebody dies between the commit and what follows from it.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tokio_stream::StreamExt as _;

use super::{
    board::{Board, Pending},
    connect, keys,
    servers::Letter,
};
use crate::{
    Depth, ONCE, Owner, Place, Queues, Refused, Transaction,
    backend::Backend as _,
    location::Location,
    remote::frame,
    suite::{
        Arena, alone, depth_becomes, nats::NatsServers, note, owner, place, queue, receive_n,
        receive_texts, roster, run, sending, soon,
    },
};

async fn backend(url: &str) -> super::Nats {
    let Ok(Location::Nats(location)) = Location::parse(url) else { panic!("{url}") };
    connect(&location).await.unwrap()
}

/// A commit whose owner died right behind the one write that makes it: everybody sees all of it.
#[test]
fn what_was_committed_is_carried_out_by_whoever_comes_next() {
    run(async {
        let arena = Arena::nats(1).await;
        let queues = arena.open().await;
        let (here, there) = (place("here"), place("there"));
        let there = Place { job: here.job.clone(), ..there };
        let (input, output) = (queue(&here, "up"), queue(&there, "here"));
        let session = alone(&queues, &here).await;
        session
            .commit(sending(vec![note(&input, None, "1"), note(&input, None, "2")]))
            .await
            .unwrap();
        let held = receive_n(&session, 2).await;
        // The same as a commit, but for what follows the write.
        let nats = backend(arena.url()).await;
        let desk = nats.desk(&here);
        let todo = Transaction {
            sends: vec![note(&output, None, "1"), note(&output, Some(2), "2")],
            puts: vec![("key".into(), Some(Bytes::from_static(b"value")))],
            ..Transaction::default()
        };
        let (outline, bodies) = frame::outline(todo).unwrap();
        let content = Ok(frame::encode(&outline, bodies).unwrap().concat());
        let acks = held.iter().map(|it| ("up".to_owned(), None, it.id.0)).collect();
        let pending = Pending { session: 1, content, acks };
        let write = |board: &mut Board| {
            board.commit(pending.clone());
            Ok(Some(()))
        };
        desk.change(write).await.unwrap();
        // Asking for the depth of the next queue is enough to see it.
        let others = arena.open().await;
        assert_eq!(others.depth(&output).await.unwrap().total(), 2);
        assert_eq!(others.depth(&input).await.unwrap().total(), 0);
        assert_eq!(others.peek(&here, "").await.unwrap(), [("key".into(), "value".into())]);
        // And whoever wakes up late and does it again changes nothing.
        let written = Transaction {
            puts: vec![("key".into(), Some(Bytes::from_static(b"later")))],
            ..Transaction::default()
        };
        session.commit(written).await.unwrap();
        let n = desk.settle().await.unwrap().n;
        desk.carry_out_again(n - 1, &pending).await.unwrap();
        depth_becomes(&queues, &output, 2, 0).await;
        let (_, value) = keys::read(&desk.servers, &here, "key").await.unwrap();
        assert_eq!(value.as_deref(), Some(b"later".as_ref()));
        let downstream = alone(&others, &there).await;
        assert_eq!(receive_n(&downstream, 2).await.len(), 2);
    });
}

/// A stream uses a key for every piece that it reads. Each that stayed would keep a file of the servers,
/// and with it all that was ever written beside it.
#[test]
fn a_key_that_is_used_once_leaves_nothing_behind() {
    run(async {
        let arena = Arena::nats(1).await;
        let queues = arena.open().await;
        let here = place("here");
        let session = alone(&queues, &here).await;
        let put = |key: &str, value: Option<&'static str>| Transaction {
            puts: vec![(key.to_owned(), value.map(Bytes::from))],
            ..Transaction::default()
        };
        let (first, second) = (format!("{ONCE}1"), format!("{ONCE}2"));
        for value in [Some("1"), Some("2"), None, None] {
            session.commit(put(&first, value)).await.unwrap();
            session.commit(put("again", value)).await.unwrap();
        }
        session.commit(put(&second, None)).await.unwrap();
        assert_eq!(session.get(&first).await, Ok(None));
        assert_eq!(queues.peek(&here, "").await.unwrap(), []);
        let nats = backend(arena.url()).await;
        let (desk, servers) = (nats.desk(&here), &nats.servers);
        let left = || async { servers.subjects(&servers.names.keys(&here)).await.unwrap() };
        let again = [servers.names.key(&here, "again").unwrap()];
        assert_eq!(left().await, again, "a name that may come again is remembered");
        // Somebody helped with the first transaction, stood still, and goes on now.
        let (outline, bodies) = frame::outline(put(&first, Some("1"))).unwrap();
        let content = Ok(frame::encode(&outline, bodies).unwrap().concat());
        let pending = Pending { session: 1, content, acks: Vec::new() };
        desk.carry_out_again(1, &pending).await.unwrap();
        assert_eq!(left().await, again, "nothing comes back");
    });
}

/// Whoever is woken more often than it can look does not remember each time.
#[test]
fn what_is_said_a_thousand_times_is_looked_at_a_few_times() {
    const WAKES: usize = 2_000;
    run(async {
        let arena = Arena::nats(1).await;
        let nats = backend(arena.url()).await;
        let here = place("here");
        let desk = nats.desk(&here);
        let client = &desk.servers.client;
        // Every look asks the servers for the board.
        let mut looks = client.subscribe("$JS.API.STREAM.MSG.GET.>").await.unwrap();
        client.flush().await.unwrap();
        // One by the clock: from now on it listens.
        soon(looks.next()).await.unwrap();
        for _ in 0..WAKES {
            desk.servers.wake(&here.job, &here.task).await;
        }
        soon(looks.next()).await.unwrap();
        let quiet = Duration::from_millis(500);
        let mut n_looks = 1;
        while let Ok(Some(_)) = tokio::time::timeout(quiet, looks.next()).await {
            n_looks += 1;
        }
        assert!(n_looks < WAKES / 4, "{n_looks} looks for {WAKES} wakes");
    });
}

/// A session that is over waits for nothing any more, however long the others take.
#[test]
fn whoever_is_over_leaves_the_line_at_the_larder() {
    run(async {
        let arena = Arena::nats(1).await;
        let nats = backend(arena.url()).await;
        let here = place("here");
        let desk = nats.desk(&here);
        let held = desk.larder.lock().await;
        let n_before = Arc::strong_count(&desk);
        let peer = owner("a", 1);
        let session = nats.session(&here, &peer, &roster(1, &[&peer])).await.unwrap();
        {
            // One look at it is enough to stand in the line.
            let receive = std::pin::pin!(session.receive(1));
            assert!(tokio::time::timeout(Duration::ZERO, receive).await.is_err());
        }
        soon(session.close()).await;
        drop(session);
        let nobody_waits = async {
            while Arc::strong_count(&desk) > n_before {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        soon(nobody_waits).await;
        drop(held);
    });
}

/// Whoever waited at the larder takes with the board as it is then: with an older one it would throw
/// away what was fetched for those who came since.
#[test]
fn whoever_waited_at_the_larder_keeps_what_is_in_it() {
    run(async {
        let arena = Arena::nats(1).await;
        let nats = backend(arena.url()).await;
        let (here, a, b) = (place("here"), owner("a", 1), owner("b", 1));
        let both = roster(1, &[&a, &b]);
        let desk = nats.desk(&here);
        let held = desk.larder.lock().await;
        let _first = nats.session(&here, &a, &both).await.unwrap();
        let mut late = std::pin::pin!(desk.take(1, 1));
        let moment = Duration::from_millis(300);
        assert!(tokio::time::timeout(moment, late.as_mut()).await.is_err(), "somebody has it");
        let _second = nats.session(&here, &b, &both).await.unwrap();
        drop(held);
        assert!(soon(late).await.unwrap().is_empty());
        assert_eq!(desk.larder.lock().await.sessions(), [1, 2]);
    });
}

/// Of two processes that forget a job one finds its queues gone already.
#[test]
fn whoever_forgets_a_job_forgets_the_names_of_its_queues() {
    run(async {
        let arena = Arena::nats(1).await;
        let both = [backend(arena.url()).await, backend(arena.url()).await];
        let input = queue(&place("here"), "up");
        for (n, nats) in both.iter().enumerate() {
            let subject = nats.servers.names.lane(&input, None);
            let (queue, id, payload) = (input.clone(), n.to_string(), Bytes::new());
            let letter = Letter { queue, subject, id, kind: "note", payload };
            nats.servers.send(vec![letter]).await.unwrap();
            assert_eq!(nats.servers.n_known(), 1);
        }
        for nats in &both {
            nats.forget(&input.job).await.unwrap();
            assert_eq!(nats.servers.n_known(), 0);
        }
    });
}

/// Eight writers in as many processes, all at one board.
#[test]
fn a_board_has_one_history() {
    run(async {
        let arena = Arena::nats(1).await;
        let here = place("here");
        let mut writers = tokio::task::JoinSet::new();
        for _ in 0..8 {
            let nats = Arc::new(backend(arena.url()).await);
            let here = here.clone();
            writers.spawn(async move {
                let desk = nats.desk(&here);
                for _ in 0..25 {
                    let count = |board: &mut Board| {
                        board.n += 1;
                        Ok(Some(()))
                    };
                    desk.change(count).await.unwrap();
                }
            });
        }
        while let Some(writer) = soon(writers.join_next()).await {
            writer.unwrap();
        }
        assert_eq!(backend(arena.url()).await.desk(&here).settle().await.unwrap().n, 200);
    });
}

/// A message with several large parts, and a transaction that needs several.
#[test]
fn a_large_transaction_goes_in_parts() {
    run(async {
        let arena = Arena::nats(1).await;
        let queues = arena.open().await;
        let here = place("here");
        let session = alone(&queues, &here).await;
        let size = queues.message_bytes_max();
        let texts = ["a", "b", "c"].map(|letter| letter.repeat(size));
        let sends = texts.iter().map(|text| note(&queue(&here, "up"), None, text)).collect();
        session.commit(sending(sends)).await.unwrap();
        assert_eq!(receive_texts(&session, 3).await, texts);
    });
}

/// A helper reads that a large transaction is to be carried out, stands still, and goes on when its owner
/// is done with that one and with the next, whose parts now lie where those of the first lay.
#[test]
fn who_helps_late_does_not_send_the_next_transaction_again() {
    run(async {
        let arena = Arena::nats(1).await;
        let queues = arena.open().await;
        let (here, there) = (place("here"), place("there"));
        let output = queue(&Place { job: here.job.clone(), ..there }, "here");
        let session = alone(&queues, &here).await;
        let large = |n: usize| sending(vec![note(&output, None, &"x".repeat(20 << 10)); n]);
        session.commit(large(2)).await.unwrap();
        let nats = backend(arena.url()).await;
        let desk = nats.desk(&here);
        let board = desk.settle().await.unwrap();
        let id = *board.sessions.keys().next().unwrap();
        session.commit(large(3)).await.unwrap();
        depth_becomes(&queues, &output, 5, 0).await;
        let pending = Pending { session: id, content: Err(1), acks: Vec::new() };
        desk.carry_out_again(board.n, &pending).await.unwrap();
        depth_becomes(&queues, &output, 5, 0).await;
    });
}

/// Sends the message number `n` if the key says that it has not been sent.
async fn send_once(queues: &Queues, here: &Place, peer: &Owner, n: u32) -> Result<(), Refused> {
    let session = queues.session(here, peer, &roster(1, &[peer])).await?;
    let (present, next) = (session.get("n").await?, Bytes::from((n + 1).to_string()));
    if present.as_ref() == Some(&next) {
        return Ok(());
    }
    let send = Transaction {
        sends: vec![note(&queue(here, "up"), None, &n.to_string())],
        puts: vec![("n".into(), Some(next))],
        expects: vec![("n".into(), present)],
        ..Transaction::default()
    };
    session.commit(send).await
}

/// Three servers, one after the other killed and started again, with work going on.
#[test]
fn a_cluster_outlives_each_of_its_servers() {
    run(async {
        let servers = NatsServers::start(3).await;
        let queues = Queues::open(&servers.url("killed")).await.unwrap();
        let here = place("here");
        let input = queue(&here, "up");
        let peer = owner("a", 1);
        let mut n_sent = 0;
        for node in 0..3 {
            servers.kill(node);
            for _ in 0..5 {
                // Whatever is refused in the turmoil is tried again with a new session.
                let begun = std::time::Instant::now();
                while let Err(why) = soon(send_once(&queues, &here, &peer, n_sent)).await {
                    assert!(begun.elapsed() < crate::suite::SOON, "{why}");
                }
                n_sent += 1;
            }
            servers.restart(node).await;
        }
        let session = queues.session(&here, &peer, &roster(1, &[&peer])).await.unwrap();
        let wanted: Vec<_> = (0..n_sent).map(|n: u32| n.to_string()).collect();
        assert_eq!(receive_texts(&session, wanted.len()).await, wanted);
        depth_becomes(&queues, &input, 0, u64::from(n_sent)).await;
    });
}

/// A server that is killed forgets what it has just deleted: the messages are there again. Whoever works
/// on the task finds that they were acknowledged, and does not count them, nor get them again.
#[test]
fn what_was_acknowledged_does_not_come_back_with_the_server() {
    run(async {
        let servers = NatsServers::start(1).await;
        let queues = Queues::open(&servers.url("killed")).await.unwrap();
        let here = place("here");
        let input = queue(&here, "up");
        let session = alone(&queues, &here).await;
        let sends = (0..6).map(|n| note(&input, (n % 2 == 1).then_some(0), &n.to_string()));
        session.commit(sending(sends.collect())).await.unwrap();
        let held = receive_n(&session, 6).await;
        // The last one keeps the servers from forgetting the file as a whole.
        let last = held.iter().map(|it| it.id).max();
        let acks = held.iter().filter(|it| Some(it.id) != last).map(|it| it.receipt).collect();
        session.commit(Transaction { acks, ..Transaction::default() }).await.unwrap();
        depth_becomes(&queues, &input, 0, 1).await;
        servers.kill(0);
        servers.restart(0).await;
        let only_the_last = async {
            while !matches!(queues.depth(&input).await, Ok(Depth { ready: 0, in_flight: 1 })) {
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        };
        // Somebody waits for more, as tasks do; what is refused while the line is down is asked again.
        let more = async {
            loop {
                if let Ok(more) = session.receive(1).await {
                    return more;
                }
            }
        };
        tokio::select! {
            more = more => panic!("again: {more:?}"),
            () = soon(only_the_last) => {}
        }
    });
}

/// A transaction is carried out again after everything of it was taken and acknowledged and the server was
/// killed: nothing is left on it by which the messages would be known.
#[test]
fn what_is_sent_again_after_the_server_was_killed_is_not_taken_again() {
    run(async {
        let servers = NatsServers::start(1).await;
        let url = servers.url("twice");
        let queues = Queues::open(&url).await.unwrap();
        let (here, there) = (place("here"), place("there"));
        let there = Place { job: here.job.clone(), ..there };
        let output = queue(&there, "here");
        let sends = vec![note(&output, None, "1"), note(&output, None, "2")];
        let session = alone(&queues, &here).await;
        session.commit(sending(sends.clone())).await.unwrap();
        let nats = backend(&url).await;
        let desk = nats.desk(&here);
        let n = desk.settle().await.unwrap().n;
        let downstream = alone(&queues, &there).await;
        let acks = receive_n(&downstream, 2).await.iter().map(|it| it.receipt).collect();
        downstream.commit(Transaction { acks, ..Transaction::default() }).await.unwrap();
        depth_becomes(&queues, &output, 0, 0).await;
        servers.kill(0);
        servers.restart(0).await;
        let todo = sending(sends);
        let (outline, bodies) = frame::outline(todo).unwrap();
        let content = Ok(frame::encode(&outline, bodies).unwrap().concat());
        let pending = Pending { session: 1, content, acks: Vec::new() };
        let nats = backend(&url).await;
        nats.desk(&here).carry_out_again(n, &pending).await.unwrap();
        // The next one comes, and only that.
        let queues = Queues::open(&url).await.unwrap();
        let session = alone(&queues, &here).await;
        session.commit(sending(vec![note(&output, None, "3")])).await.unwrap();
        let downstream = alone(&queues, &there).await;
        let came = soon(downstream.receive(8)).await.unwrap();
        assert_eq!(came.iter().map(crate::suite::text).collect::<Vec<_>>(), ["3"]);
        depth_becomes(&queues, &output, 0, 1).await;
    });
}
