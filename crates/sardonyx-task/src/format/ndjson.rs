//! NDJSON: a JSON object per line, read without making a tree of it.
//!
//! Records of one file mostly have the same keys in the same order. So the keys are remembered as
//! they are written, quotes and colon included, and the next one is guessed before it is read; only
//! a wrong guess is looked up. Values that no column wants are passed over, though not unread: what
//! is not JSON is an error wherever it stands.
//!
//! Of a key that comes twice in a record the last counts. A key that is not there is null.

use std::{collections::HashMap, sync::Arc};

use arrow::{
    array::RecordBatch,
    datatypes::{Field, Schema, SchemaRef},
};

use super::{
    Fault, Records, Unfit, bare_line,
    column::{Column, Type},
    infer::Plan,
    line_end,
    scan::{blank, nested_end, number_end, small_int, text_end, unescaped, value_end, word_end},
};

/// How many keys are remembered. Objects whose keys are data have any number of them; the rest
/// is looked up each time.
const KEYS_MAX: usize = 4096;

/// A key as it was first seen.
struct Key {
    /// `"key":`, to be compared with what comes.
    written: Box<[u8]>,
    column: Option<usize>,
}

/// NDJSON that is being read.
pub(crate) struct Ndjson {
    schema: SchemaRef,
    columns: Vec<Column>,
    /// Whether a key that is no column is an error.
    is_closed: bool,
    /// Which column has which name.
    names: HashMap<Box<[u8]>, usize>,
    /// In the order in which they first came, which is mostly that in which they come again.
    keys: Vec<Key>,
    numbers: HashMap<Box<[u8]>, usize>,
    n_rows: usize,
    /// Which key is likely next.
    next: usize,
}

impl Ndjson {
    pub(crate) fn new(plan: &Plan) -> Ndjson {
        let names = plan.columns.iter().enumerate();
        Ndjson {
            schema: schema(&plan.columns),
            columns: plan.columns.iter().map(|(_, kind)| Column::new(*kind)).collect(),
            is_closed: plan.is_closed,
            names: names.map(|(column, (name, _))| (name.as_bytes().into(), column)).collect(),
            keys: Vec::new(),
            numbers: HashMap::new(),
            n_rows: 0,
            next: 0,
        }
    }

    /// Reads one line; false if it is blank.
    fn line(&mut self, line: &[u8]) -> Result<bool, Fault> {
        let mut at = blank(line, 0);
        match line.get(at) {
            None => return Ok(false),
            Some(b'{') => at = blank(line, at + 1),
            Some(_) => return Err(Fault::new(at, "not a JSON object")),
        }
        self.next = 0;
        let mut n_filled = 0;
        if line.get(at) == Some(&b'}') {
            at += 1;
        } else {
            loop {
                let (column, value) = self.key(line, at)?;
                at = blank(line, value);
                at = match column {
                    None => value_end(line, at)?,
                    Some(column) => {
                        n_filled += self.make_room(column);
                        self.value(column, line, at)?
                    }
                };
                at = blank(line, at);
                match line.get(at) {
                    Some(b',') => at = blank(line, at + 1),
                    Some(b'}') => break at += 1,
                    Some(_) | None => {
                        return Err(Fault::new(at, "a value that is not followed by , or }"));
                    }
                }
            }
        }
        if blank(line, at) != line.len() {
            return Err(Fault::new(at, "something behind the object"));
        }
        self.n_rows += 1;
        if n_filled < self.columns.len() {
            let rows = self.n_rows;
            self.columns
                .iter_mut()
                .filter(|column| column.len() < rows)
                .for_each(Column::push_null);
        }
        Ok(true)
    }

    /// Forgets what an earlier key of the same name has put into the row; says how many columns are
    /// new in it.
    #[inline]
    fn make_room(&mut self, column: usize) -> usize {
        if self.columns[column].len() == self.n_rows {
            return 1;
        }
        self.columns[column].truncate(self.n_rows);
        0
    }

    /// Reads a key at `at`: its column, and where its value begins.
    #[inline]
    fn key(&mut self, line: &[u8], at: usize) -> Result<(Option<usize>, usize), Fault> {
        if let Some(key) = self.keys.get(self.next)
            && line[at..].starts_with(&key.written)
        {
            self.next += 1;
            return Ok((key.column, at + key.written.len()));
        }
        self.other_key(line, at)
    }

    /// A key that was not the one that was guessed.
    fn other_key(&mut self, line: &[u8], at: usize) -> Result<(Option<usize>, usize), Fault> {
        if line.get(at) != Some(&b'"') {
            return Err(Fault::new(at, "something where a key in quotes should be"));
        }
        let (end, is_escaped) = text_end(line, at + 1)?;
        let colon = blank(line, end + 1);
        if line.get(colon) != Some(&b':') {
            return Err(Fault::new(at, "a key that is not followed by a colon"));
        }
        let column = if is_escaped {
            self.names.get(unescaped(line, at + 1, end)?.as_bytes()).copied()
        } else {
            self.look_up(&line[at + 1..end])
        };
        if column.is_none() && self.is_closed {
            let name = String::from_utf8_lossy(&line[at + 1..end]).into_owned();
            return Err(Fault::new(at, unknown_key(&name)));
        }
        Ok((column, colon + 1))
    }

    /// The column of a key that is written without escapes. The key is remembered from now on, and
    /// what came behind it last time is the next guess.
    fn look_up(&mut self, name: &[u8]) -> Option<usize> {
        if let Some(number) = self.numbers.get(name) {
            self.next = number + 1;
            return self.keys[*number].column;
        }
        let column = self.names.get(name).copied();
        if self.keys.len() < KEYS_MAX {
            self.numbers.insert(name.into(), self.keys.len());
            let written = [&b"\""[..], name, b"\":"].concat().into();
            self.keys.push(Key { written, column });
            self.next = self.keys.len();
        }
        column
    }

