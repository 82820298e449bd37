//! The input `file`: files that are there, or that come and grow.
//!
//! Exactly once: a split is a range of bytes between ends of records, or of row groups, and its
//! position is the byte, or row, behind the last batch.

use ::parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use arrow::array::RecordBatch;
use bytes::Bytes;
use serde_json::Value;

use super::{
    super::{number_of, size},
    extent, format_of, said_format,
    source::{self, Header, Style},
    watch,
};
use crate::{
    Files, Format, Input, Terms, Type,
    format::{
        Packing, Records,
        blocks::Rows,
        csv::Csv,
        infer::{Found, Plan, Said},
        lines::Lines,
        ndjson::Ndjson,
        parquet,
    },
    input::{Read, Reader, Splits},
};

/// What it reads of a task.
pub(crate) const KEYS: &[&str] = &[
    "path",
    "format",
    "columns",
    "schema",
    "header",
    "delimiter",
    "split-bytes",
    "follow",
    "poll",
];

/// Pieces of this size are many enough for all peers, and few enough that cutting costs nothing.
const SPLIT_BYTES: u64 = 64_000_000;

/// A job with more files than this should name a directory less, or pack them.
const FILES_MAX: usize = 100_000;

/// Files, and how to read them.
pub(crate) struct FileInput {
    pub(super) disk: Files,
    paths: Vec<String>,
    said_format: Option<Format>,
    pub(super) said: Said,
    header: Header,
    delimiter: u8,
    pub(super) split_bytes: u64,
    /// How often to look for more.
    pub(super) poll: Option<std::time::Duration>,
}

/// A split, as it lies in the queue.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Split {
    pub(super) path: String,
    pub(super) format: Format,
    /// Bytes of what is unpacked, or row groups.
    pub(super) from: u64,
    /// To the end, if it is not known where that is.
    pub(super) to: Option<u64>,
    pub(super) plan: Option<Plan>,
    /// The names of the fields, for CSV.
    pub(super) header: Vec<String>,
    /// The file's number in the file system, if it may be renamed before it is read.
    pub(super) number: Option<u64>,
}

impl Split {
    pub(super) fn to_bytes(&self) -> Result<Bytes, String> {
        serde_json::to_vec(self).map(Bytes::from).map_err(|why| why.to_string())
    }
}

impl FileInput {
    pub(crate) fn new(terms: &Terms) -> Result<FileInput, String> {
        let said_format = said_format(terms)?;
        let said = said(terms)?;
        if said_format == Some(Format::Parquet) && !said.types.is_empty() {
            return Err("schema: a Parquet file says its types itself: leave it out".into());
        }
        if said_format == Some(Format::Lines) && !(said.types.is_empty() && said.columns.is_empty())
        {
            return Err("lines have the one column \"line\": leave columns and schema out".into());
        }
        let is_followed = terms.truth("follow")?.unwrap_or_default();
        let poll = terms.duration("poll")?.unwrap_or(watch::POLL);
        if poll.is_zero() {
            return Err("poll is at least 1ms: write poll = \"1s\"".into());
        }
        Ok(FileInput {
            disk: terms.files().clone(),
            paths: paths(terms)?,
            said_format,
            said,
            header: header(terms)?,
            delimiter: delimiter(terms)?,
            split_bytes: size(terms, "split-bytes")?.unwrap_or(SPLIT_BYTES).max(1),
            poll: is_followed.then_some(poll),
        })
    }

    /// The files there are now, in order. Those that were named must be there unless more may come.
    pub(super) fn files(&self) -> Result<Vec<String>, String> {
        let mut files = Vec::new();
        for path in &self.paths {
            let found = self.disk.expand(path, &|file| !source::is_hidden(file))?;
            if found.is_empty() && self.poll.is_none() {
                let from = match self.disk.are_confined() {
                    true => "the first directory for jobs",
                    false => "the working directory",
                };
                return Err(format!("there is no file {path} (seen from {from}): check path"));
            }
            files.extend(found);
            if files.len() > FILES_MAX {
                let why = "name fewer with path, or put small files together";
                return Err(format!("more than {FILES_MAX} files: {why}"));
            }
        }
        let mut seen = std::collections::HashSet::new();
        files.retain(|file| seen.insert(file.clone()));
        Ok(files)
    }

