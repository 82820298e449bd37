//! `sardonyx://HOST:PORT`: the embedded store of another process.
//!
//! The client speaks the store's own requests ([`frame`]), over one connection that is made again
//! when it breaks ([`connection`]). Sessions are the server's and outlive a connection, and the
//! server: their owner beats for them wherever it is connected.

mod connection;
mod frame;
mod server;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use bytes::Bytes;
use sardonyx_core::{PeerId, Position};
use tokio::sync::watch;

use connection::Client;
pub(crate) use frame::{Answer, Ask};
#[cfg(test)]
pub(crate) use frame::{FRAME_BYTES_MAX, HELLO_BYTES_MAX, Hello, Welcome, encode, receive};
pub use server::{CONNECTIONS_MAX, Serving};

use crate::{
    backend::{Backend, Committed, Condition, Item, Lease, Read, Tail, Txn, Write},
    error::{Error, Result},
    local::{
        ITEM_PREFIX, cell_key, item_txn, no_pulse_txn, pulse_key, pulse_txn, session_lost,
        strip_items,
    },
    location::Servers,
    token::{Token, random},
};

/// Connects, so that a wrong address or token is noticed at once.
pub(crate) async fn connect(servers: &Servers) -> Result<Remote> {
    let client = Arc::new(Client::new(servers));
    client.ask(Ask::Origin).await?;
    Ok(Remote { client })
}

pub(crate) struct Remote {
    client: Arc<Client>,
}

fn unexpected(answer: &Answer) -> Error {
    Error::Corrupt(format!("an answer that does not fit its question: {answer:?}"))
}

fn flag(answer: &Answer) -> Result<bool> {
    if let Answer::Flag(flag) = answer {
        return Ok(*flag);
    }
    Err(unexpected(answer))
}

fn committed(answer: Answer) -> Result<Committed> {
    if let Answer::Committed(committed) = answer {
        return Ok(committed);
    }
    Err(unexpected(&answer))
}

fn value(answer: Answer) -> Result<Option<Bytes>> {
    if let Answer::Value(value) = answer {
        return Ok(value);
    }
    Err(unexpected(&answer))
}

#[async_trait]
impl Backend for Remote {
    async fn append(&self, _token: Token, bytes: Bytes) -> Result<Position> {
        let answer = self.client.ask(Ask::Append(bytes)).await?;
        if let Answer::Position(position) = answer {
            return Ok(position);
        }
        Err(unexpected(&answer))
    }

    fn tail(&self, after: Option<Position>) -> Box<dyn Tail> {
        Box::new(RemoteTail { client: Arc::clone(&self.client), after })
    }

    async fn end(&self) -> Result<Option<Position>> {
        let answer = self.client.ask(Ask::End).await?;
        if let Answer::End(end) = answer {
            return Ok(end);
        }
        Err(unexpected(&answer))
    }

    async fn origin(&self) -> Result<Option<(Position, Bytes)>> {
        let answer = self.client.ask(Ask::Origin).await?;
        if let Answer::Origin(origin) = answer {
            return Ok(origin);
        }
        Err(unexpected(&answer))
    }

    async fn set_origin(&self, position: Position, bytes: Bytes) -> Result<bool> {
        flag(&self.client.ask(Ask::SetOrigin(position, bytes)).await?)
    }

    async fn trim(&self, before: Position) -> Result<()> {
        self.client.ask(Ask::Trim(before)).await.map(drop)
    }

    async fn open_session(&self, timeout: Duration) -> Result<Box<dyn Lease>> {
        let id = random()?;
        let asked = Instant::now();
        self.client.ask(Ask::OpenSession(id, timeout)).await?;
        Ok(Box::new(RemoteLease::new(Arc::clone(&self.client), id, timeout, asked)))
    }

    async fn alive(&self, peer: &PeerId) -> Result<bool> {
        let held = value(self.client.ask(Ask::Value(pulse_key(peer))).await?)?;
        Ok(held.is_some())
    }

    async fn pulse_end(&self, peer: &PeerId) -> Result<()> {
        self.client.ask(Ask::KeyEnd(pulse_key(peer))).await.map(drop)
    }

