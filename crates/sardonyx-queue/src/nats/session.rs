//! A session on JetStream.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::{Notify, mpsc, oneshot, watch};

use super::{
    board::Spot,
    desk::{Desk, Work},
    keys,
};
use crate::{
    backend::{Answer, Hand},
    limits::{QUEUE_BYTES_MAX, QUEUE_MESSAGES_MAX, check_sizes},
    message::{Delivery, MessageId, QueueName, Receipt},
    transaction::{Key, Refused, Transaction},
};

/// How often a full queue is looked at, and an empty one.
const LOOK: Duration = Duration::from_millis(50);
const LOOK_SELDOM: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Inner {
    /// Taken, and not handed out yet. A receive that is dropped leaves them for the next one.
    messages: VecDeque<Delivery>,
    held: BTreeMap<Receipt, Spot>,
    n_receipts: u64,
    refused: Option<Refused>,
    is_fetching: bool,
}

struct Shared {
    desk: Arc<Desk>,
    id: u64,
    inner: Mutex<Inner>,
    bell: Notify,
    is_lost: watch::Sender<bool>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_lost(&self) -> bool {
        *self.is_lost.borrow()
    }

    async fn lost(&self) {
        // Fails when the sender is gone, and the sender is ours.
        let _ = self.is_lost.subscribe().wait_for(|is_lost| *is_lost).await;
    }

    /// Takes messages as soon as there are some.
    async fn fetch(&self, max: usize) {
        let fetched = loop {
            let mut rung = std::pin::pin!(self.desk.bell.notified());
            rung.as_mut().enable();
            if self.is_lost() {
                break Err(Refused::Lost);
            }
            // Others may be at the larder for long; whoever is over does not wait for them.
            let taken = tokio::select! {
                taken = self.desk.take(self.id, max) => taken,
                () = self.lost() => Err(Refused::Lost),
            };
            match taken {
                Ok(taken) if taken.is_empty() => {
                    tokio::select! {
                        () = rung => {}
                        () = tokio::time::sleep(LOOK_SELDOM) => {}
                        () = self.lost() => {}
                    }
                }
                taken => break taken,
            }
        };
        let mut inner = self.lock();
        inner.is_fetching = false;
        match fetched {
            Err(refused) => inner.refused = Some(refused),
            Ok(taken) => {
                for it in taken {
                    inner.n_receipts += 1;
                    let receipt = Receipt(inner.n_receipts);
                    let (from, partition, sequence) = it.spot.clone();
                    inner.held.insert(receipt, it.spot);
                    inner.messages.push_back(Delivery {
                        receipt,
                        queue: self.desk.queue(&from),
                        partition,
                        id: MessageId(sequence),
                        attempt: it.attempt,
                        body: it.body,
                    });
                }
            }
        }
        drop(inner);
        self.bell.notify_waiters();
    }

    fn spots(&self, receipts: &[Receipt]) -> Result<Vec<Spot>, Refused> {
        let inner = self.lock();
        let spot = |receipt| inner.held.get(receipt).cloned().ok_or(Refused::Lost);
        receipts.iter().map(spot).collect()
    }

    async fn commit(&self, transaction: Transaction) -> Result<(), Refused> {
        if self.is_lost() {
            return Err(Refused::Lost);
        }
        let max = self.desk.servers.payload_bytes_max;
        check_sizes(&transaction, max, max)?;
        let (acks, holds) = (self.spots(&transaction.acks)?, self.spots(&transaction.holds)?);
        let n_different = acks.iter().collect::<std::collections::BTreeSet<_>>().len();
        if n_different < acks.len() {
            return Err(Refused::Lost);
        }
        let receipts = transaction.acks.clone();
        self.desk.commit(self.id, Work { holds, acks, rest: transaction }).await?;
        let mut inner = self.lock();
        receipts.iter().for_each(|receipt| drop(inner.held.remove(receipt)));
        Ok(())
    }

    async fn close(&self) {
        let id = self.id;
        // At once: whoever fetches for it may stand in a line, and the board may be long in coming.
        self.is_lost.send_replace(true);
        self.bell.notify_waiters();
        // If it cannot be said now, the next roster or the owner's next session does it.
        let _ = self.desk.change(|board| Ok(board.close(id).then_some(()))).await;
        let place = &self.desk.place;
        self.desk.servers.wake(&place.job, &place.task).await;
    }
}

/// What a session's own task does, one after the other.
enum Order {
    Commit(Transaction, oneshot::Sender<Result<(), Refused>>),
    Close(oneshot::Sender<()>),
}

pub(crate) struct NatsHand {
    shared: Arc<Shared>,
    /// Unbounded, because a commit must find its place in the order without waiting; what lies in it
    /// is what callers have under way.
    orders: mpsc::UnboundedSender<Order>,
}

