//! Columns that grow value by value, with a type that is known before.

use std::{str, sync::Arc};

use arrow::{
    array::{
        ArrayRef, BooleanArray, Float64Array, Int64Array, NullBufferBuilder, StringArray,
        TimestampMicrosecondArray,
    },
    buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer},
    compute::kernels::cast_utils::string_to_timestamp_nanos,
    datatypes::{DataType, TimeUnit},
};

use super::Unfit;

/// After so many bytes of text a batch is made, however few its rows: the places of an Arrow text
/// column have 32 bits, and a batch should fit in memory many times.
pub(crate) const TEXT_BYTES_MAX: usize = 16 << 20;

/// What a column of a text format holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Type {
    /// A whole number of 64 bits.
    Int,
    /// A number of 64 bits with a fraction.
    Float,
    /// True or false.
    Bool,
    /// A text. In NDJSON also anything else, as the JSON text that was found.
    Text,
    /// A time in UTC, in microseconds, read from texts such as `2026-01-31T12:00:00Z`.
    Timestamp,
}

impl Type {
    /// Reads what a job file writes.
    pub fn parse(text: &str) -> Result<Type, String> {
        Ok(match text {
            "int" | "int64" | "integer" | "bigint" => Type::Int,
            "float" | "float64" | "double" => Type::Float,
            "bool" | "boolean" => Type::Bool,
            "text" | "string" | "utf8" => Type::Text,
            "timestamp" => Type::Timestamp,
            _ => {
                return Err(format!(
                    "there is no type {text:?}: write int, float, bool, text or timestamp"
                ));
            }
        })
    }

    /// As a job file writes it.
    pub fn name(self) -> &'static str {
        match self {
            Type::Int => "int",
            Type::Float => "float",
            Type::Bool => "bool",
            Type::Text => "text",
            Type::Timestamp => "timestamp",
        }
    }

    /// As Arrow has it.
    pub fn arrow(self) -> DataType {
        match self {
            Type::Int => DataType::Int64,
            Type::Float => DataType::Float64,
            Type::Bool => DataType::Boolean,
            Type::Text => DataType::Utf8,
            Type::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
        }
    }
}

/// Texts, one behind the other.
#[derive(Debug)]
pub(crate) struct Text {
    ends: Vec<i32>,
    bytes: Vec<u8>,
}

impl Default for Text {
    fn default() -> Text {
        Text { ends: vec![0], bytes: Vec::new() }
    }
}

impl Text {
    #[inline]
    pub(crate) fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.end();
    }

    /// Ends a text whose bytes are there.
    #[inline]
    fn end(&mut self) {
        // One record has at most `RECORD_BYTES_MAX`, so this stays far below 31 bits.
        self.ends.push(self.bytes.len() as i32);
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.ends.len() - 1
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.bytes.len() >= TEXT_BYTES_MAX
    }

    fn truncate(&mut self, rows: usize) {
        self.ends.truncate(rows + 1);
        let end = self.ends.last().copied().unwrap_or_default();
        self.bytes.truncate(end as usize);
    }

    pub(crate) fn finish(&mut self, nulls: Option<NullBuffer>) -> Result<ArrayRef, Unfit> {
        let Text { ends, bytes } = std::mem::take(self);
        // The next batch is probably as large as this one.
        self.ends.reserve(ends.len());
        self.bytes.reserve(bytes.len());
        let ends = OffsetBuffer::new(ScalarBuffer::from(ends));
        // This looks at every byte, and also for characters that are cut by the end of a row. It has
        // nothing else to complain about: the ends only grow, and there is a null or none for each.
        let array = StringArray::try_new(ends, Buffer::from_vec(bytes), nulls);
        array.map(|array| Arc::new(array) as ArrayRef).map_err(|_| Unfit::NotUtf8)
    }
}

#[derive(Debug)]
enum Values {
    Int(Vec<i64>),
    Float(Vec<f64>),
    Bool(Vec<bool>),
    Text(Text),
    Timestamp(Vec<i64>),
}

/// A column that grows.
#[derive(Debug)]
pub(crate) struct Column {
    values: Values,
    nulls: NullBufferBuilder,
}

/// A value does not fit its column.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Misfit;

impl Column {
    pub(crate) fn new(kind: Type) -> Column {
        let values = match kind {
            Type::Int => Values::Int(Vec::new()),
            Type::Float => Values::Float(Vec::new()),
            Type::Bool => Values::Bool(Vec::new()),
            Type::Text => Values::Text(Text::default()),
            Type::Timestamp => Values::Timestamp(Vec::new()),
        };
        Column { values, nulls: NullBufferBuilder::new(1024) }
    }

