//! Types: what SQL calls them, which two can meet, and as what.
//!
//! Rules that users know: whole numbers widen to bigint, with a fraction they become double; a text
//! that stands in the query becomes what it is compared with; times without a zone, and with one, are
//! instants in UTC. A column of texts never becomes a number by itself.

#![expect(clippy::wildcard_enum_match_arm, reason = "Arrow has types that SQL has no name for")]

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, AsArray, Float64Array},
    compute::{CastOptions, cast_with_options},
    datatypes::{
        DECIMAL128_MAX_PRECISION, DataType, Float64Type, IntervalUnit, TimeUnit,
        TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
        TimestampSecondType,
    },
};

use super::value::Value;
use crate::partition;

/// How many digits an unsigned number of 64 bits can have.
const UINT64_DIGITS: u8 = 20;

pub(super) const TIMESTAMP: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// A type's name in SQL.
pub(super) fn name(data_type: &DataType) -> String {
    use DataType::*;
    match data_type {
        Utf8 | LargeUtf8 | Utf8View => "text".into(),
        Int8 => "tinyint".into(),
        Int16 => "smallint".into(),
        Int32 => "integer".into(),
        Int64 => "bigint".into(),
        UInt64 => "ubigint".into(),
        Float32 => "real".into(),
        Float64 => "double".into(),
        Boolean => "boolean".into(),
        Date32 | Date64 => "date".into(),
        Timestamp(_, _) => "timestamp".into(),
        Decimal128(digits, scale) => format!("decimal({digits},{scale})"),
        Interval(_) => "interval".into(),
        List(_) | LargeList(_) => "a list".into(),
        Struct(_) => "a struct".into(),
        Null => "null".into(),
        other => other.to_string(),
    }
}

/// The type of that name.
pub(super) fn of_name(named: &str) -> Result<DataType, String> {
    use DataType::*;
    let upper = named.to_uppercase();
    let (name, numbers) = match upper.split_once('(') {
        Some((name, rest)) => (name.trim(), rest.trim_end_matches(')')),
        None => (upper.as_str(), ""),
    };
    Ok(match name {
        "TINYINT" | "INT1" => Int8,
        "SMALLINT" | "INT2" | "INT16" => Int16,
        "INT" | "INTEGER" | "INT4" | "INT32" => Int32,
        "BIGINT" | "INT8" | "INT64" | "LONG" => Int64,
        "UTINYINT" | "UINT8" | "TINYINT UNSIGNED" => UInt8,
        "USMALLINT" | "UINT16" | "SMALLINT UNSIGNED" => UInt16,
        "UINTEGER" | "UINT32" | "INT UNSIGNED" | "INTEGER UNSIGNED" => UInt32,
        "UBIGINT" | "UINT64" | "BIGINT UNSIGNED" => UInt64,
        "REAL" | "FLOAT4" | "FLOAT32" => Float32,
        "DOUBLE" | "DOUBLE PRECISION" | "FLOAT" | "FLOAT8" | "FLOAT64" => Float64,
        "BOOLEAN" | "BOOL" => Boolean,
        "TEXT" | "VARCHAR" | "STRING" | "CHAR" | "CHARACTER VARYING" => Utf8,
        "BLOB" | "BYTEA" | "BINARY" | "VARBINARY" | "BYTES" => Binary,
        "DATE" => Date32,
        "TIME" => Time64(TimeUnit::Microsecond),
        "TIMESTAMP"
        | "DATETIME"
        | "TIMESTAMPTZ"
        | "TIMESTAMP WITH TIME ZONE"
        | "TIMESTAMP WITHOUT TIME ZONE" => TIMESTAMP,
        "INTERVAL" => Interval(IntervalUnit::MonthDayNano),
        "DECIMAL" | "NUMERIC" | "DEC" => decimal(numbers)?,
        _ => {
            return Err(format!(
                "there is no type {named}: write boolean, integer, bigint, ubigint, double, \
                 decimal(10,2), text, date or timestamp"
            ));
        }
    })
}

fn decimal(numbers: &str) -> Result<DataType, String> {
    let mut numbers = numbers.split(',').map(|it| it.trim().parse::<u8>());
    let (digits, scale) = match (numbers.next(), numbers.next()) {
        (Some(Ok(digits)), Some(Ok(scale))) => (digits, scale),
        (Some(Ok(digits)), None) => (digits, 0),
        (_, _) => (18, 3),
    };
    match (1..=DECIMAL128_MAX_PRECISION).contains(&digits) && scale <= digits {
        true => Ok(DataType::Decimal128(digits, scale as i8)),
        false => Err(format!("a decimal has 1 to {DECIMAL128_MAX_PRECISION} digits")),
    }
}

pub(super) fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

fn is_decimal(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Decimal128(_, _))
}

fn scale(data_type: &DataType) -> i8 {
    match data_type {
        DataType::Decimal128(_, scale) => *scale,
        _ => 0,
    }
}

/// Without dictionaries and zones, which no rule here tells apart.
pub(super) fn plain(value: &Value) -> Result<Value, String> {
    value.map(|array| {
        let array = partition::plain(array)?;
        Ok(match array.data_type() {
            DataType::Timestamp(_, Some(_)) => without_zone(&array),
            _ => array,
        })
    })
}

