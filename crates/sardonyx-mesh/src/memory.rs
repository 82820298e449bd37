//! A network inside one process: pipes, and a hand that cuts them.
//!
//! Everything above it, from the first greeting on, is the same as on sockets. A cut pair cannot
//! dial, and what it has open falls silent without an end, as a cable that was pulled does.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf},
    sync::mpsc,
};

use crate::address::Address;

/// How many bytes a pipe holds, about as many as a socket does.
const PIPE_BYTES: usize = 256 << 10;

/// Who has not been accepted yet.
const BACKLOG: usize = 1_024;

#[derive(Default)]
struct Plan {
    listeners: BTreeMap<Address, mpsc::Sender<(Pipe, String)>>,
    /// Directed: what the first says does not reach the second.
    cut: BTreeSet<(Address, Address)>,
    /// Who waits for a cut to end.
    waiting: Vec<Waker>,
}

/// The network of one process.
#[derive(Clone, Default)]
pub struct Hub {
    plan: Arc<Mutex<Plan>>,
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hub")
    }
}

impl Hub {
    /// A network with nobody on it.
    pub fn new() -> Hub {
        Hub::default()
    }

    /// What `from` says does not reach `to` any more; the other way is not touched.
    pub fn cut(&self, from: &Address, to: &Address) {
        self.plan().cut.insert((from.clone(), to.clone()));
    }

    /// Cuts both ways.
    pub fn cut_pair(&self, one: &Address, other: &Address) {
        self.cut(one, other);
        self.cut(other, one);
    }

    /// Everybody reaches everybody again. What fell silent goes on where it was.
    pub fn heal(&self) {
        let mut plan = self.plan();
        plan.cut.clear();
        for waker in plan.waiting.drain(..) {
            waker.wake();
        }
    }

    pub(crate) fn listen(&self, at: &Address) -> io::Result<Listener> {
        let mut plan = self.plan();
        if plan.listeners.get(at).is_some_and(|it| !it.is_closed()) {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, format!("{at} is in use")));
        }
        let (sender, knocks) = mpsc::channel(BACKLOG);
        plan.listeners.insert(at.clone(), sender);
        Ok(Listener { knocks })
    }

    pub(crate) async fn dial(&self, from: &Address, to: &Address) -> io::Result<Pipe> {
        let both = [(from.clone(), to.clone()), (to.clone(), from.clone())];
        let listener = {
            let plan = self.plan();
            match both.iter().any(|it| plan.cut.contains(it)) {
                true => None,
                false => Some(plan.listeners.get(to).filter(|it| !it.is_closed()).cloned()),
            }
        };
        // A cut line says nothing at all; who dials gives up when it has waited enough.
        let Some(listener) = listener else { return std::future::pending().await };
        let refused = || io::Error::new(io::ErrorKind::ConnectionRefused, format!("{to}: nobody"));
        let listener = listener.ok_or_else(refused)?;
        let (here, there) = tokio::io::duplex(PIPE_BYTES);
        let [out, back] = both;
        let here = Pipe { stream: here, heard_on: back.clone(), hub: self.clone() };
        let there = Pipe { stream: there, heard_on: out, hub: self.clone() };
        listener.try_send((there, from.to_string())).map_err(|_| refused())?;
        Ok(here)
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) struct Listener {
    knocks: mpsc::Receiver<(Pipe, String)>,
}

impl Listener {
    pub(crate) async fn accept(&mut self) -> io::Result<(Pipe, String)> {
        let closed = || io::Error::other("the network is gone");
        self.knocks.recv().await.ok_or_else(closed)
    }
}

/// One end of a connection. What arrives on a cut line is kept back until the cut ends.
pub(crate) struct Pipe {
    stream: DuplexStream,
    heard_on: (Address, Address),
    hub: Hub,
}

impl AsyncRead for Pipe {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        {
            let mut plan = self.hub.plan();
            if plan.cut.contains(&self.heard_on) {
                plan.waiting.retain(|it| !it.will_wake(cx.waker()));
                plan.waiting.push(cx.waker().clone());
                return Poll::Pending;
            }
        }
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn a_cut_line_is_silent_and_goes_on_when_it_heals() {
        let (a, b) = (Address::new("a", 1).unwrap(), Address::new("b", 1).unwrap());
        let hub = Hub::new();
        assert!(hub.dial(&a, &b).await.is_err(), "nobody listens");
        let mut listener = hub.listen(&b).unwrap();
        assert!(hub.listen(&b).is_err(), "in use");
        let mut here = hub.dial(&a, &b).await.unwrap();
        let (mut there, _) = listener.accept().await.unwrap();
        hub.cut(&a, &b);
        here.write_all(b"x").await.unwrap();
        there.write_all(b"y").await.unwrap();
        assert_eq!(here.read_u8().await.unwrap(), b'y', "the other way is open");
        let short = Duration::from_millis(30);
        let silent = tokio::time::timeout(short, there.read_u8()).await;
        assert!(silent.is_err(), "cut");
        assert!(tokio::time::timeout(short, hub.dial(&a, &b)).await.is_err(), "cut");
        hub.heal();
        assert_eq!(there.read_u8().await.unwrap(), b'x');
    }
}
