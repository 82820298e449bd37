//! One file of an input: where its rows begin, how it is cut, and what to say about a bad record.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::Path,
};

use crate::{
    Files, Format,
    format::{
        Packing,
        blocks::{BLOCK_BYTES, Blocks, Broken, line_of},
        csv,
        infer::{Found, INFER_BYTES_MAX},
    },
};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// How the fields of a CSV file are named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    /// By its first record.
    First,
    /// `column-1` and so on: it has no header.
    Numbers,
    /// By the job: it has no header.
    Names(Vec<String>),
}

/// How text is read.
#[derive(Clone, Debug)]
pub(crate) struct Style {
    pub(crate) format: Format,
    pub(crate) header: Header,
    pub(crate) delimiter: u8,
}

/// Where the rows of a text file begin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Begin {
    /// The position of the first row.
    pub(crate) from: u64,
    /// The names of the fields, for CSV.
    pub(crate) header: Vec<String>,
}

/// Opens a text file; positions are those of what is unpacked.
pub(crate) fn open(disk: &Files, path: &str) -> io::Result<Box<dyn Read + Send>> {
    Packing::of_path(path).unpack(disk.open(path)?)
}

/// Opens a text file from `from` on, up to `to`.
pub(crate) fn open_at(disk: &Files, path: &str, from: u64, to: Option<u64>) -> io::Result<Blocks> {
    let mut file = disk.open(path)?;
    match Packing::of_path(path) {
        Packing::Plain => {
            file.seek(SeekFrom::Start(from))?;
            let left = to.map(|to| to.saturating_sub(from));
            Ok(Blocks::new(Box::new(file), from, left))
        }
        packing @ (Packing::Gzip | Packing::Zstd) => {
            let mut blocks = Blocks::new(packing.unpack(file)?, 0, to);
            blocks.skip(from)?;
            Ok(blocks)
        }
    }
}

/// Finds where the rows begin; `None` if the header is not there yet, or nothing at all.
pub(crate) fn begin(disk: &Files, path: &str, style: &Style) -> Result<Option<Begin>, String> {
    let unread = |why: io::Error| format!("{path} cannot be read: {why}");
    let mut blocks = open_at(disk, path, 0, None).map_err(unread)?;
    while blocks.bytes().len() < BYTE_ORDER_MARK.len() && !blocks.is_last() {
        blocks.fill().map_err(unread)?;
    }
    if blocks.bytes().is_empty() {
        return Ok(None);
    }
    if blocks.bytes().starts_with(BYTE_ORDER_MARK) {
        blocks.advance(BYTE_ORDER_MARK.len());
    }
    let is_csv = style.format == Format::Csv;
    match &style.header {
        Header::Names(names) => {
            return Ok(Some(Begin { from: blocks.position(), header: names.clone() }));
        }
        Header::First | Header::Numbers if is_csv => {}
        Header::First | Header::Numbers => {
            return Ok(Some(Begin { from: blocks.position(), header: Vec::new() }));
        }
    }
    loop {
        let record = csv::record(blocks.bytes(), style.delimiter, blocks.is_last());
        match record.map_err(|fault| format!("{path} line 1: {}", fault.why))? {
            _ if blocks.bytes().is_empty() && blocks.is_last() => return Ok(None),
            Some((fields, end)) => {
                let has_end = blocks.bytes()[..end].ends_with(b"\n");
                if style.header == Header::First {
                    blocks.advance(end);
                    let names = fields.into_iter().map(Option::unwrap_or_default).collect();
                    // Without its end, it may be half of the header of a file that grows.
                    let begin = Begin { from: blocks.position(), header: names };
                    return Ok(has_end.then_some(begin));
                }
                let names = (1..=fields.len()).map(|number| format!("column-{number}"));
                return Ok(Some(Begin { from: blocks.position(), header: names.collect() }));
            }
            None => blocks.fill().map_err(unread)?,
        }
    }
}

/// Looks at the first records. Those without their line end count only if `is_whole`.
pub(crate) fn look(
    disk: &Files,
    path: &str,
    style: &Style,
    begin: &Begin,
    is_whole: bool,
    found: &mut Found,
) -> Result<(), String> {
    let unread = |why: io::Error| format!("{path} cannot be read: {why}");
    let mut blocks = open_at(disk, path, begin.from, None).map_err(unread)?;
    let mut enough = INFER_BYTES_MAX;
    loop {
        while blocks.bytes().len() < enough && !blocks.is_last() {
            blocks.fill().map_err(unread)?;
        }
        let is_last = blocks.is_last() && is_whole;
        let bytes = blocks.bytes();
        let seen = match style.format {
            Format::Ndjson => found.ndjson(bytes, is_last),
            Format::Csv => found.csv(bytes, is_last, &begin.header, style.delimiter),
            Format::Lines | Format::Parquet => Ok(()),
        };
        seen.map_err(|fault| at_line(disk, path, begin.from + fault.at as u64, &fault.why))?;
        if !found.is_empty() || blocks.is_last() {
            return Ok(());
        }
        // The first record is larger than what was to be looked at.
        enough *= 2;
    }
}

