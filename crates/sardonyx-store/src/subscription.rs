//! Reading the log: in order, without gaps, each entry once, for ever.
//!
//! A task reads ahead and decodes, up to [`READ_AHEAD_BATCHES_MAX`] batches; copies are dropped
//! where entries are handed over, so that [`Subscription::seen`] belongs exactly to the last one.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use sardonyx_core::{
    Command, Position,
    wire::{self, Unreadable},
};
use tokio::sync::mpsc;

use crate::{
    backend::{Backend, Raw, Read},
    error::{Error, Result},
    store::Origin,
    token::{Seen, Token},
};

/// How many batches are read ahead of their reader.
pub const READ_AHEAD_BATCHES_MAX: usize = 4;

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Where reading begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Start {
    /// At the origin, which is then delivered first; without one, at the first entry.
    Origin,
    /// Behind a position up to which the caller has read, having seen these appends. With an empty
    /// [`Seen`] everything behind is delivered, copies of what came before included.
    After(Option<Position>, Seen),
}

/// What a reader is handed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Delivery {
    /// Forget the replica and go on from this one: first of all when reading begins at an origin,
    /// and whenever the next entry had been trimmed.
    Origin(Box<Origin>),
    /// The next entry.
    Entry {
        /// Where it stands.
        position: Position,
        /// What it asks, or why that cannot be read: the same for every reader of one version.
        command: Result<Command, Unreadable>,
    },
}

enum Batch {
    Origin(Box<Origin>),
    Entries(Vec<Decoded>),
}

struct Decoded {
    position: Position,
    token: Option<Token>,
    command: Result<Command, Unreadable>,
}

/// A reader of the log. One per node is enough: its peers share the replica.
pub struct Subscription {
    batches: mpsc::Receiver<Result<Batch>>,
    ready: VecDeque<Decoded>,
    origin: Option<Box<Origin>>,
    seen: Seen,
    reading: tokio::task::AbortHandle,
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subscription").field("ready", &self.ready.len()).finish_non_exhaustive()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

impl Subscription {
    pub(crate) fn open(backend: Arc<dyn Backend>, start: Start) -> Subscription {
        let (sender, batches) = mpsc::channel(READ_AHEAD_BATCHES_MAX);
        let (after, seen) = match start {
            Start::Origin => (None, Seen::default()),
            Start::After(after, seen) => (Some(after), seen),
        };
        let reading = tokio::spawn(async move {
            if let Err(why) = read_ahead(&*backend, after, &sender).await {
                // A reader that has gone does not want to know.
                let _ = sender.send(Err(why)).await;
            }
        });
        let reading = reading.abort_handle();
        Subscription { batches, ready: VecDeque::new(), origin: None, seen, reading }
    }

    /// Waits for what comes next. An error is final.
    pub async fn next(&mut self) -> Result<Delivery> {
        loop {
            if let Some(delivery) = self.pop() {
                return Ok(delivery);
            }
            self.fill().await?;
        }
    }

    /// Waits for what comes next and takes everything that is there; several times as fast as one
    /// by one. An error is final.
    pub async fn next_batch(&mut self, batch: &mut Vec<Delivery>) -> Result<()> {
        batch.push(self.next().await?);
        while let Some(delivery) = self.pop() {
            batch.push(delivery);
        }
        Ok(())
    }

    /// Which appends have been read, up to the last one that was handed over: what an
    /// [`Origin`] at that position needs.
    pub fn seen(&self) -> &Seen {
        &self.seen
    }

    /// What is there already. Copies are dropped here and not earlier, so that what is seen
    /// belongs to what was handed over.
    fn pop(&mut self) -> Option<Delivery> {
        if let Some(origin) = self.origin.take() {
            self.seen = origin.seen.clone();
            return Some(Delivery::Origin(origin));
        }
        while let Some(Decoded { position, token, command }) = self.ready.pop_front() {
            if token.is_none_or(|token| self.seen.note(token, position)) {
                return Some(Delivery::Entry { position, command });
            }
        }
        None
    }

    /// Takes the next batch; only called when the last one is used up.
    async fn fill(&mut self) -> Result<()> {
        let ended = || Err(Error::Unavailable("the subscription has ended".into()));
        match self.batches.recv().await.unwrap_or_else(ended)? {
            Batch::Origin(origin) => self.origin = Some(origin),
            Batch::Entries(entries) => self.ready = entries.into(),
        }
        Ok(())
    }
}

/// Reads until the reader goes away or something breaks that waiting does not mend.
async fn read_ahead(
    backend: &dyn Backend,
    after: Option<Option<Position>>,
    sender: &mpsc::Sender<Result<Batch>>,
) -> Result<()> {
    let mut after = match after {
        Some(after) => after,
        None => take_origin(backend, None, sender).await?,
    };
    let mut tail = backend.tail(after);
    let mut pause = FIRST_PAUSE;
    loop {
        match tail.next().await {
            Ok(Read::Entries(entries)) => {
                pause = FIRST_PAUSE;
                after = entries.last().map(|entry| entry.position).or(after);
                let decoded = entries.into_iter().map(decode).collect();
                if sender.send(Ok(Batch::Entries(decoded))).await.is_err() {
                    return Ok(());
                }
            }
            Ok(Read::Trimmed) => {
                let taken = take_origin(backend, after, sender).await?;
                if taken <= after {
                    let at = after.map_or("the first entry".into(), |at| format!("entry {at}"));
                    let why = format!("entries behind {at} are trimmed, but no origin has them");
                    return Err(Error::Corrupt(why));
                }
                after = taken;
                tail = backend.tail(after);
            }
            Err(why) if why.is_transient() => {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            Err(why) => return Err(why),
        }
    }
}

/// Delivers the origin, if there is one behind `after`, and says where reading goes on.
async fn take_origin(
    backend: &dyn Backend,
    after: Option<Position>,
    sender: &mpsc::Sender<Result<Batch>>,
) -> Result<Option<Position>> {
    let mut pause = FIRST_PAUSE;
    let stored = loop {
        match backend.origin().await {
            Err(why) if why.is_transient() => tokio::time::sleep(pause).await,
            stored => break stored?,
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    };
    let Some((position, bytes)) = stored.filter(|(position, _)| Some(*position) > after) else {
        return Ok(after);
    };
    let origin = Origin::from_bytes(position, &bytes)?;
    // A reader that has gone is noticed at the next batch.
    let _ = sender.send(Ok(Batch::Origin(Box::new(origin)))).await;
    Ok(Some(position))
}

fn decode(raw: Raw) -> Decoded {
    let Raw { position, bytes } = raw;
    match Token::split(&bytes) {
        Some((token, command)) => {
            let command = wire::command_from_bytes(command);
            Decoded { position, token: Some(token), command }
        }
        None => Decoded { position, token: None, command: Err(Unreadable::Garbled) },
    }
}