    #[inline]
    pub(crate) fn kind(&self) -> Type {
        match self.values {
            Values::Int(_) => Type::Int,
            Values::Float(_) => Type::Float,
            Values::Bool(_) => Type::Bool,
            Values::Text(_) => Type::Text,
            Values::Timestamp(_) => Type::Timestamp,
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.nulls.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        matches!(&self.values, Values::Text(text) if text.is_full())
    }

    pub(crate) fn push_null(&mut self) {
        match &mut self.values {
            Values::Int(values) | Values::Timestamp(values) => values.push(0),
            Values::Float(values) => values.push(0.0),
            Values::Bool(values) => values.push(false),
            Values::Text(text) => text.end(),
        }
        self.nulls.append_null();
    }

    /// A whole number, for a column of numbers.
    #[inline]
    pub(crate) fn push_int(&mut self, value: i64) -> Result<(), Misfit> {
        match &mut self.values {
            Values::Int(values) => values.push(value),
            Values::Float(values) => values.push(value as f64),
            Values::Bool(_) | Values::Text(_) | Values::Timestamp(_) => return Err(Misfit),
        }
        self.nulls.append_non_null();
        Ok(())
    }

    pub(crate) fn push_float(&mut self, value: f64) -> Result<(), Misfit> {
        let Values::Float(values) = &mut self.values else { return Err(Misfit) };
        values.push(value);
        self.nulls.append_non_null();
        Ok(())
    }

    pub(crate) fn push_bool(&mut self, value: bool) -> Result<(), Misfit> {
        let Values::Bool(values) = &mut self.values else { return Err(Misfit) };
        values.push(value);
        self.nulls.append_non_null();
        Ok(())
    }

    /// A text, for a column of texts or times.
    #[inline]
    pub(crate) fn push_text(&mut self, text: &[u8]) -> Result<(), Misfit> {
        match &mut self.values {
            Values::Text(values) => values.push(text),
            Values::Timestamp(values) => values.push(timestamp(text).ok_or(Misfit)?),
            Values::Int(_) | Values::Float(_) | Values::Bool(_) => return Err(Misfit),
        }
        self.nulls.append_non_null();
        Ok(())
    }

    /// Whatever the column wants, written as a text: how CSV has it.
    pub(crate) fn push_written(&mut self, text: &[u8]) -> Result<(), Misfit> {
        match self.kind() {
            Type::Int => self.push_int(int(text).ok_or(Misfit)?),
            Type::Float => self.push_float(float(text).ok_or(Misfit)?),
            Type::Bool => self.push_bool(truth(text).ok_or(Misfit)?),
            Type::Text | Type::Timestamp => self.push_text(text),
        }
    }

    /// Forgets the rows behind `rows`.
    pub(crate) fn truncate(&mut self, rows: usize) {
        match &mut self.values {
            Values::Int(values) | Values::Timestamp(values) => values.truncate(rows),
            Values::Float(values) => values.truncate(rows),
            Values::Bool(values) => values.truncate(rows),
            Values::Text(text) => text.truncate(rows),
        }
        self.nulls.truncate(rows);
    }

    /// What it holds as an array; it is empty afterwards.
    pub(crate) fn finish(&mut self) -> Result<ArrayRef, Unfit> {
        let nulls = self.nulls.finish();
        Ok(match &mut self.values {
            Values::Int(values) => Arc::new(Int64Array::new(taken(values).into(), nulls)),
            Values::Float(values) => Arc::new(Float64Array::new(taken(values).into(), nulls)),
            Values::Bool(values) => Arc::new(BooleanArray::new(taken(values).into(), nulls)),
            Values::Text(text) => return text.finish(nulls),
            Values::Timestamp(values) => {
                Arc::new(TimestampMicrosecondArray::new(taken(values).into(), nulls))
            }
        })
    }
}

/// What is there, and room for as much again.
fn taken<T>(values: &mut Vec<T>) -> Vec<T> {
    let room = Vec::with_capacity(values.len());
    std::mem::replace(values, room)
}

/// A time as microseconds since 1970, in UTC unless it says otherwise.
pub(crate) fn timestamp(text: &[u8]) -> Option<i64> {
    let nanos = string_to_timestamp_nanos(str::from_utf8(text).ok()?).ok()?;
    Some(nanos.div_euclid(1_000))
}

pub(crate) fn int(text: &[u8]) -> Option<i64> {
    str::from_utf8(text).ok()?.parse().ok()
}

/// A number, not the words for what is none.
pub(crate) fn float(text: &[u8]) -> Option<f64> {
    let is_number =
        text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'));
    let words = ["nan", "NaN", "inf", "-inf", "Infinity", "-Infinity"];
    let text = str::from_utf8(text).ok()?;
    if is_number || words.contains(&text) { text.parse().ok() } else { None }
}

pub(crate) fn truth(text: &[u8]) -> Option<bool> {
    if text.eq_ignore_ascii_case(b"true") {
        Some(true)
    } else if text.eq_ignore_ascii_case(b"false") {
        Some(false)
    } else {
        None
    }
}