    /// Reads the value at `at` into a column; says where it ends.
    #[inline]
    fn value(&mut self, column: usize, line: &[u8], at: usize) -> Result<usize, Fault> {
        let values = &mut self.columns[column];
        match line.get(at) {
            Some(b'"') => {
                let (end, is_escaped) = text_end(line, at + 1)?;
                let pushed = if is_escaped {
                    values.push_text(unescaped(line, at + 1, end)?.as_bytes())
                } else {
                    values.push_text(&line[at + 1..end])
                };
                pushed.map(|()| end + 1).map_err(|_| self.misfit(column, line, at, end + 1))
            }
            Some(b'-' | b'0'..=b'9') => {
                if values.kind() == Type::Int
                    && let Some((value, end)) = small_int(line, at)
                {
                    let pushed = values.push_int(value);
                    return pushed.map(|()| end).map_err(|_| self.misfit(column, line, at, end));
                }
                self.number_value(column, line, at)
            }
            Some(b'{' | b'[') => {
                let end = nested_end(line, at)?;
                self.json_text(column, line, at, end)
            }
            Some(b't' | b'f' | b'n') => self.word(column, line, at),
            Some(_) | None => value_end(line, at),
        }
    }

    fn number_value(&mut self, column: usize, line: &[u8], at: usize) -> Result<usize, Fault> {
        let (end, is_whole) = number_end(line, at)?;
        let text = std::str::from_utf8(&line[at..end]).unwrap_or_default();
        let values = &mut self.columns[column];
        let pushed = match values.kind() {
            Type::Text => values.push_text(text.as_bytes()).is_ok(),
            Type::Int if is_whole => text.parse().is_ok_and(|int| values.push_int(int).is_ok()),
            // A number that is too large for a float is infinite to Rust; to JSON it is no number.
            Type::Float => text
                .parse()
                .is_ok_and(|float: f64| float.is_finite() && values.push_float(float).is_ok()),
            Type::Int | Type::Bool | Type::Timestamp => false,
        };
        if pushed { Ok(end) } else { Err(self.misfit(column, line, at, end)) }
    }

    fn word(&mut self, column: usize, line: &[u8], at: usize) -> Result<usize, Fault> {
        let end = word_end(line, at)?;
        let values = &mut self.columns[column];
        match (line[at], values.kind()) {
            (b'n', _) => values.push_null(),
            (_, Type::Text) => return self.json_text(column, line, at, end),
            (word, _) => {
                let pushed = values.push_bool(word == b't');
                pushed.map_err(|_| self.misfit(column, line, at, end))?;
            }
        }
        Ok(end)
    }

    /// A value that is no text in a column of texts: as it is written.
    fn json_text(
        &mut self,
        column: usize,
        line: &[u8],
        at: usize,
        end: usize,
    ) -> Result<usize, Fault> {
        let values = &mut self.columns[column];
        let pushed = match values.kind() {
            Type::Text => values.push_text(&line[at..end]),
            Type::Int | Type::Float | Type::Bool | Type::Timestamp => Err(super::column::Misfit),
        };
        pushed.map(|()| end).map_err(|_| self.misfit(column, line, at, end))
    }

    fn misfit(&self, column: usize, line: &[u8], at: usize, end: usize) -> Fault {
        let name = self.schema.field(column).name();
        Fault::new(at, misfit(name, self.columns[column].kind(), &line[at..end]))
    }
}

/// What to say about a value that does not fit its column.
pub(crate) fn misfit(name: &str, kind: Type, value: &[u8]) -> String {
    const SHOWN_MAX: usize = 60;
    let value = String::from_utf8_lossy(value);
    let shown: String = value.chars().take(SHOWN_MAX).collect();
    let dots = if shown.len() < value.len() { "…" } else { "" };
    let kind = kind.name();
    format!(
        "{name} is {shown}{dots}, which is no {kind}: write schema = {{ {name} = \"text\" }}, or the type it has"
    )
}

fn unknown_key(name: &str) -> String {
    format!(
        "the key {name:?} is not in the first records, from which the columns were taken: write \
         columns = [\"…\"] to say which you want, or add it to schema = {{ {name} = \"text\" }}"
    )
}

/// Columns as Arrow has them.
pub(crate) fn schema(columns: &[(String, Type)]) -> SchemaRef {
    let fields: Vec<Field> =
        columns.iter().map(|(name, kind)| Field::new(name, kind.arrow(), true)).collect();
    Arc::new(Schema::new(fields))
}

/// The batch of columns that have grown to the same length.
pub(crate) fn batch(
    schema: &SchemaRef,
    columns: &mut [Column],
    n_rows: usize,
) -> Result<RecordBatch, Unfit> {
    // All of them, also behind one that fails: each is empty afterwards.
    let arrays: Vec<_> = columns.iter_mut().map(Column::finish).collect();
    let arrays = arrays.into_iter().collect::<Result<Vec<_>, _>>()?;
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(n_rows));
    RecordBatch::try_new_with_options(schema.clone(), arrays, &options)
        .map_err(|why| Unfit::Other(why.to_string()))
}

impl Records for Ndjson {
    fn take(&mut self, bytes: &[u8], is_last: bool, rows_max: usize) -> Result<usize, Fault> {
        let mut at = 0;
        while self.n_rows < rows_max && !self.is_full() {
            let Some(end) = line_end(&bytes[at..], is_last) else { break };
            let line = bare_line(&bytes[at..at + end]);
            self.line(line).map_err(|fault| Fault { at: at + fault.at, ..fault })?;
            at += end;
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
