//! CSV as RFC 4180 has it: fields in quotes may hold delimiters, line ends and doubled quotes.
//!
//! An empty field is null; a pair of quotes is an empty text. A quote in the middle of a field is a
//! character like any other. Lines that are empty are passed over.

use std::io::{self, Read};

use arrow::{array::RecordBatch, datatypes::SchemaRef};

use super::{
    Fault, Records, Unfit,
    column::Column,
    infer::Plan,
    ndjson::{batch, misfit, schema},
};

/// One field of a record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// As it stands there.
    Bare(&'a [u8]),
    /// Between quotes, without doubled ones.
    Quoted(&'a [u8]),
    /// Between quotes, with doubled ones.
    Doubled(&'a [u8]),
}

impl Value<'_> {
    /// Its text.
    pub(crate) fn bytes(&self) -> std::borrow::Cow<'_, [u8]> {
        match self {
            Value::Bare(bytes) | Value::Quoted(bytes) => (*bytes).into(),
            Value::Doubled(bytes) => undoubled(bytes).into(),
        }
    }
}

fn undoubled(bytes: &[u8]) -> Vec<u8> {
    let mut single = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(quote) = memchr::memchr(b'"', &bytes[at..]) {
        single.extend_from_slice(&bytes[at..=at + quote]);
        at += quote + 2;
    }
    single.extend_from_slice(bytes.get(at..).unwrap_or_default());
    single
}

/// What stands behind a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// Another field, from here on.
    Field(usize),
    /// Another record, from here on.
    Record(usize),
}

/// Reads the field at `at`; `None` if its end is not there.
pub(crate) fn field(
    bytes: &[u8],
    at: usize,
    delimiter: u8,
    is_last: bool,
) -> Result<Option<(Value<'_>, Then)>, Fault> {
    if bytes.get(at) == Some(&b'"') {
        return quoted_field(bytes, at, delimiter, is_last);
    }
    let Some(end) = memchr::memchr2(delimiter, b'\n', &bytes[at..]) else {
        let rest = super::bare_line(&bytes[at..]);
        return Ok(is_last.then_some((Value::Bare(rest), Then::Record(bytes.len()))));
    };
    let end = at + end;
    Ok(Some(if bytes[end] == delimiter {
        (Value::Bare(&bytes[at..end]), Then::Field(end + 1))
    } else {
        (Value::Bare(super::bare_line(&bytes[at..=end])), Then::Record(end + 1))
    }))
}

fn quoted_field(
    bytes: &[u8],
    at: usize,
    delimiter: u8,
    is_last: bool,
) -> Result<Option<(Value<'_>, Then)>, Fault> {
    let from = at + 1;
    let (mut end, mut is_doubled) = (from, false);
    loop {
        let Some(quote) = memchr::memchr(b'"', bytes.get(end..).unwrap_or_default()) else {
            let open = || Fault::new(at, "a quote that is never closed");
            return if is_last { Err(open()) } else { Ok(None) };
        };
        end += quote;
        match bytes.get(end + 1) {
            Some(b'"') => {
                is_doubled = true;
                end += 2;
            }
            None if !is_last => return Ok(None),
            Some(_) | None => break,
        }
    }
    let inside = &bytes[from..end];
    let value = if is_doubled { Value::Doubled(inside) } else { Value::Quoted(inside) };
    let then = match &bytes[end + 1..] {
        [] => Then::Record(end + 1),
        [first, ..] if *first == delimiter => Then::Field(end + 2),
        [b'\n', ..] => Then::Record(end + 2),
        [b'\r', b'\n', ..] => Then::Record(end + 3),
        [b'\r'] if is_last => Then::Record(end + 2),
        [b'\r'] => return Ok(None),
        [_, ..] => {
            let why = "something between a closing quote and the next field: double a quote that \
                       belongs to the text";
            return Err(Fault::new(end + 1, why));
        }
    };
    Ok(Some((value, then)))
}

/// The fields of a record as texts, and its length.
type Fields = (Vec<Option<String>>, usize);

