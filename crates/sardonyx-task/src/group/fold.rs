//! `sum`, `min` and `max`: one value for each group, null until there is one.
//!
//! Sums are computed in the widest type of their kind (64 bits, 38 digits), and a sum that does not
//! fit is an error: a wrong total is worse than none. Floats are compared by their total order, in
//! which NaN is largest.

use std::sync::Arc;

use arrow::{
    array::{
        Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray, PrimitiveArray,
        RecordBatch, StringArray, downcast_primitive, new_null_array,
    },
    compute::{CastOptions, cast_with_options},
    datatypes::{DECIMAL128_MAX_PRECISION, DataType, Decimal128Type},
};

use super::accumulator::{Accumulator, How};
use crate::partition;

/// What is done with two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Sum,
    Min,
    Max,
}

impl Op {
    fn name(self) -> &'static str {
        match self {
            Op::Sum => "sum",
            Op::Min => "min",
            Op::Max => "max",
        }
    }
}

/// An accumulator that learns its type from the first values it sees.
pub(super) struct Fold {
    op: Op,
    of: String,
    /// What values are cast to, and what is emitted.
    types: Option<(DataType, DataType)>,
    values: Box<dyn Values>,
}

impl Fold {
    pub(super) fn new(op: Op, of: &str) -> Fold {
        Fold { op, of: of.into(), types: None, values: Box::new(Nothing) }
    }

    /// The values as the type in which they are kept.
    fn fit(&mut self, column: &ArrayRef) -> Result<ArrayRef, String> {
        let column = partition::plain(column)?;
        if self.types.is_none() {
            let (kept, emitted) =
                types(self.op, column.data_type()).map_err(|why| self.at(&why))?;
            self.values = values(&kept).ok_or_else(|| self.at("this type is not for it"))?;
            self.types = Some((kept, emitted));
        }
        let Some((kept, _)) = &self.types else { return Ok(column) };
        if column.data_type() == kept {
            return Ok(column);
        }
        // A column of whole numbers may come wider, but not as texts or fractions.
        let same = types(self.op, column.data_type()).is_ok_and(|(now, _)| now == *kept);
        let is_whole = column.data_type().is_integer() && kept.is_integer();
        if !same && !is_whole && !column.data_type().is_null() {
            let now = column.data_type();
            return Err(self.at(&format!("it was {kept} and is now {now}: cast it to one type")));
        }
        strict(&column, kept).map_err(|why| self.at(&why))
    }

    /// Nulls without a type, and none was seen before: the type is left open.
    fn knows_nothing_of(&self, column: &ArrayRef) -> bool {
        self.types.is_none() && column.data_type().is_null()
    }

    fn at(&self, why: &str) -> String {
        format!("{}({}): {why}", self.op.name(), self.of)
    }
}

/// In which type values of this type are kept, and in which they are emitted.
fn types(op: Op, data_type: &DataType) -> Result<(DataType, DataType), String> {
    use DataType::*;
    let kept = match (op, data_type) {
        (_, Null) => Int64,
        (Op::Sum, it) if it.is_signed_integer() => Int64,
        (Op::Sum, it) if it.is_unsigned_integer() => UInt64,
        (Op::Sum, it) if it.is_floating() => Float64,
        (Op::Sum, Decimal32(_, scale) | Decimal64(_, scale) | Decimal128(_, scale)) => {
            Decimal128(DECIMAL128_MAX_PRECISION, *scale)
        }
        (Op::Sum, Duration(unit)) => Duration(*unit),
        (Op::Sum, other) => {
            return Err(format!("{other} cannot be summed: cast it to a number before"));
        }
        (_, Boolean) => return Ok((UInt8, Boolean)),
        (_, Utf8 | LargeUtf8 | Utf8View) => Utf8,
        (_, it) if it.is_primitive() => it.clone(),
        (_, other) => {
            return Err(format!("{other} has no order: take numbers, texts, truths or times"));
        }
    };
    Ok((kept.clone(), kept))
}

fn strict(column: &ArrayRef, to: &DataType) -> Result<ArrayRef, String> {
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(column, to, &strict).map_err(|why| why.to_string())
}

impl Accumulator for Fold {
    fn add(&mut self, batch: &RecordBatch, groups: &[u32], n_groups: usize) -> Result<(), String> {
        let column = partition::column(batch, &self.of)?.clone();
        if self.knows_nothing_of(&column) {
            return Ok(());
        }
        let column = self.fit(&column)?;
        self.values.add(self.op, &column, groups, n_groups).map_err(|why| self.at(&why))
    }

    fn save(&self, which: &[u32]) -> Result<Vec<ArrayRef>, String> {
        self.emit(which).map(|column| vec![column])
    }

    fn load(
        &mut self,
        saved: &[ArrayRef],
        groups: &[u32],
        n_groups: usize,
        how: How,
    ) -> Result<(), String> {
        if self.knows_nothing_of(&saved[0]) {
            return Ok(());
        }
        let column = self.fit(&saved[0])?;
        let done = match how {
            How::Replace => self.values.replace(&column, groups, n_groups),
            How::Merge => self.values.add(self.op, &column, groups, n_groups),
        };
        done.map_err(|why| self.at(&why))
    }

    fn emit(&self, which: &[u32]) -> Result<ArrayRef, String> {
        let Some((_, emitted)) = &self.types else {
            return Ok(new_null_array(&DataType::Null, which.len()));
        };
        let column = self.values.column(which).map_err(|why| self.at(&why))?;
        strict(&column, emitted).map_err(|why| self.at(&why))
    }
}

/// A value for each group, of some type.
trait Values: Send {
    fn add(
        &mut self,
        op: Op,
        column: &ArrayRef,
        groups: &[u32],
        n_groups: usize,
    ) -> Result<(), String>;

