//! Questions that wait for their answers.

use std::{
    collections::HashMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::{address::Address, wire::limits::ASKS_MAX};

/// An answer's body, or why there is none.
pub(crate) type Answered = Result<Bytes, String>;

#[derive(Debug, Default)]
pub(crate) struct Asks {
    next: AtomicU64,
    waiting: Mutex<HashMap<u64, (Address, oneshot::Sender<Answered>)>>,
}

impl Asks {
    /// A number for a question to `to`, and where its answer will come. `None` if too many wait.
    pub(crate) fn open(&self, to: &Address) -> Option<(u64, oneshot::Receiver<Answered>)> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() >= ASKS_MAX {
            return None;
        }
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        waiting.insert(id, (to.clone(), sender));
        Some((id, receiver))
    }

    /// Nobody waits any more.
    pub(crate) fn close(&self, id: u64) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }

    /// An answer came. It counts only from who was asked: nobody answers for another.
    pub(crate) fn answered(&self, id: u64, from: &Address, answer: Answered) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.get(&id).is_some_and(|(asked, _)| asked == from)
            && let Some((_, sender)) = waiting.remove(&id)
        {
            // Who asked may have stopped waiting.
            let _ = sender.send(answer);
        }
    }

    /// A member is gone: its answers will not come.
    pub(crate) fn gone(&self, member: &Address) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let ids: Vec<u64> =
            waiting.iter().filter(|(_, (to, _))| to == member).map(|(id, _)| *id).collect();
        for id in ids {
            if let Some((_, sender)) = waiting.remove(&id) {
                let _ = sender.send(Err(format!("{member} was removed")));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_was_asked_answers_and_only_once() {
        let (asked, other) = (Address::new("a", 1).unwrap(), Address::new("b", 1).unwrap());
        let asks = Asks::default();
        let (id, mut answer) = asks.open(&asked).unwrap();
        asks.answered(id, &other, Ok(Bytes::from_static(b"forged")));
        assert!(answer.try_recv().is_err(), "still open");
        asks.answered(id, &asked, Ok(Bytes::from_static(b"first")));
        asks.answered(id, &asked, Ok(Bytes::from_static(b"second")));
        assert_eq!(answer.try_recv().unwrap(), Ok(Bytes::from_static(b"first")));
        let (_, mut answer) = asks.open(&asked).unwrap();
        asks.gone(&asked);
        assert!(answer.try_recv().unwrap().unwrap_err().contains("removed"));
    }

    #[test]
    fn so_many_may_wait_and_no_more() {
        let asks = Asks::default();
        let to = Address::new("a", 1).unwrap();
        let open: Vec<_> = (0..ASKS_MAX).map(|_| asks.open(&to).unwrap()).collect();
        assert!(asks.open(&to).is_none());
        asks.close(open[0].0);
        assert!(asks.open(&to).is_some());
    }
}
