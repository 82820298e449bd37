//! Operators: logic with three truths, comparison, arithmetic. Each picks a kernel of Arrow's.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, BooleanArray, new_null_array},
    compute::{self, kernels::cmp, kernels::numeric},
    datatypes::DataType,
    error::ArrowError,
};

use super::{
    coerce,
    value::{Texts, Value},
};

/// Which of two is how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Eq,
    NotEq,
    Lt,
    LtEq,
    Gt,
    GtEq,
    /// Like `NotEq`, but null is a value.
    Distinct,
    /// Like `Eq`, but null is a value.
    NotDistinct,
}

/// What is done with two numbers, or times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    /// With a fraction.
    Divide,
    /// Without one.
    DivideWhole,
    Remainder,
}

pub(super) fn compare(op: Comparison, a: &Value, b: &Value) -> Result<Value, String> {
    let (a, b) = coerce::meet(a, b)?;
    if a.data_type().is_nested() {
        let name = coerce::name(a.data_type());
        return Err(format!("{name} cannot be compared: compare its fields"));
    }
    if a.data_type().is_null() {
        // Neither has a type, so all are null.
        let (a, b) =
            (coerce::strict(&a, &DataType::Boolean)?, coerce::strict(&b, &DataType::Boolean)?);
        return compare(op, &a, &b);
    }
    let compared = match op {
        Comparison::Eq => cmp::eq(&a, &b),
        Comparison::NotEq => cmp::neq(&a, &b),
        Comparison::Lt => cmp::lt(&a, &b),
        Comparison::LtEq => cmp::lt_eq(&a, &b),
        Comparison::Gt => cmp::gt(&a, &b),
        Comparison::GtEq => cmp::gt_eq(&a, &b),
        Comparison::Distinct => cmp::distinct(&a, &b),
        Comparison::NotDistinct => cmp::not_distinct(&a, &b),
    };
    Ok(Value::from(&[&a, &b], Arc::new(compared.map_err(|why| why.to_string())?)))
}

pub(super) fn calculate(op: Arithmetic, a: &Value, b: &Value) -> Result<Value, String> {
    let (a, b) = numbers(op, &coerce::plain(a)?, &coerce::plain(b)?)?;
    let result = match op {
        Arithmetic::Add => numeric::add(&a, &b),
        Arithmetic::Subtract => numeric::sub(&a, &b),
        Arithmetic::Multiply => numeric::mul(&a, &b),
        Arithmetic::Divide | Arithmetic::DivideWhole => numeric::div(&a, &b),
        Arithmetic::Remainder => numeric::rem(&a, &b),
    };
    Ok(Value::from(&[&a, &b], result.map_err(explain)?))
}

#[expect(clippy::wildcard_enum_match_arm, reason = "Arrow's other errors speak for themselves")]
pub(super) fn explain(why: ArrowError) -> String {
    match why {
        ArrowError::DivideByZero => "division by zero: write nullif(…, 0) for null instead".into(),
        ArrowError::ArithmeticOverflow(_) => {
            "a number became too large: cast to double or decimal before".into()
        }
        other => other.to_string(),
    }
}

/// Both as the type in which is calculated.
fn numbers(op: Arithmetic, a: &Value, b: &Value) -> Result<(Value, Value), String> {
    let (x, y) = (a.data_type(), b.data_type());
    let refusal = || {
        let (x, y) = (coerce::name(x), coerce::name(y));
        format!("{x} and {y} cannot be calculated with: cast to a number, as in …::double")
    };
    if x.is_temporal() || y.is_temporal() {
        return times(a, b).ok_or_else(refusal);
    }
    let is_number = |it: &DataType| it.is_numeric() || it.is_null();
    if !is_number(x) || !is_number(y) {
        return Err(refusal());
    }
    let is_whole = |it: &DataType| it.is_integer() || it.is_null();
    let are_whole = is_whole(x) && is_whole(y);
    let to = if are_whole && op != Arithmetic::Divide {
        DataType::Int64
    } else if are_whole || x.is_floating() || y.is_floating() {
        DataType::Float64
    } else {
        // Decimals of different scales are what the kernels know.
        return Ok((as_decimal(a)?, as_decimal(b)?));
    };
    let fits = |value| {
        coerce::strict(value, &to)
            .map_err(|_| "a number is too large: cast it to double".to_owned())
    };
    Ok((fits(a)?, fits(b)?))
}

