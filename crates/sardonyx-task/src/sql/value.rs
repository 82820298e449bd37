//! What an expression is worth on a batch: a column, or one value for all rows.

#![expect(clippy::wildcard_enum_match_arm, reason = "Arrow has many more types")]

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, Datum, StringArray, UInt32Array},
    compute::{prep_null_mask_filter, take},
    datatypes::DataType,
};

use super::coerce;

/// A column, or a single value that stands for every row and is not spread out until it must.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Array(ArrayRef),
    Scalar(ArrayRef),
}

impl Datum for Value {
    fn get(&self) -> (&dyn Array, bool) {
        (self.array().as_ref(), self.is_scalar())
    }
}

impl Value {
    pub(super) fn array(&self) -> &ArrayRef {
        match self {
            Value::Array(array) | Value::Scalar(array) => array,
        }
    }

    pub(super) fn is_scalar(&self) -> bool {
        matches!(self, Value::Scalar(_))
    }

    pub(super) fn data_type(&self) -> &DataType {
        self.array().data_type()
    }

    /// The same, with another array: one value stays one value.
    pub(super) fn map(
        &self,
        with: impl FnOnce(&ArrayRef) -> Result<ArrayRef, String>,
    ) -> Result<Value, String> {
        Ok(match self {
            Value::Array(array) => Value::Array(with(array)?),
            Value::Scalar(array) => Value::Scalar(with(array)?),
        })
    }

    /// What was computed from `parts`: one value if all of them are.
    pub(super) fn from(parts: &[&Value], array: ArrayRef) -> Value {
        match parts.iter().all(|part| part.is_scalar()) {
            true => Value::Scalar(array),
            false => Value::Array(array),
        }
    }

    /// As a column of so many rows.
    pub(super) fn spread(&self, n_rows: usize) -> Result<ArrayRef, String> {
        match self {
            Value::Array(array) => Ok(array.clone()),
            Value::Scalar(array) => {
                let zeros = UInt32Array::from(vec![0; n_rows]);
                take(array, &zeros, None).map_err(|why| why.to_string())
            }
        }
    }

    /// As truths: null, true and false.
    pub(super) fn truths(&self) -> Result<BooleanArray, String> {
        let value = match self.data_type() {
            DataType::Boolean => self.clone(),
            DataType::Null => coerce::strict(self, &DataType::Boolean)?,
            other => {
                let name = coerce::name(other);
                return Err(format!("this must be true or false, but it is {name}: compare it"));
            }
        };
        Ok(value.array().as_boolean().clone())
    }
}

/// Null is no.
pub(super) fn known(truths: &BooleanArray) -> BooleanArray {
    match truths.null_count() {
        0 => truths.clone(),
        _ => prep_null_mask_filter(truths),
    }
}

/// Texts, row by row.
pub(super) struct Texts {
    array: StringArray,
    is_scalar: bool,
}

impl Texts {
    /// Texts as they are, anything else is refused: a number that is searched for letters is a slip.
    pub(super) fn of(value: &Value) -> Result<Texts, String> {
        let value = &coerce::plain(value)?;
        if !coerce::is_text(value.data_type()) && !value.data_type().is_null() {
            let name = coerce::name(value.data_type());
            return Err(format!("wants a text, not {name}: write …::text"));
        }
        Texts::from_any(value)
    }

    /// Anything as text.
    pub(super) fn from_any(value: &Value) -> Result<Texts, String> {
        let text = coerce::strict(value, &DataType::Utf8)?;
        Ok(Texts { array: text.array().as_string::<i32>().clone(), is_scalar: value.is_scalar() })
    }

    pub(super) fn get(&self, row: usize) -> Option<&str> {
        let row = if self.is_scalar { 0 } else { row };
        self.array.is_valid(row).then(|| self.array.value(row))
    }
}

/// Whole numbers, row by row.
pub(super) struct Numbers {
    array: arrow::array::Int64Array,
    is_scalar: bool,
}

impl Numbers {
    pub(super) fn of(value: &Value) -> Result<Numbers, String> {
        let value = &coerce::plain(value)?;
        if !value.data_type().is_integer() && !value.data_type().is_null() {
            let name = coerce::name(value.data_type());
            return Err(format!("wants a whole number, not {name}: write …::bigint"));
        }
        let number = coerce::strict(value, &DataType::Int64)?;
        let array = number.array().as_primitive().clone();
        Ok(Numbers { array, is_scalar: value.is_scalar() })
    }

    pub(super) fn get(&self, row: usize) -> Option<i64> {
        let row = if self.is_scalar { 0 } else { row };
        self.array.is_valid(row).then(|| self.array.value(row))
    }
}
