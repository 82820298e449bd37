//! Serving an embedded store to other processes.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    net::SocketAddr,
    path::Path,
    sync::{Arc, Mutex},
};

use tokio::{
    io::{BufReader, BufWriter},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch},
    task::JoinSet,
};

use super::frame::{
    Answer, Ask, FRAME_BYTES_MAX, HELLO_BYTES_MAX, HELLO_PATIENCE, Hello, MAGIC, VERSION, encode,
    receive, send,
};
use crate::{
    backend::{Backend as _, Read},
    engine::Op,
    error::{Error, Result},
    lobby::Lobby,
    local::Local,
    location::Secret,
    store::{ENTRY_BYTES_MAX, VALUE_BYTES_MAX},
    token::{Token, lock},
};

/// How many processes may be connected at once.
pub const CONNECTIONS_MAX: usize = 1024;

/// How many requests of one connection may be under way at once.
const REQUESTS_MAX: usize = 4096;

/// A store that is being served. Dropped, it stops serving and closes the store.
#[derive(Debug)]
pub struct Serving {
    address: SocketAddr,
    accepting: JoinSet<()>,
    open: Option<watch::Receiver<()>>,
}

impl Serving {
    /// Opens the store in `dir` and serves it. Without a `secret`, only on loopback: anybody who
    /// can connect can do anything.
    pub async fn start(
        dir: &Path,
        listener: TcpListener,
        secret: Option<Secret>,
    ) -> Result<Serving> {
        let unusable = |why| Error::NotConfigured(format!("cannot listen: {why}"));
        let address = listener.local_addr().map_err(unusable)?;
        if secret.is_none() && !address.ip().is_loopback() {
            return Err(Error::NotConfigured(format!(
                "{address} can be reached from other machines: give a token file, or listen on \
                 127.0.0.1"
            )));
        }
        let local = crate::embedded::open(dir).await?;
        let open = local.watch_open();
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(local, listener, secret));
        Ok(Serving { address, accepting, open })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops serving, and returns once the store is closed.
    pub async fn stop(mut self) {
        self.accepting.shutdown().await;
        // Fails when the last request under way has been dropped and the files are closed.
        if let Some(mut open) = self.open {
            while open.changed().await.is_ok() {}
        }
    }
}

async fn accept(local: Local, listener: TcpListener, secret: Option<Secret>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let (secret, lobby) = (Arc::new(secret), Lobby::default());
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of file handles, most likely: somebody has to hang up first.
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            continue;
        };
        while connections.try_join_next().is_some() {}
        let (local, secret) = (local.clone(), Arc::clone(&secret));
        let (places, mut guest) = (Arc::clone(&places), lobby.enter());
        connections.spawn(async move {
            let secret = secret.as_ref().as_ref();
            let greeted = tokio::select! {
                greeted = greet(stream, secret, &places) => greeted,
                () = guest.shown_out() => return,
            };
            // Otherwise it said nothing, or nothing that lets it in.
            let Ok((stream, place)) = greeted else { return };
            drop(guest);
            // A connection that breaks is the client's to mend.
            let _ = talk(local, stream).await;
            drop(place);
        });
    }
}

/// Lets a client in: it has said the right thing in time, and has one of the places.
async fn greet(
    mut stream: TcpStream,
    secret: Option<&Secret>,
    places: &Arc<Semaphore>,
) -> Result<(TcpStream, OwnedSemaphorePermit)> {
    // Small answers should not wait for each other.
    let _ = stream.set_nodelay(true);
    let hello = receive::<Hello>(&mut stream, HELLO_BYTES_MAX);
    let hello = tokio::time::timeout(HELLO_PATIENCE, hello).await;
    let hello = hello.map_err(|_| Error::Unavailable("it did not say hello".into()))??;
    if let Some(why) = refusal(&hello, secret) {
        send(&mut stream, &Some(why.clone())).await?;
        return Err(Error::NotConfigured(why));
    }
    let closed = |_| Error::Unavailable("the server is stopping".into());
    let place = Arc::clone(places).acquire_owned().await.map_err(closed)?;
    send(&mut stream, &None::<String>).await?;
    Ok((stream, place))
}

/// Talks to one client until it hangs up.
async fn talk(local: Local, stream: TcpStream) -> Result<()> {
    let (reader, writer) = stream.into_split();
    let (answers, outbox) = mpsc::channel::<Vec<u8>>(256);
    let mut tasks = JoinSet::new();
    tasks.spawn(write(BufWriter::with_capacity(64 << 10, writer), outbox));
    let mut reader = BufReader::with_capacity(64 << 10, reader);
    let places = Arc::new(Semaphore::new(REQUESTS_MAX));
    let waits = Arc::new(Mutex::new(BTreeMap::new()));
    loop {
        let (number, ask) = receive::<(u64, Ask)>(&mut reader, FRAME_BYTES_MAX).await?;
        if let Ask::Forget(number) = ask {
            // Whoever waits for it hears that its sender is gone.
            lock(&waits).remove(&number);
            continue;
        }
        let closed = |_| Error::Unavailable("the server is stopping".into());
        let place = Arc::clone(&places).acquire_owned().await.map_err(closed)?;
        while tasks.try_join_next().is_some() {}
        let (local, answers, waits) = (local.clone(), answers.clone(), Arc::clone(&waits));
        let (wait, forgotten) = oneshot::channel::<Infallible>();
        let may_wait = ask.may_wait();
        if may_wait {
            lock(&waits).insert(number, wait);
        }
        tasks.spawn(async move {
            let answer = tokio::select! {
                answer = answer(&local, ask) => answer,
                _ = forgotten, if may_wait => return,
            };
            if may_wait {
                lock(&waits).remove(&number);
            }
            let answer = answer.unwrap_or_else(|why| Answer::Fault(why.into()));
            if let Ok(frame) = encode(&(number, answer)) {
                // A client that has gone does not want to know.
                let _ = answers.send(frame).await;
            }
            drop(place);
        });
    }
}