    async fn fill_cell(&self, name: &str, wanted: Bytes) -> Result<Bytes> {
        let key = cell_key(name);
        let txn = Txn {
            when: vec![Condition::Absent(key.clone())],
            then: vec![Write::Put(key.clone(), wanted.clone())],
        };
        match committed(self.client.ask(Ask::Commit(None, txn)).await?)? {
            Committed::Done(_) => Ok(wanted),
            Committed::Refused => {
                Ok(value(self.client.ask(Ask::Value(key)).await?)?.unwrap_or(wanted))
            }
        }
    }

    async fn cell(&self, name: &str) -> Result<Option<Bytes>> {
        value(self.client.ask(Ask::Value(cell_key(name))).await?)
    }

    async fn items(&self, prefix: &str) -> Result<Vec<Item>> {
        let answer = self.client.ask(Ask::Items(format!("{ITEM_PREFIX}{prefix}"))).await?;
        if let Answer::Items(items) = answer {
            return Ok(strip_items(items));
        }
        Err(unexpected(&answer))
    }

    async fn commit(&self, txn: &Txn) -> Result<Committed> {
        committed(self.client.ask(Ask::Commit(None, item_txn(txn))).await?)
    }
}

struct RemoteTail {
    client: Arc<Client>,
    after: Option<Position>,
}

#[async_trait]
impl Tail for RemoteTail {
    async fn next(&mut self) -> Result<Read> {
        let answer = self.client.ask(Ask::Read(self.after)).await?;
        if let Answer::Entries(entries) = answer {
            self.after = entries.last().map(|entry| entry.position).or(self.after);
            return Ok(Read::Entries(entries));
        }
        if matches!(answer, Answer::Trimmed) {
            return Ok(Read::Trimmed);
        }
        Err(unexpected(&answer))
    }
}

struct RemoteLease {
    client: Arc<Client>,
    id: u64,
    timeout: Duration,
    lost: watch::Receiver<bool>,
    beating: tokio::task::AbortHandle,
}

impl RemoteLease {
    fn new(client: Arc<Client>, id: u64, timeout: Duration, asked: Instant) -> RemoteLease {
        let (lost, is_lost) = watch::channel(false);
        let beats = Arc::clone(&client);
        let beating = tokio::spawn(async move {
            beat(&beats, id, timeout, asked).await;
            lost.send_replace(true);
        });
        RemoteLease { client, id, timeout, lost: is_lost, beating: beating.abort_handle() }
    }

    async fn commit_raw(&self, txn: Txn) -> Result<Committed> {
        if *self.lost.borrow() {
            return Err(session_lost());
        }
        committed(self.client.ask(Ask::Commit(Some(self.id), txn)).await?)
    }
}

/// Gives signs of life until the session is lost: because the server says so, or because it has
/// not heard from us for so long that it may have ended it. Time counts from the sending.
async fn beat(client: &Client, id: u64, timeout: Duration, mut heard: Instant) {
    let mut pause = timeout / 4;
    loop {
        tokio::time::sleep(pause).await;
        let left = timeout.saturating_sub(heard.elapsed());
        let sent = Instant::now();
        let answer = tokio::time::timeout(left, client.ask(Ask::Beat(id, timeout))).await;
        match answer {
            Ok(Ok(Answer::Flag(true))) => (heard, pause) = (sent, timeout / 4),
            Ok(Err(why)) if why.is_transient() => pause = (timeout / 40).min(left),
            Ok(_) | Err(_) => return,
        }
    }
}

impl Drop for RemoteLease {
    fn drop(&mut self) {
        self.beating.abort();
    }
}

#[async_trait]
impl Lease for RemoteLease {
    fn timeout(&self) -> Duration {
        self.timeout
    }

    fn lost(&self) -> watch::Receiver<bool> {
        self.lost.clone()
    }

    async fn pulse(&self, peer: &PeerId) -> Result<()> {
        self.commit_raw(pulse_txn(peer)).await.map(drop)
    }

    async fn end_pulse(&self, peer: &PeerId) -> Result<()> {
        self.commit_raw(no_pulse_txn(peer)).await.map(drop)
    }

    async fn commit(&self, txn: &Txn) -> Result<Committed> {
        self.commit_raw(item_txn(txn)).await
    }

    async fn close(&self) -> Result<()> {
        self.beating.abort();
        self.client.ask(Ask::EndSession(self.id)).await.map(drop)
    }

    fn abandon(&self) {
        self.beating.abort();
    }
}
