//! One connection to served queues. Sessions live and die with it; the next one is made when somebody
//! asks for it.

use std::{
    collections::BTreeMap,
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    io::{AsyncWriteExt as _, BufReader, BufWriter},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{mpsc, oneshot, watch},
};

use super::{
    frame::{
        Answer, Ask, BEAT, FRAME_BYTES_MAX, Frame, HELLO_BYTES_MAX, Hello, MAGIC, Rest,
        SILENCE_MAX, VERSION, Welcome, encode, receive, send,
    },
    session::Stash,
};
use crate::{location::OpenError, transaction::Refused};

/// How long connecting may take.
const CONNECT_PATIENCE: Duration = Duration::from_secs(3);

/// Who waits for an answer.
pub(crate) enum Waiter {
    One(oneshot::Sender<(Answer, Rest)>),
    /// A session that wants messages, whether somebody still waits for them or not.
    Stash(Arc<Stash>),
}

#[derive(Default)]
struct Waiting {
    answers: BTreeMap<u64, Waiter>,
    sessions: BTreeMap<u64, Arc<Stash>>,
    is_broken: bool,
}

/// What the server said about its queues.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) is_durable: bool,
    pub(crate) message_bytes_max: usize,
    pub(crate) value_bytes_max: usize,
}

/// A connection. It is good until it breaks, and is then thrown away.
pub(crate) struct Live {
    /// Unbounded, because a commit must find its place in the order without waiting; what lies in it
    /// is what callers have under way.
    outbox: mpsc::UnboundedSender<Frame>,
    waiting: Mutex<Waiting>,
    number: AtomicU64,
    is_broken: watch::Sender<bool>,
    pub(crate) terms: Terms,
}

/// Why nothing can be asked.
#[derive(Debug)]
pub(crate) struct Broken;

impl Live {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connects and says hello.
    pub(crate) async fn connect(
        address: &str,
        token: Option<String>,
    ) -> Result<Arc<Live>, OpenError> {
        let made = tokio::time::timeout(CONNECT_PATIENCE, Live::connect_now(address, token)).await;
        let late = |_| OpenError::Unavailable(format!("{address} does not answer"));
        made.map_err(late)?
    }

    async fn connect_now(address: &str, token: Option<String>) -> Result<Arc<Live>, OpenError> {
        let unreachable = |why: io::Error| {
            OpenError::Unavailable(format!("{address}: {why}; are the queues being served there?"))
        };
        let mut stream = TcpStream::connect(address).await.map_err(unreachable)?;
        // Small requests should not wait for each other.
        let _ = stream.set_nodelay(true);
        let hello = encode(&Hello { magic: MAGIC, version: VERSION, token }, Vec::new());
        send(&mut stream, &hello.map_err(unreachable)?).await.map_err(unreachable)?;
        let (welcome, _) =
            receive::<Welcome>(&mut stream, HELLO_BYTES_MAX).await.map_err(unreachable)?;
        let terms = match welcome {
            Welcome::No(why) => {
                return Err(OpenError::NotConfigured(format!("{address} refused us: {why}")));
            }
            Welcome::Come { is_durable, message_bytes_max, value_bytes_max } => Terms {
                is_durable,
                message_bytes_max: message_bytes_max as usize,
                value_bytes_max: value_bytes_max as usize,
            },
        };
        let (reader, writer) = stream.into_split();
        let (outbox, frames) = mpsc::unbounded_channel();
        let live = Arc::new(Live {
            outbox,
            waiting: Mutex::default(),
            number: AtomicU64::new(1),
            is_broken: watch::Sender::new(false),
            terms,
        });
        let reading = Arc::downgrade(&live);
        let mut over = live.is_broken.subscribe();
        tokio::spawn(async move {
            tokio::select! {
                () = read(reader, &reading) => {}
                () = write(writer, frames) => {}
                _ = over.wait_for(|is_broken| *is_broken) => {}
            }
            if let Some(live) = reading.upgrade() {
                live.break_up();
            }
        });
        Ok(live)
    }

