//! `sardonyx://HOST:PORT`: the queues of another process.
//!
//! The client asks over one connection, any number of things at once ([`frame`]). A session is the
//! server's and ends with the connection: what it held is ready again. A commit whose answer was lost
//! is [`Refused::Unknown`]; everything else of the session is then [`Refused::Lost`].

mod connection;
pub(crate) mod frame;
mod lobby;
mod server;
mod session;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use connection::{Live, Terms, cut_off};
use frame::{Answer, Ask, Rest};
pub use server::{CONNECTIONS_MAX, Server, serve};
use session::{RemoteHand, Stash};

use crate::{
    backend::{Backend, Hand},
    location::{OpenError, Served},
    message::{Depth, QueueName},
    session::{Owner, Place, Roster},
    transaction::{Key, Refused},
};

/// Connects, so that a wrong address or token is noticed at once.
pub(crate) async fn connect(served: Served) -> Result<Remote, OpenError> {
    let live = Live::connect(&served.address, served.token.clone()).await?;
    let terms = live.terms;
    Ok(Remote { served, terms, live: tokio::sync::Mutex::new(live) })
}

/// Queues of another process, and the connection to it.
pub(crate) struct Remote {
    served: Served,
    terms: Terms,
    live: tokio::sync::Mutex<Arc<Live>>,
}

fn unexpected(answer: &Answer) -> Refused {
    Refused::Unavailable(format!("an answer that does not fit its question: {answer:?}"))
}

/// Asks for keys until there are no more.
async fn pages<F>(ask: impl Fn(Option<Key>) -> F) -> Result<Vec<(Key, Bytes)>, Refused>
where
    F: Future<Output = Result<(Answer, Rest), Refused>>,
{
    let mut all: Vec<(Key, Bytes)> = Vec::new();
    loop {
        let (answer, mut rest) = ask(all.last().map(|(key, _)| key.clone())).await?;
        let Answer::Keys(lengths, is_more) = answer else { return Err(unexpected(&answer)) };
        let values = rest.values(lengths);
        let values = values.map_err(|why| Refused::Unavailable(why.to_string()))?;
        all.extend(values.into_iter().filter_map(|(key, value)| Some((key, value?))));
        if !is_more {
            return Ok(all);
        }
    }
}

impl Remote {
    /// The connection; made anew if the last one broke. Others wait meanwhile.
    async fn live(&self) -> Result<Arc<Live>, Refused> {
        let mut live = self.live.lock().await;
        if live.is_broken() {
            let made = Live::connect(&self.served.address, self.served.token.clone()).await;
            *live = made.map_err(|why| Refused::Unavailable(why.to_string()))?;
        }
        Ok(Arc::clone(&live))
    }

    async fn call(&self, ask: Ask) -> Result<(Answer, Rest), Refused> {
        let live = self.live().await?;
        let answer = live.call(ask, Vec::new()).map_err(|_| cut_off())?;
        let (answer, rest) = answer.await.ok_or_else(cut_off)?;
        if let Answer::Refused(refused) = answer {
            return Err(refused);
        }
        Ok((answer, rest))
    }
}

/// A session that the server has opened and nobody has taken yet: dropped, it is closed.
struct Unclaimed(Arc<Live>, Option<u64>);

impl Drop for Unclaimed {
    fn drop(&mut self) {
        if let Some(id) = self.1 {
            self.0.tell(Ask::Close(id));
        }
    }
}

#[async_trait]
impl Backend for Remote {
    fn carries_bytes(&self) -> bool {
        true
    }

    fn is_durable(&self) -> bool {
        self.terms.is_durable
    }

    fn message_bytes_max(&self) -> usize {
        self.terms.message_bytes_max
    }

    fn value_bytes_max(&self) -> usize {
        self.terms.value_bytes_max
    }

    async fn session(
        &self,
        place: &Place,
        owner: &Owner,
        roster: &Roster,
    ) -> Result<Box<dyn Hand>, Refused> {
        let live = self.live().await?;
        let ask = Ask::Open(place.clone(), owner.clone(), roster.clone());
        let answer = live.call(ask, Vec::new()).map_err(|_| cut_off())?;
        // To the end even if nobody waits any more: a session that nobody has would hold things up.
        let claiming = Arc::clone(&live);
        let opened = tokio::spawn(async move {
            let (answer, _) = answer.await.ok_or_else(cut_off)?;
            if let Answer::Refused(refused) = answer {
                return Err(refused);
            }
            let Answer::Session(id) = answer else { return Err(unexpected(&answer)) };
            let stash = Stash::new();
            claiming.add_session(id, &stash).map_err(|_| cut_off())?;
            Ok((Unclaimed(claiming, Some(id)), id, stash))
        });
        let opened = opened.await.map_err(|why| Refused::Unavailable(why.to_string()))?;
        let (mut unclaimed, id, stash) = opened?;
        unclaimed.1 = None;
        Ok(Box::new(RemoteHand::new(live, id, stash)))
    }

    async fn announce(&self, place: &Place, roster: &Roster) -> Result<(), Refused> {
        self.call(Ask::Announce(place.clone(), roster.clone())).await.map(drop)
    }

    async fn depth(&self, queue: &QueueName) -> Result<Depth, Refused> {
        let (answer, _) = self.call(Ask::Depth(queue.clone())).await?;
        if let Answer::Depth(ready, in_flight) = answer {
            return Ok(Depth { ready, in_flight });
        }
        Err(unexpected(&answer))
    }

    async fn peek(&self, place: &Place, prefix: &str) -> Result<Vec<(Key, Bytes)>, Refused> {
        pages(|after| self.call(Ask::Peek(place.clone(), prefix.to_owned(), after))).await
    }

    async fn forget(&self, job: &str) -> Result<(), Refused> {
        self.call(Ask::Forget(job.to_owned())).await.map(drop)
    }

    async fn jobs(&self) -> Result<Vec<String>, Refused> {
        let (answer, _) = self.call(Ask::Jobs).await?;
        if let Answer::Jobs(jobs) = answer {
            return Ok(jobs);
        }
        Err(unexpected(&answer))
    }
}
