//! Serving queues to other processes.

use std::{collections::BTreeMap, io, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::{
    io::{AsyncWriteExt as _, BufReader, BufWriter},
    net::{TcpListener, TcpStream, tcp::OwnedWriteHalf},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    task::JoinSet,
};

use super::frame::{
    Answer, Ask, FRAME_BYTES_MAX, Frame, HELLO_BYTES_MAX, HELLO_PATIENCE, Hello, MAGIC, Rest,
    SILENCE_MAX, VERSION, Welcome, encode, outline_deliveries, outline_values, receive, send,
};
use super::lobby::Lobby;
use crate::{
    location::OpenError,
    queues::{Queues, Session},
    transaction::{Key, Refused},
};

/// How many processes may be connected at once.
pub const CONNECTIONS_MAX: usize = 1024;

/// How many requests of one connection may be under way at once, sessions that wait included.
const REQUESTS_MAX: usize = 16_384;

/// How much of a scan is answered at once, about.
const PAGE_BYTES: usize = 8 << 20;

/// Queues that are being served. Dropped, it stops, and all sessions of others end.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    accepting: JoinSet<()>,
}

/// Serves `queues` to whoever connects to `listener` with `sardonyx://HOST:PORT`. Without a `token`,
/// only on loopback: anybody who can connect can do anything.
pub async fn serve(
    queues: &Queues,
    listener: TcpListener,
    token: Option<String>,
) -> Result<Server, OpenError> {
    let unusable = |why| OpenError::NotConfigured(format!("cannot listen: {why}"));
    let address = listener.local_addr().map_err(unusable)?;
    if token.is_none() && !address.ip().is_loopback() {
        return Err(OpenError::NotConfigured(format!(
            "{address} can be reached from other machines: give a token, or listen on 127.0.0.1"
        )));
    }
    let mut accepting = JoinSet::new();
    accepting.spawn(accept(queues.clone(), listener, token));
    Ok(Server { address, accepting })
}

impl Server {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops serving, and returns once every connection is closed.
    pub async fn stop(mut self) {
        self.accepting.shutdown().await;
    }
}

async fn accept(queues: Queues, listener: TcpListener, token: Option<String>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let (token, lobby) = (Arc::new(token), Lobby::default());
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of file handles, most likely: somebody has to hang up first.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        while connections.try_join_next().is_some() {}
        let (queues, token) = (queues.clone(), Arc::clone(&token));
        let (places, mut guest) = (Arc::clone(&places), lobby.enter());
        connections.spawn(async move {
            let greeted = tokio::select! {
                greeted = greet(&queues, stream, token.as_deref(), &places) => greeted,
                () = guest.shown_out() => return,
            };
            // Otherwise it said nothing, or nothing that lets it in.
            let Ok((stream, place)) = greeted else { return };
            drop(guest);
            if let Err(why) = talk(queues, stream).await {
                tracing::debug!("a client of the queues has gone: {why}");
            }
            drop(place);
        });
    }
}

/// Lets a client in: it has said the right thing in time, and has one of the places.
async fn greet(
    queues: &Queues,
    mut stream: TcpStream,
    token: Option<&str>,
    places: &Arc<Semaphore>,
) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
    // Small answers should not wait for each other.
    let _ = stream.set_nodelay(true);
    let hello = receive::<Hello>(&mut stream, HELLO_BYTES_MAX);
    let hello = tokio::time::timeout(HELLO_PATIENCE, hello).await;
    let (hello, _) = hello.map_err(|_| io::Error::other("it did not say hello"))??;
    if let Some(why) = refusal(&hello, token) {
        let no = encode(&Welcome::No(why), Vec::new())?;
        send(&mut stream, &no).await?;
        return Err(io::Error::other("it was not let in"));
    }
    let place = Arc::clone(places).acquire_owned().await.map_err(io::Error::other)?;
    let come = Welcome::Come {
        is_durable: queues.is_durable(),
        message_bytes_max: queues.message_bytes_max() as u64,
        value_bytes_max: queues.value_bytes_max() as u64,
    };
    send(&mut stream, &encode(&come, Vec::new())?).await?;
    Ok((stream, place))
}