    pub(super) fn style(&self, files: &[String]) -> Result<Style, String> {
        let format = match files.first() {
            None => self.said_format.unwrap_or(Format::Lines),
            Some(first) => format_of(first, self.said_format)?,
        };
        for file in files {
            let other = format_of(file, self.said_format)?;
            if other != format {
                return Err(format!(
                    "{} is {} and {file} is {}: one task reads one format",
                    files[0],
                    format.name(),
                    other.name()
                ));
            }
        }
        Ok(Style { format, header: self.header.clone(), delimiter: self.delimiter })
    }

    /// Which columns are read. `None` if the format has no choice, or if there is no record yet.
    pub(super) fn plan(&self, style: &Style, files: &[String]) -> Result<Option<Plan>, String> {
        if !matches!(style.format, Format::Ndjson | Format::Csv) {
            return Ok(None);
        }
        if let Some(plan) = self.said.plan() {
            return Ok(Some(plan));
        }
        let mut found = Found::default();
        for file in files {
            if let Some(begin) = source::begin(&self.disk, file, style)? {
                source::look(&self.disk, file, style, &begin, self.poll.is_none(), &mut found)?;
            }
            if found.is_enough() {
                break;
            }
        }
        if found.is_empty() {
            return Ok(None);
        }
        self.said.plan_with(&found).map(Some)
    }

    fn all_splits(&self) -> Result<Vec<Split>, String> {
        let files = self.files()?;
        let style = self.style(&files)?;
        let plan = self.plan(&style, &files)?;
        let mut splits = Vec::new();
        for file in &files {
            splits.extend(self.splits_of(file, &style, plan.as_ref())?);
        }
        Ok(splits)
    }

    /// The splits of a file that no longer changes.
    pub(super) fn splits_of(
        &self,
        path: &str,
        style: &Style,
        plan: Option<&Plan>,
    ) -> Result<Vec<Split>, String> {
        let unread = |why: std::io::Error| format!("{path} cannot be read: {why}");
        let is_packed = Packing::of_path(path) != Packing::Plain;
        if style.format == Format::Parquet {
            return self.parquet_splits(path);
        }
        let Some(begin) = source::begin(&self.disk, path, style)? else { return Ok(Vec::new()) };
        if matches!(style.format, Format::Ndjson | Format::Csv) && plan.is_none() {
            // No record anywhere.
            return Ok(Vec::new());
        }
        if let (Format::Csv, Some(plan)) = (style.format, plan) {
            // A column that is not there is found now, and not by the peer that reads.
            let csv = Csv::new(plan, &begin.header, self.delimiter);
            csv.map_err(|why| format!("{path}: {why}"))?;
        }
        let ranges = if is_packed {
            vec![(begin.from, None)]
        } else {
            let to = self.disk.metadata(path).map_err(unread)?.len();
            let cut = source::cut(&self.disk, path, style, begin.from, to, self.split_bytes);
            cut.map_err(unread)?.into_iter().map(|(from, to)| (from, Some(to))).collect()
        };
        Ok(ranges
            .into_iter()
            .map(|(from, to)| Split {
                path: path.into(),
                format: style.format,
                from,
                to,
                plan: plan.cloned(),
                header: begin.header.clone(),
                number: None,
            })
            .collect())
    }

    fn parquet_splits(&self, path: &str) -> Result<Vec<Split>, String> {
        let file = self.disk.open(path).map_err(|why| why.to_string());
        let groups = file.and_then(|file| parquet::groups(file, &self.said.columns));
        let groups = groups.map_err(|why| format!("{path}: {why}"))?;
        let mut splits = Vec::new();
        let (mut from, mut bytes) = (0, 0);
        for (number, size) in groups.bytes.iter().enumerate() {
            bytes += size;
            let to = number as u64 + 1;
            if bytes >= self.split_bytes || number + 1 == groups.bytes.len() {
                splits.push(Split {
                    path: path.into(),
                    format: Format::Parquet,
                    from,
                    to: Some(to),
                    plan: None,
                    header: Vec::new(),
                    number: None,
                });
                (from, bytes) = (to, 0);
            }
        }
        Ok(splits)
    }

