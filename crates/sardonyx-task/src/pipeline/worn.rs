//! Messages that come again and again.
//!
//! A message may be the end of whoever works on it: a record that makes a function overflow its stack
//! takes the process with it, and the next one, and the next. Such a job is killed. But how often a
//! message was delivered says little, since peers that move for every job that comes and goes give back
//! what they have not committed. So whoever gets one that came often first writes its name beside it,
//! and only then begins. Names of peers that are gone are those who may have died of it.

use std::{
    collections::BTreeMap,
    sync::{MutexGuard, PoisonError},
};

use bytes::Bytes;
use sardonyx_queue::{Key, MessageId, QueueName, Receipt, Session, Transaction};

use super::{End, Task};

/// How often a message may be delivered before anybody writes down that it has it.
pub(super) const UNASKED_MAX: u32 = 16;

/// How many of those who wrote that they have it may be gone.
pub(super) const GONE_MAX: usize = 16;

/// Who is in the cluster.
pub trait Census: Send + Sync {
    /// Whether this peer is.
    fn is_here(&self, peer: &str) -> bool;
}

/// Nobody ever goes: for tasks that run alone.
#[derive(Clone, Copy, Debug)]
pub struct Everybody;

impl Census for Everybody {
    fn is_here(&self, _peer: &str) -> bool {
        true
    }
}

/// A message that was delivered, as far as it matters here.
pub(super) struct Came<'a> {
    pub(super) queue: &'a QueueName,
    pub(super) partition: Option<u16>,
    pub(super) id: MessageId,
    pub(super) receipt: Receipt,
    pub(super) attempt: u32,
}

impl Came<'_> {
    fn key(&self) -> Key {
        let lane = self.partition.map(|it| it.to_string()).unwrap_or_default();
        format!("had/{}/{lane}/{}", self.queue.from, self.id.0)
    }
}

impl Task {
    /// Before a message is worked on: if it came often, writes down by whom it is tried now.
    pub(super) async fn dare(&self, session: &Session, came: &Came<'_>) -> Result<(), End> {
        if came.attempt <= UNASKED_MAX {
            return Ok(());
        }
        let key = came.key();
        let before = session.get(&key).await?;
        let names = before.clone().unwrap_or_default();
        let names = String::from_utf8_lossy(&names);
        let mut names: Vec<&str> = names.lines().collect();
        let n_gone = names.iter().filter(|peer| !self.order.census.is_here(peer)).count();
        if n_gone >= GONE_MAX {
            return Err(End::Failed(format!(
                "a message of {} was delivered {} times and never committed, and {n_gone} of \
                 those who had it are gone",
                came.queue, came.attempt
            )));
        }
        let me = self.order.owner.peer.as_str();
        if !names.contains(&me) {
            names.push(me);
            let names = Bytes::from(names.join("\n"));
            let mark = Transaction {
                holds: vec![came.receipt],
                puts: vec![(key.clone(), Some(names))],
                expects: vec![(key.clone(), before)],
                ..Transaction::default()
            };
            session.commit(mark).await?;
        }
        self.dared().insert(came.receipt, key);
        Ok(())
    }

    /// Whether it was dared to work on this.
    pub(super) fn is_dared(&self, receipt: Receipt) -> bool {
        self.dared().contains_key(&receipt)
    }

    /// What this transaction gets on with was nobody's end: the names beside it are wiped out.
    pub(super) fn forgive(&self, transaction: &mut Transaction) {
        let mut dared = self.dared();
        if dared.is_empty() {
            return;
        }
        for receipt in transaction.acks.iter().chain(&transaction.holds) {
            if let Some(key) = dared.remove(receipt) {
                transaction.puts.push((key, None));
            }
        }
    }

    /// What was received is another's from now on.
    pub(super) fn forget_dared(&self) {
        self.dared().clear();
    }

    fn dared(&self) -> MutexGuard<'_, BTreeMap<Receipt, Key>> {
        self.dared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
