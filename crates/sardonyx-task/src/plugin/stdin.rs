//! The input `stdin`: lines or NDJSON, as they come.
//!
//! A thread reads, because a person may type. At least once within this process: what a session took
//! and did not commit is given to the next, as far back as is kept. Another process has another stdin.

use std::{
    io,
    sync::{Arc, LazyLock, Mutex},
};

use bytes::Bytes;

use super::{Channel, file, lock};
use crate::{
    Format, Input, Terms,
    format::{
        Records,
        blocks::{Blocks, Broken, Rows},
        infer::{Found, Said},
        lines::Lines,
        ndjson::Ndjson,
    },
    input::{Reader, Splits},
};

/// What it reads of a task.
pub(crate) const KEYS: &[&str] = &["format", "columns", "schema"];

/// A batch has at most so many rows; most have few, because they are given on as they come.
const ROWS_MAX: usize = 8192;

/// So many rows wait at most.
const WAITING_ROWS_MAX: usize = 262_144;

type Source = Box<dyn io::Read + Send>;

/// Who reads a stream, and the channel behind it.
type Taken = Arc<Mutex<Option<((String, String), Arc<Channel>)>>>;

/// There is one stdin.
static STDIN: LazyLock<Taken> = LazyLock::new(Taken::default);

pub(crate) fn input(terms: &Terms) -> Result<Arc<dyn Input>, String> {
    Ok(Arc::new(Stdin::new(terms, STDIN.clone(), || Box::new(io::stdin()))?))
}

/// A stream of text that can be read once.
pub(crate) struct Stdin {
    /// The job and the task.
    reader: (String, String),
    format: Format,
    said: Said,
    taken: Taken,
    source: Box<dyn Fn() -> Source + Send + Sync>,
}

impl Stdin {
    pub(crate) fn new(
        terms: &Terms,
        taken: Taken,
        source: impl Fn() -> Source + Send + Sync + 'static,
    ) -> Result<Stdin, String> {
        let format = terms.text("format")?.map_or(Ok(Format::Lines), Format::parse)?;
        if !matches!(format, Format::Lines | Format::Ndjson) {
            let name = format.name();
            return Err(format!("stdin is read as lines or ndjson, not as {name}: use a file"));
        }
        Ok(Stdin {
            reader: (terms.job.clone(), terms.task.clone()),
            format,
            said: file::said(terms)?,
            taken,
            source: Box::new(source),
        })
    }

    /// The channel behind the stream. The first who asks starts the thread.
    fn channel(&self) -> Result<Arc<Channel>, String> {
        let mut taken = lock(&self.taken);
        match &*taken {
            Some((reader, channel)) if *reader == self.reader => return Ok(channel.clone()),
            Some(((job, task), _)) => {
                return Err(format!("stdin is read already, by the task {task} of the job {job}"));
            }
            None => {}
        }
        let channel = Arc::new(Channel::new(WAITING_ROWS_MAX));
        let (source, format, said) = ((self.source)(), self.format, self.said.clone());
        let filled = channel.clone();
        let thread = std::thread::Builder::new().name("sardonyx-stdin".into());
        thread
            .spawn(move || match pour(source, format, &said, &filled) {
                Ok(()) => filled.close(),
                Err(why) => filled.fail(why),
            })
            .map_err(|why| format!("stdin cannot be read: {why}"))?;
        *taken = Some((self.reader.clone(), channel.clone()));
        Ok(channel)
    }
}

impl Input for Stdin {
    fn splits(&self, _memory: Option<&[u8]>) -> Result<Splits, String> {
        Ok(Splits { splits: vec![Bytes::from_static(b"stdin")], ..Splits::default() })
    }

    fn open(&self, _split: &[u8], position: Option<&[u8]>) -> Result<Box<dyn Reader>, String> {
        Ok(Box::new(self.channel()?.reader(position, "stdin")?))
    }
}

