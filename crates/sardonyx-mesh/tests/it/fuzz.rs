//! Whatever bytes come: no decoder panics, takes more than its limit, or lets a stranger in.
//!
//! Half of the input is noise, half is something valid with a few bits changed, cut or repeated.
//! `cargo xtask mesh-fuzz` runs it for longer; a failure prints its seed.

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use sardonyx_mesh::{
    Address, Incarnation, Kept, Message, NodeId, Version,
    greet::{Greeting, Me, key::Key, message::Identity, message::Lane},
    message::{NackReason, carried::Carried},
    wire::{codec, frame, limits},
};

use crate::cluster::{Cluster, KEY, Kind};

/// SplitMix64.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    fn noise(&mut self, max: usize) -> Vec<u8> {
        let n = self.below(max);
        (0..n).map(|_| self.next() as u8).collect()
    }

    /// Changes a few places of something that was right.
    fn spoil(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..self.below(4) {
            let at = self.below(bytes.len());
            match self.below(5) {
                0 => bytes.truncate(at),
                1 => bytes.extend_from_within(at..),
                2 => bytes.insert(at, self.next() as u8),
                _ if bytes.is_empty() => {}
                3 => bytes[at] = self.next() as u8,
                _ => bytes[at] ^= 1 << self.below(8),
            }
        }
    }
}

fn me(key: Option<&[u8]>) -> Me {
    let config = Cluster::new(Kind::Memory, 3, 1).options(0).config;
    let node = NodeId { address: config.address.clone(), incarnation: Incarnation(1) };
    let key = key.map(|bytes| Key::new(bytes).expect("a key"));
    Me { identity: Identity { node, name: "n".to_owned() }, config, key }
}

/// Something of each kind that travels or lies on a disk, as bytes.
fn seeds(me: &Me) -> Vec<Vec<u8>> {
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
    let mut seeds: Vec<_> = messages.iter().map(|it| codec::encode(it).expect("written")).collect();
    seeds.push(codec::encode(&Kept::empty(to.clone())).expect("written"));
    seeds.push(Greeting::active(me.clone(), to, Lane::Control, 1, [7; 32]).1);
    seeds.push(b"\x01\x06number\x05hello".to_vec());
    seeds
}

/// Feeds a stream to every decoder, as it is and as messages.
fn feed(me: &Me, stream: &[u8], rng: &mut Rng) {
    let _ = codec::decode::<Message>(stream);
    let _ = codec::decode::<Kept>(stream);
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
                Err(_) => return,
                Ok(Some(message)) => {
                    assert!(message.len() <= limits::GREET_BYTES_MAX);
                    let _ = codec::decode::<Message>(&message);
                    let step = greeting.hear(&message);
                    assert!(!matches!(step.end, Some(Ok(_))), "a stranger got in");
                    let said: usize = step.say.iter().map(Vec::len).sum();
                    assert!(said < 1_024, "{said} bytes for a stranger");
                }
            }
        }
    }
}

#[test]
fn no_bytes_break_a_decoder() {
    let number = |name: &str| std::env::var(name).ok().and_then(|it| it.parse::<u64>().ok());
    let first = number("MESH_FUZZ_SEED").unwrap_or(1);
    let time = Duration::from_secs(number("MESH_FUZZ_SECONDS").unwrap_or(0));
    let least = number("MESH_FUZZ_RUNS").unwrap_or(20_000);
    let me = me(Some(KEY));
    let seeds = seeds(&me);
    let (begun, mut seed) = (Instant::now(), first);
    while seed < first + least || begun.elapsed() < time {
        let outcome = std::panic::catch_unwind(|| {
            let mut rng = Rng(seed);
            let mut stream = match rng.below(4) {
                0 => rng.noise(2_000),
                _ => {
                    let mut stream = BytesMut::new();
                    for _ in 0..1 + rng.below(3) {
                        let mut message = seeds[rng.below(seeds.len())].clone();
                        rng.spoil(&mut message);
                        frame::encode(&message, &Bytes::new(), &mut stream);
                        feed(&me, &message, &mut rng);
                    }
                    stream.to_vec()
                }
            };
            rng.spoil(&mut stream);
            feed(&me, &stream, &mut rng);
        });
        assert!(outcome.is_ok(), "seed {seed} broke a decoder: MESH_FUZZ_SEED={seed}");
        seed += 1;
    }
    println!("{} inputs in {:?}", seed - first, begun.elapsed());
}
