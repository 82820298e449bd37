//! The few things that are asked of JetStream.

use std::{collections::BTreeSet, sync::Mutex, time::Duration};

use async_nats::jetstream::{
    self, ErrorCode,
    context::PublishErrorKind,
    message::PublishMessage,
    response::Response,
    stream::{Config, LastRawMessageErrorKind, RetentionPolicy, StorageType, Stream},
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::names::Names;
use crate::{
    location::{OpenError, Servers as Location},
    message::QueueName,
    transaction::Refused,
};

/// A message that is sent again within this time is recognised.
pub(crate) const DEDUPLICATION_WINDOW: Duration = Duration::from_secs(300);

/// How long a new stream may take until everybody in a cluster knows it.
const NEW_STREAM_PATIENCE: Duration = Duration::from_secs(10);

/// The header that says what a message is.
pub(super) const KIND: &str = "Sdx-Kind";

/// What a message has besides its payload: ids and headers.
const HEADER_BYTES: usize = 1024;

/// JetStream, and what things are called there.
pub(crate) struct Servers {
    pub(crate) client: async_nats::Client,
    context: jetstream::Context,
    bucket: Stream,
    pub(crate) names: Names,
    n_replicas: usize,
    pub(crate) payload_bytes_max: usize,
    /// Queues whose streams are known to take messages.
    known: Mutex<BTreeSet<QueueName>>,
}

/// A message to be sent.
pub(crate) struct Letter {
    pub(crate) queue: QueueName,
    pub(crate) subject: String,
    pub(crate) id: String,
    pub(crate) kind: &'static str,
    pub(crate) payload: Bytes,
}

/// Why a conditional write did not happen.
pub(crate) enum Unwritten {
    /// Somebody else was first.
    Changed,
    /// Nobody knows whether it happened.
    Unknown(String),
}

/// How much is in a queue's stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Extent {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// In how many lanes.
    pub(crate) n_lanes: u64,
}

impl From<State> for Extent {
    fn from(state: State) -> Extent {
        Extent {
            messages: state.messages,
            bytes: state.bytes,
            first: state.first_seq,
            last: state.last_seq,
            n_lanes: state.num_subjects,
        }
    }
}

fn unavailable(why: impl std::fmt::Display) -> Refused {
    Refused::Unavailable(format!("NATS: {why}"))
}

#[derive(Serialize)]
struct Filter<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subjects_filter: Option<&'a str>,
    offset: usize,
}

#[derive(Serialize)]
struct Details {
    deleted_details: bool,
}

#[derive(Serialize)]
struct Deletion {
    seq: u64,
    no_erase: bool,
}

#[derive(Deserialize)]
struct Deleted {
    success: bool,
}

#[derive(Deserialize)]
struct Streams {
    total: usize,
    streams: Option<Vec<Info>>,
}

#[derive(Deserialize)]
struct Info {
    config: Subjects,
    state: State,
    #[serde(default)]
    total: usize,
}

#[derive(Deserialize)]
struct Subjects {
    #[serde(default)]
    subjects: Vec<String>,
}

#[derive(Deserialize)]
struct State {
    messages: u64,
    bytes: u64,
    first_seq: u64,
    last_seq: u64,
    #[serde(default)]
    num_subjects: u64,
    #[serde(default)]
    subjects: std::collections::BTreeMap<String, u64>,
    deleted: Option<Vec<u64>>,
}

/// Connects, with what the location says about users.
pub(super) async fn client(location: &Location) -> Result<async_nats::Client, OpenError> {
    let mut options = async_nats::ConnectOptions::new()
        .name("sardonyx")
        .request_timeout(Some(Duration::from_secs(10)))
        .connection_timeout(Duration::from_secs(5));
    if let Some((user, password)) = &location.user {
        options = options.user_and_password(user.clone(), password.clone());
    }
    if let Some(token) = &location.token {
        options = options.token(token.clone());
    }
    let hosts: Vec<_> = location.hosts.iter().map(|host| format!("nats://{host}")).collect();
    options.connect(hosts).await.map_err(|why| unreachable(location, &why))
}

fn unreachable(location: &Location, why: &dyn std::fmt::Display) -> OpenError {
    let hosts = location.hosts.join(", ");
    OpenError::Unavailable(format!("{hosts}: {why}; does NATS run there, with JetStream?"))
}