    fn records(&self, split: &Split) -> Result<Box<dyn Records>, String> {
        let plan = || split.plan.as_ref().ok_or("a split without its columns");
        Ok(match split.format {
            Format::Lines => Box::new(Lines::new()),
            Format::Ndjson => Box::new(Ndjson::new(plan()?)),
            Format::Csv => {
                let csv = Csv::new(plan()?, &split.header, self.delimiter);
                Box::new(csv.map_err(|why| format!("{}: {why}", split.path))?)
            }
            Format::Parquet => return Err("Parquet is not read by lines".into()),
        })
    }
}

impl Input for FileInput {
    fn is_endless(&self) -> bool {
        self.poll.is_some()
    }

    fn can_be_tried(&self) -> bool {
        true
    }

    fn rows_about(&self) -> Option<u64> {
        if self.poll.is_some() {
            return None;
        }
        let files = self.files().ok()?;
        let format = format_of(files.first()?, self.said_format).ok()?;
        let has_header = format == Format::Csv && self.header == Header::First;
        match format {
            Format::Lines | Format::Ndjson | Format::Csv => {
                extent::rows(&self.disk, &files, has_header)
            }
            Format::Parquet => None,
        }
    }

    fn check(&self) -> Result<(), String> {
        if self.poll.is_some() {
            return self.files().and_then(|files| self.style(&files)).map(|_| ());
        }
        self.all_splits().map(|_| ())
    }

    fn splits(&self, memory: Option<&[u8]>) -> Result<Splits, String> {
        if let Some(poll) = self.poll {
            return watch::splits(self, memory, poll);
        }
        let splits = self.all_splits()?.iter().map(Split::to_bytes).collect::<Result<_, _>>()?;
        Ok(Splits { splits, ..Splits::default() })
    }

    fn open(&self, split: &[u8], position: Option<&[u8]>) -> Result<Box<dyn Reader>, String> {
        let mut split: Split = serde_json::from_slice(split)
            .map_err(|why| format!("this is no split of a file: {why}"))?;
        if let Some(number) = split.number {
            split.path = watch::locate(&self.disk, &split.path, number)?;
        }
        let position = position.map(|at| number_of(at, &split.path)).transpose()?;
        if split.format == Format::Parquet {
            let columns = self.said.columns.clone();
            let n_read = position.unwrap_or_default();
            let disk = self.disk.clone();
            let (batches, rest) = (None, None);
            return Ok(Box::new(GroupReader { disk, split, columns, n_read, batches, rest }));
        }
        let records = self.records(&split)?;
        let from = position.unwrap_or(split.from);
        let blocks = source::open_at(&self.disk, &split.path, from, split.to);
        let blocks = blocks.map_err(|why| format!("{} cannot be read: {why}", split.path))?;
        let (disk, path, rows) = (self.disk.clone(), split.path, Rows { blocks, records });
        Ok(Box::new(TextReader { disk, path, rows }))
    }
}

/// Text that is being read.
struct TextReader {
    disk: Files,
    path: String,
    rows: Rows,
}

impl Reader for TextReader {
    fn read(&mut self, rows_max: usize) -> Result<Read, String> {
        let read = self.rows.read(rows_max, false);
        match read.map_err(|broken| source::complaint(&self.disk, &self.path, broken))? {
            Some((batch, position)) => Ok(Read::Batch(batch, Bytes::from(position.to_string()))),
            None => Ok(Read::End),
        }
    }
}

/// Row groups that are being read.
struct GroupReader {
    disk: Files,
    split: Split,
    columns: Vec<String>,
    n_read: u64,
    batches: Option<ParquetRecordBatchReader>,
    /// What was too much for one batch.
    rest: Option<RecordBatch>,
}

