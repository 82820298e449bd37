//! What things are called on the servers.
//!
//! ```text
//! KV_sdx-NAME         $KV.sdx-NAME.JOB.TASK.board          who works, and what is in whose hands
//!                     $KV.sdx-NAME.JOB.TASK.key.KEY        a key of the task
//!                     $KV.sdx-NAME.JOB.TASK.part.SESSION.N a piece of a transaction
//! sdx-NAME-HASH       sdx.NAME.queue.JOB.TASK.FROM.LANE    a queue: one stream, one subject per lane
//!                     sdx.NAME.wake.JOB.TASK               not kept: look again
//! ```
//!
//! Names of ours are single tokens: letters, digits, `-` and `_` stand for themselves, other bytes are
//! `=` and two hex digits, and a lone `=` is the empty name.

use std::fmt::Write as _;

use super::board::Origin;
use crate::{
    ledger::Lane,
    message::QueueName,
    session::Place,
    transaction::{Key, Refused},
};

/// Subjects beyond this do not fit into a line of the protocol with what stands around them.
const SUBJECT_BYTES_MAX: usize = 3000;

/// A text as one token of a subject.
pub(crate) fn token(text: &str) -> String {
    if text.is_empty() {
        return "=".into();
    }
    let mut token = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'-' | b'_' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => token.push(byte.into()),
            // Writing to a string does not fail.
            _ => drop(write!(token, "={byte:02X}")),
        }
    }
    token
}

/// The text that a token stands for; `None` if it is none of ours.
pub(crate) fn untoken(token: &str) -> Option<String> {
    if token == "=" {
        return Some(String::new());
    }
    let mut bytes = Vec::with_capacity(token.len());
    let mut rest = token.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'=' {
            bytes.push(byte);
            continue;
        }
        let hex = std::str::from_utf8(rest.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(hex, 16).ok()?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).ok()
}

/// The same 128 bits for the same text, in every version (FNV-1a).
fn hash(text: &str) -> u128 {
    let step = |hash: u128, byte: u8| {
        (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    };
    text.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, step)
}

/// The names below one name.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    name: String,
}

impl Names {
    pub(crate) fn new(name: &str) -> Names {
        Names { name: name.to_owned() }
    }

    /// The stream of boards and keys.
    pub(crate) fn bucket(&self) -> String {
        format!("KV_sdx-{}", self.name)
    }

    /// Everything in it.
    pub(crate) fn all_keys(&self) -> String {
        format!("$KV.sdx-{}.>", self.name)
    }

    /// Everything of a job in it.
    pub(crate) fn job_keys(&self, job: &str) -> String {
        format!("$KV.sdx-{}.{}.>", self.name, token(job))
    }

    fn task(&self, place: &Place) -> String {
        format!("$KV.sdx-{}.{}.{}", self.name, token(&place.job), token(&place.task))
    }

    pub(crate) fn board(&self, place: &Place) -> String {
        format!("{}.board", self.task(place))
    }

    /// All keys of a task.
    pub(crate) fn keys(&self, place: &Place) -> String {
        format!("{}.key.*", self.task(place))
    }

    pub(crate) fn key(&self, place: &Place, key: &str) -> Result<String, Refused> {
        let subject = format!("{}.key.{}", self.task(place), token(key));
        if subject.len() <= SUBJECT_BYTES_MAX {
            return Ok(subject);
        }
        let (is, max) = (subject.len(), SUBJECT_BYTES_MAX);
        Err(Refused::TooLarge(format!(
            "the subject of the key has {is} bytes, and {max} is the most"
        )))
    }

    /// The key whose subject this is.
    pub(crate) fn key_of(&self, subject: &str) -> Option<Key> {
        untoken(subject.rsplit('.').next()?)
    }

    pub(crate) fn part(&self, place: &Place, session: u64, n: usize) -> String {
        format!("{}.part.{session}.{n}", self.task(place))
    }

    /// The place whose board or key this is.
    pub(crate) fn place_of(&self, subject: &str) -> Option<Place> {
        let mut tokens = subject.strip_prefix(&format!("$KV.sdx-{}.", self.name))?.split('.');
        Some(Place { job: untoken(tokens.next()?)?, task: untoken(tokens.next()?)? })
    }

