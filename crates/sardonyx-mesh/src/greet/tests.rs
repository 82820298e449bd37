//! Both sides of the handshake against each other, and against those who do not keep to it.

use super::{
    links::{Dialler, Link, LinkId, Links, Verdict},
    *,
};
use crate::{
    address::{Incarnation, NodeId},
    config::Profile,
    mutant::{Mutant, with_mutant},
};

fn address(port: u16) -> Address {
    Address::new("127.0.0.1", port).unwrap()
}

fn me(port: u16, key: Option<&[u8]>) -> Me {
    let node = NodeId { address: address(port), incarnation: Incarnation(1) };
    let config = Config {
        nodes: 3,
        address: address(port),
        name: format!("n{port}"),
        cluster: "c".into(),
        seeds: vec![address(1)],
        voters: None,
        observer: false,
        found_by_itself: true,
        timers: Profile::Test.timers(),
    };
    let key = key.map(|bytes| Key::new(bytes).unwrap());
    Me { identity: Identity { node, name: config.name.clone() }, config, key }
}

/// Plays a handshake to its end: what each side knows of the other.
fn meet(active: Me, to: Address, passive: Me) -> (Result<Peer, Refused>, Result<Peer, Refused>) {
    let (mut a, first) = Greeting::active(active, to, Lane::Control, 5, [1; 32]);
    let mut p = Greeting::passive(passive, [2; 32]);
    let (mut to_p, mut to_a) = (vec![first], Vec::new());
    let (mut a_end, mut p_end) = (None, None);
    while !(to_p.is_empty() && to_a.is_empty()) {
        for message in std::mem::take(&mut to_p) {
            let step = p.hear(&message);
            to_a.extend(step.say);
            if let Some(Ok(_)) = &step.end {
                to_a.extend(p.decide(Ok(())).say);
            }
            p_end = step.end.or(p_end);
        }
        for message in std::mem::take(&mut to_a) {
            let step = a.hear(&message);
            to_p.extend(step.say);
            a_end = step.end.or(a_end);
        }
    }
    (a_end.expect("an end"), p_end.expect("an end"))
}

const KEY: &[u8] = b"0123456789abcdef";

#[test]
fn two_with_the_same_key_know_each_other_afterwards() {
    for key in [None, Some(KEY)] {
        let (a, p) = meet(me(1, key), address(2), me(2, key));
        let (a, p) = (a.unwrap(), p.unwrap());
        assert_eq!((a.identity, a.dial, a.version), (me(2, key).identity, 5, 1));
        assert_eq!((p.identity, p.dial, p.lane), (me(1, key).identity, 5, Lane::Control));
    }
}

#[test]
fn another_key_or_none_is_refused_by_who_was_dialled() {
    let keys = [None, Some(KEY), Some(&b"another key of 32 bytes, or not."[..])];
    for (i, ours) in keys.into_iter().enumerate() {
        for (j, theirs) in keys.into_iter().enumerate() {
            let (a, p) = meet(me(1, theirs), address(2), me(2, ours));
            assert_eq!(p.is_ok(), i == j);
            if i != j {
                assert_eq!(p.unwrap_err(), Refused::Key);
                assert!(a.unwrap_err().to_string().contains("wrong or missing key"));
            }
        }
    }
}

#[test]
fn an_impostor_that_was_dialled_cannot_prove_itself() {
    let (mut a, first) = Greeting::active(me(1, Some(KEY)), address(2), Lane::Control, 1, [1; 32]);
    let mut impostor = Greeting::passive(me(2, None), [9; 32]);
    let challenge = impostor.hear(&first).say.remove(0);
    let proof = a.hear(&challenge).say.remove(0);
    // It lets everybody in, and signs with what it was given: the proof of the other side.
    let Greet::Proof(proof) = codec::decode(&proof).unwrap() else { panic!("a proof") };
    let passive = Passive {
        identity: me(2, None).identity,
        config: me(2, None).config.summary(),
        version: 1,
    };
    for proof in [proof, [0; 32]] {
        let reply = codec::encode(&Greet::Passive(passive.clone(), proof)).unwrap();
        let (mut again, _) =
            Greeting::active(me(1, Some(KEY)), address(2), Lane::Control, 1, [1; 32]);
        again.hear(&challenge);
        assert_eq!(again.hear(&reply).end, Some(Err(Refused::Key)));
    }
}

