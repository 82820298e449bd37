//! The audit log: who asked this server to change something, when, and what came of it.
//!
//! A line of JSON for each, in a file that is only ever appended to. Each line has the hash of the one
//! before it, so that whoever changes, removes or adds one in the middle changes everything behind it,
//! and [`verify`] says where. Whoever may write the file can make a whole new one: keep the last hash
//! somewhere else, and compare.
//!
//! What is asked is on disk before it is done; if it cannot be written, it is not done.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufRead, BufReader, Write as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use axum::{
    extract::Request,
    http::StatusCode,
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use serde::{Deserialize, Serialize};

use super::{refusal::Refusal, server::Caller};

/// The longest line.
pub const LINE_BYTES_MAX: usize = 8 << 10;

/// The longest text in a line.
const TEXT_BYTES_MAX: usize = 1 << 10;

/// What the first line has for the hash of the one before it.
const NOTHING: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
pub enum Event {
    /// A server began to write here.
    Began {
        /// What people call it.
        node: String,
    },
    /// Somebody asked for something, and may. It is not done yet.
    Asked {
        /// The role, and by which token: the first digits of its hash.
        who: String,
        /// From which address.
        from: String,
        /// The method and the path.
        what: String,
    },
    /// It was done, or refused.
    Answered {
        /// The number of the line that asked.
        asked: u64,
        /// The status of the answer.
        status: u16,
        /// What it is about, if the request alone does not say it: the id of a job.
        about: Option<String>,
    },
}

/// A line without its own hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Body {
    number: u64,
    /// UTC.
    at: String,
    #[serde(flatten)]
    event: Event,
    /// The hash of the line before.
    before: String,
}

#[derive(Serialize, Deserialize)]
struct Line {
    #[serde(flatten)]
    body: Body,
    hash: String,
}

/// What is known of a log that is whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Verified {
    /// How many lines it has.
    pub lines: u64,
    /// When the first was written, and the last.
    pub first: Option<String>,
    /// When the last was written.
    pub last: Option<String>,
    /// The hash of the last.
    pub head: String,
    /// Lines that a process did not finish writing; what they asked was not done.
    pub cut_off: Vec<u64>,
}

/// Where a log is not what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The line in the file, from 1.
    pub line: u64,
    /// What is wrong.
    pub why: String,
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

/// Whether a log is what was written, as far as it goes.
pub fn verify(log: impl BufRead) -> Result<Verified, Broken> {
    verify_holding(log, None).map(|(verified, _)| verified)
}

/// The same; also whether a line of it has this hash.
pub fn verify_holding(log: impl BufRead, hash: Option<&str>) -> Result<(Verified, bool), Broken> {
    let mut is_held = false;
    let mut known =
        Verified { lines: 0, first: None, last: None, head: NOTHING.into(), cut_off: Vec::new() };
    let mut log = log;
    let mut place = 0;
    loop {
        place += 1;
        let broken = |why: String| Broken { line: place, why };
        let mut bytes = Vec::new();
        let most = LINE_BYTES_MAX as u64 + 1;
        let read = io::Read::take(&mut log, most).read_until(b'\n', &mut bytes);
        read.map_err(|why| broken(why.to_string()))?;
        if bytes.is_empty() {
            return Ok((known, is_held));
        }
        if bytes.len() as u64 >= most && bytes.last() != Some(&b'\n') {
            return Err(broken("it is longer than any line of ours".into()));
        }
        let Ok(line) = serde_json::from_slice::<Line>(&bytes) else {
            // A process that was killed left the beginning of a line; the next one began another.
            let is_begun = bytes.starts_with(b"{\"number\":") && !bytes.ends_with(b"}\n");
            if !is_begun {
                return Err(broken("this is no line of ours".into()));
            }
            known.cut_off.push(place);
            continue;
        };
        // Also what a reader would pass over is a change.
        let again = serde_json::to_vec(&line).unwrap_or_default();
        if bytes.strip_suffix(b"\n") != Some(&again[..]) {
            return Err(broken("it was changed: it is not in our form".into()));
        }
        follows(&known, &line).map_err(broken)?;
        is_held |= hash == Some(line.hash.as_str());
        known.lines += 1;
        known.head = line.hash;
        known.first.get_or_insert_with(|| line.body.at.clone());
        known.last = Some(line.body.at);
    }
}

/// Whether a line may come next.
fn follows(known: &Verified, line: &Line) -> Result<(), String> {
    let Body { number, before, .. } = &line.body;
    if *number != known.lines {
        let wanted = known.lines;
        return Err(format!(
            "it has the number {number} where {wanted} belongs: lines are missing"
        ));
    }
    if *before != known.head {
        return Err("it does not follow the line before it: one of the two was changed".into());
    }
    match seal(&line.body)? == line.hash {
        true => Ok(()),
        false => Err("it was changed: its hash is another".into()),
    }
}

fn seal(body: &Body) -> Result<String, String> {
    let text = serde_json::to_vec(body).map_err(|why| why.to_string())?;
    Ok(blake3::hash(&text).to_hex().to_string())
}

/// A log that is being written. Clones write the same.
#[derive(Clone, Debug)]
pub struct Audit(Arc<Mutex<Chain>>);

#[derive(Debug)]
struct Chain {
    path: PathBuf,
    file: File,
    next: u64,
    head: String,
    /// Somebody could not write once: what the file ends with is not known.
    is_broken: bool,
}

