//! Functions of texts. Positions count characters from 1, as SQL does.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, BooleanArray, Int64Array, StringBuilder},
    compute,
    datatypes::DataType,
};

use super::{
    call::Function,
    coerce,
    value::{Numbers, Texts, Value},
};

pub(super) const FUNCTIONS: &[Function] = &[
    Function("lower", 1, 1, |args, n| each(args, n, lower)),
    Function("upper", 1, 1, |args, n| each(args, n, upper)),
    Function("reverse", 1, 1, |args, n| {
        each(args, n, |text, out| text.chars().rev().for_each(|it| out.push(it)))
    }),
    Function("length", 1, 1, length),
    Function("char_length", 1, 1, length),
    Function("octet_length", 1, 1, |args, n| {
        let texts = Texts::of(&args[0])?;
        Ok(numbers(n, |row| Some(texts.get(row)?.len() as i64)))
    }),
    Function("substr", 2, 3, substr),
    Function("substring", 2, 3, substr),
    Function("left", 2, 2, |args, n| side(args, n, true)),
    Function("right", 2, 2, |args, n| side(args, n, false)),
    Function("trim", 1, 2, |args, n| trim(args, n, true, true)),
    Function("ltrim", 1, 2, |args, n| trim(args, n, true, false)),
    Function("rtrim", 1, 2, |args, n| trim(args, n, false, true)),
    Function("concat", 1, usize::MAX, concat),
    Function("concat_ws", 2, usize::MAX, concat_ws),
    Function("replace", 3, 3, replace),
    Function("split_part", 3, 3, split_part),
    Function("strpos", 2, 2, strpos),
    Function("starts_with", 2, 2, |args, _| tested(args, |a, b| compute::starts_with(a, b))),
    Function("ends_with", 2, 2, |args, _| tested(args, |a, b| compute::ends_with(a, b))),
    Function("contains", 2, 2, |args, _| tested(args, |a, b| compute::contains(a, b))),
];

/// Texts, one for each row, written straight into the column; `None` is null.
pub(super) fn texts(
    n_rows: usize,
    mut write: impl FnMut(usize, &mut String) -> Option<()>,
) -> ArrayRef {
    let mut column = StringBuilder::with_capacity(n_rows, n_rows * 8);
    let mut text = String::new();
    for row in 0..n_rows {
        text.clear();
        match write(row, &mut text) {
            Some(()) => column.append_value(&text),
            None => column.append_null(),
        }
    }
    Arc::new(column.finish())
}

fn numbers(n_rows: usize, number: impl Fn(usize) -> Option<i64>) -> ArrayRef {
    Arc::new((0..n_rows).map(number).collect::<Int64Array>())
}

fn each(
    args: &[Value],
    n_rows: usize,
    write: impl Fn(&str, &mut String),
) -> Result<ArrayRef, String> {
    let from = Texts::of(&args[0])?;
    Ok(texts(n_rows, |row, out| {
        write(from.get(row)?, out);
        Some(())
    }))
}

/// Most texts are ASCII, for which no table is needed.
pub(crate) fn lower(text: &str, out: &mut String) {
    match text.is_ascii() {
        true => {
            out.push_str(text);
            out.make_ascii_lowercase();
        }
        false => out.push_str(&text.to_lowercase()),
    }
}

fn upper(text: &str, out: &mut String) {
    match text.is_ascii() {
        true => {
            out.push_str(text);
            out.make_ascii_uppercase();
        }
        false => out.push_str(&text.to_uppercase()),
    }
}

fn length(args: &[Value], n_rows: usize) -> Result<ArrayRef, String> {
    if let DataType::List(_) | DataType::LargeList(_) = args[0].data_type() {
        let lengths = compute::kernels::length::length(args[0].array());
        let lengths = Value::Array(lengths.map_err(|why| why.to_string())?);
        return Ok(coerce::strict(&lengths, &DataType::Int64)?.array().clone());
    }
    let texts = Texts::of(&args[0])?;
    Ok(numbers(n_rows, |row| Some(texts.get(row)?.chars().count() as i64)))
}

/// The characters from `start` to before `end`, which may lie outside.
fn part(text: &str, start: i64, end: i64) -> &str {
    let place = |at: i64| match usize::try_from(at) {
        Ok(at) => text.char_indices().nth(at).map_or(text.len(), |(place, _)| place),
        Err(_) => 0,
    };
    match start < end {
        true => &text[place(start)..place(end)],
        false => "",
    }
}

fn substr(args: &[Value], n_rows: usize) -> Result<ArrayRef, String> {
    let from = Texts::of(&args[0])?;
    let start = Numbers::of(&args[1])?;
    let length = args.get(2).map(Numbers::of).transpose()?;
    Ok(texts(n_rows, |row, out| {
        let text = from.get(row)?;
        // Counted from the end if negative, as nearly everybody does it.
        let start = match start.get(row)? {
            start @ ..0 => (text.chars().count() as i64).saturating_add(start),
            start => start - 1,
        };
        let end = match &length {
            Some(length) => start.saturating_add(length.get(row)?.max(0)),
            None => i64::MAX,
        };
        out.push_str(part(text, start, end));
        Some(())
    }))
}