/// The fields of the record at the front of `bytes`; `None` if its end is not there.
pub(crate) fn record(bytes: &[u8], delimiter: u8, is_last: bool) -> Result<Option<Fields>, Fault> {
    let mut fields = Vec::new();
    let mut at = 0;
    loop {
        let Some((value, then)) = field(bytes, at, delimiter, is_last)? else { return Ok(None) };
        let is_null = matches!(value, Value::Bare(b""));
        let text = String::from_utf8_lossy(&value.bytes()).into_owned();
        fields.push((!is_null).then_some(text));
        match then {
            Then::Field(next) => at = next,
            Then::Record(end) => return Ok(Some((fields, end))),
        }
    }
}

/// The length of the line end at `at`, if a record that begins there is an empty line.
fn empty_line(bytes: &[u8], at: usize) -> usize {
    match &bytes[at..] {
        [b'\n', ..] => 1,
        [b'\r', b'\n', ..] => 2,
        _ => 0,
    }
}

/// CSV that is being read.
pub(crate) struct Csv {
    schema: SchemaRef,
    columns: Vec<Column>,
    /// For each field of a record, its column.
    fields: Vec<Option<usize>>,
    delimiter: u8,
    n_rows: usize,
}

impl Csv {
    /// `header` has the names of the fields of this file.
    pub(crate) fn new(plan: &Plan, header: &[String], delimiter: u8) -> Result<Csv, String> {
        let place = |name: &String| plan.columns.iter().position(|(column, _)| column == name);
        let fields: Vec<_> = header.iter().map(place).collect();
        for (number, (name, _)) in plan.columns.iter().enumerate() {
            match fields.iter().filter(|field| **field == Some(number)).count() {
                1 => {}
                0 => {
                    let names = header.join(", ");
                    return Err(format!("there is no column {name}; there are {names}"));
                }
                _ => return Err(format!("the column {name} is there twice: name it otherwise")),
            }
        }
        let columns = plan.columns.iter().map(|(_, kind)| Column::new(*kind)).collect();
        Ok(Csv { schema: schema(&plan.columns), columns, fields, delimiter, n_rows: 0 })
    }

    /// Reads the record at the front; `None` if its end is not there. A record that is not whole may
    /// leave values behind, which the caller takes away.
    fn record(&mut self, bytes: &[u8], is_last: bool) -> Result<Option<usize>, Fault> {
        let mut at = 0;
        let mut number = 0;
        loop {
            let Some((value, then)) = field(bytes, at, self.delimiter, is_last)? else {
                return Ok(None);
            };
            let Some(column) = self.fields.get(number) else {
                let why = format!("more than the {} fields of the header", self.fields.len());
                return Err(Fault::new(0, why + &self.other_delimiter(bytes)));
            };
            if let Some(column) = column {
                self.push(*column, &value, at)?;
            }
            number += 1;
            match then {
                Then::Field(next) => at = next,
                Then::Record(end) if number == self.fields.len() => return Ok(Some(end)),
                Then::Record(_) => {
                    let why = format!("{number} fields where the header has {}", self.fields.len());
                    return Err(Fault::new(0, why));
                }
            }
        }
    }

    /// What to write if this looks like a file whose fields are separated by something else.
    fn other_delimiter(&self, bytes: &[u8]) -> String {
        let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let is_there = |(byte, _): &(u8, &str)| *byte != self.delimiter && line.contains(byte);
        let others = [(b';', ";"), (b'\t', "\\t"), (b'|', "|")];
        match others.into_iter().find(is_there).filter(|_| self.fields.len() == 1) {
            Some((_, shown)) => format!(": write delimiter = \"{shown}\"?"),
            None => String::new(),
        }
    }

    fn push(&mut self, column: usize, value: &Value<'_>, at: usize) -> Result<(), Fault> {
        let values = &mut self.columns[column];
        let pushed = match value {
            Value::Bare(b"") => {
                values.push_null();
                Ok(())
            }
            Value::Bare(bytes) | Value::Quoted(bytes) => values.push_written(bytes),
            Value::Doubled(bytes) => values.push_written(&undoubled(bytes)),
        };
        pushed.map_err(|_| {
            let kind = values.kind();
            Fault::new(at, misfit(self.schema.field(column).name(), kind, &value.bytes()))
        })
    }
}

