//! The columns of generated rows. Every value follows from the seed, the column and the row's
//! number.

use std::{io::Write, sync::Arc};

use arrow::{
    array::{
        ArrayRef, Float64Array, Int64Array, RecordBatch, RecordBatchOptions, StringBuilder,
        TimestampMicrosecondArray,
    },
    datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit},
};
use serde_json::{Map, Value};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::{Terms, format::column};

/// The most words of a text, and the largest vocabulary: more is a slip.
const WORDS_MAX: u64 = 1_000_000;

const HELP: &str = "write shape = { n = \"sequence\", user = { text = \"u{0..99999}\" }, status = { \
                    choice = [200, 404] }, bytes = { random = [100, 99999] }, ratio = \"random-float\", \
                    line = { words = 10, vocabulary = 50000 }, ts = { timestamp = \
                    \"2026-01-01T00:00:00Z\", step = \"1ms\" }, due = \"due\" }";

/// What makes a column.
#[derive(Clone, Debug, PartialEq)]
enum Maker {
    /// The row's number.
    Sequence,
    /// A whole number from one to another, both included.
    Random(i64, i64),
    /// A number from 0 to 1.
    RandomFloat,
    /// Words, the common ones much more often: the r-th word has a share of about 1 / r.
    Words { n_words: u64, vocabulary: f64 },
    /// A text with gaps.
    Text(Vec<Piece>),
    /// One of some numbers.
    ChoiceOfInts(Vec<i64>),
    /// One of some texts.
    ChoiceOfTexts(Vec<String>),
    /// A time that goes on by the same step from row to row, in microseconds.
    Timestamp { begin: i64, step: i64 },
    /// When the row was due, if there is a rate.
    Due,
}

/// A piece of a text.
#[derive(Clone, Debug, PartialEq)]
enum Piece {
    Plain(String),
    /// `{n}`, the row's number.
    Number,
    /// `{0..99999}`, a number with as many digits as the larger end has, if that end has zeros first.
    Random {
        from: u64,
        to: u64,
        digits: usize,
    },
}

#[derive(Clone, Debug, PartialEq)]
struct Column {
    seed: u64,
    maker: Maker,
}

/// What rows look like.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    schema: SchemaRef,
    columns: Arc<Vec<Column>>,
}

impl Shape {
    /// What a task says, or a single column `n` with the row's number.
    pub(super) fn read(shape: Option<&Value>, seed: u64) -> Result<Shape, String> {
        let numbers = || Map::from_iter([("n".to_owned(), Value::from("sequence"))]);
        let table = match shape {
            None | Some(Value::Null) => numbers(),
            Some(Value::String(name)) if name == "numbers" => numbers(),
            Some(Value::Object(table)) if !table.is_empty() => table.clone(),
            Some(other) => return Err(format!("shape is a table of columns, not {other}: {HELP}")),
        };
        let (mut fields, mut columns) = (Vec::new(), Vec::new());
        for (name, said) in &table {
            let maker = maker(said).map_err(|why| format!("shape, {name}: {why}"))?;
            fields.push(Field::new(name, maker.data_type(), false));
            columns.push(Column { seed: xxh3_64_with_seed(name.as_bytes(), seed), maker });
        }
        Ok(Shape { schema: Arc::new(Schema::new(fields)), columns: Arc::new(columns) })
    }

    /// The rows of these numbers.
    pub(super) fn batch(
        &self,
        rows: &(impl Iterator<Item = u64> + Clone),
        n_rows: usize,
        due: impl Fn(u64) -> u64 + Copy,
    ) -> Result<RecordBatch, String> {
        let made = |column: &Column| column.make(rows.clone(), n_rows, due);
        let arrays = self.columns.iter().map(made).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(n_rows));
        RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)
            .map_err(|why| why.to_string())
    }
}