/// Cuts the rows of a plain text file from `from` to `to` into pieces of about `bytes_max`, at the
/// ends of records.
pub(crate) fn cut(
    disk: &Files,
    path: &str,
    style: &Style,
    from: u64,
    to: u64,
    bytes_max: u64,
) -> io::Result<Vec<(u64, u64)>> {
    let bytes_max = bytes_max.max(1);
    let mut ends = Vec::new();
    if to.saturating_sub(from) > bytes_max {
        let mut file = disk.open(path)?;
        if style.format == Format::Csv {
            file.seek(SeekFrom::Start(from))?;
            let cuts = csv::cuts(file.take(to - from), style.delimiter, bytes_max)?;
            ends.extend(cuts.into_iter().map(|cut| from + cut));
        } else {
            let mut last = from;
            while let Some(end) = line_end_behind(&mut file, last.saturating_add(bytes_max), to)? {
                ends.push(end);
                last = end;
            }
        }
    }
    ends.retain(|end| *end < to);
    ends.push(to);
    let mut pieces = Vec::new();
    let mut last = from;
    for end in ends.into_iter().filter(|end| *end > from) {
        pieces.push((last, end));
        last = end;
    }
    Ok(pieces)
}

/// The first place not before `wanted` that lies behind a line end, and before `to`.
fn line_end_behind(file: &mut File, wanted: u64, to: u64) -> io::Result<Option<u64>> {
    let mut at = wanted.saturating_sub(1);
    let mut block = vec![0; 64 << 10];
    file.seek(SeekFrom::Start(at))?;
    while at < to {
        let n = file.read(&mut block)?;
        if n == 0 {
            break;
        }
        if let Some(end) = memchr::memchr(b'\n', &block[..n]) {
            let end = at + end as u64 + 1;
            return Ok((end < to).then_some(end));
        }
        at += n as u64;
    }
    Ok(None)
}

/// The place behind the last whole record of a plain file between `from`, where one begins, and
/// `to`: what comes behind it is still being written.
pub(crate) fn whole_until(
    disk: &Files,
    path: &str,
    style: &Style,
    from: u64,
    to: u64,
) -> io::Result<u64> {
    let mut file = disk.open(path)?;
    if style.format == Format::Csv {
        file.seek(SeekFrom::Start(from))?;
        let cuts = csv::cuts(file.take(to - from), style.delimiter, 1)?;
        return Ok(cuts.last().map_or(from, |cut| from + cut));
    }
    let mut end = to;
    let mut block = vec![0; BLOCK_BYTES];
    while end > from {
        let begin = end.saturating_sub(BLOCK_BYTES as u64).max(from);
        let n = (end - begin) as usize;
        file.seek(SeekFrom::Start(begin))?;
        file.read_exact(&mut block[..n])?;
        if let Some(line) = memchr::memrchr(b'\n', &block[..n]) {
            return Ok(begin + line as u64 + 1);
        }
        end = begin;
    }
    Ok(from)
}

/// `PATH line N: why`.
fn at_line(disk: &Files, path: &str, position: u64, why: &str) -> String {
    match open(disk, path).and_then(|source| line_of(source, position)) {
        Ok((line, _)) => format!("{path} line {line}: {why}"),
        Err(_) => format!("{path} at byte {position}: {why}"),
    }
}

/// What to say when rows cannot be read.
pub(crate) fn complaint(disk: &Files, path: &str, broken: Broken) -> String {
    match broken {
        Broken::Record(position, why) => at_line(disk, path, position, &why),
        Broken::NotUtf8(from) => {
            let place = not_utf8_behind(disk, path, from).ok().flatten().unwrap_or(from);
            let why = "a text that is not UTF-8: convert the file, such as with iconv";
            at_line(disk, path, place, why)
        }
        Broken::Source(position, why) => {
            format!("{path} cannot be read behind byte {position}: {why}")
        }
        Broken::Other(why) => format!("{path}: {why}"),
    }
}

/// The first line from `from` on that is not UTF-8.
fn not_utf8_behind(disk: &Files, path: &str, from: u64) -> io::Result<Option<u64>> {
    let mut blocks = open_at(disk, path, from, None)?;
    loop {
        while let Some(end) = crate::format::line_end(blocks.bytes(), blocks.is_last()) {
            if std::str::from_utf8(&blocks.bytes()[..end]).is_err() {
                return Ok(Some(blocks.position()));
            }
            blocks.advance(end);
        }
        if blocks.is_last() {
            return Ok(None);
        }
        blocks.fill()?;
    }
}

/// Whether a name is that of a file that is still being made.
pub(crate) fn is_hidden(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy());
    name.is_none_or(|name| name.starts_with('.') || name.ends_with(".parts"))
}
