//! Rows to bytes: text lines, NDJSON and CSV.

use std::io::Write;

use arrow::{
    array::{
        Array, ArrayRef, AsArray, BooleanArray, ListArray, PrimitiveArray, RecordBatch, StructArray,
    },
    datatypes::{
        ArrowPrimitiveType, DataType, Field, Float32Type, Float64Type, Int8Type, Int16Type,
        Int32Type, Int64Type, Schema, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
    },
    util::display::{ArrayFormatter, FormatOptions},
};

use super::{Format, lines};

/// Writes a value of one column.
type Cell<'a> = Box<dyn Fn(usize, &mut Vec<u8>) -> Result<(), String> + 'a>;

/// How a column's values are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    /// As JSON: texts in quotes, nulls as `null`.
    Json,
    /// As it is, and without nulls.
    Bare,
}

/// Puts the rows of `batch` behind `out`.
pub(crate) fn encode(format: Format, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), String> {
    match format {
        Format::Lines => encode_lines(batch, out),
        Format::Ndjson => encode_ndjson(batch, out),
        Format::Csv => encode_csv(batch, out),
        Format::Parquet => Err("Parquet is not written row by row".into()),
    }
}

/// The first line of a CSV file.
pub(crate) fn csv_header(schema: &Schema) -> Vec<u8> {
    let mut header = Vec::new();
    for (number, field) in schema.fields().iter().enumerate() {
        if number > 0 {
            header.push(b',');
        }
        push_csv(field.name().as_bytes(), &mut header);
    }
    header.push(b'\n');
    header
}

fn encode_lines(batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), String> {
    let column = match (batch.column_by_name(lines::COLUMN), batch.columns()) {
        (Some(column), _) => column,
        (None, [column]) => column,
        (None, _) => {
            let names = names(batch);
            return Err(format!(
                "the format lines writes the column {}, or the only one; there are {names}: choose \
                 one, or write format = \"csv\" or \"ndjson\"",
                lines::COLUMN
            ));
        }
    };
    let cell = cell(column, Style::Bare)?;
    for row in 0..batch.num_rows() {
        let from = out.len();
        if column.is_valid(row) {
            cell(row, out)?;
        }
        if memchr::memchr2(b'\n', b'\r', &out[from..]).is_some() {
            return Err("a text with a line end is not one line: write format = \"ndjson\"".into());
        }
        out.push(b'\n');
    }
    Ok(())
}

fn names(batch: &RecordBatch) -> String {
    let schema = batch.schema();
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    names.join(", ")
}

fn encode_ndjson(batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), String> {
    let columns = members(batch.schema_ref().fields().iter(), batch.columns())?;
    for row in 0..batch.num_rows() {
        object(&columns, row, out)?;
        out.push(b'\n');
    }
    Ok(())
}

/// Keys as they are written, with the column they stand before.
type Members<'a> = Vec<(Vec<u8>, &'a ArrayRef, Cell<'a>)>;

fn members<'a>(
    fields: impl Iterator<Item = &'a std::sync::Arc<Field>>,
    columns: &'a [ArrayRef],
) -> Result<Members<'a>, String> {
    let member = |(field, column): (&std::sync::Arc<Field>, &'a ArrayRef)| {
        let mut key = Vec::new();
        push_json_text(field.name(), &mut key);
        key.push(b':');
        Ok((key, column, cell(column, Style::Json)?))
    };
    fields.zip(columns).map(member).collect()
}

fn object(members: &Members<'_>, row: usize, out: &mut Vec<u8>) -> Result<(), String> {
    out.push(b'{');
    for (number, (key, column, cell)) in members.iter().enumerate() {
        if number > 0 {
            out.push(b',');
        }
        out.extend_from_slice(key);
        if column.is_null(row) {
            out.extend_from_slice(b"null");
        } else {
            cell(row, out)?;
        }
    }
    out.push(b'}');
    Ok(())
}

