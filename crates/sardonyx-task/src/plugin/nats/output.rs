//! The output `nats`: each row a message.
//!
//! What a transaction writes is committed with it, as a mark, and sent behind the commit: an outbox.
//! Whoever takes over from a session that died finds its last mark, looks in the stream whether those
//! messages came, and sends them if they did not. So a row appears exactly once, on these conditions:
//! the stream keeps messages until a session that died has been replaced (one from which consumers
//! remove messages is looked at in vain: then the servers' own window for duplicates decides); and
//! nobody sleeps between looking and sending for longer than that window.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use arrow::array::RecordBatch;
use async_nats::jetstream::message::PublishMessage;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio_stream::StreamExt as _;

use super::{AGAIN, Failed, Link, PATIENCE, Place, wait};
use crate::{
    Format, Output, Terms,
    format::encode,
    output::Writer,
    plugin::{Clock, system_clock},
};

/// What it reads of a task.
pub(crate) const KEYS: &[&str] =
    &["url", "user", "password", "token", "subject", "format", "create"];

/// Who sends later than this behind its commit looks first whether somebody else has.
const PROMPT: Duration = Duration::from_secs(5);

/// The header that makes a message known to the servers, and to us.
const ID: &str = "Nats-Msg-Id";

pub(crate) fn output(terms: &Terms) -> Result<Arc<dyn Output>, String> {
    let format = terms.text("format")?.map_or(Ok(Format::Ndjson), Format::parse)?;
    if !matches!(format, Format::Lines | Format::Ndjson) {
        let name = format.name();
        return Err(format!("messages are ndjson or lines, not {name}: write format = \"ndjson\""));
    }
    let place = Place::read(terms)?;
    let subject = place
        .subject
        .clone()
        .ok_or("it does not say under which subject: write subject = \"results\"")?;
    if subject.contains(['*', '>', ' ']) {
        return Err(format!("{subject:?} is no subject to write to: write one without * and >"));
    }
    let creates = terms.truth("create")?.unwrap_or(false);
    let name = format!("{}.{}", terms.job, terms.task);
    Ok(Arc::new(Nats { place, subject, format, creates, name, clock: system_clock() }))
}

#[derive(Clone)]
struct Nats {
    place: Place,
    subject: String,
    format: Format,
    creates: bool,
    /// Begins the ids of its messages.
    name: String,
    clock: Clock,
}

/// What was committed last, in front of the lines that are the messages.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Mark {
    /// When it was prepared, in milliseconds since 1970.
    at: u64,
    /// The last sequence of the stream at that time.
    before: u64,
    /// The number of the first message within its part.
    first: u64,
}

/// Messages with their ids.
#[derive(Clone)]
struct Outbox {
    part: String,
    mark: Mark,
    lines: Bytes,
}

impl Outbox {
    fn to_bytes(&self) -> Result<Bytes, String> {
        let mut bytes = serde_json::to_vec(&self.mark).map_err(|why| why.to_string())?;
        bytes.push(b'\n');
        bytes.extend_from_slice(&self.lines);
        Ok(bytes.into())
    }

    fn read(part: &str, bytes: &Bytes) -> Result<Outbox, String> {
        let strange = || format!("what the part {part} committed is no outbox");
        let end = memchr::memchr(b'\n', bytes).ok_or_else(strange)?;
        let mark = serde_json::from_slice(&bytes[..end]).map_err(|_| strange())?;
        Ok(Outbox { part: part.into(), mark, lines: bytes.slice(end + 1..) })
    }

    /// The messages and the number of each.
    fn messages(&self) -> impl Iterator<Item = (u64, Bytes)> {
        let lines = self.lines.split_inclusive(|byte| *byte == b'\n');
        let bare = |line: &[u8]| self.lines.slice_ref(line.strip_suffix(b"\n").unwrap_or(line));
        (self.mark.first..).zip(lines.map(bare))
    }

    fn n_messages(&self) -> u64 {
        self.messages().count() as u64
    }
}

/// What is to be done with the stream.
enum Work {
    /// Nothing but look at it.
    Look,
    Send(Outbox),
    /// Send what was not sent.
    Settle(Vec<Outbox>),
}