#[test]
fn a_recorded_handshake_cannot_be_played_again() {
    let (mut a, first) = Greeting::active(me(1, Some(KEY)), address(2), Lane::Control, 1, [1; 32]);
    let mut p = Greeting::passive(me(2, Some(KEY)), [2; 32]);
    let proof = a.hear(&p.hear(&first).say[0]).say.remove(0);
    assert!(matches!(p.hear(&proof).end, Some(Ok(_))));
    let mut later = Greeting::passive(me(2, Some(KEY)), [3; 32]);
    later.hear(&first);
    assert_eq!(later.hear(&proof).end, Some(Err(Refused::Key)));
}

#[test]
fn settings_that_would_be_unsafe_together_are_refused_and_named() {
    type Change = fn(&mut Config);
    let table: &[(Change, &str)] = &[
        (|it| it.cluster = "d".into(), "it belongs to the cluster \"d\""),
        (|it| it.nodes = 5, "it counts 5 nodes and we count 3"),
        (|it| it.timers.ttl_timeout *= 2, "ttl-timeout is 1.8s there and 900ms here"),
        (|it| it.timers.heartbeat_interval *= 9, "heartbeat-interval is 900ms there"),
    ];
    for (change, expected) in table {
        let mut other = me(1, Some(KEY));
        change(&mut other.config);
        let (a, p) = meet(other, address(2), me(2, Some(KEY)));
        let (a, p) = (a.unwrap_err().to_string(), p.unwrap_err().to_string());
        assert!(p.contains(expected) && a.contains(expected), "{p}\n{a}");
    }
    let mut other = me(1, None);
    other.config.timers.heartbeat_interval *= 8;
    assert!(meet(other, address(2), me(2, None)).1.is_ok(), "at the edge");
}

/// A seed that is configured by name while it calls itself by number.
#[test]
fn who_is_dialled_under_another_name_says_its_own() {
    let (a, p) = meet(me(1, None), Address::new("localhost", 2).unwrap(), me(2, None));
    let expected = "localhost:2 calls itself 127.0.0.1:2: write 127.0.0.1:2 wherever it is named";
    assert_eq!(p.unwrap_err().to_string(), expected);
    assert!(a.unwrap_err().to_string().contains(expected));
}

#[test]
fn other_versions_are_refused_unless_the_ranges_meet() {
    for (theirs, common) in [((1, 1), Some(1)), ((1, 9), Some(1)), ((0, 0), None), ((2, 3), None)] {
        assert_eq!(common_version(theirs).ok(), common, "{theirs:?}");
    }
}

#[test]
fn anything_but_the_word_that_is_due_ends_it() {
    let (_, first) = Greeting::active(me(1, None), address(2), Lane::Control, 1, [1; 32]);
    let challenge = codec::encode(&Greet::Challenge([0; 32])).unwrap();
    let proof = codec::encode(&Greet::Proof([0; 32])).unwrap();
    let mut other_magic = first.clone();
    other_magic[1] ^= 1;
    for bytes in [&challenge[..], &proof, b"", b"\xff\xff", &first[..9], &other_magic] {
        let mut p = Greeting::passive(me(2, None), [2; 32]);
        let end = p.hear(bytes).end;
        assert!(matches!(end, Some(Err(Refused::NotAGreeting(_)))), "{bytes:?}: {end:?}");
        let after = p.hear(&first).end;
        assert!(matches!(after, Some(Err(Refused::NotAGreeting(_)))), "it stays over");
    }
    let mut p = Greeting::passive(me(2, None), [2; 32]);
    p.hear(&first);
    assert!(matches!(p.hear(&first).end, Some(Err(Refused::NotAGreeting(_)))), "greeted twice");
}

fn link(id: u64, dialler: Dialler, incarnation: u64, dial: u64) -> Link {
    Link { id: LinkId(id), dialler, incarnation, dial }
}

/// Both dial at once: every order in which the four greetings can arrive ends with both sides on
/// the connection of the smaller address, and only that one.
#[test]
fn whatever_the_order_the_smaller_addresss_connection_stays() {
    assert_eq!(orders_that_end_otherwise(), (6, Vec::new()));
}

