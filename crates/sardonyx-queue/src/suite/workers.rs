//! Many workers, with accidents.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;

use super::{Arena, Dice, alone, note, owner, place, queue, roster, sending, soon, text};
use crate::{Owner, Place, QueueName, Queues, Refused, Roster, Session, Transaction};

const N_WORKERS: u64 = 8;

/// What a worker does: takes from one queue, puts into the next. Every accident leaves it to others.
struct Worker {
    queues: Queues,
    place: Place,
    owner: Owner,
    roster: Roster,
    next: Option<QueueName>,
    arrived: Arc<Mutex<BTreeMap<String, u32>>>,
    dice: Dice,
    n: usize,
}

impl Worker {
    fn n_arrived(&self) -> usize {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    async fn work(mut self) {
        let mut session = self.open().await;
        while self.n_arrived() < self.n {
            let moment = std::time::Duration::from_millis(20);
            let received = tokio::time::timeout(moment, session.receive(7)).await;
            let Ok(received) = received else { continue };
            match self.step(&session, received).await {
                Ok(true) => {}
                Ok(false) | Err(Refused::Lost) => session = self.open().await,
                Err(refused) => panic!("{refused}"),
            }
        }
    }

    async fn open(&self) -> Session {
        let opened = self.queues.session(&self.place, &self.owner, &self.roster).await;
        opened.expect("a session")
    }

    /// Moves what was received on; `false` if the session is to be thrown away.
    async fn step(
        &mut self,
        session: &Session,
        received: Result<Vec<crate::Delivery>, Refused>,
    ) -> Result<bool, Refused> {
        let received = received?;
        let receipts: Vec<_> = received.iter().map(|it| it.receipt).collect();
        match self.dice.below(20) {
            0 => return Ok(false),
            1 => {
                session.release(receipts).await?;
                return Ok(true);
            }
            2 => {
                let wrong = vec![("never".to_owned(), Some(Bytes::from_static(b"so")))];
                let sends = self.sends(&received);
                let acks = receipts.clone();
                let wrong = Transaction { acks, sends, expects: wrong, ..Transaction::default() };
                assert_eq!(session.commit(wrong).await, Err(Refused::Changed("never".into())));
            }
            _ => {}
        }
        let sends = self.sends(&received);
        session.commit(Transaction { acks: receipts, sends, ..Transaction::default() }).await?;
        if self.next.is_none() {
            let mut arrived = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
            received.iter().for_each(|it| *arrived.entry(text(it)).or_default() += 1);
        }
        Ok(true)
    }

    fn sends(&self, received: &[crate::Delivery]) -> Vec<crate::Outgoing> {
        let next = self.next.iter();
        next.flat_map(|next| received.iter().map(|it| note(next, None, &text(it)))).collect()
    }
}

/// Ten thousand messages through three queues, eight workers on each, with sessions thrown away,
/// messages released and commits refused: each message arrives exactly once.
pub async fn everything_moves_exactly_once(arena: &Arena) {
    let n = arena.n_moved();
    let (a, b, c) = (place("a"), place("b"), place("c"));
    let names = [queue(&a, "up"), queue(&b, "a"), queue(&c, "b")];
    let queues = arena.open().await;
    let sender = alone(&queues, &place("up")).await;
    let texts: Vec<_> = (0..n).map(|n| n.to_string()).collect();
    for some in texts.chunks(100) {
        let sends = some.iter().map(|text| note(&names[0], None, text)).collect();
        sender.commit(sending(sends)).await.unwrap();
    }
    let owners: Vec<_> = (0..N_WORKERS).map(|n| owner(&format!("w{n}"), 1)).collect();
    let everybody = roster(1, &owners.iter().collect::<Vec<_>>());
    let arrived = Arc::new(Mutex::new(BTreeMap::new()));
    let mut workers = tokio::task::JoinSet::new();
    for (stage, here) in [a, b, c].into_iter().enumerate() {
        for (number, owner) in owners.iter().enumerate() {
            let seed = 1 + (stage as u64) * N_WORKERS + number as u64;
            let worker = Worker {
                queues: arena.open().await,
                place: here.clone(),
                owner: owner.clone(),
                roster: everybody.clone(),
                next: names.get(stage + 1).cloned(),
                arrived: Arc::clone(&arrived),
                dice: Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
                n,
            };
            workers.spawn(worker.work());
        }
    }
    while let Some(worker) = soon(workers.join_next()).await {
        worker.expect("no worker fails");
    }
    let arrived = arrived.lock().unwrap_or_else(PoisonError::into_inner).clone();
    assert_eq!(arrived.len(), n);
    assert!(arrived.values().all(|times| *times == 1), "each exactly once");
    for name in &names {
        super::depth_becomes(&queues, name, 0, 0).await;
    }
}
