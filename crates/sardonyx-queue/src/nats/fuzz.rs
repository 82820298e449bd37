//! Whatever lies on the servers under our names: boards and messages that can be read, or a refusal; and
//! whatever a board says, it can be worked on.

use bytes::Bytes;

use super::{
    board::{Board, Known, Pending, Spot},
    desk::body,
    keys::{envelope, opened},
    names::Names,
};
use crate::{
    fuzz::harness::{Rng, Target},
    ledger::Lane,
    message::{Body, QueueName, Segments},
    remote::frame,
    session::{Owner, Place, Roster},
    transaction::{Outgoing, Refused, Transaction},
};

fn queue() -> QueueName {
    QueueName { job: "j".into(), task: "there".into(), from: "t".into() }
}

/// A transaction as it stands on a board.
fn content() -> Vec<u8> {
    let body = Body::Note(Bytes::from_static(b"body"));
    let todo = Transaction {
        sends: vec![Outgoing { queue: queue(), partition: Some(2), body }],
        puts: vec![("key".into(), Some(Bytes::from_static(b"value"))), ("old".into(), None)],
        ..Transaction::default()
    };
    let (outline, bodies) = frame::outline(todo).expect("it fits");
    frame::encode(&outline, bodies).expect("written").concat()
}

fn spot(lane: Lane, sequence: u64) -> Spot {
    ("up".to_owned(), lane, sequence)
}

/// Boards from a task's life, from nobody there to a transaction that is committed.
fn boards() -> Vec<Board> {
    let owners = ["a", "b"].map(|peer| Owner { peer: peer.into(), epoch: 3 });
    let mut board = Board::default();
    let mut boards = vec![board.clone()];
    board.announce(&Roster { at: 7, owners: owners.to_vec() });
    let [one, two] = owners.map(|owner| board.open(&owner).expect("it is on the roster"));
    boards.push(board.clone());
    let spots = |lane| [1, 2, 3].map(|n| (spot(lane, n), (n, 0)));
    board.take(one, &spots(None));
    board.take(two, &spots(Some(1)));
    board.release(one, &[spot(None, 2)]);
    boards.push(board.clone());
    for content in [Ok(content()), Ok(Vec::new()), Err(2)] {
        let mut committed = board.clone();
        committed.commit(Pending { session: two, content, acks: vec![spot(Some(1), 1)] });
        boards.push(committed);
    }
    // Found at once: whoever counted on from these ran over.
    boards.extend([(u64::MAX, 2), (9, u64::MAX)].map(|(n, n_sessions)| Board {
        n,
        n_sessions,
        ..board.clone()
    }));
    let known = board.lanes.values_mut().flat_map(|it| it.known.values_mut());
    known.for_each(|it| *it = Known { attempt: u32::MAX, holder: None });
    boards.push(board);
    boards
}

/// Messages that the board knows of, and such as may come.
fn spots(board: &Board) -> Vec<Spot> {
    let mut spots = vec![spot(None, 1), spot(Some(1), u64::MAX)];
    for ((from, lane), it) in &board.lanes {
        let known = it.known.keys().copied().take(20);
        let next = [it.taken, it.taken.saturating_add(1)];
        spots.extend(known.chain(next).map(|n| (from.clone(), *lane, n)));
    }
    spots.truncate(200);
    spots
}

/// Holds for every board, whoever wrote it.
fn check(board: &Board) {
    for spot in spots(board) {
        assert!(!board.is_ready(&spot) || !board.is_done(&spot), "ready and done: {spot:?}");
        let (n_known, _) = board.taken_from(&spot.0);
        assert!(board.n_in_flight(&spot.0) <= n_known, "somebody has what nobody took: {spot:?}");
    }
    for session in board.sessions.keys().copied().take(20) {
        let given_back = board.given_back(session);
        assert!(given_back.iter().all(|it| board.is_ready(it)), "given back, and not there");
        assert!(!board.holds(session, &given_back) || given_back.is_empty(), "and not given back");
    }
}

