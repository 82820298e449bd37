//! Ids for other processes: RESP, so that any Redis client can draw them, and raw frames.
//!
//! Requests that arrive together are answered together: everything in the buffer is read, single
//! ids are taken from the generator in one range, and the answers leave in one write. Above what
//! the clock allows a caller is told when to come back; it waits here for a few milliseconds at
//! most, so that no queue grows.
//!
//! Not here: HTTP, which only the program knows.

pub mod raw;
pub mod resp;

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::BytesMut;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
};

use sardonyx_store::lobby::{Guest, Lobby};

use crate::{
    ids::{Ids, NoIds},
    shared::Range,
};

/// How many ids one request gets, at most.
pub const REQUEST_IDS_MAX: u64 = 100_000;

/// How many connections are served at once on one port, beside those that have not asked for
/// anything yet.
pub const CONNECTIONS_MAX: usize = 4096;

/// How much of one request may be waiting to be read.
pub const REQUEST_BYTES_MAX: usize = 64 << 10;

/// How many requests for one id are answered out of one range.
const SINGLES_MAX: u64 = 1024;

/// How much room a connection has to be read into at first, and at most. It doubles when it was
/// full: whoever says nothing costs little, and of many requests that come together all are read in
/// one go.
const INPUT_BYTES: (usize, usize) = (64, 16 << 10);

/// How many bytes of answers are gathered before they are sent.
const OUTPUT_BYTES: usize = 1 << 20;

/// How long a request waits for the clock before it is sent away.
const WAIT: Duration = Duration::from_millis(5);

/// Counts since the start.
#[derive(Debug, Default)]
pub struct Counts {
    /// Ids handed out.
    pub ids: AtomicU64,
    /// Requests answered, also with a refusal.
    pub requests: AtomicU64,
    /// Requests sent away.
    pub refused: AtomicU64,
}

/// What connections share.
#[derive(Debug)]
pub struct Service {
    ids: Arc<Ids>,
    counts: Counts,
}

impl Service {
    /// A service for these ids.
    pub fn new(ids: Arc<Ids>) -> Service {
        Service { ids, counts: Counts::default() }
    }

    /// Where its ids come from.
    pub fn ids(&self) -> &Ids {
        &self.ids
    }

    /// The ids, once nobody else uses them.
    pub fn into_ids(self) -> Option<Ids> {
        Arc::into_inner(self.ids)
    }

    /// What it has done.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Exactly `n` ids, in a few ranges, or none.
    pub async fn take(&self, n: u64, ranges: &mut Vec<Range>) -> Result<(), NoIds> {
        self.take_for(1, n, ranges).await
    }

    /// The same, for several requests together.
    async fn take_for(&self, requests: u64, n: u64, ranges: &mut Vec<Range>) -> Result<(), NoIds> {
        ranges.clear();
        self.counts.requests.fetch_add(requests, Ordering::Relaxed);
        let (mut left, mut waited) = (n, Duration::ZERO);
        while left > 0 {
            match self.ids.range(left) {
                Ok(range) => {
                    left -= range.len();
                    ranges.push(range);
                }
                Err(NoIds::RetryAfter(after)) if waited < WAIT => {
                    waited += after;
                    tokio::time::sleep(after).await;
                }
                Err(why) => {
                    self.counts.refused.fetch_add(requests, Ordering::Relaxed);
                    return Err(why);
                }
            }
        }
        self.counts.ids.fetch_add(n, Ordering::Relaxed);
        Ok(())
    }
}

/// How requests and answers look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// See [`resp`].
    Resp,
    /// See [`raw`].
    Raw,
}

/// One request, in any protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// One id.
    Next,
    /// So many ids.
    Ids(u64),
    /// So many ids, as ranges.
    Ranges(u64),
    /// Something that needs no ids: the answer is already known.
    Say(&'static str),
    /// Goodbye.
    Quit,
}

/// Bytes that are no request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Malformed(pub &'static str);

/// Accepts connections until `stop` becomes true; then finishes what has been asked, and returns.
pub async fn serve(
    service: Arc<Service>,
    listener: TcpListener,
    protocol: Protocol,
    mut stop: watch::Receiver<bool>,
) -> io::Result<()> {
    let (places, lobby) = (Arc::new(Semaphore::new(CONNECTIONS_MAX)), Lobby::default());
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let stream = tokio::select! {
            () = told(&mut stop) => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                // Too many open files, or a caller that went away: the next one may do better.
                Err(_) => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    continue;
                }
            },
        };
        let (service, stop) = (Arc::clone(&service), stop.clone());
        let door = Door { guest: lobby.enter(), places: Arc::clone(&places) };
        connections.spawn(async move {
            // A connection that breaks is its caller's business.
            let _ = converse(&service, stream, protocol, stop, door).await;
        });
        while connections.try_join_next().is_some() {}
    }
    while connections.join_next().await.is_some() {}
    Ok(())
}