/// Reads until the end, and puts rows into the channel as they come.
fn pour(source: Source, format: Format, said: &Said, channel: &Channel) -> Result<(), String> {
    let mut blocks = Blocks::new(source, 0, None);
    let Some(records) = records(&mut blocks, format, said)? else { return Ok(()) };
    let mut rows = Rows { blocks, records };
    let mut n_rows = 0;
    loop {
        let read = rows.read(ROWS_MAX, true).map_err(|broken| complaint(broken, n_rows))?;
        let Some((batch, _)) = read else { return Ok(()) };
        n_rows += batch.num_rows() as u64;
        if channel.push(batch).is_err() {
            return Ok(());
        }
    }
}

/// What makes rows of it; `None` if nothing comes at all. Columns that the job does not name are
/// those of the records that come first, as many as come at once.
fn records(
    blocks: &mut Blocks,
    format: Format,
    said: &Said,
) -> Result<Option<Box<dyn Records>>, String> {
    if format == Format::Lines {
        return Ok(Some(Box::new(Lines::new())));
    }
    if let Some(plan) = said.plan() {
        return Ok(Some(Box::new(Ndjson::new(&plan))));
    }
    let mut found = Found::default();
    while found.is_empty() {
        if blocks.is_last() {
            return Ok(None);
        }
        blocks.fill().map_err(|why| format!("stdin cannot be read: {why}"))?;
        let seen = found.ndjson(blocks.bytes(), blocks.is_last());
        seen.map_err(|fault| format!("stdin, among the first records: {}", fault.why))?;
    }
    Ok(Some(Box::new(Ndjson::new(&said.plan_with(&found)?))))
}

fn complaint(broken: Broken, n_rows: u64) -> String {
    match broken {
        Broken::Record(_, why) => format!("stdin, after {n_rows} rows: {why}"),
        Broken::NotUtf8(_) => format!("stdin, after {n_rows} rows: a text that is not UTF-8"),
        Broken::Source(_, why) => format!("stdin cannot be read: {why}"),
        Broken::Other(why) => format!("stdin: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{input::Read, suite};

    fn stdin(text: &'static str, keys: &serde_json::Value) -> Stdin {
        let terms = Terms::new("job", "read", keys);
        Stdin::new(&terms, Taken::default(), move || Box::new(text.as_bytes())).unwrap()
    }

    #[test]
    fn stdin_passes_the_suite() {
        for (format, text) in
            [("lines", "a\nb\nc\nd"), ("ndjson", "{\"a\":1}\n{\"a\":2}\n\n{\"a\":3}\n")]
        {
            let make = || Ok(Arc::new(stdin(text, &json!({"format": format}))) as Arc<dyn Input>);
            suite::input(&make).unwrap();
        }
    }

    #[test]
    fn a_record_that_is_wrong_fails_behind_those_that_are_right() {
        let input = stdin(
            "{\"a\":1}\n{\"a\":2}\n{\"a\":",
            &json!({"format": "ndjson", "columns": ["a"], "schema": {"a": "int"}}),
        );
        let mut reader = input.open(b"stdin", None).unwrap();
        let why = loop {
            match reader.read(10) {
                Ok(Read::Batch(..)) => {}
                Ok(Read::Wait(..)) => std::thread::yield_now(),
                Ok(Read::End) => panic!("it ended"),
                Err(why) => break why,
            }
        };
        assert!(why.starts_with("stdin, after ") && why.contains("value"), "{why}");
    }

    #[test]
    fn only_one_task_reads_it() {
        let taken = Taken::default();
        let of = |task: &str| {
            let terms = Terms::new("job", task, &json!({}));
            Stdin::new(&terms, taken.clone(), || Box::new(&b"a\n"[..])).unwrap()
        };
        of("one").open(b"stdin", None).map(|_| ()).unwrap();
        of("one").open(b"stdin", None).map(|_| ()).unwrap();
        let why = of("two").open(b"stdin", None).err().unwrap();
        assert!(why.contains("by the task one of the job job"), "{why}");
    }
}
