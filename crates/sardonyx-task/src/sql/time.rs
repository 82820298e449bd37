//! Functions of times. All of them count in UTC, and none knows what time it is: a batch that is
//! computed again must come out the same.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, AsArray, Float64Array, TimestampMicrosecondArray},
    compute::{DatePart, date_part},
    datatypes::{DataType, TimestampMicrosecondType},
};

use super::{
    call::Function,
    coerce::{self, TIMESTAMP},
    node::{Body, Node},
    number,
    value::{Texts, Value},
};

pub(super) const FUNCTIONS: &[Function] = &[
    Function("to_timestamp", 1, 1, to_timestamp),
    Function("to_timestamp_millis", 1, 1, to_timestamp_millis),
    Function("date", 1, 1, |args, _| {
        Ok(coerce::strict(&args[0], &DataType::Date32)?.array().clone())
    }),
    Function("epoch", 1, 1, |args, _| epoch(&args[0])),
    Function("epoch_ms", 1, 1, |args, _| {
        let micros = micros(&args[0])?;
        let millis: arrow::array::Int64Array = micros.unary(|it| it.div_euclid(1000));
        Ok(Arc::new(millis))
    }),
];

/// Functions that take the name of a part, for suggestions.
pub(super) const NAMES: &[&str] = &["date_trunc", "date_part"];

const PARTS: &str = "year, quarter, month, week, day, hour, minute, second, millisecond, \
                     microsecond, dow, isodow, doy, epoch";

const DAY: i64 = 86_400_000_000;

/// `date_trunc('hour', t)` and `date_part('hour', t)`; `None` if it is neither.
pub(super) fn bind(name: &str, args: &[Node]) -> Option<Result<Node, String>> {
    let is_part = match name {
        "date_trunc" | "datetrunc" => false,
        "date_part" | "datepart" => true,
        _ => return None,
    };
    let ([part, time], Some(unit)) = (args, args.first().and_then(text)) else {
        return Some(Err(format!("{name} is written {name}('hour', time)")));
    };
    debug_assert!(part.constant().is_some());
    Some(if is_part { extract(&unit, time.clone()) } else { truncate(&unit, time.clone()) })
}

fn text(node: &Node) -> Option<String> {
    let array = node.constant()?;
    let texts = Texts::of(&Value::Scalar(array)).ok()?;
    texts.get(0).map(str::to_lowercase)
}

/// A time as microseconds since 1970.
fn micros(value: &Value) -> Result<TimestampMicrosecondArray, String> {
    let is_time = value.data_type().is_temporal() || value.data_type().is_null();
    // A text that stands in the query is a time if it reads like one.
    let is_literal = coerce::is_text(value.data_type()) && value.is_scalar();
    if !is_time && !is_literal {
        let name = coerce::name(value.data_type());
        return Err(format!("wants a time, not {name}: write to_timestamp(…)"));
    }
    let times = coerce::strict(value, &TIMESTAMP)?;
    Ok(times.array().as_primitive::<TimestampMicrosecondType>().clone())
}

/// `extract(hour from t)`.
pub(super) fn extract(unit: &str, time: Node) -> Result<Node, String> {
    let part = match unit {
        "epoch" => {
            let body: Arc<Body> = Arc::new(|args: &[Value], _| epoch(&args[0]));
            return Ok(Node::Call { name: "epoch", body, args: vec![time] });
        }
        "year" | "years" => DatePart::Year,
        "isoyear" => DatePart::YearISO,
        "quarter" => DatePart::Quarter,
        "month" | "months" => DatePart::Month,
        "week" | "weeks" | "isoweek" => DatePart::WeekISO,
        "day" | "days" => DatePart::Day,
        "dow" | "dayofweek" => DatePart::DayOfWeekSunday0,
        "isodow" => DatePart::DayOfWeekMonday1,
        "doy" | "dayofyear" => DatePart::DayOfYear,
        "hour" | "hours" => DatePart::Hour,
        "minute" | "minutes" => DatePart::Minute,
        "second" | "seconds" => DatePart::Second,
        "millisecond" | "milliseconds" => DatePart::Millisecond,
        "microsecond" | "microseconds" => DatePart::Microsecond,
        other => return Err(format!("a time has no {other}: it has {PARTS}")),
    };
    let body: Arc<Body> = Arc::new(move |args: &[Value], _| {
        let times = micros(&args[0])?;
        let parts = date_part(&times, part).map_err(|why| why.to_string())?;
        Ok(Arc::new(number::whole(&Value::Array(parts))?) as ArrayRef)
    });
    Ok(Node::Call { name: "date_part", body, args: vec![time] })
}

