//! The output `file`: one file that appears when the task is over, or files that appear one by one.
//!
//! Exactly once: see [`super::parts`]. A file that is there already is replaced in one step at the
//! end, so that a job can be run again; until then it stays as it was. `overwrite = false` refuses to
//! begin instead.

use std::{
    fs::{File, Metadata},
    hash::{BuildHasher as _, Hasher as _, RandomState},
    io,
    os::unix::fs::FileExt,
    path::Path,
    sync::Arc,
    time::Duration,
};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use bytes::Bytes;

use super::{
    super::{Clock, size},
    format_of,
    parts::{Mark, Parts, parent},
    said_format,
};
use crate::{
    Files, Format, Output, Terms,
    format::{Packing, encode, parquet::Stream},
    output::Writer,
};

/// What it reads of a task.
pub(crate) const KEYS: &[&str] = &["path", "format", "overwrite", "roll", "roll-every"];

/// So many bytes are written at once, or packed together.
const WRITE_BYTES: usize = 1 << 20;

/// When a file is finished before the task is.
#[derive(Clone, Copy, Debug)]
struct Roll {
    bytes: Option<u64>,
    every: Option<Duration>,
}

struct Shared {
    parts: Parts,
    roll: Option<Roll>,
    clock: Clock,
}

/// A file that is written by many.
pub(crate) struct FileOutput {
    shared: Arc<Shared>,
    may_replace: bool,
}

impl FileOutput {
    pub(crate) fn new(terms: &Terms, clock: Clock) -> Result<FileOutput, String> {
        let path = terms.required_text("path", "counts.csv")?;
        if path.is_empty() || path.ends_with('/') {
            return Err("path names a file: write path = \"counts.csv\"".into());
        }
        terms.files().check(path).map_err(|refused| format!("path: {refused}"))?;
        let format = format_of(path, said_format(terms)?)?;
        let (bytes, every) = (size(terms, "roll")?, terms.duration("roll-every")?);
        if bytes == Some(0) || every == Some(Duration::ZERO) {
            return Err("roll and roll-every are more than nothing: write roll = \"64MB\"".into());
        }
        let roll = (bytes.is_some() || every.is_some()).then_some(Roll { bytes, every });
        let parts = Parts::new(terms, path, format);
        let may_replace = terms.truth("overwrite")?.unwrap_or(true);
        Ok(FileOutput { shared: Arc::new(Shared { parts, roll, clock }), may_replace })
    }

    fn marks(parts: &[(String, Bytes)]) -> Result<Vec<(String, Mark)>, String> {
        parts.iter().map(|(part, mark)| Ok((part.clone(), Mark::from_bytes(mark)?))).collect()
    }
}

impl Output for FileOutput {
    fn check(&self) -> Result<(), String> {
        let (disk, path) = (&self.shared.parts.disk, &self.shared.parts.path);
        let shown = path.display();
        let found = match disk.metadata(path) {
            Ok(found) => Some(found),
            Err(why) if why.kind() == io::ErrorKind::NotFound => None,
            // One that may be replaced need not be readable, but it must not lead elsewhere.
            Err(why) if disk.are_confined() => return Err(format!("{shown}: {why}")),
            Err(_) => None,
        };
        if found.as_ref().is_some_and(Metadata::is_dir) {
            return Err(format!("{shown} is a directory: write the path of a file in it"));
        }
        if disk.are_confined() && found.as_ref().is_some_and(|found| !found.is_file()) {
            disk.open(path).map_err(|why| why.to_string())?;
        }
        if found.is_some() && !self.may_replace && self.shared.roll.is_none() {
            return Err(format!(
                "{shown} is there already, and overwrite is false: move it away, or leave overwrite out"
            ));
        }
        let directory = parent(path);
        let place = directory.display();
        match disk.metadata(directory) {
            Err(why) => {
                return Err(format!("there is no directory {place} ({why}): make it first"));
            }
            Ok(meta) if !meta.is_dir() => {
                return Err(format!("{place} is no directory: {shown} cannot be in it"));
            }
            Ok(_) => {}
        }
        can_write(disk, directory).map_err(|why| {
            format!("{shown} cannot be written, because nothing can in {place}: {why}")
        })
    }

    fn open(&self, part: &str) -> Result<Box<dyn Writer>, String> {
        Ok(Box::new(PartWriter::new(self.shared.clone(), part)))
    }

    fn finish(&self, parts: &[(String, Bytes)]) -> Result<(), String> {
        if self.shared.roll.is_none() {
            return self.shared.parts.finish(&FileOutput::marks(parts)?);
        }
        self.recover(parts)?;
        self.shared.parts.clean_if_empty();
        Ok(())
    }

