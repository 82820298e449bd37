//! Ids for other processes: RESP, so that any Redis client can draw them, and raw frames.
//!
//! Requests that arrive together are answered together: everything in the buffer is read, and the
//! answers leave in one write. Above what the clock allows a caller is told when to come back; it
//! waits here for a few milliseconds at most, so that no queue grows.
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

use crate::{
    ids::{Ids, NoIds},
    shared::Range,
};

/// How many ids one request gets, at most.
pub const REQUEST_IDS_MAX: u64 = 100_000;

/// How many connections are served at once on one port.
pub const CONNECTIONS_MAX: usize = 4096;

/// How much of one request may be waiting to be read.
pub const REQUEST_BYTES_MAX: usize = 64 << 10;

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
        ranges.clear();
        self.counts.requests.fetch_add(1, Ordering::Relaxed);
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
                    self.counts.refused.fetch_add(1, Ordering::Relaxed);
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
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
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
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
        let (service, stop) = (Arc::clone(&service), stop.clone());
        connections.spawn(async move {
            // A connection that breaks is its caller's business.
            let _ = converse(&service, stream, protocol, stop).await;
            drop(place);
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

async fn converse(
    service: &Service,
    mut stream: TcpStream,
    protocol: Protocol,
    mut stop: watch::Receiver<bool>,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut input, mut output) = (BytesMut::with_capacity(8 << 10), Vec::with_capacity(8 << 10));
    let mut ranges = Vec::new();
    loop {
        let n = tokio::select! {
            biased;
            n = stream.read_buf(&mut input) => n?,
            () = told(&mut stop) => 0,
        };
        if n == 0 {
            return stream.shutdown().await;
        }
        loop {
            let request = match protocol {
                Protocol::Resp => resp::read(&mut input),
                Protocol::Raw => raw::read(&mut input),
            };
            match request {
                Ok(Some(Request::Quit)) => {
                    resp::write_text(&mut output, "OK");
                    stream.write_all(&output).await?;
                    return stream.shutdown().await;
                }
                Ok(Some(request)) => {
                    answer(service, protocol, request, &mut ranges, &mut output).await;
                }
                Ok(None) if input.len() < REQUEST_BYTES_MAX => break,
                Ok(None) => return Ok(()),
                Err(Malformed(why)) => {
                    if protocol == Protocol::Resp {
                        resp::write_error(&mut output, "ERR", why);
                    }
                    stream.write_all(&output).await?;
                    return stream.shutdown().await;
                }
            }
            if output.len() > 1 << 20 {
                stream.write_all(&output).await?;
                output.clear();
            }
        }
        stream.write_all(&output).await?;
        output.clear();
    }
}

async fn answer(
    service: &Service,
    protocol: Protocol,
    request: Request,
    ranges: &mut Vec<Range>,
    output: &mut Vec<u8>,
) {
    let n = match request {
        Request::Next => 1,
        Request::Ids(n) | Request::Ranges(n) => n,
        Request::Say(text) => return resp::write_text(output, text),
        Request::Quit => return,
    };
    let taken = match n {
        1..=REQUEST_IDS_MAX => service.take(n, ranges).await,
        _ => {
            return match protocol {
                Protocol::Resp => resp::write_error(output, "ERR", "between 1 and 100000 ids"),
                Protocol::Raw => raw::write_refusal(output, None),
            };
        }
    };
    match protocol {
        Protocol::Resp => resp::write(output, request, taken.map(|()| &ranges[..])),
        Protocol::Raw => raw::write(output, request, taken.map(|()| &ranges[..])),
    }
}