fn side(args: &[Value], n_rows: usize, is_left: bool) -> Result<ArrayRef, String> {
    let from = Texts::of(&args[0])?;
    let count = Numbers::of(&args[1])?;
    Ok(texts(n_rows, |row, out| {
        let text = from.get(row)?;
        let length = text.chars().count() as i64;
        // A negative count is how many are left out at the other side.
        let count = match count.get(row)? {
            count @ ..0 => length.saturating_add(count).max(0),
            count => count.min(length),
        };
        out.push_str(match is_left {
            true => part(text, 0, count),
            false => part(text, length - count, length),
        });
        Some(())
    }))
}

fn trim(args: &[Value], n_rows: usize, start: bool, end: bool) -> Result<ArrayRef, String> {
    let from = Texts::of(&args[0])?;
    let what = args.get(1).map(Texts::of).transpose()?;
    Ok(texts(n_rows, |row, out| {
        let mut text = from.get(row)?;
        let what = match &what {
            Some(what) => what.get(row)?,
            None => " ",
        };
        if start {
            text = text.trim_start_matches(|it| what.contains(it));
        }
        if end {
            text = text.trim_end_matches(|it| what.contains(it));
        }
        out.push_str(text);
        Some(())
    }))
}

/// Nulls are left out.
fn concat(args: &[Value], n_rows: usize) -> Result<ArrayRef, String> {
    let parts = args.iter().map(Texts::from_any).collect::<Result<Vec<_>, _>>()?;
    Ok(texts(n_rows, |row, out| {
        parts.iter().filter_map(|part| part.get(row)).for_each(|part| out.push_str(part));
        Some(())
    }))
}

/// `||`: null if one is.
pub(super) fn join(args: &[Value], n_rows: usize) -> Result<ArrayRef, String> {
    let parts = args.iter().map(Texts::from_any).collect::<Result<Vec<_>, _>>()?;
    Ok(texts(n_rows, |row, out| {
        for part in &parts {
            out.push_str(part.get(row)?);
        }
        Some(())
    }))
}

fn concat_ws(args: &[Value], n_rows: usize) -> Result<ArrayRef, String> {
    let between = Texts::of(&args[0])?;
    let parts = args[1..].iter().map(Texts::from_any).collect::<Result<Vec<_>, _>>()?;
    Ok(texts(n_rows, |row, out| {
        let between = between.get(row)?;
        for (at, part) in parts.iter().filter_map(|part| part.get(row)).enumerate() {
            if at > 0 {
                out.push_str(between);
            }
            out.push_str(part);
        }
        Some(())
    }))
}

fn replace(args: &[Value], n_rows: usize) -> Result<ArrayRef, String> {
    let (from, what, with) = (Texts::of(&args[0])?, Texts::of(&args[1])?, Texts::of(&args[2])?);
    Ok(texts(n_rows, |row, out| {
        let (text, what, with) = (from.get(row)?, what.get(row)?, with.get(row)?);
        if what.is_empty() {
            out.push_str(text);
            return Some(());
        }
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(what) {
            out.push_str(before);
            out.push_str(with);
            rest = after;
        }
        out.push_str(rest);
        Some(())
    }))
}

fn split_part(args: &[Value], n_rows: usize) -> Result<ArrayRef, String> {
    let (from, at) = (Texts::of(&args[0])?, Texts::of(&args[1])?);
    let which = Numbers::of(&args[2])?;
    if (0..n_rows).any(|row| which.get(row) == Some(0)) {
        return Err("counts parts from 1, or from the end with negative numbers".into());
    }
    Ok(texts(n_rows, |row, out| {
        let (text, at, which) = (from.get(row)?, at.get(row)?, which.get(row)?);
        let nth = (which.unsigned_abs() - 1) as usize;
        let part = match (at.is_empty(), which > 0) {
            (true, _) => (nth == 0).then_some(text),
            (false, true) => text.split(at).nth(nth),
            (false, false) => text.rsplit(at).nth(nth),
        };
        out.push_str(part.unwrap_or_default());
        Some(())
    }))
}

/// Where it begins, 0 if nowhere.
fn strpos(args: &[Value], n_rows: usize) -> Result<ArrayRef, String> {
    let (texts, what) = (Texts::of(&args[0])?, Texts::of(&args[1])?);
    Ok(numbers(n_rows, |row| {
        let text = texts.get(row)?;
        let place = text.find(what.get(row)?);
        Some(place.map_or(0, |place| text[..place].chars().count() as i64 + 1))
    }))
}

fn tested(
    args: &[Value],
    test: impl Fn(&Value, &Value) -> Result<BooleanArray, arrow::error::ArrowError>,
) -> Result<ArrayRef, String> {
    Texts::of(&args[0])?;
    Texts::of(&args[1])?;
    let to = DataType::Utf8;
    let (a, b) = (coerce::strict(&args[0], &to)?, coerce::strict(&args[1], &to)?);
    Ok(Arc::new(test(&a, &b).map_err(|why| why.to_string())?))
}