/// Talks to one client until it hangs up. Its sessions end with it.
async fn talk(queues: Queues, stream: TcpStream) -> io::Result<()> {
    let (reader, writer) = stream.into_split();
    let (outbox, frames) = mpsc::channel(256);
    let mut tasks = JoinSet::new();
    tasks.spawn(write(writer, frames));
    let mut connection = Connection {
        queues,
        sessions: BTreeMap::new(),
        next: 0,
        outbox,
        tasks,
        places: Arc::new(Semaphore::new(REQUESTS_MAX)),
    };
    let mut reader = BufReader::with_capacity(64 << 10, reader);
    loop {
        let asked = receive::<(u64, Ask)>(&mut reader, FRAME_BYTES_MAX);
        let asked = tokio::time::timeout(SILENCE_MAX, asked).await;
        let ((number, ask), rest) = asked.map_err(|_| io::Error::other("it is silent"))??;
        connection.handle(number, ask, Rest(rest)).await?;
    }
}

/// Why somebody is not let in.
fn refusal(hello: &Hello, token: Option<&str>) -> Option<String> {
    if hello.magic != MAGIC || hello.version != VERSION {
        let theirs = hello.version;
        return Some(format!("this server speaks version {VERSION}, not {theirs}: upgrade one"));
    }
    let given = hello.token.as_deref().unwrap_or_default().as_bytes();
    let is_right = token.is_none_or(|token| {
        let wanted = token.as_bytes();
        // Takes as long for a wrong token as for the right one.
        let differing = wanted.iter().zip(given).fold(0, |all, (a, b)| all | (a ^ b));
        wanted.len() == given.len() && differing == 0
    });
    (!is_right).then(|| "the token is wrong: check token-file in the URL".into())
}

async fn write(writer: OwnedWriteHalf, mut frames: mpsc::Receiver<Frame>) {
    let mut writer = BufWriter::with_capacity(64 << 10, writer);
    while let Some(frame) = frames.recv().await {
        let mut sent = send(&mut writer, &frame).await;
        // Everything that is ready goes out in one piece.
        while let (Ok(()), Ok(frame)) = (&sent, frames.try_recv()) {
            sent = send(&mut writer, &frame).await;
        }
        if sent.is_err() || writer.flush().await.is_err() {
            return;
        }
    }
}

struct Connection {
    queues: Queues,
    sessions: BTreeMap<u64, Session>,
    next: u64,
    outbox: mpsc::Sender<Frame>,
    tasks: JoinSet<()>,
    places: Arc<Semaphore>,
}

/// An answer with its bodies.
type Full = (Answer, Vec<Bytes>);

fn plain(answer: Answer) -> Full {
    (answer, Vec::new())
}

impl Connection {
    /// Begins with a request; the answer follows when it is there.
    async fn handle(&mut self, number: u64, ask: Ask, mut rest: Rest) -> io::Result<()> {
        match ask {
            Ask::Open(place, owner, roster) => {
                // In line: what follows may already be for this session.
                let opened = self.queues.session(&place, &owner, &roster).await;
                let opened = opened.map(|session| self.keep(session));
                self.answer(number, async { Ok(plain(Answer::Session(opened?))) }).await
            }
            Ask::Commit(id, outline) => {
                let transaction = rest.transaction(outline)?;
                // Takes its place in the session's order here and now.
                let answer = self.session(id).map(|session| session.commit(transaction));
                self.answer(number, async { answer?.await.map(|()| plain(Answer::Done)) }).await
            }
            Ask::Close(id) => {
                self.sessions.remove(&id);
                self.answer(number, async { Ok(plain(Answer::Done)) }).await
            }
            Ask::Receive(id, _)
            | Ask::Release(id, _)
            | Ask::Room(id, _)
            | Ask::Get(id, _)
            | Ask::Scan(id, ..) => {
                let session = self.session(id);
                self.answer(number, async move { in_session(session?, ask).await }).await
            }
            Ask::Beat
            | Ask::Announce(..)
            | Ask::Depth(_)
            | Ask::Peek(..)
            | Ask::Forget(_)
            | Ask::Jobs => {
                let queues = self.queues.clone();
                self.answer(number, async move { without_session(&queues, ask).await }).await
            }
        }
    }

    /// Keeps a session for the client, who hears when it is over.
    fn keep(&mut self, session: Session) -> u64 {
        self.next += 1;
        let id = self.next;
        let (outbox, lost) = (self.outbox.clone(), session.watch());
        self.tasks.spawn(async move {
            lost.await;
            if let Ok(frame) = encode(&(0u64, Answer::Lost(id)), Vec::new()) {
                // A client that has gone does not want to know.
                let _ = outbox.send(frame).await;
            }
        });
        self.sessions.insert(id, session);
        id
    }