impl Nats {
    fn created(&self) -> Option<&str> {
        self.creates.then_some(self.subject.as_str())
    }

    fn id(&self, part: &str, number: u64) -> String {
        format!("{}.{part}.{number}", self.name)
    }

    fn now_millis(&self) -> u64 {
        u64::try_from((self.clock)().as_millis()).unwrap_or(u64::MAX)
    }

    /// Does something with the stream until it works or patience is over.
    async fn insist(self, work: Work) -> Result<u64, String> {
        let begun = Instant::now();
        loop {
            match self.once(&work).await {
                Ok(done) => return Ok(done),
                Err(Failed::Now(why)) if begun.elapsed() < PATIENCE => {
                    tracing::warn!("{why}");
                    tokio::time::sleep(AGAIN).await;
                }
                Err(failed) => return Err(failed.why()),
            }
        }
    }

    /// Tries it once. The answer is the last sequence of the stream before.
    async fn once(&self, work: &Work) -> Result<u64, Failed> {
        let link = self.place.link(self.created()).await?;
        match work {
            Work::Look => {}
            Work::Send(outbox) => self.send(&link, outbox).await.map_err(Failed::Now)?,
            Work::Settle(outboxes) => {
                for outbox in outboxes {
                    self.settle(&link, outbox).await.map_err(Failed::Now)?;
                }
            }
        }
        Ok(link.stream.cached_info().state.last_sequence)
    }

    async fn send(&self, link: &Link, outbox: &Outbox) -> Result<(), String> {
        let said = |why: &dyn std::fmt::Display| format!("NATS: {}: {why}", self.subject);
        let mut sent = Vec::new();
        for (number, payload) in outbox.messages() {
            let message = PublishMessage::build()
                .payload(payload)
                .message_id(self.id(&outbox.part, number))
                .expected_stream(&link.stream.cached_info().config.name);
            let ack = link.context.send_publish(self.subject.clone(), message).await;
            sent.push(ack.map_err(|why| said(&why))?);
        }
        for ack in sent {
            ack.await.map_err(|why| said(&why))?;
        }
        Ok(())
    }

    /// Whether the last message of an outbox is in the stream. `None`: the stream no longer has what
    /// came at that time.
    async fn has(&self, link: &Link, outbox: &Outbox) -> Result<Option<bool>, String> {
        let first = outbox.mark.before + 1;
        let consumer = link.from(first, Some(&self.subject)).await?;
        let info = link.stream.get_info().await.map_err(|why| format!("NATS: {why}"))?;
        if info.state.first_sequence > first {
            return Ok(None);
        }
        if consumer.cached_info().num_pending == 0 {
            return Ok(Some(false));
        }
        let last = self.id(&outbox.part, outbox.mark.first + outbox.n_messages().saturating_sub(1));
        let mut messages = consumer.messages().await.map_err(|why| format!("NATS: {why}"))?;
        while let Some(message) = messages.next().await {
            let message = message.map_err(|why| format!("NATS: {why}"))?;
            let id = message.headers.as_ref().and_then(|headers| headers.get(ID));
            if id.is_some_and(|id| id.as_str() == last) {
                return Ok(Some(true));
            }
            if message.info().map_err(|why| why.to_string())?.pending == 0 {
                return Ok(Some(false));
            }
        }
        Err("NATS: the stream stopped coming".into())
    }

    /// Sends an outbox unless it was sent.
    async fn settle(&self, link: &Link, outbox: &Outbox) -> Result<(), String> {
        let window = link.stream.cached_info().config.duplicate_window;
        let age = Duration::from_millis(self.now_millis().saturating_sub(outbox.mark.at));
        match self.has(link, outbox).await? {
            Some(true) => Ok(()),
            // So old that whoever died there was replaced long ago, and that one has sent it.
            None if age > window => Ok(()),
            Some(false) | None => self.send(link, outbox).await,
        }
    }
}

impl Output for Nats {
    fn check(&self) -> Result<(), String> {
        if self.creates {
            return Ok(());
        }
        let this = self.clone();
        wait(async move {
            let link = this.place.link(None).await.map_err(Failed::why)?;
            let taken = &link.stream.cached_info().config.subjects;
            match taken.iter().any(|pattern| matches(pattern, &this.subject)) {
                true => Ok(()),
                false => Err(format!(
                    "the stream takes {} and not {}: write another subject",
                    taken.join(", "),
                    this.subject
                )),
            }
        })
    }