/// Does one thing to a board that a task's processes do; says what came of it.
fn step(board: &mut Board, rng: &mut Rng) -> &'static str {
    let mut spots = spots(board);
    spots.retain(|_| rng.below(2) == 0);
    let sessions: Vec<u64> = board.sessions.keys().copied().collect();
    let session = sessions.get(rng.below(sessions.len())).copied().unwrap_or(1);
    let mut owners: Vec<Owner> = board.sessions.values().cloned().collect();
    owners.extend(board.roster.iter().flat_map(|it| it.owners.clone()));
    let owner = owners.get(rng.below(owners.len())).cloned();
    match rng.below(6) {
        0 => {
            let at = board.roster.as_ref().map_or(0, |it| it.at).saturating_add(1);
            owners.retain(|_| rng.below(4) > 0);
            let is_news = board.announce(&Roster { at, owners: owners.clone() });
            let are_on_it = board.sessions.values().all(|it| owners.contains(it));
            assert!(!is_news || are_on_it, "who left the task has a session");
            if is_news { "news " } else { "old " }
        }
        1 => match owner.map(|owner| (board.open(&owner), owner)) {
            Some((Ok(id), owner)) => {
                assert_eq!(board.sessions.get(&id), Some(&owner));
                assert!(board.is_for(id, None), "it may not receive");
                "open "
            }
            Some((Err(_), _)) | None => "unopened ",
        },
        2 => {
            board.close(session);
            assert!(!board.holds(session, &[]) && !board.close(session), "it goes on");
            let known = board.lanes.values().flat_map(|it| it.known.values());
            assert!(known.clone().all(|it| it.holder != Some(session)), "it still has something");
            "close "
        }
        3 => {
            let spots: Vec<_> =
                spots.into_iter().map(|it| (it, (rng.next() >> rng.below(64), 0))).collect();
            let taking = board.take(session, &spots);
            assert!(taking.taken.iter().all(|(_, attempt)| *attempt > 0), "taken no time");
            assert!(taking.repeated.iter().all(|it| board.is_done(it)), "a copy is not done with");
            let taken: Vec<Spot> = taking.taken.into_iter().map(|(spot, _)| spot).collect();
            assert!(taken.is_empty() || board.holds(session, &taken), "taken, and not held");
            if taken.is_empty() { "nothing " } else { "take " }
        }
        4 => {
            let held: Vec<Spot> = spots
                .into_iter()
                .filter(|it| board.holds(session, std::slice::from_ref(it)))
                .collect();
            assert_eq!(board.release(session, &held), !held.is_empty());
            assert!(held.iter().all(|it| board.is_ready(it)), "given back, and not there");
            "release "
        }
        _ => {
            let acks: Vec<Spot> = spots
                .into_iter()
                .filter(|it| board.holds(session, std::slice::from_ref(it)))
                .collect();
            let n = board.n;
            board.commit(Pending { session, content: Err(0), acks: acks.clone() });
            assert!(board.n > n, "two transactions with one number");
            assert!(
                !acks.iter().any(|it| board.holds(session, std::slice::from_ref(it))),
                "held for ever"
            );
            "commit "
        }
    }
}

/// What a transaction on a board says is to be done, if anybody can read it.
fn todo(pending: &Pending) -> String {
    match &pending.content {
        Err(_) => "in parts".into(),
        Ok(bytes) => {
            let read = frame::decode(&Bytes::copy_from_slice(bytes));
            let read = read.and_then(|(outline, rest)| frame::Rest(rest).transaction(outline));
            format!("{:?}", read.map(drop).map_err(|why| why.to_string()))
        }
    }
}

/// The first byte says what is done with the board behind it.
#[test]
fn a_board() {
    let seeds = boards().into_iter().zip(1_u8..).map(|(board, n)| {
        let board = postcard::to_stdvec(&board).expect("written");
        [&[n], &board[..]].concat()
    });
    Target { name: "queue-board", seeds: seeds.collect(), words: &["up", "\u{1}a"] }.run(|input| {
        let Some((n, board)) = input.split_first() else { return "empty".into() };
        let mut board = match Board::from_bytes(board) {
            Err(why) => return why,
            Ok(board) => board,
        };
        let again = postcard::to_stdvec(&board).map(|bytes| Board::from_bytes(&bytes));
        assert_eq!(again, Ok(Ok(board.clone())), "what was read can be written");
        let mut said = board.pending.as_ref().map(todo).unwrap_or_default();
        let mut rng = Rng(u64::from(*n));
        check(&board);
        for _ in 0..12 {
            said.push_str(step(&mut board, &mut rng));
            check(&board);
        }
        said
    });
}