/// `cargo xtask mutants` reads the line.
#[test]
fn two_connections_that_are_both_kept_are_noticed() {
    let begun = std::time::Instant::now();
    let (_, wrong) = with_mutant(Some(Mutant::BothKept), orders_that_end_otherwise);
    let first = wrong.first().expect("BothKept goes unnoticed");
    let ms = begun.elapsed().as_millis();
    println!("MUTANT\tBothKept\tmesh greeting: one connection for a pair\t{first}\t{ms}");
}

/// How many orders there are, and those after which the two do not hold one connection and the same
/// one, the smaller address's, with every other closed.
fn orders_that_end_otherwise() -> (u32, Vec<String>) {
    let mut wrong = Vec::new();
    let (one, two) = (address(1), address(2));
    let mut n_orders = 0;
    // Red is dialled by one, green by two. Each is greeted first by who was dialled, then by who
    // dialled: two sequences of two, merged in every way.
    for order in 0_u32..16 {
        if order.count_ones() != 2 {
            continue;
        }
        n_orders += 1;
        let (mut at_one, mut at_two) = (Links::new(one.clone()), Links::new(two.clone()));
        let (mut red, mut green) = (0, 0);
        let mut open = [true, true];
        for turn in 0..4 {
            let is_red = order & (1 << turn) != 0;
            let step = if is_red { &mut red } else { &mut green };
            *step += 1;
            let id = u64::from(!is_red);
            let at_passive = *step == 1;
            let is_at_one = is_red != at_passive;
            if !open[id as usize] {
                continue;
            }
            let dialler = if is_at_one == is_red { Dialler::Me } else { Dialler::Peer };
            let verdict = match is_at_one {
                true => at_one.greeted(&two, link(id, dialler, 1, 1)),
                false => at_two.greeted(&one, link(id, dialler, 1, 1)),
            };
            let closed = match verdict {
                Verdict::Kept { closes } => closes,
                Verdict::Lost { .. } | Verdict::Stale => Some(LinkId(id)),
            };
            // A connection that one side closes is closed for the other.
            if let Some(LinkId(closed)) = closed {
                open[closed as usize] = false;
                at_one.closed(&two, LinkId(closed));
                at_two.closed(&one, LinkId(closed));
            }
        }
        let held = (at_one.get(&two).map(|it| it.id), at_two.get(&one).map(|it| it.id));
        if held != (Some(LinkId(0)), Some(LinkId(0))) || open != [true, false] {
            wrong.push(format!("order {order:04b}"));
        }
    }
    (n_orders, wrong)
}

#[test]
fn a_newer_life_or_a_later_dial_replaces_and_an_older_one_does_not() {
    let (me, peer) = (address(5), address(7));
    let mut links = Links::new(me);
    let kept = |closes: Option<u64>| Verdict::Kept { closes: closes.map(LinkId) };
    assert_eq!(links.greeted(&peer, link(1, Dialler::Peer, 10, 1)), kept(None));
    // A half-open connection: the peer dials again from the same life.
    assert_eq!(links.greeted(&peer, link(2, Dialler::Peer, 10, 2)), kept(Some(1)));
    assert_eq!(
        links.greeted(&peer, link(3, Dialler::Peer, 10, 1)),
        Verdict::Lost { to: LinkId(2) }
    );
    // We are the smaller address, so ours wins.
    assert_eq!(links.greeted(&peer, link(4, Dialler::Me, 10, 1)), kept(Some(2)));
    assert_eq!(
        links.greeted(&peer, link(5, Dialler::Peer, 10, 9)),
        Verdict::Lost { to: LinkId(4) }
    );
    // It was started again: its first connection is better than any of its former life.
    assert_eq!(links.greeted(&peer, link(6, Dialler::Peer, 11, 1)), kept(Some(4)));
    assert_eq!(links.greeted(&peer, link(7, Dialler::Me, 10, 9)), Verdict::Stale);
    // The end of a connection that was replaced takes nothing away.
    links.closed(&peer, LinkId(4));
    assert_eq!(links.get(&peer).map(|it| it.id), Some(LinkId(6)));
    links.closed(&peer, LinkId(6));
    assert_eq!(links.get(&peer), None);
    assert_eq!(links.greeted(&peer, link(8, Dialler::Peer, 10, 99)), Verdict::Stale);
}