fn epoch(value: &Value) -> Result<ArrayRef, String> {
    let seconds: Float64Array = micros(value)?.unary(|it| it as f64 / 1e6);
    Ok(Arc::new(seconds))
}

fn truncate(unit: &str, time: Node) -> Result<Node, String> {
    let cut: fn(i64) -> i64 = match unit {
        "microsecond" | "microseconds" => |it| it,
        "millisecond" | "milliseconds" => |it| it - it.rem_euclid(1_000),
        "second" => |it| it - it.rem_euclid(1_000_000),
        "minute" => |it| it - it.rem_euclid(60_000_000),
        "hour" => |it| it - it.rem_euclid(3_600_000_000),
        "day" => |it| it - it.rem_euclid(DAY),
        // 1970 began on a Thursday; weeks begin on Monday.
        "week" => |it| it - (it + 3 * DAY).rem_euclid(7 * DAY),
        "month" => |it| month(it, 1),
        "quarter" => |it| month(it, 3),
        "year" => |it| month(it, 12),
        other => {
            return Err(format!(
                "there is no {other} to cut at: year, quarter, month, week, day, hour, minute, \
                 second or millisecond"
            ));
        }
    };
    let body: Arc<Body> = Arc::new(move |args: &[Value], _| {
        let cut: TimestampMicrosecondArray = micros(&args[0])?.unary(cut);
        Ok(Arc::new(cut) as ArrayRef)
    });
    Ok(Node::Call { name: "date_trunc", body, args: vec![time] })
}

/// The beginning of a span of so many months, counted from January.
fn month(micros: i64, n_months: i64) -> i64 {
    let (year, month) = year_and_month(micros.div_euclid(DAY));
    days(year, month - (month - 1) % n_months) * DAY
}

/// Days since 1970 to year and month: the years begin in March here, so that the day that some of
/// them have more is their last.
fn year_and_month(days: i64) -> (i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day = days.rem_euclid(146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month)
}

/// The first day of a month, since 1970.
fn days(year: i64, month: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let day = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + day - 719_468
}

/// A text is read; a number is seconds since 1970, with a fraction if it has one.
fn to_timestamp(args: &[Value], _: usize) -> Result<ArrayRef, String> {
    let value = coerce::plain(&args[0])?;
    if !value.data_type().is_numeric() {
        return Ok(coerce::strict(&value, &TIMESTAMP)?.array().clone());
    }
    let seconds = coerce::strict(&value, &DataType::Float64)?;
    let seconds = seconds.array().as_primitive::<arrow::datatypes::Float64Type>();
    // Whole seconds are exact in a double for longer than there will be calendars.
    let times = seconds.try_unary::<_, TimestampMicrosecondType, String>(|it| {
        let micros = (it * 1e6).round();
        let fits = micros.abs() < i64::MAX as f64;
        fits.then_some(micros as i64).ok_or_else(|| format!("cannot be at {it} seconds"))
    })?;
    Ok(Arc::new(times))
}

fn to_timestamp_millis(args: &[Value], _: usize) -> Result<ArrayRef, String> {
    let millis = number::whole(&args[0])?;
    let times = millis.try_unary::<_, TimestampMicrosecondType, String>(|it| {
        it.checked_mul(1000).ok_or_else(|| format!("cannot be at {it} milliseconds"))
    })?;
    Ok(Arc::new(times))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_months_agree() {
        let mut expected = (1900, 1);
        let mut first = days(1900, 1);
        assert_eq!(first, -25_567);
        for day in -25_567..40_000 {
            let (year, month) = year_and_month(day);
            if (year, month) != expected {
                assert!((year, month) > expected);
                expected = (year, month);
                first = day;
            }
            assert_eq!(days(year, month), first, "{year}-{month}");
        }
    }
}
