//! The output `stdout`: rows as text, when they are committed.
//!
//! Nothing is shown that is not committed, and nothing twice; a process that is killed between its
//! commit and its next line shows those rows never.

use std::{
    io::Write,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use arrow::array::RecordBatch;
use bytes::Bytes;

use super::lock;
use crate::{Format, Output, Terms, format::encode, output::Writer};

/// What it reads of a task.
pub(crate) const KEYS: &[&str] = &["format"];

type Sink = Arc<Mutex<dyn Write + Send>>;

pub(crate) fn output(terms: &Terms) -> Result<Arc<dyn Output>, String> {
    Ok(Arc::new(Stdout::new(terms, Arc::new(Mutex::new(std::io::stdout())))?))
}

pub(crate) struct Stdout {
    format: Format,
    sink: Sink,
    has_header: Arc<AtomicBool>,
}

impl Stdout {
    pub(crate) fn new(terms: &Terms, sink: Sink) -> Result<Stdout, String> {
        let format = terms.text("format")?.map_or(Ok(Format::Ndjson), Format::parse)?;
        if format == Format::Parquet {
            return Err(
                "Parquet needs a file: write plugin = \"file\", or format = \"ndjson\"".into()
            );
        }
        Ok(Stdout { format, sink, has_header: Arc::default() })
    }
}

impl Output for Stdout {
    fn open(&self, _part: &str) -> Result<Box<dyn Writer>, String> {
        Ok(Box::new(StdoutWriter {
            format: self.format,
            sink: self.sink.clone(),
            has_header: self.has_header.clone(),
            header: Vec::new(),
            written: Vec::new(),
            prepared: Vec::new(),
        }))
    }

    fn finish(&self, _parts: &[(String, Bytes)]) -> Result<(), String> {
        Ok(())
    }
}

struct StdoutWriter {
    format: Format,
    sink: Sink,
    has_header: Arc<AtomicBool>,
    header: Vec<u8>,
    written: Vec<u8>,
    prepared: Vec<u8>,
}

impl Writer for StdoutWriter {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), String> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        if self.format == Format::Csv && self.header.is_empty() {
            self.header = encode::csv_header(batch.schema_ref());
        }
        let before = self.written.len();
        let encoded = encode::encode(self.format, batch, &mut self.written);
        if encoded.is_err() {
            // All of a batch or nothing: its rows may come again one by one.
            self.written.truncate(before);
        }
        encoded
    }

    fn prepare(&mut self, _is_durable: bool) -> Result<Option<Bytes>, String> {
        self.prepared.append(&mut self.written);
        Ok(None)
    }

    fn committed(&mut self) -> Result<(), String> {
        if self.prepared.is_empty() {
            return Ok(());
        }
        let mut sink = lock(&self.sink);
        // Whoever comes first writes the first line, under the lock.
        let has_header = self.header.is_empty() || self.has_header.swap(true, Ordering::Relaxed);
        let header: &[u8] = if has_header { &[] } else { &self.header };
        let written = sink.write_all(header).and_then(|()| sink.write_all(&self.prepared));
        self.prepared.clear();
        let shown = written.and_then(|()| sink.flush());
        shown.map_err(|why| format!("stdout takes no more: {why}"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::suite::{self, Guarantee, Target};

    #[test]
    fn stdout_passes_the_suite() {
        let mut fresh = || {
            let sink = Arc::new(Mutex::new(Vec::new()));
            let rows = sink.clone();
            let make = move || {
                let terms = Terms::new("job", "write", &json!({}));
                Ok(Arc::new(Stdout::new(&terms, sink.clone())?) as Arc<dyn Output>)
            };
            let rows = move || {
                let text = String::from_utf8(lock(&rows).clone()).unwrap();
                Ok(text.lines().map(str::to_owned).collect())
            };
            Ok(Target { make: Box::new(make), rows: Box::new(rows) })
        };
        suite::output(Guarantee::AtMostOnce, &mut fresh).unwrap();
    }

    #[test]
    fn a_csv_header_is_shown_once() {
        let sink = Arc::new(Mutex::new(Vec::new()));
        let terms = Terms::new("job", "write", &json!({"format": "csv"}));
        let output = Stdout::new(&terms, sink.clone()).unwrap();
        let column: arrow::array::ArrayRef = Arc::new(arrow::array::Int64Array::from(vec![1, 2]));
        let batch = RecordBatch::try_from_iter([("n", column)]).unwrap();
        for part in ["a", "b"] {
            let mut writer = output.open(part).unwrap();
            writer.write(&batch).unwrap();
            writer.prepare(false).unwrap();
            writer.committed().unwrap();
        }
        assert_eq!(lock(&sink).as_slice(), b"n\n1\n2\n1\n2\n");
    }
}
