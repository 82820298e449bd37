//! Whatever bytes come: no decoder panics, takes more than its limit, or lets a stranger in; and
//! whatever happens in whatever order, a member answers.
//!
//! `cargo xtask fuzz-all --only mesh-stream` (or `mesh-kept`, `mesh-member`) runs one for longer.

#[path = "../../../../fuzz/harness.rs"]
mod harness;

use std::time::{Duration, Instant};

use bytes::{Buf as _, Bytes, BytesMut};
use harness::{Rng, Target};
use sardonyx_mesh::{
    Address, Config, Incarnation, Input, Kept, Member, Message, Moment, NodeId, Version,
    greet::{Greeting, Me, key::Key, message::Identity, message::Lane},
    message::{NackReason, carried::Carried},
    wire::{
        codec,
        frame::{self, BadFrame},
        limits,
    },
};

use crate::cluster::{Cluster, KEY, Kind};

fn config(index: usize) -> Config {
    Cluster::new(Kind::Memory, 3, 2).options(index).config
}

fn me(key: Option<&[u8]>) -> Me {
    let config = Cluster::new(Kind::Memory, 3, 1).options(0).config;
    let node = NodeId { address: config.address.clone(), incarnation: Incarnation(1) };
    let key = key.map(|bytes| Key::new(bytes).expect("a key"));
    Me { identity: Identity { node, name: "n".to_owned() }, config, key }
}

/// Something of each kind that travels, as bytes.
fn messages(me: &Me) -> Vec<Vec<u8>> {
    let to = Address::new("127.0.0.1", 10_002).expect("an address");
    let why = NackReason::NotLeader { claim: None };
    let carried = Carried::LeaderKeepAliveNack { incarnation: Incarnation(1), why };
    let carried = Box::new(carried);
    let messages = [
        Message::LeaderQuery { id: 7 },
        Message::LeaderQueryResponse { id: 7, leader: None, cluster: None },
        Message::SeedKeepAliveAck { claim: None },
        Message::LeaderStatusQuery { id: 9, version: Version(3), suspect: None },
        Message::Leave,
        Message::LeaveAck,
        Message::Relay { to: to.clone(), carried: carried.clone() },
        Message::Relayed { origin: me.identity.node.clone(), carried },
    ];
    let mut bytes: Vec<_> = messages.iter().map(|it| codec::encode(it).expect("written")).collect();
    bytes.push(Greeting::active(me.clone(), to, Lane::Control, 1, [7; 32]).1);
    bytes.push(b"\x01\x06number\x05hello".to_vec());
    bytes
}

/// Feeds a stream to every decoder, as it is and as messages; says how far it came.
fn feed(me: &Me, stream: &[u8], rng: &mut Rng) -> String {
    let mut said = format!("{:?} ", codec::decode::<Message>(stream).map(|it| it.name()));
    let (mut decoder, mut buffer) = (frame::Decoder::new(limits::GREET_BYTES_MAX), BytesMut::new());
    let mut greeting = Greeting::passive(me.clone(), [3; 32]);
    let mut at = 0;
    while at < stream.len() {
        let n = (1 + rng.below(200)).min(stream.len() - at);
        buffer.extend_from_slice(&stream[at..at + n]);
        at += n;
        loop {
            match decoder.next(&mut buffer) {
                Ok(None) => break,
                Err(why) => return format!("{said} {why:?}"),
                Ok(Some(message)) => {
                    assert!(message.len() <= limits::GREET_BYTES_MAX);
                    let read = codec::decode::<Message>(&message).map(|it| it.name());
                    let step = greeting.hear(&message);
                    assert!(!matches!(step.end, Some(Ok(_))), "a stranger got in");
                    let n_said: usize = step.say.iter().map(Vec::len).sum();
                    assert!(n_said < 1_024, "{n_said} bytes for a stranger");
                    said.push_str(&format!("{read:?} {:?} ", step.end.map(|it| it.map(drop))));
                }
            }
        }
    }
    said
}