    /// The last value of each group, null included, is its value now.
    fn replace(&mut self, column: &ArrayRef, groups: &[u32], n_groups: usize)
    -> Result<(), String>;

    fn column(&self, which: &[u32]) -> Result<ArrayRef, String>;
}

fn values(data_type: &DataType) -> Option<Box<dyn Values>> {
    macro_rules! numbers {
        ($type:ty, $data_type:expr) => {
            Some(Box::new(Numbers::<$type> {
                data_type: $data_type.clone(),
                values: Vec::new(),
                is_there: Vec::new(),
            }))
        };
    }
    downcast_primitive! {
        data_type => (numbers, data_type),
        DataType::Utf8 => Some(Box::new(Texts::default())),
        _ => None
    }
}

/// Before the type is known.
struct Nothing;

impl Values for Nothing {
    fn add(&mut self, _: Op, _: &ArrayRef, _: &[u32], _: usize) -> Result<(), String> {
        Err("no type is known yet".into())
    }

    fn replace(&mut self, _: &ArrayRef, _: &[u32], _: usize) -> Result<(), String> {
        Err("no type is known yet".into())
    }

    fn column(&self, _: &[u32]) -> Result<ArrayRef, String> {
        Err("no type is known yet".into())
    }
}

struct Numbers<T: ArrowPrimitiveType> {
    data_type: DataType,
    values: Vec<T::Native>,
    is_there: Vec<bool>,
}

impl<T: ArrowPrimitiveType> Numbers<T> {
    fn resize(&mut self, n_groups: usize) {
        self.values.resize(n_groups, T::default_value());
        self.is_there.resize(n_groups, false);
    }

    fn fold(
        &mut self,
        column: &PrimitiveArray<T>,
        groups: &[u32],
        op: impl Fn(T::Native, T::Native) -> Result<T::Native, String>,
    ) -> Result<(), String> {
        let has_nulls = column.null_count() > 0;
        for (row, (value, group)) in column.values().iter().zip(groups).enumerate() {
            if has_nulls && column.is_null(row) {
                continue;
            }
            let group = *group as usize;
            let kept = &mut self.values[group];
            *kept = if self.is_there[group] { op(*kept, *value)? } else { *value };
            self.is_there[group] = true;
        }
        Ok(())
    }
}

impl<T: ArrowPrimitiveType> Values for Numbers<T> {
    fn add(
        &mut self,
        op: Op,
        column: &ArrayRef,
        groups: &[u32],
        n_groups: usize,
    ) -> Result<(), String> {
        self.resize(n_groups);
        let column = column.as_primitive_opt::<T>().ok_or("the type changed")?;
        let too_large = |_| format!("the sum does not fit {}: cast to a wider type", T::DATA_TYPE);
        match op {
            Op::Sum => self.fold(column, groups, |a, b| a.add_checked(b).map_err(too_large)),
            Op::Min => self.fold(column, groups, |a, b| Ok(if b.is_lt(a) { b } else { a })),
            Op::Max => self.fold(column, groups, |a, b| Ok(if b.is_gt(a) { b } else { a })),
        }
    }

    fn replace(
        &mut self,
        column: &ArrayRef,
        groups: &[u32],
        n_groups: usize,
    ) -> Result<(), String> {
        self.resize(n_groups);
        let column = column.as_primitive_opt::<T>().ok_or("the type changed")?;
        for (value, group) in column.iter().zip(groups) {
            let group = *group as usize;
            self.is_there[group] = value.is_some();
            self.values[group] = value.unwrap_or_default();
        }
        Ok(())
    }

    fn column(&self, which: &[u32]) -> Result<ArrayRef, String> {
        let value = |group: &u32| {
            let group = *group as usize;
            self.is_there[group].then(|| self.values[group])
        };
        let column: PrimitiveArray<T> = which.iter().map(value).collect();
        let column: ArrayRef = Arc::new(column.with_data_type(self.data_type.clone()));
        if let Some(decimals) = column.as_primitive_opt::<Decimal128Type>() {
            let precision = decimals.precision();
            let fits = decimals.validate_decimal_precision(precision);
            fits.map_err(|_| format!("the result has more than {precision} digits"))?;
        }
        Ok(column)
    }
}

#[derive(Default)]
struct Texts {
    values: Vec<Option<Box<str>>>,
}

impl Values for Texts {
    fn add(
        &mut self,
        op: Op,
        column: &ArrayRef,
        groups: &[u32],
        n_groups: usize,
    ) -> Result<(), String> {
        self.values.resize(n_groups, None);
        let column = column.as_string_opt::<i32>().ok_or("the type changed")?;
        for (value, group) in column.iter().zip(groups) {
            let Some(value) = value else { continue };
            let kept = &mut self.values[*group as usize];
            let is_better = match (op, &kept) {
                (_, None) => true,
                (Op::Min, Some(kept)) => value < &**kept,
                (Op::Max, Some(kept)) => value > &**kept,
                (Op::Sum, Some(_)) => return Err("texts cannot be summed".into()),
            };
            if is_better {
                *kept = Some(value.into());
            }
        }
        Ok(())
    }

    fn replace(
        &mut self,
        column: &ArrayRef,
        groups: &[u32],
        n_groups: usize,
    ) -> Result<(), String> {
        self.values.resize(n_groups, None);
        let column = column.as_string_opt::<i32>().ok_or("the type changed")?;
        for (value, group) in column.iter().zip(groups) {
            self.values[*group as usize] = value.map(Box::from);
        }
        Ok(())
    }

    fn column(&self, which: &[u32]) -> Result<ArrayRef, String> {
        let value = |group: &u32| self.values[*group as usize].as_deref();
        Ok(Arc::new(which.iter().map(value).collect::<StringArray>()))
    }
}
