//! How rows lie in files: text lines, NDJSON, CSV and Parquet, plain or packed.
//!
//! Reading text is two things: [`blocks`] brings bytes in blocks of bounded size and knows the
//! position, a [`Records`] makes rows of the whole records that it finds in them. So no format knows
//! about files, and each can be tried on any cut of its bytes.

pub(crate) mod blocks;
pub(crate) mod column;
pub(crate) mod csv;
pub(crate) mod encode;
pub(crate) mod infer;
pub(crate) mod lines;
pub(crate) mod ndjson;
pub(crate) mod packing;
pub(crate) mod parquet;
pub(crate) mod scan;

use arrow::array::RecordBatch;

pub(crate) use packing::Packing;

/// A form of rows in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// A text per line, in the column `line`.
    Lines,
    /// A JSON object per line.
    Ndjson,
    /// Comma-separated values, RFC 4180.
    Csv,
    /// Apache Parquet.
    Parquet,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 4] = [Format::Lines, Format::Ndjson, Format::Csv, Format::Parquet];

    /// As a job file writes it.
    pub fn name(self) -> &'static str {
        match self {
            Format::Lines => "lines",
            Format::Ndjson => "ndjson",
            Format::Csv => "csv",
            Format::Parquet => "parquet",
        }
    }

    /// Reads what a job file writes.
    pub fn parse(text: &str) -> Result<Format, String> {
        let found = Format::ALL.into_iter().find(|format| format.name() == text);
        found.ok_or_else(|| {
            let names: Vec<_> = Format::ALL.iter().map(|format| format.name()).collect();
            format!("there is no format {text:?}: write {}", names.join(", "))
        })
    }

    /// By the ending of a file's name, with that of its packing taken off.
    pub fn of_path(path: &str) -> Option<Format> {
        let path = Packing::of_path(path).bare(path);
        let (_, ending) = path.rsplit_once('.')?;
        match ending.to_ascii_lowercase().as_str() {
            "txt" | "text" | "log" | "lines" => Some(Format::Lines),
            "ndjson" | "jsonl" | "json" => Some(Format::Ndjson),
            "csv" => Some(Format::Csv),
            "parquet" => Some(Format::Parquet),
            _ => None,
        }
    }
}

/// Makes rows of bytes.
pub(crate) trait Records: Send {
    /// Takes whole records from the front of `bytes` until it holds `rows_max` rows, has enough bytes
    /// for a batch, or finds no whole record any more. Nothing comes behind `bytes` if `is_last`.
    /// Says how many bytes it took.
    fn take(&mut self, bytes: &[u8], is_last: bool, rows_max: usize) -> Result<usize, Fault>;

    /// How many rows it holds.
    fn n_rows(&self) -> usize;

    /// Whether it holds so many bytes that a batch should be made of them, whatever the rows.
    fn is_full(&self) -> bool;

    /// A batch of the rows it holds, which it then no longer holds.
    fn finish(&mut self) -> Result<RecordBatch, Unfit>;
}

/// What is wrong with a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Where, from the front of the bytes that were given.
    pub(crate) at: usize,
    /// In words that end a sentence beginning with the place.
    pub(crate) why: String,
}

impl Fault {
    pub(crate) fn new(at: usize, why: impl Into<String>) -> Fault {
        Fault { at, why: why.into() }
    }
}

/// Why rows make no batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// A text is not UTF-8; which one, only looking again tells.
    NotUtf8,
    /// Arrow says no.
    Other(String),
}

/// The length of the first line of `bytes` with its end, or `None` if its end is not there.
pub(crate) fn line_end(bytes: &[u8], is_last: bool) -> Option<usize> {
    match memchr::memchr(b'\n', bytes) {
        Some(at) => Some(at + 1),
        None if is_last && !bytes.is_empty() => Some(bytes.len()),
        None => None,
    }
}

/// A line without its end.
pub(crate) fn bare_line(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests;