    fn session(&self, id: u64) -> Result<Session, Refused> {
        self.sessions.get(&id).cloned().ok_or(Refused::Lost)
    }

    /// Answers when it can; waits here only while too much is under way.
    async fn answer(
        &mut self,
        number: u64,
        answer: impl Future<Output = Result<Full, Refused>> + Send + 'static,
    ) -> io::Result<()> {
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(io::Error::other)?;
        while self.tasks.try_join_next().is_some() {}
        let outbox = self.outbox.clone();
        self.tasks.spawn(async move {
            let answer = answer.await;
            let (answer, bodies) = answer.unwrap_or_else(|why| plain(Answer::Refused(why)));
            let frame = encode(&(number, answer), bodies).or_else(|why| {
                let why = Refused::Unavailable(format!("the answer cannot be sent: {why}"));
                encode(&(number, Answer::Refused(why)), Vec::new())
            });
            if let Ok(frame) = frame {
                // A client that has gone does not want to know.
                let _ = outbox.send(frame).await;
            }
            drop(place);
        });
        Ok(())
    }
}

fn misplaced(ask: &Ask) -> Refused {
    Refused::Unavailable(format!("{ask:?} is answered elsewhere"))
}

/// What is asked of a session, apart from commits.
async fn in_session(session: Session, ask: Ask) -> Result<Full, Refused> {
    Ok(match ask {
        Ask::Receive(_, max) => {
            let (given, bodies) = outline_deliveries(session.receive(max as usize).await?)?;
            (Answer::Deliveries(given), bodies)
        }
        Ask::Release(_, receipts) => {
            session.release(receipts).await?;
            plain(Answer::Done)
        }
        Ask::Room(_, names) => {
            session.room(&names).await?;
            plain(Answer::Done)
        }
        Ask::Get(_, key) => {
            let value = session.get(&key).await?;
            let len = value.as_ref().map(|value| value.len() as u32);
            (Answer::Value(len), value.into_iter().collect())
        }
        Ask::Scan(_, prefix, after) => page(session.scan(&prefix).await?, after.as_ref()),
        Ask::Beat
        | Ask::Open(..)
        | Ask::Announce(..)
        | Ask::Depth(_)
        | Ask::Peek(..)
        | Ask::Forget(_)
        | Ask::Jobs
        | Ask::Commit(..)
        | Ask::Close(_) => return Err(misplaced(&ask)),
    })
}

/// What is asked of the queues as a whole.
async fn without_session(queues: &Queues, ask: Ask) -> Result<Full, Refused> {
    Ok(match ask {
        Ask::Beat => plain(Answer::Beat),
        Ask::Announce(place, roster) => {
            queues.announce(&place, &roster).await?;
            plain(Answer::Done)
        }
        Ask::Depth(queue) => {
            let depth = queues.depth(&queue).await?;
            plain(Answer::Depth(depth.ready, depth.in_flight))
        }
        Ask::Peek(place, prefix, after) => {
            page(queues.peek(&place, &prefix).await?, after.as_ref())
        }
        Ask::Forget(job) => {
            queues.forget(&job).await?;
            plain(Answer::Done)
        }
        Ask::Jobs => plain(Answer::Jobs(queues.jobs().await?)),
        Ask::Open(..)
        | Ask::Receive(..)
        | Ask::Commit(..)
        | Ask::Release(..)
        | Ask::Get(..)
        | Ask::Scan(..)
        | Ask::Room(..)
        | Ask::Close(_) => return Err(misplaced(&ask)),
    })
}

/// As many of the keys behind `after` as are answered at once.
fn page(keys: Vec<(Key, Bytes)>, after: Option<&Key>) -> Full {
    let behind = |(key, _): &(Key, Bytes)| after.is_none_or(|after| key > after);
    let (mut some, mut bytes) = (Vec::new(), 0);
    let mut keys = keys.into_iter().filter(behind).peekable();
    while bytes < PAGE_BYTES
        && let Some((key, value)) = keys.next()
    {
        bytes += key.len() + value.len();
        some.push((key, Some(value)));
    }
    let is_more = keys.peek().is_some();
    let mut bodies = Vec::new();
    let lengths = outline_values(some, &mut bodies);
    (Answer::Keys(lengths, is_more), bodies)
}