/// The first byte says whether the rest is a stream as it is, or messages with their lengths in
/// front, which are then framed rightly: behind a checksum nothing else would ever come.
#[test]
fn a_stream_from_a_stranger() {
    let me = me(Some(KEY));
    let mut seeds = Vec::new();
    for message in messages(&me) {
        let mut stream = BytesMut::from(&[0_u8][..]);
        frame::encode(&message, &Bytes::new(), &mut stream);
        seeds.push(stream.to_vec());
        let mut listed = vec![1, message.len() as u8];
        listed.extend(message);
        seeds.push(listed);
    }
    Target { name: "mesh-stream", seeds, words: &["test", "127.0.0.1"] }.run(|input| {
        let mut rng = Rng(input.len() as u64);
        let Some((mode, mut rest)) = input.split_first() else { return "empty".into() };
        if mode % 2 == 0 {
            return feed(&me, rest, &mut rng);
        }
        let mut stream = BytesMut::new();
        while rest.has_remaining() {
            let n = usize::from(rest.get_u8()).min(rest.len());
            frame::encode(&rest[..n], &Bytes::new(), &mut stream);
            rest = &rest[n..];
        }
        feed(&me, &stream, &mut rng)
    });
}

/// What a member would begin with, if its file were anything.
#[test]
fn what_a_member_kept() {
    let address = config(0).address;
    let mut seeds = vec![codec::encode(&Kept::empty(address.clone())).expect("written")];
    seeds.extend(recorded().1.iter().map(|it| codec::encode(it).expect("written")));
    Target { name: "mesh-kept", seeds, words: &["127.0.0.1"] }.run(|input| {
        match codec::decode::<Kept>(input) {
            Err(why) => why.to_string(),
            Ok(kept) => {
                let incarnation = Incarnation(kept.incarnation.0.saturating_add(1));
                let mut member = Member::new(config(0), kept, incarnation, 1, Moment(0));
                for n in 1..40 {
                    member.step(Moment(n * 100_000), Input::Tick);
                }
                format!("{:?}", member.phase())
            }
        }
    });
}

/// An input as bytes: what kind, who, how much time since the last, and a message with its length.
fn write_input(into: &mut Vec<u8>, who: u8, after: Duration, input: &Input) {
    let kind = match input {
        Input::Tick => 0,
        Input::Saved(_) => 1,
        Input::Leave => 2,
        Input::Transfer { .. } => 3,
        Input::ReplaceVoter { .. } => 4,
        Input::Found => 5,
        Input::Message { .. } => 6,
    };
    let millis = u8::try_from(after.as_millis()).unwrap_or(u8::MAX);
    into.extend([kind, who, millis]);
    if let Input::Message { message, .. } = input {
        let bytes = codec::encode(message).expect("written");
        into.extend((bytes.len() as u16).to_le_bytes());
        into.extend(bytes);
    }
}

/// Three members form a cluster, one is gone for a while, one is asked to leave: what the first of them
/// heard, as bytes, and what it kept on the way.
fn recorded() -> (Vec<u8>, Vec<Kept>) {
    let start = |index: usize| {
        let config = config(index);
        let kept = Kept::empty(config.address.clone());
        Member::new(config, kept, Incarnation(1), index as u64 + 7, Moment(0))
    };
    let mut members: Vec<Member> = (0..3).map(start).collect();
    let nodes: Vec<NodeId> = members.iter().map(|it| it.node().clone()).collect();
    let (mut heard, mut kept, mut last) = (Vec::new(), Vec::new(), Duration::ZERO);
    let mut inbox: Vec<(usize, usize, Input)> = Vec::new();
    for turn in 0..300_u64 {
        let now = Duration::from_millis(turn * 20);
        let mut due: Vec<_> = std::mem::take(&mut inbox);
        due.extend((0..3).map(|index| (index, index, Input::Tick)));
        if turn == 250 {
            due.push((1, 1, Input::Leave));
        }
        for (to, from, input) in due {
            // The third is not heard in the middle, so that somebody else must be elected.
            if (120..200).contains(&turn) && (to == 2 || from == 2) {
                continue;
            }
            if to == 0 {
                write_input(&mut heard, from as u8, now - last, &input);
                last = now;
            }
            let output = members[to].step(Moment(now.as_micros() as u64), input);
            if let Some(save) = output.save {
                if to == 0 {
                    kept.push(save.kept);
                }
                inbox.push((to, to, Input::Saved(save.id)));
            }
            for message in output.messages {
                if let Some(index) = nodes.iter().position(|it| it.address == message.to) {
                    let from = nodes[to].clone();
                    inbox.push((index, to, Input::Message { from, message: message.message }));
                }
            }
        }
    }
    kept.dedup();
    kept.truncate(12);
    (heard, kept)
}