fn as_decimal(value: &Value) -> Result<Value, String> {
    match value.data_type().is_integer() || value.data_type().is_null() {
        true => coerce::strict(value, &DataType::Decimal128(20, 0)),
        false => Ok(value.clone()),
    }
}

/// Times and spans of time: a text in the query is the one or the other.
fn times(a: &Value, b: &Value) -> Option<(Value, Value)> {
    let is_span =
        |it: &Value| matches!(it.data_type(), DataType::Interval(_) | DataType::Duration(_));
    let is_time = |it: &Value| it.data_type().is_temporal() && !is_span(it);
    match (is_time(a), is_time(b)) {
        (true, true) => coerce::meet(a, b).ok(),
        (true, false) if is_span(b) => Some((a.clone(), b.clone())),
        (false, true) if is_span(a) => Some((a.clone(), b.clone())),
        (false, false) if is_span(a) && is_span(b) => Some((a.clone(), b.clone())),
        _ => None,
    }
}

pub(super) fn negate(value: &Value) -> Result<Value, String> {
    let value = match value.data_type() {
        it if it.is_integer() => coerce::strict(value, &DataType::Int64)?,
        it if it.is_null() => coerce::strict(value, &DataType::Int64)?,
        it if it.is_numeric() || matches!(it, DataType::Interval(_)) => value.clone(),
        other => return Err(format!("{} has no opposite", coerce::name(other))),
    };
    value.map(|array| numeric::neg(array).map_err(explain))
}

pub(super) fn not(value: &Value) -> Result<Value, String> {
    let truths = value.truths()?;
    let not = compute::not(&truths).map_err(|why| why.to_string())?;
    Ok(Value::from(&[value], Arc::new(not)))
}

/// Which way two truths are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Logic {
    And,
    Or,
}

/// False and null is false, true or null is true, the rest with null is null.
pub(super) fn join(op: Logic, a: &Value, b: &Value) -> Result<Value, String> {
    let (x, y) = (a.truths()?, b.truths()?);
    let n_rows = if a.is_scalar() { y.len() } else { x.len() };
    let as_rows = |truths: BooleanArray, is_scalar: bool| -> BooleanArray {
        match is_scalar && n_rows != 1 {
            false => truths,
            true if truths.is_null(0) => BooleanArray::new_null(n_rows),
            true => BooleanArray::from(vec![truths.value(0); n_rows]),
        }
    };
    let (x, y) = (as_rows(x, a.is_scalar()), as_rows(y, b.is_scalar()));
    let joined = match op {
        Logic::And => compute::and_kleene(&x, &y),
        Logic::Or => compute::or_kleene(&x, &y),
    };
    Ok(Value::from(&[a, b], Arc::new(joined.map_err(|why| why.to_string())?)))
}

pub(super) fn is_null(value: &Value) -> Result<Value, String> {
    value.map(|array| {
        let nulls = compute::is_null(array).map_err(|why| why.to_string())?;
        Ok(Arc::new(nulls) as ArrayRef)
    })
}

/// `is true`, `is false`: never null.
pub(super) fn is(wanted: bool, value: &Value) -> Result<Value, String> {
    let truths = value.truths()?;
    let is = truths.iter().map(|it| Some(it == Some(wanted))).collect::<BooleanArray>();
    Ok(Value::from(&[value], Arc::new(is)))
}

pub(super) fn like(ignores_case: bool, value: &Value, pattern: &Value) -> Result<Value, String> {
    Texts::of(value)?;
    Texts::of(pattern)?;
    let to = DataType::Utf8;
    let (value, pattern) = (coerce::strict(value, &to)?, coerce::strict(pattern, &to)?);
    let is_like = match ignores_case {
        true => compute::ilike(&value, &pattern),
        false => compute::like(&value, &pattern),
    };
    let is_like = is_like.map_err(|why| why.to_string())?;
    Ok(Value::from(&[&value, &pattern], Arc::new(is_like)))
}

/// Null where the two are equal.
pub(super) fn null_if(value: &Value, other: &Value) -> Result<Value, String> {
    let is_equal = compare(Comparison::Eq, value, other)?;
    let n_rows = is_equal.array().len();
    let truths = is_equal.truths()?;
    let values = if value.is_scalar() { value.spread(n_rows)? } else { value.array().clone() };
    let kept = match values.data_type().is_null() {
        true => new_null_array(&DataType::Null, n_rows),
        false => compute::nullif(&values, &truths).map_err(|why| why.to_string())?,
    };
    Ok(Value::from(&[value, other], kept))
}
