//! Functions of numbers. Whole numbers stay whole where the function does; the rest is double.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, Float64Array, Int64Array},
    compute::{kernels::cmp, kernels::zip::zip},
    datatypes::{DataType, Float64Type, Int64Type},
};

use super::{
    call::Function,
    coerce,
    operate::{self, Arithmetic},
    value::{Numbers, Value},
};

pub(super) const FUNCTIONS: &[Function] = &[
    Function("abs", 1, 1, abs),
    Function("sign", 1, 1, |args, _| whole_or(args, |it| Some(it.signum()), sign)),
    Function("floor", 1, 1, |args, _| whole_or(args, Some, f64::floor)),
    Function("ceil", 1, 1, |args, _| whole_or(args, Some, f64::ceil)),
    Function("ceiling", 1, 1, |args, _| whole_or(args, Some, f64::ceil)),
    Function("trunc", 1, 1, |args, _| whole_or(args, Some, f64::trunc)),
    Function("round", 1, 2, round),
    Function("mod", 2, 2, |args, _| {
        let rest = operate::calculate(Arithmetic::Remainder, &args[0], &args[1])?;
        Ok(rest.array().clone())
    }),
    Function("power", 2, 2, |args, n| two(args, n, f64::powf)),
    Function("pow", 2, 2, |args, n| two(args, n, f64::powf)),
    Function("sqrt", 1, 1, |args, _| float(args, f64::sqrt)),
    Function("exp", 1, 1, |args, _| float(args, f64::exp)),
    Function("ln", 1, 1, |args, _| float(args, f64::ln)),
    Function("log10", 1, 1, |args, _| float(args, f64::log10)),
    Function("greatest", 1, usize::MAX, |args, n| extreme(args, n, true)),
    Function("least", 1, usize::MAX, |args, n| extreme(args, n, false)),
];

fn sign(number: f64) -> f64 {
    if number == 0.0 || number.is_nan() { number } else { number.signum() }
}

fn floats(value: &Value) -> Result<Float64Array, String> {
    if !value.data_type().is_numeric() && !value.data_type().is_null() {
        let name = coerce::name(value.data_type());
        return Err(format!("wants a number, not {name}: write …::double"));
    }
    Ok(coerce::strict(value, &DataType::Float64)?.array().as_primitive::<Float64Type>().clone())
}

fn float(args: &[Value], function: impl Fn(f64) -> f64) -> Result<ArrayRef, String> {
    let result: Float64Array = floats(&args[0])?.unary(function);
    Ok(Arc::new(result))
}

fn whole_or(
    args: &[Value],
    whole: impl Fn(i64) -> Option<i64>,
    function: impl Fn(f64) -> f64,
) -> Result<ArrayRef, String> {
    if !args[0].data_type().is_integer() {
        return float(args, function);
    }
    let numbers = coerce::strict(&args[0], &DataType::Int64)?;
    let numbers = numbers.array().as_primitive::<Int64Type>();
    let result = numbers.try_unary::<_, Int64Type, String>(|it| {
        whole(it).ok_or_else(|| "is too large: cast it to double".into())
    })?;
    Ok(Arc::new(result))
}

fn abs(args: &[Value], _: usize) -> Result<ArrayRef, String> {
    whole_or(args, i64::checked_abs, f64::abs)
}

/// Halves go away from zero, as people round.
fn round(args: &[Value], n_rows: usize) -> Result<ArrayRef, String> {
    let Some(digits) = args.get(1) else { return whole_or(args, Some, f64::round) };
    let digits = Numbers::of(digits)?;
    let numbers = floats(&args[0])?;
    let is_scalar = args[0].is_scalar();
    let rounded = |row: usize| {
        let at = if is_scalar { 0 } else { row };
        let number = numbers.is_valid(at).then(|| numbers.value(at))?;
        let scale = 10f64.powi(digits.get(row)?.clamp(-300, 300) as i32);
        let rounded = (number * scale).round() / scale;
        Some(if rounded.is_finite() { rounded } else { number })
    };
    Ok(Arc::new((0..n_rows).map(rounded).collect::<Float64Array>()))
}

fn two(
    args: &[Value],
    n_rows: usize,
    function: impl Fn(f64, f64) -> f64,
) -> Result<ArrayRef, String> {
    let (a, b) = (floats(&args[0])?, floats(&args[1])?);
    let at = |value: &Value, row: usize| if value.is_scalar() { 0 } else { row };
    let result = |row: usize| {
        let (x, y) = (at(&args[0], row), at(&args[1], row));
        (a.is_valid(x) && b.is_valid(y)).then(|| function(a.value(x), b.value(y)))
    };
    Ok(Arc::new((0..n_rows).map(result).collect::<Float64Array>()))
}

/// The largest or the smallest; nulls are left out.
fn extreme(args: &[Value], n_rows: usize, is_largest: bool) -> Result<ArrayRef, String> {
    let values = coerce::alike(args)?;
    let mut result = values[0].spread(n_rows)?;
    for value in &values[1..] {
        let value = value.spread(n_rows)?;
        let is_better = match is_largest {
            true => cmp::gt(&value, &result),
            false => cmp::lt(&value, &result),
        };
        let is_better = is_better.map_err(|why| why.to_string())?;
        let takes =
            |row: usize| value.is_valid(row) && (result.is_null(row) || is_better.value(row));
        let mask = (0..n_rows).map(|row| Some(takes(row))).collect();
        result = zip(&mask, &value, &result).map_err(|why| why.to_string())?;
    }
    Ok(result)
}

/// Whole numbers of a column that may have them as any type.
pub(super) fn whole(value: &Value) -> Result<Int64Array, String> {
    Ok(coerce::strict(value, &DataType::Int64)?.array().as_primitive::<Int64Type>().clone())
}