    /// The stream of a queue.
    pub(crate) fn stream(&self, queue: &QueueName) -> String {
        format!("sdx-{}-{:032x}", self.name, hash(&self.queue(queue, "*")))
    }

    /// A subject of a queue: of one of its lanes, or with `*` of all.
    fn queue(&self, queue: &QueueName, lane: &str) -> String {
        let (job, task, from) = (token(&queue.job), token(&queue.task), token(&queue.from));
        format!("sdx.{}.queue.{job}.{task}.{from}.{lane}", self.name)
    }

    /// All of a queue.
    pub(crate) fn lanes(&self, queue: &QueueName) -> String {
        self.queue(queue, "*")
    }

    pub(crate) fn lane(&self, queue: &QueueName, lane: Lane) -> String {
        match lane {
            None => self.queue(queue, "-"),
            Some(partition) => self.queue(queue, &partition.to_string()),
        }
    }

    /// The lane whose subject this is.
    pub(crate) fn lane_of(&self, subject: &str) -> Option<Lane> {
        match subject.rsplit('.').next()? {
            "-" => Some(None),
            partition => Some(Some(partition.parse().ok()?)),
        }
    }

    /// All queues, of a job, of one of its tasks, or of all jobs.
    pub(crate) fn queues(&self, job: Option<&str>, task: Option<&str>) -> String {
        let tokens = [job, task].map(|name| name.map_or("*".into(), token));
        format!("sdx.{}.queue.{}.{}.*.*", self.name, tokens[0], tokens[1])
    }

    /// The queue whose subject this is.
    pub(crate) fn queue_of(&self, subject: &str) -> Option<QueueName> {
        let mut tokens = subject.strip_prefix(&format!("sdx.{}.queue.", self.name))?.split('.');
        let mut next = || untoken(tokens.next()?);
        Some(QueueName { job: next()?, task: next()?, from: next()? })
    }

    pub(crate) fn wake(&self, job: &str, task: &str) -> String {
        format!("sdx.{}.wake.{}.{}", self.name, token(job), token(task))
    }

    /// What the writes on top of one revision have in common.
    pub(crate) fn write_id(&self, subject: &str, revision: u64) -> String {
        format!("{:032x}-on-{revision}", hash(subject))
    }

    /// What makes the messages of a transaction known again, whoever sends them.
    pub(crate) fn message_id(&self, place: &Place, n: u64, index: usize) -> String {
        format!("{:032x}-{n}-{index}", hash(&self.board(place)))
    }

    /// The number of the transaction in a message's id, and the place in it.
    pub(crate) fn origin_of(&self, id: &str) -> Option<Origin> {
        let (rest, index) = id.rsplit_once('-')?;
        let (_, n) = rest.rsplit_once('-')?;
        Some((n.parse().ok()?, index.parse().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_where_it_comes_from() {
        let names = Names::new("n");
        let place = Place { job: "j".into(), task: "t".into() };
        assert_eq!(names.origin_of(&names.message_id(&place, 7, 12)), Some((7, 12)));
        assert_eq!(names.origin_of("7-x"), None);
        assert_eq!(names.origin_of("7"), None);
    }

    #[test]
    fn names_come_back_from_their_subjects() {
        let names = Names::new("n");
        for text in ["", "a", "a.b", "*", ">", "ü %=\n", "=", "=="] {
            assert_eq!(untoken(&token(text)).as_deref(), Some(text));
            assert!(!token(text).contains(['.', '*', '>', ' ']));
            let queue = QueueName { job: text.into(), task: "t".into(), from: text.into() };
            let subject = names.lane(&queue, Some(7));
            assert_eq!(names.queue_of(&subject), Some(queue.clone()));
            assert_eq!(names.lane_of(&subject), Some(Some(7)));
            assert_eq!(names.lane_of(&names.lane(&queue, None)), Some(None));
            let place = Place { job: text.into(), task: text.into() };
            let subject = names.key(&place, text).unwrap();
            assert_eq!(names.place_of(&subject), Some(place));
            assert_eq!(names.key_of(&subject).as_deref(), Some(text));
        }
        let long = "ü".repeat(512);
        let place = Place { job: "j".into(), task: "t".into() };
        assert!(matches!(names.key(&place, &long), Err(Refused::TooLarge(_))));
    }
}
