//! A session on another process's queues.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::{Notify, watch};

use super::{
    connection::{Live, Waiter},
    frame::{self, Answer, Ask, Rest},
    pages, unexpected,
};
use crate::{
    backend::{self, Hand},
    message::{Delivery, QueueName, Receipt},
    transaction::{Key, Refused, Transaction},
};

/// Messages that have arrived. A receive that is dropped leaves them here for the next one.
pub(crate) struct Stash {
    inner: Mutex<Inner>,
    bell: Notify,
    is_lost: watch::Sender<bool>,
}

#[derive(Default)]
struct Inner {
    messages: VecDeque<Delivery>,
    refused: Option<Refused>,
    /// A request is under way.
    is_asked: bool,
}

impl Stash {
    pub(crate) fn new() -> Arc<Stash> {
        let (inner, bell) = (Mutex::default(), Notify::new());
        Arc::new(Stash { inner, bell, is_lost: watch::Sender::new(false) })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer to a request for messages.
    pub(crate) fn fill(&self, answer: Answer, mut rest: Rest) {
        let mut inner = self.lock();
        inner.is_asked = false;
        if let Answer::Deliveries(given) = answer {
            match rest.deliveries(given) {
                Ok(deliveries) => inner.messages.extend(deliveries),
                Err(why) => inner.refused = Some(Refused::Unavailable(why.to_string())),
            }
        } else if let Answer::Refused(refused) = answer {
            inner.refused = Some(refused);
        } else {
            inner.refused = Some(unexpected(&answer));
        }
        drop(inner);
        self.bell.notify_waiters();
    }

    /// The session is over.
    pub(crate) fn lose(&self) {
        self.is_lost.send_replace(true);
        self.bell.notify_waiters();
    }

    fn is_lost(&self) -> bool {
        *self.is_lost.borrow()
    }
}

pub(crate) struct RemoteHand {
    live: Arc<Live>,
    id: u64,
    stash: Arc<Stash>,
}

impl RemoteHand {
    pub(crate) fn new(live: Arc<Live>, id: u64, stash: Arc<Stash>) -> RemoteHand {
        RemoteHand { live, id, stash }
    }

    /// Asks something that belongs to the session: without the connection, that is over.
    async fn call(&self, ask: Ask) -> Result<(Answer, Rest), Refused> {
        if self.stash.is_lost() {
            return Err(Refused::Lost);
        }
        let answer = self.live.call(ask, Vec::new()).map_err(|_| Refused::Lost)?;
        let (answer, rest) = answer.await.ok_or(Refused::Lost)?;
        if let Answer::Refused(refused) = answer {
            return Err(refused);
        }
        Ok((answer, rest))
    }
}

impl Drop for RemoteHand {
    fn drop(&mut self) {
        self.live.end_session(self.id);
        self.live.tell(Ask::Close(self.id));
    }
}

#[async_trait]
impl Hand for RemoteHand {
    async fn receive(&self, max: usize) -> Result<Vec<Delivery>, Refused> {
        loop {
            let mut rung = std::pin::pin!(self.stash.bell.notified());
            rung.as_mut().enable();
            let must_ask = {
                let mut inner = self.stash.lock();
                if self.stash.is_lost() {
                    return Err(Refused::Lost);
                }
                if let Some(refused) = inner.refused.take() {
                    return Err(refused);
                }
                if !inner.messages.is_empty() {
                    let n = max.min(inner.messages.len());
                    return Ok(inner.messages.drain(..n).collect());
                }
                !std::mem::replace(&mut inner.is_asked, true)
            };
            if must_ask {
                let ask = Ask::Receive(self.id, max as u64);
                let waiter = Waiter::Stash(Arc::clone(&self.stash));
                self.live.ask(ask, Vec::new(), waiter).map_err(|_| Refused::Lost)?;
            }
            rung.await;
        }
    }

    fn commit(&self, transaction: Transaction) -> backend::Answer<()> {
        if self.stash.is_lost() {
            return Box::pin(async { Err(Refused::Lost) });
        }
        let terms = self.live.terms;
        let max = (terms.message_bytes_max, terms.value_bytes_max);
        let outlined = crate::limits::check_sizes(&transaction, max.0, max.1)
            .and_then(|()| frame::outline(transaction));
        let sent = outlined.and_then(|(outline, bodies)| {
            let sent = self.live.call(Ask::Commit(self.id, outline), bodies);
            sent.map_err(|_| Refused::Lost)
        });
        Box::pin(async move {
            let unknown = || Refused::Unknown("the connection broke before the answer".into());
            let answer = sent?.await.ok_or_else(unknown)?.0;
            if let Answer::Refused(refused) = answer {
                return Err(refused);
            }
            match matches!(answer, Answer::Done) {
                true => Ok(()),
                false => Err(Refused::Unknown(unexpected(&answer).to_string())),
            }
        })
    }

    async fn release(&self, receipts: Vec<Receipt>) -> Result<(), Refused> {
        self.call(Ask::Release(self.id, receipts)).await.map(drop)
    }

    async fn get(&self, key: &str) -> Result<Option<Bytes>, Refused> {
        let (answer, mut rest) = self.call(Ask::Get(self.id, key.to_owned())).await?;
        if let Answer::Value(len) = answer {
            let value = len.map(|len| rest.cut(len)).transpose();
            return value.map_err(|why| Refused::Unavailable(why.to_string()));
        }
        Err(unexpected(&answer))
    }

    async fn scan(&self, prefix: &str) -> Result<Vec<(Key, Bytes)>, Refused> {
        pages(|after| self.call(Ask::Scan(self.id, prefix.to_owned(), after))).await
    }

    async fn room(&self, queues: &[QueueName]) -> Result<(), Refused> {
        self.call(Ask::Room(self.id, queues.to_vec())).await.map(drop)
    }

    async fn close(&self) {
        // It is over either way.
        let _ = self.call(Ask::Close(self.id)).await;
        self.live.end_session(self.id);
        self.stash.lose();
    }

    async fn lost(&self) {
        self.watch().await;
    }

    fn watch(&self) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
        let mut is_lost = self.stash.is_lost.subscribe();
        Box::pin(async move {
            // Fails when the session is gone, and then it is over as well.
            let _ = is_lost.wait_for(|is_lost| *is_lost).await;
        })
    }
}