impl Servers {
    pub(crate) async fn connect(location: &Location) -> Result<Servers, OpenError> {
        let client = client(location).await?;
        let unreachable = |why: &dyn std::fmt::Display| unreachable(location, why);
        let mut context = jetstream::new(client.clone());
        context.set_timeout(Duration::from_secs(10));
        let n_replicas = location.n_replicas.unwrap_or(match location.hosts.len() {
            0..3 => 1,
            _ => 3,
        });
        let names = Names::new(&location.name);
        let config = Config {
            name: names.bucket(),
            subjects: vec![names.all_keys()],
            max_messages_per_subject: 1,
            num_replicas: n_replicas,
            storage: StorageType::File,
            retention: RetentionPolicy::Limits,
            allow_rollup: true,
            duplicate_window: DEDUPLICATION_WINDOW,
            // Answers come from the leader: a follower might have an older board.
            allow_direct: false,
            ..Config::default()
        };
        let bucket = context.get_or_create_stream(config).await.map_err(|why| unreachable(&why))?;
        let payload_bytes_max = client.server_info().max_payload.saturating_sub(HEADER_BYTES);
        let known = Mutex::default();
        Ok(Servers { client, context, bucket, names, n_replicas, payload_bytes_max, known })
    }

    /// The newest value under a subject of the bucket, and its revision.
    pub(crate) async fn read(&self, subject: &str) -> Result<Option<(u64, Bytes)>, Refused> {
        match self.bucket.get_last_raw_message_by_subject(subject).await {
            Ok(message) => Ok(Some((message.sequence, message.payload))),
            Err(why) if why.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
            Err(why) => Err(unavailable(why)),
        }
    }

    /// Writes under a subject of the bucket, whatever is there.
    pub(crate) async fn put(&self, subject: String, value: Bytes) -> Result<(), Refused> {
        let sent = self.context.publish(subject, value).await.map_err(unavailable)?;
        sent.await.map(drop).map_err(unavailable)
    }

    /// Writes under a subject of the bucket if `revision` is the newest; 0 if there is none.
    ///
    /// Clustered servers before 2.11 compare the revision when a write is proposed and not when it is
    /// applied, so two at once may both pass. The id is compared when it is applied: of all who
    /// write on top of one revision, one is first and the others are duplicates. (That there is
    /// nothing yet is compared in time by all of them.)
    pub(crate) async fn write(
        &self,
        subject: &str,
        revision: u64,
        value: Bytes,
    ) -> Result<u64, Unwritten> {
        let mut publish =
            PublishMessage::build().payload(value).expected_last_subject_sequence(revision);
        if revision > 0 {
            publish = publish.message_id(self.names.write_id(subject, revision));
        }
        let sent = self.context.send_publish(subject.to_owned(), publish).await;
        let sent = sent.map_err(|why| Unwritten::Unknown(why.to_string()))?;
        match sent.await {
            Ok(ack) if ack.duplicate => Err(Unwritten::Changed),
            Ok(ack) => Ok(ack.sequence),
            Err(why) if why.kind() == PublishErrorKind::WrongLastSequence => {
                Err(Unwritten::Changed)
            }
            Err(why) => Err(Unwritten::Unknown(why.to_string())),
        }
    }

    /// The subjects of the bucket that match.
    pub(crate) async fn subjects(&self, filter: &str) -> Result<Vec<String>, Refused> {
        let mut all = Vec::new();
        loop {
            let ask = Filter { subject: None, subjects_filter: Some(filter), offset: all.len() };
            let subject = format!("STREAM.INFO.{}", self.names.bucket());
            let answer: Response<Info> =
                self.context.request(subject, &ask).await.map_err(unavailable)?;
            let info = match answer {
                Response::Ok(info) => info,
                Response::Err { error } => return Err(unavailable(error)),
            };
            let is_last = info.state.subjects.is_empty();
            all.extend(info.state.subjects.into_keys());
            if is_last || all.len() >= info.total {
                all.sort();
                return Ok(all);
            }
        }
    }

    /// Forgets what is under the subjects of the bucket that match.
    pub(crate) async fn purge(&self, filter: &str) -> Result<(), Refused> {
        self.bucket.purge().filter(filter).await.map(drop).map_err(unavailable)
    }