    fn recover(&self, parts: &[(String, Bytes)]) -> Result<(), String> {
        if self.shared.roll.is_none() {
            return Ok(());
        }
        for (part, mark) in FileOutput::marks(parts)? {
            for number in 1..mark.file {
                self.shared.parts.show(&part, number, None, &mark.header)?;
            }
            self.shared.parts.show(&part, mark.file, Some(mark.bytes), &mark.header)?;
        }
        Ok(())
    }

    /// What rolls is shown piece by piece; else all parts become one file in the end.
    fn forgets(&self) -> bool {
        self.shared.roll.is_some()
    }
}

/// Whether a file can be made here: only trying tells, with all that file systems have by way of
/// permission. What was made is gone again.
fn can_write(disk: &Files, directory: &Path) -> io::Result<()> {
    let nonce = RandomState::new().build_hasher().finish();
    let probe = directory.join(format!(".sardonyx-check-{nonce:016x}"));
    disk.create_new(&probe)?;
    let _ = disk.remove_file(&probe);
    Ok(())
}

/// The part of one session.
struct PartWriter {
    shared: Arc<Shared>,
    part: String,
    file: Option<File>,
    /// What was not written to the file yet, nor packed.
    pending: Vec<u8>,
    mark: Mark,
    /// Files of this part that are whole once this is committed.
    sealed: Vec<u64>,
    schema: Option<SchemaRef>,
    stream: Option<Stream>,
    /// When the first row came to this file.
    since: Option<Duration>,
    has_new_name: bool,
}

impl PartWriter {
    fn new(shared: Arc<Shared>, part: &str) -> PartWriter {
        PartWriter {
            shared,
            part: part.into(),
            file: None,
            pending: Vec::new(),
            mark: Mark { file: 1, ..Mark::default() },
            sealed: Vec::new(),
            schema: None,
            stream: None,
            since: None,
            has_new_name: false,
        }
    }

    fn format(&self) -> Format {
        self.shared.parts.format
    }

    /// All rows of a file have the same columns.
    fn learn(&mut self, batch: &RecordBatch) -> Result<(), String> {
        let schema = batch.schema();
        match &self.schema {
            Some(known) if known.fields() == schema.fields() => return Ok(()),
            Some(known) if !matches!(self.format(), Format::Ndjson | Format::Lines) => {
                let names = |schema: &SchemaRef| {
                    let fields = schema.fields().iter();
                    let names: Vec<_> = fields
                        .map(|field| format!("{} {}", field.name(), field.data_type()))
                        .collect();
                    names.join(", ")
                };
                return Err(format!(
                    "{} has the columns {}, and now came {}: give all rows the same",
                    self.shared.parts.path.display(),
                    names(known),
                    names(&schema)
                ));
            }
            Some(_) | None => {}
        }
        if self.format() == Format::Csv {
            let header = encode::csv_header(&schema);
            self.mark.header = String::from_utf8_lossy(&header).into_owned();
        }
        self.schema = Some(schema);
        Ok(())
    }

    /// Everything that is pending goes to the file, packed as one piece.
    fn flush(&mut self) -> Result<(), String> {
        if let Some(stream) = &mut self.stream {
            self.pending.append(&mut stream.take());
        }
        if self.pending.is_empty() {
            return Ok(());
        }
        let shown = || self.shared.parts.part(&self.part, self.mark.file).display().to_string();
        let failed = |why: std::io::Error| format!("{} cannot be written: {why}", shown());
        if self.file.is_none() {
            self.file = Some(self.shared.parts.create(&self.part, self.mark.file)?);
            self.has_new_name = true;
        }
        let Some(file) = &self.file else { return Ok(()) };
        let mut packed = Vec::new();
        let bytes = match self.shared.parts.packing {
            Packing::Plain => &self.pending,
            packing @ (Packing::Gzip | Packing::Zstd) => {
                packing.pack(&self.pending, &mut packed).map_err(failed)?;
                &packed
            }
        };
        // At its place: what a write left that failed half-way, the next one covers.
        file.write_all_at(bytes, self.mark.bytes).map_err(failed)?;
        self.mark.bytes += bytes.len() as u64;
        self.pending.clear();
        Ok(())
    }