impl Audit {
    /// Opens a log to go on with it, or begins one. What is there must be whole.
    pub fn open(path: &Path, node: &str) -> Result<Audit, String> {
        let shown = path.display();
        let wrong = |why: io::Error| format!("{shown}: {why}");
        let mut options = OpenOptions::new();
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.read(true).append(true).create(true).open(path).map_err(wrong)?;
        let there = verify(BufReader::new(&file)).map_err(|broken| {
            format!(
                "{shown} is not what was written, {broken}: move it away, and find out who did it"
            )
        })?;
        let chain = Chain {
            path: path.into(),
            file,
            next: there.lines,
            head: there.head,
            is_broken: false,
        };
        let audit = Audit(Arc::new(Mutex::new(chain)));
        audit.end_line()?;
        audit.write(Event::Began { node: node.into() }, now())?;
        Ok(audit)
    }

    /// One on a file that is not looked at: for the tests of disks that fail.
    #[cfg(test)]
    pub(crate) fn unchecked(path: &Path) -> io::Result<Audit> {
        let file = OpenOptions::new().append(true).open(path)?;
        let (next, head) = (0, NOTHING.into());
        let chain = Chain { path: path.into(), file, next, head, is_broken: false };
        Ok(Audit(Arc::new(Mutex::new(chain))))
    }

    /// What a process left that was killed while it wrote is ended here.
    fn end_line(&self) -> Result<(), String> {
        use std::os::unix::fs::FileExt as _;
        let mut chain = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let wrong = |why: io::Error| why.to_string();
        let length = chain.file.metadata().map_err(wrong)?.len();
        let mut last = [0];
        if length > 0 && chain.file.read_exact_at(&mut last, length - 1).is_ok() && last != *b"\n" {
            chain.file.write_all(b"\n").map_err(wrong)?;
        }
        Ok(())
    }

    /// The same, where nobody may wait for a disk.
    async fn write_soon(&self, event: Event) -> Result<u64, String> {
        let audit = self.clone();
        let written = tokio::task::spawn_blocking(move || audit.write(event, now())).await;
        written.map_err(|why| why.to_string())?
    }

    /// Writes a line, and returns its number when it is on disk.
    pub(crate) fn write(&self, event: Event, at: Duration) -> Result<u64, String> {
        let mut chain = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = |chain: &Chain, why: &dyn std::fmt::Display| {
            format!("the audit log {} cannot be written: {why}", chain.path.display())
        };
        if chain.is_broken {
            return Err(failed(&chain, &"it failed before; start the node again"));
        }
        let number = chain.next;
        let body = Body { number, at: utc(at), event: cut(event), before: chain.head.clone() };
        let hash = seal(&body)?;
        let line = Line { body, hash: hash.clone() };
        let mut text = serde_json::to_vec(&line).map_err(|why| why.to_string())?;
        text.push(b'\n');
        let written = chain.file.write_all(&text).and_then(|()| chain.file.sync_data());
        if let Err(why) = written {
            chain.is_broken = true;
            return Err(failed(&chain, &why));
        }
        (chain.next, chain.head) = (number + 1, hash);
        Ok(number)
    }
}

/// What a request turns out to be about, for the line that says what became of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Note(Arc<Mutex<Option<String>>>);

impl Note {
    pub(crate) fn set(&self, about: &str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(about.to_owned());
    }

    fn take(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Has a request carried out between two lines of the log.
pub(crate) async fn watched(
    audit: &Audit,
    who: String,
    mut request: Request,
    next: Next,
) -> Response {
    let caller = request.extensions().get::<Caller>().map(|Caller(from)| from.to_string());
    let path = request.uri().path_and_query().map_or("", |it| it.as_str());
    let what = format!("{} {path}", request.method());
    let asked = Event::Asked { who, from: caller.unwrap_or_default(), what };
    let number = match audit.write_soon(asked).await {
        Ok(number) => number,
        Err(why) => {
            tracing::error!(%why, "nothing was done");
            let advice = "whoever runs this node must see to its disk; nothing was done";
            let status = StatusCode::SERVICE_UNAVAILABLE;
            return Refusal::new(status, "no-audit", "this cannot be recorded", advice)
                .into_response();
        }
    };
    let note = Note::default();
    request.extensions_mut().insert(note.clone());
    let response = next.run(request).await;
    let status = response.status().as_u16();
    let answered = Event::Answered { asked: number, status, about: note.take() };
    if let Err(why) = audit.write_soon(answered).await {
        tracing::error!(%why, "what was done is not recorded");
    }
    response
}

/// An event whose texts have a bounded length: some are what somebody sent.
fn cut(event: Event) -> Event {
    let short = |text: String| match text.char_indices().nth(TEXT_BYTES_MAX / 4) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    };
    match event {
        Event::Began { node } => Event::Began { node: short(node) },
        Event::Asked { who, from, what } => {
            Event::Asked { who: short(who), from: short(from), what: short(what) }
        }
        Event::Answered { asked, status, about } => {
            Event::Answered { asked, status, about: about.map(short) }
        }
    }
}

/// The time since the beginning of 1970.
pub(crate) fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// A time as people write it: `2026-11-16T00:30:00.123Z`.
fn utc(at: Duration) -> String {
    let (days, rest) = (at.as_secs() / 86_400, at.as_secs() % 86_400);
    // Years that begin in March, in eras of 400: leap days then stand at the end.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    let millis = at.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

#[cfg(test)]
mod tests;