fn encode_csv(batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), String> {
    let columns = batch.columns().iter().map(|column| Ok((column, cell(column, Style::Bare)?)));
    let columns: Vec<(&ArrayRef, Cell<'_>)> = columns.collect::<Result<_, String>>()?;
    let mut text = Vec::new();
    for row in 0..batch.num_rows() {
        let from = out.len();
        for (number, (column, cell)) in columns.iter().enumerate() {
            if number > 0 {
                out.push(b',');
            }
            if column.is_valid(row) {
                text.clear();
                cell(row, &mut text)?;
                push_csv(&text, out);
            }
        }
        if out.len() == from && !columns.is_empty() {
            // An empty line is no record: readers pass over it.
            out.extend_from_slice(b"\"\"");
        }
        out.push(b'\n');
    }
    Ok(())
}

/// A field, in quotes if it needs them. An empty text gets them, so that it is not taken for null.
fn push_csv(text: &[u8], out: &mut Vec<u8>) {
    let needs_quotes =
        text.is_empty() || text.iter().any(|byte| matches!(byte, b'"' | b',' | b'\n' | b'\r'));
    if !needs_quotes {
        out.extend_from_slice(text);
        return;
    }
    out.push(b'"');
    for part in text.split_inclusive(|byte| *byte == b'"') {
        out.extend_from_slice(part);
        if part.ends_with(b"\"") {
            out.push(b'"');
        }
    }
    out.push(b'"');
}

fn push_json_text(text: &str, out: &mut Vec<u8>) {
    let is_plain = !text.bytes().any(|byte| byte < 0x20 || byte == b'"' || byte == b'\\');
    if is_plain {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    } else {
        // Writing to memory, and of a text: neither can fail.
        let _ = serde_json::to_writer(&mut *out, text);
    }
}

/// How to write the values of `column`, of which none is null.
#[allow(
    clippy::wildcard_enum_match_arm,
    reason = "Arrow's types are not ours, and the rest is one case"
)]
fn cell(column: &ArrayRef, style: Style) -> Result<Cell<'_>, String> {
    use DataType as T;
    Ok(match column.data_type() {
        T::Int8 => int(column.as_primitive::<Int8Type>()),
        T::Int16 => int(column.as_primitive::<Int16Type>()),
        T::Int32 => int(column.as_primitive::<Int32Type>()),
        T::Int64 => int(column.as_primitive::<Int64Type>()),
        T::UInt8 => int(column.as_primitive::<UInt8Type>()),
        T::UInt16 => int(column.as_primitive::<UInt16Type>()),
        T::UInt32 => int(column.as_primitive::<UInt32Type>()),
        T::UInt64 => int(column.as_primitive::<UInt64Type>()),
        T::Float32 => float(column.as_primitive::<Float32Type>(), style),
        T::Float64 => float(column.as_primitive::<Float64Type>(), style),
        T::Boolean => truth(column.as_boolean()),
        T::Utf8 => {
            let column = column.as_string::<i32>();
            text(style, |row| column.value(row))
        }
        T::LargeUtf8 => {
            let column = column.as_string::<i64>();
            text(style, |row| column.value(row))
        }
        T::Utf8View => {
            let column = column.as_string_view();
            text(style, |row| column.value(row))
        }
        T::List(_) => list(column.as_list::<i32>())?,
        T::Struct(fields) => record(fields.iter(), column.as_struct())?,
        T::Null => Box::new(|_, out| {
            out.extend_from_slice(b"null");
            Ok(())
        }),
        _ => other(column, style)?,
    })
}

fn int<T: ArrowPrimitiveType<Native: itoa::Integer>>(column: &PrimitiveArray<T>) -> Cell<'_> {
    Box::new(|row, out| {
        out.extend_from_slice(itoa::Buffer::new().format(column.value(row)).as_bytes());
        Ok(())
    })
}

/// With all digits that are needed to read the same number again. JSON has no word for what is no
/// number.
fn float<T>(column: &PrimitiveArray<T>, style: Style) -> Cell<'_>
where
    T: ArrowPrimitiveType<Native: Into<f64> + std::fmt::Debug>,
{
    Box::new(move |row, out| {
        let value = column.value(row);
        let is_finite = value.into().is_finite();
        if style == Style::Json && !is_finite {
            out.extend_from_slice(b"null");
            return Ok(());
        }
        write!(out, "{value:?}").map_err(|why| why.to_string())
    })
}

fn truth(column: &BooleanArray) -> Cell<'_> {
    Box::new(|row, out| {
        out.extend_from_slice(if column.value(row) { b"true" } else { b"false" });
        Ok(())
    })
}

fn text<'a>(style: Style, value: impl Fn(usize) -> &'a str + 'a) -> Cell<'a> {
    match style {
        Style::Json => Box::new(move |row, out| {
            push_json_text(value(row), out);
            Ok(())
        }),
        Style::Bare => Box::new(move |row, out| {
            out.extend_from_slice(value(row).as_bytes());
            Ok(())
        }),
    }
}

fn list(column: &ListArray) -> Result<Cell<'_>, String> {
    let values = column.values();
    let cell = cell(values, Style::Json)?;
    Ok(Box::new(move |row, out| {
        let ends = column.value_offsets();
        out.push(b'[');
        for place in ends[row]..ends[row + 1] {
            if place > ends[row] {
                out.push(b',');
            }
            let place = place as usize;
            if values.is_null(place) {
                out.extend_from_slice(b"null");
            } else {
                cell(place, out)?;
            }
        }
        out.push(b']');
        Ok(())
    }))
}

fn record<'a>(
    fields: impl Iterator<Item = &'a std::sync::Arc<Field>>,
    column: &'a StructArray,
) -> Result<Cell<'a>, String> {
    let members = members(fields, column.columns())?;
    Ok(Box::new(move |row, out| object(&members, row, out)))
}

/// Times, decimals and whatever else Arrow has a text for.
fn other(column: &ArrayRef, style: Style) -> Result<Cell<'_>, String> {
    const OPTIONS: FormatOptions<'static> = FormatOptions::new().with_display_error(false);
    let formatter = ArrayFormatter::try_new(column, &OPTIONS).map_err(|why| why.to_string())?;
    Ok(Box::new(move |row, out| {
        let text = formatter.value(row).try_to_string().map_err(|why| why.to_string())?;
        match style {
            Style::Json => push_json_text(&text, out),
            Style::Bare => out.extend_from_slice(text.as_bytes()),
        }
        Ok(())
    }))
}