    /// No answer will come any more: all who wait hear of it, and all sessions are over.
    pub(crate) fn break_up(&self) {
        let (answers, sessions) = {
            let mut waiting = self.lock();
            waiting.is_broken = true;
            (std::mem::take(&mut waiting.answers), std::mem::take(&mut waiting.sessions))
        };
        drop(answers);
        sessions.into_values().for_each(|stash| stash.lose());
        self.is_broken.send_replace(true);
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.lock().is_broken
    }

    /// Sends a request now; `Err` if it was not sent.
    pub(crate) fn ask(&self, ask: Ask, bodies: Vec<Bytes>, waiter: Waiter) -> Result<(), Broken> {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let frame = encode(&(number, ask), bodies).map_err(|_| Broken)?;
        // Under one lock, so that nobody waits on a connection that has been given up.
        let mut waiting = self.lock();
        if waiting.is_broken || self.outbox.send(frame).is_err() {
            return Err(Broken);
        }
        waiting.answers.insert(number, waiter);
        Ok(())
    }

    /// Sends a request now. What it returns waits for the answer; `None` if none will come.
    pub(crate) fn call(
        &self,
        ask: Ask,
        bodies: Vec<Bytes>,
    ) -> Result<impl Future<Output = Option<(Answer, Rest)>> + Send + use<>, Broken> {
        let (sender, answer) = oneshot::channel();
        self.ask(ask, bodies, Waiter::One(sender))?;
        Ok(async move { answer.await.ok() })
    }

    /// Sends something that needs no answer.
    pub(crate) fn tell(&self, ask: Ask) {
        let (sender, _) = oneshot::channel();
        // If it cannot be sent, the server knows that we are gone.
        let _ = self.ask(ask, Vec::new(), Waiter::One(sender));
    }

    pub(crate) fn add_session(&self, id: u64, stash: &Arc<Stash>) -> Result<(), Broken> {
        let mut waiting = self.lock();
        if waiting.is_broken {
            return Err(Broken);
        }
        waiting.sessions.insert(id, Arc::clone(stash));
        Ok(())
    }

    pub(crate) fn end_session(&self, id: u64) {
        self.lock().sessions.remove(&id);
    }

    fn hear(&self, number: u64, answer: Answer, rest: Rest) {
        if let Answer::Lost(id) = answer {
            let lost = self.lock().sessions.remove(&id);
            if let Some(stash) = lost {
                stash.lose();
            }
            return;
        }
        let waiter = self.lock().answers.remove(&number);
        match waiter {
            // Whoever gave up does not want to know.
            Some(Waiter::One(sender)) => drop(sender.send((answer, rest))),
            Some(Waiter::Stash(stash)) => stash.fill(answer, rest),
            None => {}
        }
    }
}

async fn read(reader: OwnedReadHalf, live: &std::sync::Weak<Live>) {
    let mut reader = BufReader::with_capacity(64 << 10, reader);
    loop {
        let heard = receive::<(u64, Answer)>(&mut reader, FRAME_BYTES_MAX);
        let Ok(Ok(((number, answer), rest))) = tokio::time::timeout(SILENCE_MAX, heard).await
        else {
            return;
        };
        let Some(live) = live.upgrade() else { return };
        live.hear(number, answer, Rest(rest));
    }
}

/// Writes what is asked, and a beat whenever nothing was for a while.
async fn write(writer: OwnedWriteHalf, mut frames: mpsc::UnboundedReceiver<Frame>) {
    let mut writer = BufWriter::with_capacity(64 << 10, writer);
    let written = async {
        let mut beats = tokio::time::interval(BEAT);
        let beat = encode(&(0u64, Ask::Beat), Vec::new())?;
        loop {
            tokio::select! {
                frame = frames.recv() => match frame {
                    Some(frame) => send(&mut writer, &frame).await?,
                    None => return Ok(()),
                },
                _ = beats.tick() => send(&mut writer, &beat).await?,
            }
            // Everything that is ready goes out in one piece.
            while let Ok(frame) = frames.try_recv() {
                send(&mut writer, &frame).await?;
            }
            writer.flush().await?;
        }
    };
    let _: io::Result<()> = written.await;
}

/// What is said of something that could not be asked.
pub(crate) fn cut_off() -> Refused {
    Refused::Unavailable("the connection to the queues is broken".into())
}