    /// Ends this file if it is large or old enough: the next rows go to another.
    fn roll(&mut self) {
        let Some(roll) = self.shared.roll else { return };
        let now = (self.shared.clock)();
        let is_large = roll.bytes.is_some_and(|bytes| self.mark.bytes >= bytes);
        let age = self.since.map(|since| now.saturating_sub(since));
        let is_old = roll.every.zip(age).is_some_and(|(every, age)| age >= every);
        if self.mark.bytes == 0 || !(is_large || is_old) {
            return;
        }
        self.sealed.push(self.mark.file);
        self.mark.file += 1;
        self.mark.bytes = 0;
        (self.file, self.stream, self.since) = (None, None, None);
    }
}

impl Writer for PartWriter {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), String> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.learn(batch)?;
        if self.since.is_none() && self.shared.roll.is_some_and(|roll| roll.every.is_some()) {
            self.since = Some((self.shared.clock)());
        }
        if self.format() == Format::Parquet {
            let stream = match &mut self.stream {
                Some(stream) => stream,
                None => self.stream.insert(Stream::new(batch.schema_ref())?),
            };
            stream.write(batch)?;
            self.pending.append(&mut stream.take());
        } else {
            let before = self.pending.len();
            let encoded = encode::encode(self.format(), batch, &mut self.pending);
            if encoded.is_err() {
                // All of a batch or nothing: its rows may come again one by one.
                self.pending.truncate(before);
                return encoded;
            }
        }
        if self.pending.len() >= WRITE_BYTES { self.flush() } else { Ok(()) }
    }

    fn prepare(&mut self, is_durable: bool) -> Result<Option<Bytes>, String> {
        self.flush()?;
        if self.mark.file == 1 && self.mark.bytes == 0 {
            return Ok(None);
        }
        if let (true, Some(file)) = (is_durable, &self.file) {
            let failed = |why: std::io::Error| {
                format!("{} is not safe on disk: {why}", self.shared.parts.path.display())
            };
            file.sync_data().map_err(failed)?;
            if self.has_new_name {
                self.shared.parts.sync_names().map_err(failed)?;
                self.has_new_name = false;
            }
        }
        self.roll();
        self.mark.to_bytes().map(Some)
    }

    fn committed(&mut self) -> Result<(), String> {
        for number in std::mem::take(&mut self.sealed) {
            self.shared.parts.show(&self.part, number, None, &self.mark.header)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use arrow::array::{ArrayRef, Int64Array};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_file_is_finished_when_it_is_old_enough() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("n.ndjson");
        let keys = json!({"path": path.to_str().unwrap(), "roll-every": "1m"});
        let now = Arc::new(AtomicU64::new(1_000));
        let shown = now.clone();
        let clock: Clock = Arc::new(move || Duration::from_secs(shown.load(Ordering::Relaxed)));
        let output = FileOutput::new(&Terms::new("job", "write", &keys), clock).unwrap();
        let column: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        let batch = RecordBatch::try_from_iter([("n", column)]).unwrap();
        let mut writer = output.open("p").unwrap();
        let mut commit = |rows: bool| {
            if rows {
                writer.write(&batch).unwrap();
            }
            writer.prepare(true).unwrap();
            writer.committed().unwrap();
            let finished = directory.path().join("n-p-000001.ndjson");
            std::fs::read_to_string(finished).map(|text| text.lines().count()).ok()
        };
        assert_eq!(commit(true), None);
        now.fetch_add(59, Ordering::Relaxed);
        assert_eq!(commit(true), None, "a second is missing");
        now.fetch_add(1, Ordering::Relaxed);
        assert_eq!(commit(false), Some(2), "old enough, without news");
    }

    /// Several who stay show at once what somebody wrote who is gone.
    #[test]
    fn many_may_show_the_same_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("n.ndjson");
        let keys = json!({"path": path.to_str().unwrap(), "roll-every": "1m"});
        let clock: Clock = Arc::new(|| Duration::ZERO);
        let output = FileOutput::new(&Terms::new("job", "write", &keys), clock).unwrap();
        let column: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        let batch = RecordBatch::try_from_iter([("n", column)]).unwrap();
        for round in 0..200 {
            let part = format!("p{round}");
            let mut writer = output.open(&part).unwrap();
            writer.write(&batch).unwrap();
            let mark = writer.prepare(false).unwrap().unwrap();
            let parts = [(part, mark)];
            let start = std::sync::Barrier::new(4);
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        start.wait();
                        assert_eq!(output.recover(&parts), Ok(()), "round {round}");
                    });
                }
            });
            let shown = directory.path().join(format!("n-p{round}-000001.ndjson"));
            assert_eq!(std::fs::read_to_string(shown).unwrap().lines().count(), 1);
        }
    }
}