/// Why somebody is not let in.
fn refusal(hello: &Hello, secret: Option<&Secret>) -> Option<String> {
    if hello.magic != MAGIC || hello.version != VERSION {
        let theirs = hello.version;
        return Some(format!("this server speaks version {VERSION}, not {theirs}: upgrade one"));
    }
    let given = hello.token.as_deref().unwrap_or_default().as_bytes();
    let is_right = secret.is_none_or(|secret| {
        let wanted = secret.reveal().as_bytes();
        // Takes as long for a wrong token as for the right one.
        let differing = wanted.iter().zip(given).fold(0, |all, (a, b)| all | (a ^ b));
        wanted.len() == given.len() && differing == 0
    });
    (!is_right).then(|| "the token is wrong: check token-file in the URL".into())
}

async fn write(
    mut writer: BufWriter<tokio::net::tcp::OwnedWriteHalf>,
    mut outbox: mpsc::Receiver<Vec<u8>>,
) {
    use tokio::io::AsyncWriteExt as _;
    while let Some(frame) = outbox.recv().await {
        if writer.write_all(&frame).await.is_err() {
            return;
        }
        // Everything that is ready goes out in one piece.
        while let Ok(frame) = outbox.try_recv() {
            if writer.write_all(&frame).await.is_err() {
                return;
            }
        }
        if writer.flush().await.is_err() {
            return;
        }
    }
}

async fn answer(local: &Local, ask: Ask) -> Result<Answer> {
    check(&ask)?;
    Ok(match ask {
        Ask::Append(bytes) => {
            let token = Token::split(&bytes).map(|(token, _)| token);
            let token = token.ok_or_else(|| Error::NotConfigured("no token".into()))?;
            Answer::Position(local.append(token, bytes).await?)
        }
        Ask::Read(after) => match local.read(after).await? {
            Read::Entries(entries) => Answer::Entries(entries),
            Read::Trimmed => Answer::Trimmed,
        },
        Ask::Origin => Answer::Origin(local.origin().await?),
        Ask::SetOrigin(position, bytes) => Answer::Flag(local.set_origin(position, bytes).await?),
        Ask::Trim(before) => local.submit(Op::Trim(before)).await.map(|_| Answer::Done)?,
        Ask::OpenSession(id, timeout) => {
            local.begin_session(id, timeout).await?;
            Answer::Done
        }
        Ask::Beat(id, timeout) => Answer::Flag(local.beat(id, timeout)),
        Ask::EndSession(id) => {
            local.end_session(id).await?;
            Answer::Done
        }
        Ask::Commit(session, txn) => Answer::Committed(local.commit_in(session, txn).await?),
        Ask::Value(key) => Answer::Value(local.value(&key)),
        Ask::KeyEnd(key) => {
            local.key_end(&key).await?;
            Answer::Done
        }
        Ask::Items(prefix) => Answer::Items(local.raw_items(&prefix)),
        Ask::End => Answer::End(local.end().await?),
        // The talk sees to it.
        Ask::Forget(_) => Answer::Done,
    })
}

/// The limits that our own clients keep; others must as well.
fn check(ask: &Ask) -> Result<()> {
    let limit = |what, bytes: usize, bytes_max| match bytes > bytes_max {
        true => Err(Error::TooLarge { what, bytes, bytes_max }),
        false => Ok(()),
    };
    match ask {
        Ask::Append(bytes) => limit("an entry", bytes.len(), ENTRY_BYTES_MAX),
        Ask::Commit(_, txn) => txn.then.iter().try_for_each(|write| {
            use crate::backend::Write;
            match write {
                Write::Put(_, value) | Write::Lease(_, value) => {
                    limit("a value", value.len(), VALUE_BYTES_MAX)
                }
                Write::Delete(_) => Ok(()),
            }
        }),
        Ask::Read(_)
        | Ask::Origin
        | Ask::SetOrigin(..)
        | Ask::Trim(_)
        | Ask::OpenSession(..)
        | Ask::Beat(..)
        | Ask::EndSession(_)
        | Ask::Value(_)
        | Ask::KeyEnd(_)
        | Ask::Items(_)
        | Ask::End
        | Ask::Forget(_) => Ok(()),
    }
}