    fn open(&self, part: &str) -> Result<Box<dyn Writer>, String> {
        Ok(Box::new(NatsWriter {
            nats: self.clone(),
            part: part.into(),
            n_messages: 0,
            written: Vec::new(),
            prepared: None,
        }))
    }

    fn finish(&self, parts: &[(String, Bytes)]) -> Result<(), String> {
        self.recover(parts)
    }

    fn recover(&self, parts: &[(String, Bytes)]) -> Result<(), String> {
        let outboxes: Result<Vec<_>, _> =
            parts.iter().map(|(part, mark)| Outbox::read(part, mark)).collect();
        let (this, outboxes) = (self.clone(), outboxes?);
        if outboxes.is_empty() {
            return Ok(());
        }
        wait(this.insist(Work::Settle(outboxes))).map(drop)
    }

    fn forgets(&self) -> bool {
        true
    }
}

/// Whether a stream that takes a pattern takes a subject.
fn matches(pattern: &str, subject: &str) -> bool {
    let mut subject = subject.split('.');
    for token in pattern.split('.') {
        match (token, subject.next()) {
            (">", Some(_)) => return true,
            ("*", Some(_)) => {}
            (token, Some(other)) if token == other => {}
            _ => return false,
        }
    }
    subject.next().is_none()
}

struct NatsWriter {
    nats: Nats,
    part: String,
    /// Of this part, before those that are written now.
    n_messages: u64,
    written: Vec<u8>,
    prepared: Option<(Instant, Outbox)>,
}

impl Writer for NatsWriter {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), String> {
        let before = self.written.len();
        let encoded = encode::encode(self.nats.format, batch, &mut self.written);
        if encoded.is_err() {
            // All of a batch or nothing: its rows may come again one by one.
            self.written.truncate(before);
        }
        encoded
    }

    fn prepare(&mut self, _is_durable: bool) -> Result<Option<Bytes>, String> {
        if self.written.is_empty() {
            return Ok(None);
        }
        let before = wait(self.nats.clone().insist(Work::Look))?;
        let mark = Mark { at: self.nats.now_millis(), before, first: self.n_messages };
        let lines = Bytes::from(std::mem::take(&mut self.written));
        let outbox = Outbox { part: self.part.clone(), mark, lines };
        self.n_messages += outbox.n_messages();
        let bytes = outbox.to_bytes()?;
        self.prepared = Some((Instant::now(), outbox));
        Ok(Some(bytes))
    }

    fn committed(&mut self) -> Result<(), String> {
        let Some((prepared_at, outbox)) = self.prepared.take() else { return Ok(()) };
        let work = match prepared_at.elapsed() < PROMPT {
            true => Work::Send(outbox),
            false => Work::Settle(vec![outbox]),
        };
        wait(self.nats.clone().insist(work)).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_match_as_the_servers_say() {
        for (pattern, subject, is) in [
            ("a", "a", true),
            ("a", "b", false),
            ("a.*", "a.b", true),
            ("a.*", "a.b.c", false),
            ("a.>", "a.b.c", true),
            ("a.>", "a", false),
            (">", "a", true),
            ("a.b", "a", false),
        ] {
            assert_eq!(matches(pattern, subject), is, "{pattern} {subject}");
        }
    }

    #[test]
    fn an_outbox_is_read_back() {
        let mark = Mark { at: 1, before: 2, first: 7 };
        let lines = Bytes::from_static(b"{\"a\":1}\n{\"a\":2}\n");
        let outbox = Outbox { part: "p".into(), mark, lines };
        let read = Outbox::read("p", &outbox.to_bytes().unwrap()).unwrap();
        let messages: Vec<_> = read.messages().collect();
        assert_eq!(messages, [(7, "{\"a\":1}".into()), (8, "{\"a\":2}".into())]);
        assert!(Outbox::read("p", &Bytes::from_static(b"nonsense")).is_err());
    }
}
