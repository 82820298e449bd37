//! The public forms, pinned: `testdata/v1.txt` has one line per form. A change here is a change of
//! format and needs a decision record; `UPDATE=1 cargo test -p sardonyx-queue` writes the file.

use std::fmt::Write as _;

use bytes::Bytes;

use crate::{
    Body, MessageId, Outgoing, Owner, Place, QueueName, Receipt, Refused, Roster, Transaction,
    embedded::format::{Blob, Event, Kind, header, record_head},
    nats::{
        board::{Board, Pending},
        names::Names,
    },
    remote::frame::{Answer, Ask, Hello, MAGIC, VERSION, Welcome, encode, outline},
};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/v1.txt");

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    })
}

pub(crate) fn place() -> Place {
    Place { job: "j".into(), task: "t".into() }
}

pub(crate) fn queue() -> QueueName {
    QueueName { job: "j".into(), task: "t".into(), from: "u".into() }
}

pub(crate) fn roster() -> Roster {
    Roster { at: 7, owners: vec![Owner { peer: "p".into(), epoch: 7 }] }
}

fn transaction() -> Transaction {
    let body = Body::Note(Bytes::from_static(b"body"));
    Transaction {
        holds: vec![Receipt(1)],
        acks: vec![Receipt(2)],
        sends: vec![
            Outgoing { queue: queue(), partition: Some(3), body },
            Outgoing { queue: queue(), partition: None, body: Body::Sentinel("s".into()) },
        ],
        puts: vec![("k".into(), Some(Bytes::from_static(b"v"))), ("gone".into(), None)],
        expects: vec![("k".into(), None)],
    }
}

pub(crate) fn events() -> Vec<Event> {
    let mark = (queue(), Some(3), MessageId(9));
    let blob = Blob::of(b"body");
    vec![
        Event::Commit {
            place: place(),
            acks: vec![(queue(), None, MessageId(8))],
            sends: vec![(mark.clone(), Kind::Note, blob)],
            puts: vec![("k".into(), Some(Blob::of(b"v"))), ("gone".into(), None)],
        },
        Event::Delivered(vec![mark.clone()]),
        Event::Announced(place(), roster()),
        Event::Forgotten("j".into()),
        Event::Message { mark, attempt: 2, kind: Kind::Sentinel, blob, spot: Some((4, 4096)) },
        Event::Counted { queue: queue(), n_acked: 8, next: 10 },
    ]
}

pub(crate) fn frames() -> Vec<(&'static str, Vec<u8>)> {
    let (outline, bodies) = outline(transaction()).unwrap();
    let owner = roster().owners.remove(0);
    let asks = [
        Ask::Beat,
        Ask::Open(place(), owner, roster()),
        Ask::Announce(place(), roster()),
        Ask::Depth(queue()),
        Ask::Peek(place(), "k".into(), Some("k1".into())),
        Ask::Forget("j".into()),
        Ask::Jobs,
        Ask::Receive(1, 64),
        Ask::Release(1, vec![Receipt(2)]),
        Ask::Get(1, "k".into()),
        Ask::Scan(1, "k".into(), None),
        Ask::Room(1, vec![queue()]),
        Ask::Close(1),
    ];
    let asks = asks.iter().flat_map(|ask| encode(&(5u64, ask), Vec::new()).unwrap().concat());
    let answers = [
        Answer::Beat,
        Answer::Done,
        Answer::Refused(Refused::Changed("k".into())),
        Answer::Session(1),
        Answer::Depth(3, 4),
        Answer::Keys(vec![("k".into(), Some(1))], true),
        Answer::Value(Some(1)),
        Answer::Jobs(vec!["j".into()]),
        Answer::Deliveries(Vec::new()),
        Answer::Lost(1),
    ];
    let answers =
        answers.iter().flat_map(|answer| encode(&(5u64, answer), Vec::new()).unwrap().concat());
    let hello = Hello { magic: MAGIC, version: VERSION, token: Some("token".into()) };
    let come = Welcome::Come { is_durable: true, message_bytes_max: 64, value_bytes_max: 64 };
    vec![
        ("hello", encode(&hello, Vec::new()).unwrap().concat()),
        ("welcome", encode(&come, Vec::new()).unwrap().concat()),
        ("commit", encode(&(5u64, Ask::Commit(1, outline)), bodies).unwrap().concat()),
        ("asks", asks.collect()),
        ("answers", answers.collect()),
    ]
}

fn board() -> Board {
    let mut board = Board { writer: 5, ..Board::default() };
    board.announce(&roster());
    let session = board.open(&roster().owners[0]).unwrap();
    board.take(session, &[(("u".into(), None, 11), (4, 2)), (("u".into(), Some(3), 12), (4, 3))]);
    let acks = vec![("u".into(), None, 11)];
    board.commit(Pending { session, content: Ok(b"content".to_vec()), acks });
    board
}

fn forms() -> Vec<(&'static str, String)> {
    let meta: Vec<u8> =
        events().iter().flat_map(|event| postcard::to_stdvec(event).unwrap()).collect();
    let names = Names::new("n");
    let mut forms = vec![
        ("journal header", hex(&header(3, 0x0102_0304_0506_0708))),
        ("journal record", hex(&record_head(0x0102_0304_0506_0708, 9, 8, &meta, 5))),
        ("journal events", hex(&meta)),
        ("nats board", hex(&postcard::to_stdvec(&board()).unwrap())),
        ("nats board subject", names.board(&place())),
        ("nats key subject", names.key(&place(), "a/b").unwrap()),
        ("nats part subject", names.part(&place(), 1, 2)),
        ("nats lane subject", names.lane(&queue(), Some(3))),
        ("nats stream", names.stream(&queue())),
        ("nats message id", names.message_id(&place(), 4, 2)),
    ];
    forms.extend(frames().into_iter().map(|(name, bytes)| (name, hex(&bytes))));
    forms
}

#[test]
fn the_forms_are_what_they_were() {
    let lines = forms().into_iter().map(|(name, form)| format!("{name}: {form}\n"));
    let found: String = lines.collect();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(PATH, &found).unwrap();
    }
    let pinned = std::fs::read_to_string(PATH).unwrap();
    for (found, pinned) in found.lines().zip(pinned.lines()) {
        assert_eq!(found, pinned);
    }
    assert_eq!(found.lines().count(), pinned.lines().count());
}