/// Reads inputs back, whatever they are, and steps a member through them.
fn step_through(mut rest: &[u8]) -> String {
    let config = config(0);
    let nodes: Vec<Address> = (0..3).map(|index| self::config(index).address).collect();
    let empty = Kept::empty(config.address.clone());
    let mut member = Member::new(config, empty, Incarnation(1), 7, Moment(0));
    let (mut now, mut saved, mut seen) = (Moment(0), 0, String::new());
    while rest.len() >= 3 {
        let (kind, who, millis) = (rest.get_u8(), rest.get_u8(), rest.get_u8());
        now = now + Duration::from_millis(u64::from(millis));
        let address = nodes[usize::from(who) % 3].clone();
        let input = match kind % 7 {
            0 => Input::Tick,
            1 => Input::Saved(saved),
            2 => Input::Leave,
            3 => Input::Transfer { to: address },
            4 => Input::ReplaceVoter { old: address, new: nodes[usize::from(millis) % 3].clone() },
            5 => Input::Found,
            _ => {
                if rest.len() < 2 {
                    break;
                }
                let n = usize::from(rest.get_u16_le()).min(rest.len());
                let message = codec::decode::<Message>(&rest[..n]);
                rest = &rest[n..];
                let incarnation = Incarnation(1 + u64::from(who) / 3);
                let from = NodeId { address, incarnation };
                let Ok(message) = message else { continue };
                Input::Message { from, message }
            }
        };
        let before = member.kept().established;
        let output = member.step(now, input);
        assert!(member.kept().established >= before, "what is established stays");
        assert!(output.messages.len() < 1_000, "{} messages", output.messages.len());
        saved = output.save.map_or(saved, |save| save.id);
        let phase = format!("{:?}{}", member.phase(), member.token(now).is_some());
        if !seen.ends_with(&phase) {
            seen.push_str(&phase);
        }
    }
    seen
}

#[test]
fn a_member_in_any_order_of_things() {
    let (heard, _) = recorded();
    let far = step_through(&heard);
    assert!(far.contains("Leadertrue") || far.contains("Follower"), "it came nowhere: {far}");
    let seeds = vec![heard[..heard.len().min(4 << 10)].to_vec(), heard[..1 << 10].to_vec()];
    Target { name: "mesh-member", seeds, words: &[] }.run(step_through);
}

/// 1,500 frames that are wrong for a known reason: each is refused, and soon.
#[test]
fn bad_frames_are_refused() {
    let mut rng = Rng(4);
    let messages = messages(&me(Some(KEY)));
    for n in 0..1500 {
        let message = &messages[rng.below(8)];
        let mut stream = BytesMut::new();
        frame::encode(message, &Bytes::new(), &mut stream);
        let mut frame = stream.to_vec();
        let what = match n % 4 {
            0 => {
                let wrong = 2 + rng.below(200) as u8;
                match rng.below(4) {
                    0 => frame[0] = wrong,
                    1 => frame[1] = wrong.max(6),
                    2 => frame[2..4].copy_from_slice(&[0, wrong % 5]),
                    _ => frame[4] = wrong,
                }
                "a head that cannot be"
            }
            1 => {
                let longer = vec![7; limits::GREET_BYTES_MAX + 1 + rng.below(2_000)];
                let mut stream = BytesMut::new();
                frame::encode(&longer, &Bytes::new(), &mut stream);
                frame = stream.to_vec();
                "too long"
            }
            2 => {
                let mut longer = message.clone();
                longer.extend((0..=rng.below(9)).map(|_| 3));
                let mut stream = BytesMut::new();
                frame::encode(&longer, &Bytes::new(), &mut stream);
                frame = stream.to_vec();
                "more than a message"
            }
            _ => {
                let mut other = message.clone();
                other[0] = 60 + rng.below(60) as u8;
                let mut stream = BytesMut::new();
                frame::encode(&other, &Bytes::new(), &mut stream);
                frame = stream.to_vec();
                "no such message"
            }
        };
        let begun = Instant::now();
        let mut decoder = frame::Decoder::new(limits::GREET_BYTES_MAX);
        let refused = match decoder.next(&mut BytesMut::from(&frame[..])) {
            Ok(Some(message)) => codec::decode::<Message>(&message).err().map(|_| "a message"),
            Ok(None) => None,
            Err(BadFrame::TooLong { .. }) => Some("too long"),
            Err(
                BadFrame::Version(_)
                | BadFrame::Head(_)
                | BadFrame::Length(_)
                | BadFrame::Next(_)
                | BadFrame::NotFull(_),
            ) => Some("a head"),
        };
        let wanted = ["a head", "too long", "a message", "a message"][n % 4];
        assert_eq!(refused, Some(wanted), "{what}: {frame:?}");
        assert!(begun.elapsed() < Duration::from_millis(500), "{what}: {:?}", begun.elapsed());
    }
}