fn maker(said: &Value) -> Result<Maker, String> {
    let wrong = || format!("{said} is nothing that can be made: {HELP}");
    match said {
        Value::String(name) => match name.as_str() {
            "sequence" => Ok(Maker::Sequence),
            "random-float" => Ok(Maker::RandomFloat),
            "due" => Ok(Maker::Due),
            _ => Err(wrong()),
        },
        Value::Object(table) => {
            let keys: Vec<&str> = table.keys().map(String::as_str).collect();
            let terms = Terms { keys: table.clone(), ..Terms::default() };
            match keys.as_slice() {
                ["random"] => random(&table["random"]).ok_or_else(wrong),
                ["text"] => text(terms.required_text("text", "u{0..99}")?),
                ["choice"] => choice(&table["choice"]).ok_or_else(wrong),
                ["words"] | ["vocabulary", "words"] => words(&terms),
                ["timestamp"] | ["step", "timestamp"] => timestamp(&terms),
                _ => Err(wrong()),
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => Err(wrong()),
    }
}

fn random(range: &Value) -> Option<Maker> {
    let range: Vec<i64> = range.as_array()?.iter().map(Value::as_i64).collect::<Option<_>>()?;
    match range.as_slice() {
        [from, to] if from <= to => Some(Maker::Random(*from, *to)),
        _ => None,
    }
}

fn choice(list: &Value) -> Option<Maker> {
    let list = list.as_array().filter(|list| !list.is_empty())?;
    let ints: Option<Vec<i64>> = list.iter().map(Value::as_i64).collect();
    let texts: Option<Vec<String>> =
        list.iter().map(|value| value.as_str().map(str::to_owned)).collect();
    ints.map(Maker::ChoiceOfInts).or(texts.map(Maker::ChoiceOfTexts))
}

fn words(terms: &Terms) -> Result<Maker, String> {
    let n_words = terms.number("words")?.unwrap_or(10);
    let vocabulary = terms.number("vocabulary")?.unwrap_or(50_000);
    if !(1..=WORDS_MAX).contains(&n_words) || !(1..=WORDS_MAX).contains(&vocabulary) {
        return Err(format!("words and vocabulary are between 1 and {WORDS_MAX}"));
    }
    Ok(Maker::Words { n_words, vocabulary: vocabulary as f64 })
}

fn timestamp(terms: &Terms) -> Result<Maker, String> {
    let text = terms.required_text("timestamp", "2026-01-01T00:00:00Z")?;
    let wrong = || format!("{text:?} is no time: write timestamp = \"2026-01-01T00:00:00Z\"");
    let begin = column::timestamp(text.as_bytes()).ok_or_else(wrong)?;
    let step = terms.duration("step")?.map_or(1_000, |step| step.as_micros());
    Ok(Maker::Timestamp { begin, step: i64::try_from(step).unwrap_or(i64::MAX) })
}

fn text(mut template: &str) -> Result<Maker, String> {
    let wrong = |gap: &str| {
        format!(
            "{{{gap}}} is no gap: write {{n}} for the row's number, or {{0..99}} for a random one"
        )
    };
    let mut pieces = Vec::new();
    while let Some(open) = template.find('{') {
        pieces.push(Piece::Plain(template[..open].into()));
        let close = template[open..].find('}').ok_or_else(|| wrong(&template[open + 1..]))?;
        let gap = &template[open + 1..open + close];
        template = &template[open + close + 1..];
        if gap == "n" {
            pieces.push(Piece::Number);
            continue;
        }
        let (from, to) = gap.split_once("..").ok_or_else(|| wrong(gap))?;
        let digits = if from.len() > 1 && from.starts_with('0') { from.len() } else { 0 };
        let parse = |text: &str| text.parse::<u64>().map_err(|_| wrong(gap));
        let (from, to) = (parse(from)?, parse(to)?);
        if from > to {
            return Err(wrong(gap));
        }
        pieces.push(Piece::Random { from, to, digits });
    }
    pieces.push(Piece::Plain(template.into()));
    Ok(Maker::Text(pieces))
}

/// A random number that follows from its place: well mixed, as splitmix64 mixes.
#[inline]
fn mixed(seed: u64, place: u64) -> u64 {
    let mut z = seed.wrapping_add(place.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// One of `n`, evenly enough for any `n` that fits.
#[inline]
fn below(random: u64, n: u128) -> u64 {
    ((u128::from(random) * n) >> 64) as u64
}

/// From 0, inclusive, to 1, exclusive.
#[inline]
fn unit(random: u64) -> f64 {
    (random >> 11) as f64 / (1_u64 << 53) as f64
}

#[inline]
fn between(random: u64, from: i64, to: i64) -> i64 {
    let n = (i128::from(to) - i128::from(from) + 1) as u128;
    (i128::from(from) + i128::from(below(random, n))) as i64
}

impl Maker {
    fn data_type(&self) -> DataType {
        match self {
            Maker::Sequence | Maker::Random(..) | Maker::ChoiceOfInts(_) => DataType::Int64,
            Maker::RandomFloat => DataType::Float64,
            Maker::Words { .. } | Maker::Text(_) | Maker::ChoiceOfTexts(_) => DataType::Utf8,
            Maker::Timestamp { .. } | Maker::Due => {
                DataType::Timestamp(TimeUnit::Microsecond, None)
            }
        }
    }
}

impl Column {
    fn make(
        &self,
        rows: impl Iterator<Item = u64>,
        n_rows: usize,
        due: impl Fn(u64) -> u64,
    ) -> ArrayRef {
        let at = |row| mixed(self.seed, row);
        match &self.maker {
            Maker::Sequence => {
                Arc::new(Int64Array::from(rows.map(|row| row as i64).collect::<Vec<_>>()))
            }
            Maker::Random(from, to) => {
                let values = rows.map(|row| between(at(row), *from, *to));
                Arc::new(Int64Array::from(values.collect::<Vec<_>>()))
            }
            Maker::RandomFloat => {
                Arc::new(Float64Array::from(rows.map(|row| unit(at(row))).collect::<Vec<_>>()))
            }
            Maker::ChoiceOfInts(list) => {
                let values = rows.map(|row| list[below(at(row), list.len() as u128) as usize]);
                Arc::new(Int64Array::from(values.collect::<Vec<_>>()))
            }
            Maker::Timestamp { begin, step } => {
                let value = |row: u64| begin.wrapping_add((row as i64).wrapping_mul(*step));
                let values = rows.map(value).collect::<Vec<_>>();
                Arc::new(TimestampMicrosecondArray::from(values))
            }
            Maker::Due => {
                let values = rows.map(|row| due(row) as i64).collect::<Vec<_>>();
                Arc::new(TimestampMicrosecondArray::from(values))
            }
            Maker::Words { .. } | Maker::Text(_) | Maker::ChoiceOfTexts(_) => {
                self.make_texts(rows, n_rows)
            }
        }
    }

    fn make_texts(&self, rows: impl Iterator<Item = u64>, n_rows: usize) -> ArrayRef {
        let mut texts = StringBuilder::with_capacity(n_rows, n_rows * 16);
        let mut text = Vec::new();
        for row in rows {
            text.clear();
            match &self.maker {
                Maker::Words { n_words, vocabulary } => {
                    for word in 0..*n_words {
                        if word > 0 {
                            text.push(b' ');
                        }
                        let random =
                            mixed(self.seed, row.wrapping_mul(*n_words).wrapping_add(word));
                        let rank = vocabulary.powf(unit(random)) as u64;
                        push_padded(&mut text, b'w', rank.saturating_sub(1), 5);
                    }
                }
                Maker::Text(pieces) => self.fill(pieces, row, &mut text),
                Maker::ChoiceOfTexts(list) => {
                    let place = below(mixed(self.seed, row), list.len() as u128);
                    text.extend_from_slice(list[place as usize].as_bytes());
                }
                Maker::Sequence
                | Maker::Random(..)
                | Maker::RandomFloat
                | Maker::ChoiceOfInts(_)
                | Maker::Timestamp { .. }
                | Maker::Due => {}
            }
            // Made of texts and digits.
            texts.append_value(std::str::from_utf8(&text).unwrap_or_default());
        }
        Arc::new(texts.finish())
    }

    fn fill(&self, pieces: &[Piece], row: u64, text: &mut Vec<u8>) {
        for (number, piece) in pieces.iter().enumerate() {
            // Writing to memory does not fail.
            let _ = match piece {
                Piece::Plain(plain) => text.write_all(plain.as_bytes()),
                Piece::Number => write!(text, "{row}"),
                Piece::Random { from, to, digits } => {
                    let random = mixed(self.seed.wrapping_add(number as u64 + 1), row);
                    let value = from + below(random, u128::from(to - from) + 1);
                    write!(text, "{value:0digits$}")
                }
            };
        }
    }
}

/// `w00042`: many times a second, so without the formatter.
fn push_padded(text: &mut Vec<u8>, mark: u8, value: u64, digits: usize) {
    let mut buffer = itoa::Buffer::new();
    let written = buffer.format(value).as_bytes();
    text.push(mark);
    text.extend(std::iter::repeat_n(b'0', digits.saturating_sub(written.len())));
    text.extend_from_slice(written);
}