impl Records for Csv {
    fn take(&mut self, bytes: &[u8], is_last: bool, rows_max: usize) -> Result<usize, Fault> {
        let mut at = 0;
        while self.n_rows < rows_max && at < bytes.len() && !self.is_full() {
            let empty = empty_line(bytes, at);
            if empty > 0 {
                at += empty;
                continue;
            }
            if !is_last && bytes[at..] == *b"\r" {
                break;
            }
            let taken = self.record(&bytes[at..], is_last);
            match taken.map_err(|fault| Fault { at: at + fault.at, ..fault })? {
                Some(end) => {
                    self.n_rows += 1;
                    at += end;
                }
                None => {
                    let rows = self.n_rows;
                    self.columns.iter_mut().for_each(|column| column.truncate(rows));
                    break;
                }
            }
        }
        Ok(at)
    }

    fn n_rows(&self) -> usize {
        self.n_rows
    }

    fn is_full(&self) -> bool {
        self.columns.iter().any(Column::is_full)
    }

    fn finish(&mut self) -> Result<RecordBatch, Unfit> {
        let n_rows = std::mem::take(&mut self.n_rows);
        batch(&self.schema, &mut self.columns, n_rows)
    }
}

/// Finds where records end, without reading them: how a file is cut into splits.
///
/// A line end ends a record unless it stands between quotes, and only the bytes before a place
/// tell; so this goes through the file once, from quote to quote.
pub(crate) struct Cutter {
    delimiter: u8,
    is_quoted: bool,
    /// The byte before the next one; a line end before the first.
    before: u8,
    /// A quote within quotes was the last byte: an end, or the first half of a doubled one.
    is_pending: bool,
}

impl Cutter {
    pub(crate) fn new(delimiter: u8) -> Cutter {
        Cutter { delimiter, is_quoted: false, before: b'\n', is_pending: false }
    }

    /// Goes through `bytes` and calls `end` with the place behind each line end that ends a record
    /// and does not lie before `wanted`; what `end` returns is wanted next.
    pub(crate) fn go(
        &mut self,
        bytes: &[u8],
        mut wanted: usize,
        mut end: impl FnMut(usize) -> usize,
    ) {
        let mut at = 0;
        while at < bytes.len() {
            if self.is_pending {
                self.is_pending = false;
                if bytes[at] == b'"' {
                    at += 1;
                    continue;
                }
                self.is_quoted = false;
                self.before = b'"';
            }
            let quote = memchr::memchr(b'"', &bytes[at..]).map(|quote| at + quote);
            let until = quote.unwrap_or(bytes.len());
            if self.is_quoted {
                self.is_pending = quote.is_some();
            } else {
                let mut from = at.max(wanted.saturating_sub(1));
                while from < until
                    && let Some(line) = memchr::memchr(b'\n', &bytes[from..until])
                {
                    wanted = end(from + line + 1);
                    from = (from + line + 1).max(wanted.saturating_sub(1));
                }
                let before = if until > at { bytes[until - 1] } else { self.before };
                let opens = before == self.delimiter || before == b'\n';
                self.is_quoted = quote.is_some() && opens;
                self.before = if quote.is_some() { b'"' } else { before };
            }
            at = until + usize::from(quote.is_some());
        }
    }
}

/// Where the records of `source` can be cut so that pieces have about `bytes_max` bytes: the places
/// behind records, without the beginning and the end.
pub(crate) fn cuts(mut source: impl Read, delimiter: u8, bytes_max: u64) -> io::Result<Vec<u64>> {
    let mut cutter = Cutter::new(delimiter);
    let mut cuts: Vec<u64> = Vec::new();
    let mut block = vec![0; super::blocks::BLOCK_BYTES];
    let mut before = 0_u64;
    loop {
        let n = source.read(&mut block)?;
        if n == 0 {
            return Ok(cuts);
        }
        // The first place that is far enough from the last cut, as seen from this block.
        let wanted = |cuts: &[u64]| {
            let place = cuts.last().copied().unwrap_or_default().saturating_add(bytes_max);
            usize::try_from(place.saturating_sub(before)).unwrap_or(usize::MAX)
        };
        cutter.go(&block[..n], wanted(&cuts), |end| {
            cuts.push(before + end as u64);
            wanted(&cuts)
        });
        before += n as u64;
    }
}