/// Returns once somebody says stop, or nobody is left who could.
async fn told(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// What a connection passes when it has asked for something.
struct Door {
    guest: Guest,
    places: Arc<Semaphore>,
}

async fn converse(
    service: &Service,
    mut stream: TcpStream,
    protocol: Protocol,
    mut stop: watch::Receiver<bool>,
    door: Door,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut room, room_max) = INPUT_BYTES;
    let mut input = BytesMut::new();
    let (mut door, mut _place) = (Some(door), None);
    let mut desk = Desk { service, protocol, ranges: Vec::new(), output: Vec::new() };
    // Made once: a new one for every request would queue up anew each time.
    let mut told = std::pin::pin!(told(&mut stop));
    loop {
        input.reserve(room);
        let n = tokio::select! {
            biased;
            n = stream.read_buf(&mut input) => n?,
            () = &mut told => 0,
            () = shown_out(door.as_mut()) => return Ok(()),
        };
        if n == 0 {
            return stream.shutdown().await;
        }
        if n >= room {
            room = (2 * room).min(room_max);
        }
        loop {
            let heard = desk.answer_some(&mut input).await;
            if let Some(Door { places, .. }) = door.take_if(|_| !desk.output.is_empty()) {
                let Ok(place) = places.try_acquire_owned() else { return Ok(()) };
                _place = Some(place);
            }
            stream.write_all(&desk.output).await?;
            desk.output.clear();
            match heard {
                Heard::More => {}
                Heard::All if input.len() < REQUEST_BYTES_MAX => break,
                Heard::All => return Ok(()),
                Heard::Goodbye => return stream.shutdown().await,
            }
        }
    }
}

/// Returns when somebody who has not asked for anything has to make room.
async fn shown_out(door: Option<&mut Door>) {
    match door {
        Some(door) => door.guest.shown_out().await,
        None => std::future::pending().await,
    }
}

/// What is left to do with a connection.
enum Heard {
    /// There are more requests in the buffer.
    More,
    /// Every whole request was answered.
    All,
    /// The caller is leaving, or has said what nobody understands.
    Goodbye,
}

/// Where one connection's requests are answered.
struct Desk<'a> {
    service: &'a Service,
    protocol: Protocol,
    ranges: Vec<Range>,
    output: Vec<u8>,
}

impl Desk<'_> {
    /// Answers what is in `input`, up to so many bytes of answers.
    async fn answer_some(&mut self, input: &mut BytesMut) -> Heard {
        let mut singles = 0;
        loop {
            let request = match self.protocol {
                Protocol::Resp => resp::read(input),
                Protocol::Raw => raw::read(input),
            };
            if request == Ok(Some(Request::Next)) && singles < SINGLES_MAX {
                singles += 1;
                continue;
            }
            self.answer_singles(std::mem::take(&mut singles)).await;
            match request {
                Ok(Some(Request::Next)) => singles = 1,
                Ok(Some(Request::Ids(n))) => self.answer_many(n, false).await,
                Ok(Some(Request::Ranges(n))) => self.answer_many(n, true).await,
                Ok(Some(Request::Say(text))) => resp::write_text(&mut self.output, text),
                Ok(Some(Request::Quit)) => {
                    resp::write_text(&mut self.output, "OK");
                    return Heard::Goodbye;
                }
                Ok(None) => return Heard::All,
                Err(Malformed(why)) => {
                    if self.protocol == Protocol::Resp {
                        resp::write_error(&mut self.output, "ERR", why);
                    }
                    return Heard::Goodbye;
                }
            }
            if self.output.len() > OUTPUT_BYTES && singles == 0 {
                return Heard::More;
            }
        }
    }

    /// One id to each of `n` requests.
    async fn answer_singles(&mut self, n: u64) {
        let taken = match n {
            0 => return,
            n => self.service.take_for(n, n, &mut self.ranges).await,
        };
        match (taken, self.protocol) {
            (Ok(()), Protocol::Resp) => resp::write_singles(&mut self.output, &self.ranges),
            (Ok(()), Protocol::Raw) => raw::write_singles(&mut self.output, &self.ranges),
            (Err(why), _) => (0..n).for_each(|_| self.refuse(&why)),
        }
    }

    /// `n` ids to one request.
    async fn answer_many(&mut self, n: u64, as_ranges: bool) {
        if !(1..=REQUEST_IDS_MAX).contains(&n) {
            return match self.protocol {
                Protocol::Resp => {
                    resp::write_error(&mut self.output, "ERR", "between 1 and 100000 ids");
                }
                Protocol::Raw => raw::write_refusal(&mut self.output, None),
            };
        }
        let taken = self.service.take(n, &mut self.ranges).await;
        match (taken, self.protocol) {
            (Ok(()), Protocol::Resp) => resp::write(&mut self.output, &self.ranges, as_ranges),
            (Ok(()), Protocol::Raw) => raw::write(&mut self.output, &self.ranges, as_ranges),
            (Err(why), _) => self.refuse(&why),
        }
    }

    fn refuse(&mut self, why: &NoIds) {
        match self.protocol {
            Protocol::Resp => resp::refuse(&mut self.output, why),
            Protocol::Raw => raw::refuse(&mut self.output, why),
        }
    }
}
