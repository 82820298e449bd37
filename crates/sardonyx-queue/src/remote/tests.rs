//! Connections that break, and clients that are not ours.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use super::frame::{
    Answer, Ask, FRAME_BYTES_MAX, Hello, MAGIC, VERSION, Welcome, encode, receive, send,
};
use crate::{
    OpenError, Queues, Refused, Transaction,
    remote::serve,
    suite::{alone, depth_becomes, is_lost, note, place, queue, receive_n, run, sending, soon},
};

/// Memory queues and where they are served.
async fn served(token: Option<&str>) -> (Queues, super::Server, String) {
    let queues = Queues::memory();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = serve(&queues, listener, token.map(str::to_owned)).await.unwrap();
    let url = format!("sardonyx://{}", server.address());
    (queues, server, url)
}

#[test]
fn sessions_end_with_their_connection_and_a_new_one_finds_everything() {
    run(async {
        let (queues, server, url) = served(None).await;
        let here = place("here");
        let input = queue(&here, "up");
        let client = Queues::open(&url).await.unwrap();
        let session = alone(&client, &here).await;
        session.commit(sending(vec![note(&input, None, "1")])).await.unwrap();
        let held = receive_n(&session, 1).await;
        let waiting = tokio::spawn({
            let session = session.clone();
            async move { session.receive(1).await }
        });
        let address = server.address();
        server.stop().await;
        soon(session.lost()).await;
        assert!(is_lost(&soon(waiting).await.unwrap()));
        depth_becomes(&queues, &input, 1, 0).await;
        let acks = vec![held[0].receipt];
        assert!(is_lost(&session.commit(Transaction { acks, ..Default::default() }).await));
        // While nobody serves, that is what is said; then the same handle works again.
        assert!(matches!(client.depth(&input).await, Err(Refused::Unavailable(_))));
        let listener = TcpListener::bind(address).await.unwrap();
        let _server = serve(&queues, listener, None).await.unwrap();
        let session = alone(&client, &here).await;
        assert_eq!(receive_n(&session, 1).await[0].attempt, 2);
    });
}

#[test]
fn a_client_that_vanishes_gives_back_what_it_had() {
    run(async {
        let (queues, _server, url) = served(None).await;
        let here = place("here");
        let input = queue(&here, "up");
        let client = Queues::open(&url).await.unwrap();
        let session = alone(&client, &here).await;
        session.commit(sending(vec![note(&input, None, "1")])).await.unwrap();
        receive_n(&session, 1).await;
        depth_becomes(&queues, &input, 0, 1).await;
        drop((session, client));
        depth_becomes(&queues, &input, 1, 0).await;
    });
}

/// A server that lets everybody in, opens a session, and is gone when it hears of a commit.
async fn treacherous(listener: TcpListener) {
    let (mut stream, _) = listener.accept().await.unwrap();
    receive::<Hello>(&mut stream, 1000).await.unwrap();
    let come = Welcome::Come { is_durable: true, message_bytes_max: 1000, value_bytes_max: 1000 };
    send(&mut stream, &encode(&come, Vec::new()).unwrap()).await.unwrap();
    loop {
        let ((number, ask), _) = receive::<(u64, Ask)>(&mut stream, 10_000).await.unwrap();
        if matches!(ask, Ask::Open(..)) {
            let answer = encode(&(number, Answer::Session(1)), Vec::new()).unwrap();
            send(&mut stream, &answer).await.unwrap();
        }
        if matches!(ask, Ask::Commit(..)) {
            return;
        }
    }
}

#[test]
fn a_commit_whose_answer_is_lost_is_unknown() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("sardonyx://{}", listener.local_addr().unwrap());
        tokio::spawn(treacherous(listener));
        let client = Queues::open(&url).await.unwrap();
        let session = alone(&client, &place("here")).await;
        let refused = soon(session.commit(Transaction::default())).await;
        assert!(matches!(refused, Err(Refused::Unknown(_))), "{refused:?}");
        assert!(is_lost(&session.commit(Transaction::default()).await));
    });
}

#[test]
fn only_who_knows_the_token_is_let_in() {
    run(async {
        let (_queues, _server, url) = served(Some("secret")).await;
        let refused = Queues::open(&url).await;
        let Err(OpenError::NotConfigured(why)) = refused else { panic!("{refused:?}") };
        assert!(why.contains("token"), "{why}");
        let dir = tempfile::tempdir().unwrap();
        for (token, is_right) in [("wrong!", false), ("secre", false), ("secret\n", true)] {
            let file = dir.path().join("token");
            std::fs::write(&file, token).unwrap();
            let opened = Queues::open(&format!("{url}?token-file={}", file.display())).await;
            assert_eq!(opened.is_ok(), is_right, "{token:?}");
        }
        // Without a token it is not served to other machines at all.
        let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
        let refused = serve(&Queues::memory(), listener, None).await;
        assert!(matches!(refused, Err(OpenError::NotConfigured(_))));
    });
}

#[test]
fn strangers_are_shown_the_door_and_others_do_not_notice() {
    run(async {
        let (queues, server, url) = served(None).await;
        let client = Queues::open(&url).await.unwrap();
        let hello = Hello { magic: MAGIC, version: VERSION, token: None };
        let hello = encode(&hello, Vec::new()).unwrap().concat();
        let too_long = ((FRAME_BYTES_MAX + 1) as u32).to_be_bytes();
        let mut garbage = hello.clone();
        garbage.extend([0, 0, 0, 20]);
        garbage.extend([0xff; 20]);
        // A commit that names a body which is not there.
        let outline = super::frame::Outline {
            holds: Vec::new(),
            acks: Vec::new(),
            sends: Vec::new(),
            puts: vec![("k".into(), Some(4_000_000_000))],
            expects: Vec::new(),
        };
        let lying = encode(&(1u64, Ask::Commit(1, outline)), Vec::new()).unwrap().concat();
        for bytes in [
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
            vec![0xff; 100],
            [hello.clone(), too_long.to_vec()].concat(),
            garbage,
            [hello.clone(), lying].concat(),
        ] {
            let mut stream = TcpStream::connect(server.address()).await.unwrap();
            stream.write_all(&bytes).await.unwrap();
            let mut answer = Vec::new();
            let read =
                tokio::time::timeout(Duration::from_secs(8), stream.read_to_end(&mut answer));
            // Closed or reset, but soon, and without much being said.
            let _ = read.await.expect("it is hung up on");
            assert!(answer.len() < 200);
        }
        // An old version hears why.
        let mut stream = TcpStream::connect(server.address()).await.unwrap();
        let old = Hello { magic: MAGIC, version: 0, token: None };
        send(&mut stream, &encode(&old, Vec::new()).unwrap()).await.unwrap();
        let (welcome, _) = receive::<Welcome>(&mut stream, 1000).await.unwrap();
        assert!(matches!(welcome, Welcome::No(why) if why.contains("version 1")));
        alone(&client, &place("here")).await.commit(Transaction::default()).await.unwrap();
        drop(queues);
    });
}