impl NatsHand {
    pub(crate) fn new(desk: Arc<Desk>, id: u64) -> NatsHand {
        let is_lost = watch::Sender::new(false);
        desk.add_session(id, is_lost.clone());
        let inner = Mutex::default();
        let shared = Arc::new(Shared { desk, id, inner, bell: Notify::new(), is_lost });
        let (orders, ordered) = mpsc::unbounded_channel();
        tokio::spawn(work(Arc::clone(&shared), ordered));
        NatsHand { shared, orders }
    }
}

/// Carries out a session's orders; closes it when nobody can give any more.
async fn work(shared: Arc<Shared>, mut ordered: mpsc::UnboundedReceiver<Order>) {
    while let Some(order) = ordered.recv().await {
        match order {
            // Whoever gave up does not want to know.
            Order::Commit(it, answer) => drop(answer.send(shared.commit(it).await)),
            Order::Close(answer) => {
                shared.close().await;
                let _ = answer.send(());
            }
        }
    }
    if !shared.is_lost() {
        shared.close().await;
    }
}

#[async_trait]
impl Hand for NatsHand {
    async fn receive(&self, max: usize) -> Result<Vec<Delivery>, Refused> {
        let shared = &self.shared;
        loop {
            let mut rung = std::pin::pin!(shared.bell.notified());
            rung.as_mut().enable();
            let must_fetch = {
                let mut inner = shared.lock();
                if shared.is_lost() {
                    return Err(Refused::Lost);
                }
                if let Some(refused) = inner.refused.take() {
                    return Err(refused);
                }
                if !inner.messages.is_empty() {
                    let n = max.min(inner.messages.len());
                    return Ok(inner.messages.drain(..n).collect());
                }
                !std::mem::replace(&mut inner.is_fetching, true)
            };
            if must_fetch {
                let shared = Arc::clone(shared);
                tokio::spawn(async move { shared.fetch(max).await });
            }
            tokio::select! {
                () = rung => {}
                () = shared.lost() => {}
            }
        }
    }

    fn commit(&self, transaction: Transaction) -> Answer<()> {
        let (sender, answer) = oneshot::channel();
        let sent = self.orders.send(Order::Commit(transaction, sender));
        Box::pin(async move {
            sent.map_err(|_| Refused::Lost)?;
            let unknown = |_| Refused::Unknown("the session ended before the answer".into());
            answer.await.map_err(unknown)?
        })
    }

    async fn release(&self, receipts: Vec<Receipt>) -> Result<(), Refused> {
        let (id, spots) = {
            let mut inner = self.shared.lock();
            let spots = receipts.iter().filter_map(|receipt| inner.held.remove(receipt));
            (self.shared.id, spots.collect::<Vec<_>>())
        };
        let released = self.shared.desk.change(|board| {
            if !board.sessions.contains_key(&id) {
                return Err(Refused::Lost);
            }
            Ok(board.release(id, &spots).then_some(()))
        });
        released.await?;
        let place = &self.shared.desk.place;
        self.shared.desk.servers.wake(&place.job, &place.task).await;
        Ok(())
    }

    async fn get(&self, key: &str) -> Result<Option<Bytes>, Refused> {
        let desk = &self.shared.desk;
        let board = desk.settle().await?;
        if !board.sessions.contains_key(&self.shared.id) {
            return Err(Refused::Lost);
        }
        keys::read(&desk.servers, &desk.place, key).await.map(|(_, value)| value)
    }

    async fn scan(&self, prefix: &str) -> Result<Vec<(Key, Bytes)>, Refused> {
        let desk = &self.shared.desk;
        let board = desk.settle().await?;
        if !board.sessions.contains_key(&self.shared.id) {
            return Err(Refused::Lost);
        }
        keys(&desk.servers, &desk.place, prefix).await
    }

    async fn room(&self, queues: &[QueueName]) -> Result<(), Refused> {
        for queue in queues {
            loop {
                if self.shared.is_lost() {
                    return Err(Refused::Lost);
                }
                let extent = self.shared.desk.servers.extent(queue).await?;
                if extent.bytes < QUEUE_BYTES_MAX && extent.messages < QUEUE_MESSAGES_MAX {
                    break;
                }
                tokio::select! {
                    () = tokio::time::sleep(LOOK) => {}
                    () = self.shared.lost() => {}
                }
            }
        }
        Ok(())
    }

    async fn close(&self) {
        let (sender, closed) = oneshot::channel();
        if self.orders.send(Order::Close(sender)).is_ok() {
            // It is over either way.
            let _ = closed.await;
        }
    }

    async fn lost(&self) {
        self.shared.lost().await;
    }

    fn watch(&self) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
        let mut is_lost = self.shared.is_lost.subscribe();
        Box::pin(async move {
            // Fails when the session is gone, and then it is over as well.
            let _ = is_lost.wait_for(|is_lost| *is_lost).await;
        })
    }
}