    /// The queues whose subjects match, and how much is in each.
    pub(crate) async fn queues(&self, filter: &str) -> Result<Vec<(QueueName, Extent)>, Refused> {
        let (mut all, mut n_seen) = (Vec::new(), 0);
        loop {
            let ask = Filter { subject: Some(filter), subjects_filter: None, offset: n_seen };
            let answer: Response<Streams> =
                self.context.request("STREAM.LIST", &ask).await.map_err(unavailable)?;
            let page = match answer {
                Response::Ok(page) => page,
                Response::Err { error } => return Err(unavailable(error)),
            };
            let streams = page.streams.unwrap_or_default();
            let is_last = streams.is_empty();
            n_seen += streams.len();
            for Info { config, state, .. } in streams {
                let queue = config.subjects.first().and_then(|it| self.names.queue_of(it));
                all.extend(queue.map(|queue| (queue, Extent::from(state))));
            }
            if is_last || n_seen >= page.total {
                all.sort_by(|(a, _), (b, _)| a.cmp(b));
                return Ok(all);
            }
        }
    }

    /// How much is in a queue. Its stream is asked by name: a list, however short it is to be, is made
    /// by looking at all streams there are.
    pub(crate) async fn extent(&self, queue: &QueueName) -> Result<Extent, Refused> {
        let subject = format!("STREAM.INFO.{}", self.names.stream(queue));
        let ask = Details { deleted_details: false };
        let answer: Response<Info> =
            self.context.request(subject, &ask).await.map_err(unavailable)?;
        match answer {
            Response::Ok(info) => Ok(info.state.into()),
            Response::Err { error } if error.error_code() == ErrorCode::STREAM_NOT_FOUND => {
                Ok(Extent::default())
            }
            Response::Err { error } => Err(unavailable(error)),
        }
    }

    fn knows(&self, queue: &QueueName) -> bool {
        self.known.lock().unwrap_or_else(std::sync::PoisonError::into_inner).contains(queue)
    }

    fn learn(&self, queue: &QueueName, is_there: bool) {
        let mut known = self.known.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match is_there {
            true => known.insert(queue.clone()),
            false => known.remove(queue),
        };
    }

    /// Nobody sends to the queues of this job any more. Whoever takes the streams away, everybody else
    /// would know their names for ever.
    pub(crate) fn forget_names(&self, job: &str) {
        let mut known = self.known.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        known.retain(|queue| queue.job != job);
    }

    #[cfg(test)]
    pub(super) fn n_known(&self) -> usize {
        self.known.lock().unwrap_or_else(std::sync::PoisonError::into_inner).len()
    }

    /// Makes the stream of a queue, if it is not there.
    async fn make(&self, queue: &QueueName) -> Result<(), Refused> {
        let config = Config {
            name: self.names.stream(queue),
            subjects: vec![self.names.lanes(queue)],
            num_replicas: self.n_replicas,
            storage: StorageType::File,
            retention: RetentionPolicy::Limits,
            duplicate_window: DEDUPLICATION_WINDOW,
            ..Config::default()
        };
        self.context.get_or_create_stream(config).await.map(drop).map_err(unavailable)
    }

    /// Deletes the stream of a queue. It may be gone already.
    pub(crate) async fn unmake(&self, queue: &QueueName) -> Result<(), Refused> {
        self.learn(queue, false);
        match self.context.delete_stream(self.names.stream(queue)).await {
            Ok(_) => Ok(()),
            Err(_) if self.extent(queue).await?.last == 0 => Ok(()),
            Err(why) => Err(unavailable(why)),
        }
    }

    /// Sends messages, in order; those that were sent before are dropped by the servers.
    pub(crate) async fn send(&self, letters: Vec<Letter>) -> Result<(), Refused> {
        let mut sent = Vec::with_capacity(letters.len());
        for letter in letters {
            if !self.knows(&letter.queue) {
                // The others follow only when the first one has arrived: order would suffer.
                self.send_first(&letter).await?;
                self.learn(&letter.queue, true);
                continue;
            }
            let publish = self.publish(&letter);
            let ack = self.context.send_publish(letter.subject, publish).await;
            sent.push((letter.queue, ack.map_err(unavailable)?));
        }
        for (queue, ack) in sent {
            if let Err(why) = ack.await {
                // Somebody has forgotten the job meanwhile, perhaps.
                self.learn(&queue, false);
                return Err(unavailable(why));
            }
        }
        Ok(())
    }

    fn publish(&self, letter: &Letter) -> PublishMessage {
        PublishMessage::build()
            .payload(letter.payload.clone())
            .message_id(&letter.id)
            .header(KIND, letter.kind)
            .expected_stream(self.names.stream(&letter.queue))
    }