/// Instants are kept in UTC, whatever zone they are shown in.
fn without_zone(array: &ArrayRef) -> ArrayRef {
    macro_rules! strip {
        ($type:ty) => {
            Arc::new(array.as_primitive::<$type>().clone().with_timezone_opt(None::<&str>))
        };
    }
    match array.data_type() {
        DataType::Timestamp(TimeUnit::Second, _) => strip!(TimestampSecondType),
        DataType::Timestamp(TimeUnit::Millisecond, _) => strip!(TimestampMillisecondType),
        DataType::Timestamp(TimeUnit::Microsecond, _) => strip!(TimestampMicrosecondType),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => strip!(TimestampNanosecondType),
        _ => array.clone(),
    }
}

/// As another type; a value that does not fit is an error.
pub(super) fn strict(value: &Value, to: &DataType) -> Result<Value, String> {
    convert(value, to, false)
}

/// As another type; a value that does not fit is null if `is_try`.
pub(super) fn convert(value: &Value, to: &DataType, is_try: bool) -> Result<Value, String> {
    if value.data_type() == to {
        return Ok(value.clone());
    }
    let options = CastOptions { safe: is_try, ..CastOptions::default() };
    plain(value)?.map(|array| {
        let array = if to.is_integer() { rounded(array) } else { array.clone() };
        cast_with_options(&array, to, &options).map_err(|why| {
            let from = name(array.data_type());
            let to = name(to);
            format!("{from} to {to}: {why}; try_cast gives null instead")
        })
    })
}

/// A fraction becomes the nearest whole number, not the one towards zero.
fn rounded(array: &ArrayRef) -> ArrayRef {
    if !array.data_type().is_floating() {
        return array.clone();
    }
    let Ok(floats) = cast_with_options(array, &DataType::Float64, &CastOptions::default()) else {
        return array.clone();
    };
    let rounded: Float64Array = floats.as_primitive::<Float64Type>().unary(f64::round_ties_even);
    Arc::new(rounded)
}

/// The type as which two values can be compared, or be alternatives of each other.
pub(super) fn common(a: &Value, b: &Value) -> Result<DataType, String> {
    let (x, y) = (a.data_type(), b.data_type());
    match () {
        () if x.is_null() || y.is_null() => common_type(x, y),
        () if is_text(x) && is_text(y) => Ok(DataType::Utf8),
        () if is_text(x) && a.is_scalar() => Ok(y.clone()),
        () if is_text(y) && b.is_scalar() => Ok(x.clone()),
        () => common_type(x, y),
    }
}

fn common_type(x: &DataType, y: &DataType) -> Result<DataType, String> {
    use DataType::*;
    Ok(match (x, y) {
        (x, y) if x == y => x.clone(),
        (Null, other) | (other, Null) => other.clone(),
        (UInt64, other) | (other, UInt64) if other.is_signed_integer() => {
            Decimal128(UINT64_DIGITS, 0)
        }
        (UInt64, other) | (other, UInt64) if other.is_integer() => UInt64,
        (x, y) if x.is_integer() && y.is_integer() => Int64,
        (x, y) if x.is_floating() && y.is_numeric() || x.is_numeric() && y.is_floating() => Float64,
        (x, y) if is_decimal(x) && y.is_numeric() || x.is_numeric() && is_decimal(y) => {
            Decimal128(DECIMAL128_MAX_PRECISION, scale(x).max(scale(y)))
        }
        (Timestamp(x, _), Timestamp(y, _)) => Timestamp(*x.max(y), None),
        (Timestamp(unit, _), Date32 | Date64) | (Date32 | Date64, Timestamp(unit, _)) => {
            Timestamp(*unit, None)
        }
        (Date32, Date64) | (Date64, Date32) => Date32,
        (x, y) => {
            let (x, y) = (name(x), name(y));
            return Err(format!("{x} and {y} do not fit together: cast one, as in …::{y}"));
        }
    })
}

/// Both as the type in which they can meet.
pub(super) fn meet(a: &Value, b: &Value) -> Result<(Value, Value), String> {
    let (a, b) = (plain(a)?, plain(b)?);
    // The number in the query becomes as narrow as the column, not the column as wide as it.
    if let Some(narrowed) = narrowed(&b, &a) {
        return Ok((a, narrowed));
    }
    if let Some(narrowed) = narrowed(&a, &b) {
        return Ok((narrowed, b));
    }
    let to = common(&a, &b)?;
    Ok((strict(&a, &to)?, strict(&b, &to)?))
}

fn narrowed(number: &Value, column: &Value) -> Option<Value> {
    let (from, to) = (number.data_type(), column.data_type());
    let fits = number.is_scalar() && !column.is_scalar() && from.is_integer() && to.is_integer();
    let narrowed = if fits { convert(number, to, true).ok()? } else { return None };
    (narrowed.array().null_count() == number.array().null_count()).then_some(narrowed)
}

/// All as one type.
pub(super) fn alike(values: &[Value]) -> Result<Vec<Value>, String> {
    let values = values.iter().map(plain).collect::<Result<Vec<_>, _>>()?;
    let Some(first) = values.first() else { return Ok(values) };
    let mut to = first.clone();
    for value in &values[1..] {
        let data_type = common(&to, value)?;
        // Only the type matters from here on, and whether a text may give way.
        let is_literal = to.is_scalar() && value.is_scalar();
        let empty = arrow::array::new_null_array(&data_type, 1);
        to = if is_literal { Value::Scalar(empty) } else { Value::Array(empty) };
    }
    values.iter().map(|value| strict(value, to.data_type())).collect()
}