impl GroupReader {
    fn next(&mut self, rows_max: usize) -> Result<Option<RecordBatch>, String> {
        if let Some(rest) = self.rest.take() {
            return Ok(Some(rest));
        }
        let batches = match &mut self.batches {
            Some(batches) => batches,
            None => {
                let Split { path, from, to, .. } = &self.split;
                let groups = *from as usize..to.unwrap_or(*from) as usize;
                let file = self.disk.open(path).map_err(|why| why.to_string())?;
                let batches = parquet::read(file, &self.columns, groups, self.n_read, rows_max)?;
                self.batches.insert(batches)
            }
        };
        let Some(batch) = parquet::next(batches)? else { return Ok(None) };
        if self.columns.is_empty() {
            return Ok(Some(batch));
        }
        // The file has them in its own order.
        let places = self.columns.iter().map(|name| batch.schema_ref().index_of(name));
        let places = places.collect::<Result<Vec<_>, _>>().map_err(|why| why.to_string())?;
        batch.project(&places).map(Some).map_err(|why| why.to_string())
    }
}

impl Reader for GroupReader {
    fn read(&mut self, rows_max: usize) -> Result<Read, String> {
        let rows_max = rows_max.max(1);
        let next = self.next(rows_max).map_err(|why| format!("{}: {why}", self.split.path))?;
        let Some(mut batch) = next else { return Ok(Read::End) };
        if batch.num_rows() > rows_max {
            self.rest = Some(batch.slice(rows_max, batch.num_rows() - rows_max));
            batch = batch.slice(0, rows_max);
        }
        self.n_read += batch.num_rows() as u64;
        Ok(Read::Batch(batch, Bytes::from(self.n_read.to_string())))
    }
}

fn paths(terms: &Terms) -> Result<Vec<String>, String> {
    let paths: Vec<String> = match terms.keys.get("path") {
        Some(Value::Array(_)) => terms.texts("path")?.into_iter().map(str::to_owned).collect(),
        Some(_) | None => vec![terms.required_text("path", "logs/*.ndjson")?.to_owned()],
    };
    if paths.is_empty() || paths.iter().any(String::is_empty) {
        return Err("path is empty: write path = \"logs/*.ndjson\"".into());
    }
    let refused = paths.iter().find_map(|path| terms.files().check(path).err());
    if let Some(refused) = refused {
        return Err(format!("path: {refused}"));
    }
    Ok(paths)
}

/// What the task says about columns.
pub(crate) fn said(terms: &Terms) -> Result<Said, String> {
    Ok(Said { columns: columns(terms)?, types: types(terms)? })
}

fn columns(terms: &Terms) -> Result<Vec<String>, String> {
    let columns: Vec<String> = terms.texts("columns")?.into_iter().map(str::to_owned).collect();
    let mut seen = std::collections::HashSet::new();
    match columns.iter().find(|name| !seen.insert(name.as_str())) {
        Some(twice) => Err(format!("columns names {twice} twice: take one away")),
        None => Ok(columns),
    }
}

fn types(terms: &Terms) -> Result<Vec<(String, Type)>, String> {
    let wrong = "schema is a table of types: write schema = { bytes = \"int\", user = \"text\" }";
    let table = match terms.keys.get("schema") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Object(table)) => table,
        Some(_) => return Err(wrong.into()),
    };
    let kind = |(name, kind): (&String, &Value)| {
        let kind = Type::parse(kind.as_str().ok_or(wrong)?);
        Ok((name.clone(), kind.map_err(|why| format!("schema, {name}: {why}"))?))
    };
    table.iter().map(kind).collect()
}

fn header(terms: &Terms) -> Result<Header, String> {
    match terms.keys.get("header") {
        None | Some(Value::Null | Value::Bool(true)) => Ok(Header::First),
        Some(Value::Bool(false)) => Ok(Header::Numbers),
        Some(Value::Array(_)) => {
            let names = terms.texts("header")?.into_iter().map(str::to_owned);
            Ok(Header::Names(names.collect()))
        }
        Some(other) => Err(format!(
            "header is true, false or a list of names, not {other}: write header = [\"user\", \"bytes\"]"
        )),
    }
}

fn delimiter(terms: &Terms) -> Result<u8, String> {
    match terms.text("delimiter")?.map(str::as_bytes) {
        None => Ok(b','),
        Some([byte]) if byte.is_ascii() && !b"\"\r\n".contains(byte) => Ok(*byte),
        Some(_) => Err("delimiter is one character: write delimiter = \";\" or \"\\t\"".into()),
    }
}