    /// Sends a message into a queue that may be new: in a cluster it takes a moment until the server
    /// that we talk to has heard of it.
    async fn send_first(&self, letter: &Letter) -> Result<(), Refused> {
        self.make(&letter.queue).await?;
        let begun = std::time::Instant::now();
        loop {
            let publish = self.publish(letter);
            let ack = self.context.send_publish(letter.subject.clone(), publish).await;
            match ack.map_err(unavailable)?.await {
                Ok(_) => return Ok(()),
                Err(why)
                    if why.kind() == PublishErrorKind::StreamNotFound
                        && begun.elapsed() < NEW_STREAM_PATIENCE =>
                {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(why) => return Err(unavailable(why)),
            }
        }
    }

    async fn stream(&self, queue: &QueueName) -> Result<Stream<()>, Refused> {
        let stream = self.context.get_stream_no_info(self.names.stream(queue)).await;
        stream.map_err(unavailable)
    }

    /// The message at a sequence of a queue; `None` if it is gone. With its subject and kind.
    pub(crate) async fn fetch(
        &self,
        queue: &QueueName,
        sequence: u64,
    ) -> Result<Option<jetstream::message::StreamMessage>, Refused> {
        match self.stream(queue).await?.get_raw_message(sequence).await {
            Ok(message) => Ok(Some(message)),
            Err(why) if why.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
            Err(why) => Err(unavailable(why)),
        }
    }

    /// The sequences of all messages of a queue. Not by asking for one after the other: servers of
    /// version 2.9 pass over some when they are asked for the next.
    pub(crate) async fn present(&self, queue: &QueueName) -> Result<Vec<u64>, Refused> {
        let subject = format!("STREAM.INFO.{}", self.names.stream(queue));
        let ask = Details { deleted_details: true };
        let answer: Response<Info> =
            self.context.request(subject, &ask).await.map_err(unavailable)?;
        let state = match answer {
            Response::Ok(info) => info.state,
            Response::Err { error } => return Err(unavailable(error)),
        };
        let gone: BTreeSet<u64> = state.deleted.unwrap_or_default().into_iter().collect();
        let all = state.first_seq..=state.last_seq;
        Ok(all.filter(|sequence| !gone.contains(sequence)).collect())
    }

    /// Takes a message out of a queue. It may be gone already.
    ///
    /// It is not wiped: that would cost a write for each, and a server of version 2.9 that is killed
    /// afterwards counts wiped messages as if they were there, for ever. One that is merely deleted may
    /// be there again as a whole, and is then deleted again (see [`super::larder`]).
    pub(crate) async fn delete(&self, queue: &QueueName, sequence: u64) -> Result<(), Refused> {
        let Err(why) = self.take_out(&self.names.stream(queue), sequence).await else {
            return Ok(());
        };
        match self.fetch(queue, sequence).await {
            Ok(None) => Ok(()),
            // The stream has gone with its job.
            Err(_) if self.extent(queue).await?.last == 0 => Ok(()),
            Ok(Some(_)) | Err(_) => Err(why),
        }
    }

    /// Takes a value out of the bucket, by its revision, and leaves nothing behind. It may be gone already.
    pub(crate) async fn forget(&self, revision: u64) -> Result<(), Refused> {
        let Err(why) = self.take_out(&self.names.bucket(), revision).await else { return Ok(()) };
        match self.bucket.get_raw_message(revision).await {
            Err(gone) if gone.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(()),
            Ok(_) | Err(_) => Err(why),
        }
    }

    async fn take_out(&self, stream: &str, sequence: u64) -> Result<(), Refused> {
        let subject = format!("STREAM.MSG.DELETE.{stream}");
        let ask = Deletion { seq: sequence, no_erase: true };
        let answer: Response<Deleted> =
            self.context.request(subject, &ask).await.map_err(unavailable)?;
        match answer {
            Response::Ok(Deleted { success: true }) => Ok(()),
            Response::Ok(Deleted { success: false }) => {
                Err(unavailable("a message was not deleted"))
            }
            Response::Err { error } => Err(unavailable(error)),
        }
    }

    /// Tells those who wait for something of a task to look again. Nothing depends on it: they look
    /// now and then anyway.
    pub(crate) async fn wake(&self, job: &str, task: &str) {
        let _ = self.client.publish(self.names.wake(job, task), Bytes::new()).await;
    }
}
