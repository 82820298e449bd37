//! Memory and files give the same answers, whatever is asked, and however often the files are opened
//! again in between.

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;

use super::{SMALL, open};
use crate::{
    Delivery, Owner, Place, QueueName, Queues, Refused, Roster, Session, Transaction,
    suite::{note, owner, run, soon, text},
};

#[derive(Clone, Debug)]
enum Op {
    Open { who: usize },
    Close { who: usize },
    Announce { both: bool },
    Send { who: usize, queue: usize, lane: Option<u16>, long: bool },
    Receive { who: usize, max: usize },
    Ack { who: usize, first: usize, n: usize, send: bool, key: u8, expect: bool },
    Release { who: usize, first: usize, n: usize },
    Forget,
    Reopen,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let who = 0..2usize;
    let lane = prop_oneof![Just(None), (0..3u16).prop_map(Some)];
    let op = prop_oneof![
        2 => who.clone().prop_map(|who| Op::Open { who }),
        1 => who.clone().prop_map(|who| Op::Close { who }),
        1 => any::<bool>().prop_map(|both| Op::Announce { both }),
        6 => (who.clone(), 0..2usize, lane, any::<bool>())
            .prop_map(|(who, queue, lane, long)| Op::Send { who, queue, lane, long }),
        6 => (who.clone(), 1..5usize).prop_map(|(who, max)| Op::Receive { who, max }),
        6 => (who.clone(), 0..3usize, 0..4usize, any::<bool>(), 0..3u8, any::<bool>()).prop_map(
            |(who, first, n, send, key, expect)| Op::Ack { who, first, n, send, key, expect }
        ),
        1 => (who, 0..3usize, 0..3usize).prop_map(|(who, first, n)| Op::Release { who, first, n }),
        1 => Just(Op::Forget),
        2 => Just(Op::Reopen),
    ];
    proptest::collection::vec(op, 1..60)
}

/// Queues, and what two owners have of them.
struct Side {
    queues: Queues,
    sessions: [Option<Session>; 2],
    held: [Vec<Delivery>; 2],
}

fn place() -> Place {
    Place { job: "j".into(), task: "t".into() }
}

fn name(queue: usize) -> QueueName {
    QueueName { job: "j".into(), task: "t".into(), from: format!("q{queue}") }
}

fn owners() -> [Owner; 2] {
    [owner("a", 1), owner("b", 1)]
}

type Seen = Result<Vec<(String, QueueName, Option<u16>, u64, u32)>, Refused>;

impl Side {
    fn new(queues: Queues) -> Side {
        Side { queues, sessions: [None, None], held: [Vec::new(), Vec::new()] }
    }

    fn drop_sessions(&mut self) {
        self.sessions = [None, None];
        self.held = [Vec::new(), Vec::new()];
    }

    fn taken(&mut self, who: usize, first: usize, n: usize) -> Vec<crate::Receipt> {
        let held = &mut self.held[who];
        let first = first.min(held.len());
        let end = (first + n).min(held.len());
        held.drain(first..end).map(|it| it.receipt).collect()
    }

    /// What an operation answers. `wait` says whether a receive will find something.
    async fn step(&mut self, op: &Op, at: u64, wait: bool) -> Seen {
        match op {
            Op::Open { who } => {
                let roster = Roster { at: 1, owners: owners().into() };
                let opened = self.queues.session(&place(), &owners()[*who], &roster).await;
                self.held[*who].clear();
                self.sessions[*who] = None;
                self.sessions[*who] = Some(opened?);
            }
            Op::Close { who } => {
                self.sessions[*who] = None;
                self.held[*who].clear();
            }
            Op::Announce { both } => {
                let n = if *both { 2 } else { 1 };
                let roster = Roster { at, owners: owners()[..n].into() };
                self.queues.announce(&place(), &roster).await?;
            }
            Op::Forget => self.queues.forget("j").await?,
            Op::Reopen => {}
            Op::Send { who, queue, lane, long } => {
                let Some(session) = &self.sessions[*who] else { return Ok(Vec::new()) };
                let said = format!("{at} {}", "x".repeat(if *long { 9000 } else { 10 }));
                let sends = vec![note(&name(*queue), *lane, &said)];
                session.commit(Transaction { sends, ..Transaction::default() }).await?;
            }
            Op::Receive { who, max } => return self.receive(*who, *max, wait).await,
            Op::Ack { who, first, n, send, key, expect } => {
                let acks = self.taken(*who, *first, *n);
                let Some(session) = &self.sessions[*who] else { return Ok(Vec::new()) };
                let key = format!("k{key}");
                let value = Bytes::from(at.to_string());
                let wrong = Some(Bytes::from_static(b"wrong"));
                let transaction = Transaction {
                    acks,
                    sends: send.then(|| note(&name(0), None, "back")).into_iter().collect(),
                    puts: vec![(key.clone(), (!at.is_multiple_of(3)).then_some(value))],
                    expects: expect.then_some((key, wrong)).into_iter().collect(),
                    ..Transaction::default()
                };
                session.commit(transaction).await?;
            }
            Op::Release { who, first, n } => {
                let receipts = self.taken(*who, *first, *n);
                let Some(session) = &self.sessions[*who] else { return Ok(Vec::new()) };
                session.release(receipts).await?;
            }
        }
        Ok(Vec::new())
    }

    async fn receive(&mut self, who: usize, max: usize, wait: bool) -> Seen {
        let Some(session) = &self.sessions[who] else { return Ok(Vec::new()) };
        let received = match wait {
            true => soon(session.receive(max)).await,
            // Polled once: memory answers at once or not at all.
            false => {
                match tokio::time::timeout(std::time::Duration::ZERO, session.receive(max)).await {
                    Ok(received) => received,
                    Err(_) => return Ok(Vec::new()),
                }
            }
        }?;
        let seen = |it: &Delivery| (text(it), it.queue.clone(), it.partition, it.id.0, it.attempt);
        let all = received.iter().map(seen).collect();
        self.held[who].extend(received);
        Ok(all)
    }

    /// All that can be seen from outside.
    async fn sight(&self) -> (Vec<(u64, u64)>, BTreeMap<String, Bytes>, Vec<String>) {
        let mut depths = Vec::new();
        for queue in 0..2 {
            let depth = self.queues.depth(&name(queue)).await.unwrap();
            depths.push((depth.ready, depth.in_flight));
        }
        let keys = self.queues.peek(&place(), "").await.unwrap().into_iter().collect();
        (depths, keys, self.queues.jobs().await.unwrap())
    }
}

async fn compare(ops: &[Op]) {
    let dir = tempfile::tempdir().unwrap();
    let mut memory = Side::new(Queues::memory());
    let mut files = Side::new(open(dir.path(), SMALL).await);
    for (at, op) in ops.iter().enumerate() {
        if matches!(op, Op::Reopen) {
            memory.drop_sessions();
            files.drop_sessions();
            files.queues = Queues::memory();
            files.queues = open(dir.path(), SMALL).await;
        }
        let wanted = memory.step(op, 2 + at as u64, false).await;
        let finds = wanted.as_ref().map_or(true, |seen| !seen.is_empty());
        let found = files.step(op, 2 + at as u64, finds).await;
        assert_eq!(found, wanted, "the answer to {op:?}, number {at}");
        assert_eq!(files.sight().await, memory.sight().await, "after {op:?}, number {at}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn files_answer_like_memory(ops in ops()) {
        run(compare(&ops));
    }
}