/// What a name on the servers stands for: whatever it is, it can be called so again.
fn subject(names: &Names, subject: &str) -> String {
    let (queue, lane) = (names.queue_of(subject), names.lane_of(subject));
    if let (Some(queue), Some(lane)) = (&queue, lane) {
        let ours = names.lane(queue, lane);
        assert_eq!(names.queue_of(&ours).as_ref(), Some(queue), "{ours}");
        assert_eq!(names.lane_of(&ours), Some(lane), "{ours}");
    }
    let (place, key) = (names.place_of(subject), names.key_of(subject));
    if let (Some(place), Some(key)) = (&place, &key) {
        match names.key(place, key) {
            Err(Refused::TooLarge(_)) => {}
            Err(why) => panic!("it has no name: {why}"),
            Ok(ours) => {
                assert_eq!(names.place_of(&ours).as_ref(), Some(place), "{ours}");
                assert_eq!(names.key_of(&ours).as_ref(), Some(key), "{ours}");
            }
        }
    }
    format!("{} {lane:?} {} {}", queue.is_some(), place.is_some(), key.is_some())
}

/// Lines: the subject, the id and the kind of a message, and behind them its payload, which may be a key's envelope as well.
#[test]
fn a_message_or_a_key() {
    let names = Names::new("n");
    let place = Place { job: "j".into(), task: "ü.".into() };
    let id = names.message_id(&place, 7, 12);
    let lanes = [None, Some(7)].map(|lane| names.lane(&queue(), lane));
    let key = names.key(&place, "a.key").expect("it is short");
    let letter = |subject: &str, kind: &str, payload: &str| {
        format!("{subject}\n{id}\n{kind}\n{payload}").into_bytes()
    };
    let seeds = vec![
        letter(&lanes[0], "note", "body"),
        letter(&lanes[1], "sentinel", "t"),
        letter(&lanes[1], "segments", "no batch"),
        letter(&key, "", "\u{7}\0\0\0\0\0\0\0\u{1}value"),
        letter(&key, "", "\u{7}\0\0\0\0\0\0\0\0"),
    ];
    let words = &["=", "=2E", "=FF", ".", "-", "65536", "18446744073709551616", "+", "$KV.sdx-n."];
    Target { name: "queue-letter", seeds, words }.run(|input| {
        let mut lines = input.splitn(4, |it| *it == b'\n');
        let mut line = || lines.next().unwrap_or_default();
        let [about, id, kind] = [(); 3].map(|()| String::from_utf8_lossy(line()).into_owned());
        let payload = Bytes::copy_from_slice(line());
        let origin = names.origin_of(&id);
        if let Some((n, index)) = origin {
            let ours = names.message_id(&place, n, index as usize);
            assert_eq!(names.origin_of(&ours), origin, "{ours}");
        }
        let in_envelope = opened(&payload).map(|(n, value)| {
            let ours = envelope(n, value.as_ref());
            assert_eq!(opened(&ours), Some((n, value.clone())), "of {payload:?}");
            value.is_some()
        });
        let body = match body(&kind, payload.clone()) {
            Some(Body::Sentinel(name)) => (name.as_bytes() == payload).then_some("sentinel"),
            Some(Body::Note(note)) => (note == payload).then_some("note"),
            Some(Body::Segments(Segments::Encoded(it))) => (it == payload).then_some("segments"),
            Some(Body::Segments(Segments::Batch(_))) => None,
            None => Some("nothing"),
        };
        let body = body.expect("another payload than there was");
        format!("{} {} {body} {in_envelope:?}", subject(&names, &about), origin.is_some())
    });
}
