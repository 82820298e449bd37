//! One connection to a served store, made again whenever it breaks.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncWriteExt as _, BufReader, BufWriter},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{
        mpsc::{self, error::TrySendError},
        oneshot,
    },
};

use super::frame::{
    Answer, Ask, FRAME_BYTES_MAX, HELLO_BYTES_MAX, Hello, MAGIC, VERSION, Welcome, encode, receive,
    send,
};
use crate::{
    error::{Error, Result},
    location::Servers,
    token::lock,
};

/// How long connecting may take.
const CONNECT_PATIENCE: Duration = Duration::from_secs(3);

/// How long an answer may take that does not wait for anything.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);

/// A server, and the connection to it while there is one.
#[derive(Debug)]
pub(crate) struct Client {
    servers: Servers,
    live: tokio::sync::Mutex<Option<Arc<Live>>>,
    number: AtomicU64,
}

/// A connection that was good when last looked at.
#[derive(Debug)]
struct Live {
    outbox: mpsc::Sender<Vec<u8>>,
    waiting: Arc<Waiting>,
    tasks: [tokio::task::AbortHandle; 2],
}

/// Who waits for which answer.
#[derive(Debug, Default)]
struct Waiting {
    answers: Mutex<BTreeMap<u64, oneshot::Sender<Answer>>>,
    is_broken: AtomicBool,
}

impl Waiting {
    /// Lets everybody know that no answer will come: their channels close.
    fn break_up(&self) {
        let mut answers = lock(&self.answers);
        self.is_broken.store(true, Ordering::SeqCst);
        answers.clear();
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.tasks.iter().for_each(tokio::task::AbortHandle::abort);
        self.waiting.break_up();
    }
}

impl Live {
    /// Tells the server that nobody waits for an answer that may never come: it would keep a place for
    /// it as long as the connection lasts.
    fn forget(&self, number: u64) {
        let Ok(frame) = encode(&(number, Ask::Forget(number))) else { return };
        if let Err(TrySendError::Full(frame)) = self.outbox.try_send(frame)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let outbox = self.outbox.clone();
            runtime.spawn(async move {
                // With a connection that has broken the server forgets everything.
                let _ = outbox.send(frame).await;
            });
        }
    }
}

/// Forgets an answer nobody waits for any more.
struct Place<'a> {
    live: &'a Live,
    number: u64,
    may_wait: bool,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let is_open = lock(&self.live.waiting.answers).remove(&self.number).is_some();
        if is_open && self.may_wait {
            self.live.forget(self.number);
        }
    }
}

impl Client {
    pub(crate) fn new(servers: &Servers) -> Client {
        Client {
            servers: servers.clone(),
            live: tokio::sync::Mutex::default(),
            number: AtomicU64::new(1),
        }
    }

    /// Asks once. `Unavailable` means that the answer was lost, not that nothing happened.
    pub(crate) async fn ask(&self, ask: Ask) -> Result<Answer> {
        let live = self.live().await?;
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        {
            let mut answers = lock(&live.waiting.answers);
            if live.waiting.is_broken.load(Ordering::SeqCst) {
                return Err(lost());
            }
            answers.insert(number, sender);
        }
        let may_wait = ask.may_wait();
        let _place = Place { live: &live, number, may_wait };
        live.outbox.send(encode(&(number, ask))?).await.map_err(|_| lost())?;
        let answer = match may_wait {
            true => answer.await,
            false => match tokio::time::timeout(ANSWER_PATIENCE, answer).await {
                Ok(answer) => answer,
                Err(_) => {
                    live.waiting.break_up();
                    return Err(Error::Unavailable("no answer for a long time".into()));
                }
            },
        };
        let answer = answer.map_err(|_| lost())?;
        if let Answer::Fault(fault) = answer {
            return Err(fault.into());
        }
        Ok(answer)
    }

    /// The connection; made anew if the last one broke. Others wait meanwhile.
    async fn live(&self) -> Result<Arc<Live>> {
        let mut live = self.live.lock().await;
        let is_good = |live: &Arc<Live>| !live.waiting.is_broken.load(Ordering::SeqCst);
        if let Some(live) = live.as_ref().filter(|live| is_good(live)) {
            return Ok(Arc::clone(live));
        }
        *live = None;
        let made = tokio::time::timeout(CONNECT_PATIENCE, self.connect()).await;
        let made =
            made.map_err(|_| Error::Unavailable("it does not accept connections".into()))??;
        Ok(Arc::clone(live.insert(Arc::new(made))))
    }

    async fn connect(&self) -> Result<Live> {
        let host = self.servers.hosts.first().map_or("", String::as_str);
        let unreachable =
            |why| Error::Unavailable(format!("{host}: {why}; is the store being served there?"));
        let mut stream = TcpStream::connect(host).await.map_err(unreachable)?;
        // Small requests should not wait for each other.
        let _ = stream.set_nodelay(true);
        let token = self.servers.secret.as_ref().map(|secret| secret.reveal().to_owned());
        send(&mut stream, &Hello { magic: MAGIC, version: VERSION, token }).await?;
        let welcome: Welcome = receive(&mut stream, HELLO_BYTES_MAX).await?;
        if let Some(why) = welcome {
            return Err(Error::NotConfigured(format!("{host} refused us: {why}")));
        }
        let (reader, writer) = stream.into_split();
        let (outbox, frames) = mpsc::channel(256);
        let waiting = Arc::new(Waiting::default());
        let reading = tokio::spawn(read(reader, Arc::clone(&waiting)));
        let writing = tokio::spawn(write(writer, frames, Arc::clone(&waiting)));
        let tasks = [reading.abort_handle(), writing.abort_handle()];
        Ok(Live { outbox, waiting, tasks })
    }
}

fn lost() -> Error {
    Error::Unavailable("the connection broke before the answer came".into())
}

async fn read(reader: OwnedReadHalf, waiting: Arc<Waiting>) {
    let mut reader = BufReader::with_capacity(64 << 10, reader);
    while let Ok((number, answer)) = receive::<(u64, Answer)>(&mut reader, FRAME_BYTES_MAX).await {
        let sender = lock(&waiting.answers).remove(&number);
        if let Some(sender) = sender {
            // Whoever gave up does not want to know.
            let _ = sender.send(answer);
        }
    }
    waiting.break_up();
}

async fn write(writer: OwnedWriteHalf, mut frames: mpsc::Receiver<Vec<u8>>, waiting: Arc<Waiting>) {
    let mut writer = BufWriter::with_capacity(64 << 10, writer);
    let written = async {
        while let Some(frame) = frames.recv().await {
            writer.write_all(&frame).await?;
            // Everything that is ready goes out in one piece.
            while let Ok(frame) = frames.try_recv() {
                writer.write_all(&frame).await?;
            }
            writer.flush().await?;
        }
        std::io::Result::Ok(())
    };
    let _: std::io::Result<()> = written.await;
    waiting.break_up();
}
