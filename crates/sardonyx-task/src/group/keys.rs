//! The keys of groups: values of the group-by columns to group numbers, and back to columns.
//!
//! One text and one integer have ways of their own, because most jobs group by one of them; any
//! other choice goes through Arrow's row format, which makes bytes of several columns.

#![expect(clippy::wildcard_enum_match_arm, reason = "Arrow has many more types")]

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, Int64Array, StringArray},
    buffer::{NullBuffer, OffsetBuffer, ScalarBuffer},
    compute::{CastOptions, cast_with_options},
    datatypes::{DataType, Int64Type},
    row::{RowConverter, SortField},
};
use hashbrown::{HashTable, hash_table::Entry};
use xxhash_rust::xxh3::xxh3_64;

use super::{GROUPS_MAX, intern::Interner};
use crate::partition::{plain, refusal};

/// Which group each row belongs to.
pub(super) enum Keys {
    /// Nothing was seen yet, so the types are not known.
    Unknown,
    Text(Text),
    Integer(Integer),
    Rows(Rows),
}

#[derive(Default)]
pub(super) struct Text {
    interner: Interner,
    null: Option<u32>,
}

pub(super) struct Integer {
    data_type: DataType,
    table: HashTable<(i64, u32)>,
    values: Vec<i64>,
    null: Option<u32>,
}

pub(super) struct Rows {
    data_types: Vec<DataType>,
    converter: RowConverter,
    interner: Interner,
}

impl Keys {
    pub(super) fn len(&self) -> usize {
        match self {
            Keys::Unknown => 0,
            Keys::Text(text) => text.interner.len(),
            Keys::Integer(integer) => integer.values.len(),
            Keys::Rows(rows) => rows.interner.len(),
        }
    }

    /// The group of each row, new groups included, in `ids`.
    pub(super) fn intern(
        &mut self,
        columns: &[ArrayRef],
        ids: &mut Vec<u32>,
    ) -> Result<(), String> {
        ids.clear();
        let columns = columns.iter().map(normal).collect::<Result<Vec<_>, _>>()?;
        let n_rows = columns.first().map_or(0, |column| column.len());
        if self.len() + n_rows > GROUPS_MAX {
            return Err(format!(
                "a partition has at most {GROUPS_MAX} groups: raise partitions of the task"
            ));
        }
        if matches!(self, Keys::Unknown) {
            *self = Keys::of(&columns)?;
        }
        self.learn(&columns)?;
        match self {
            Keys::Unknown => {}
            Keys::Text(text) => text.intern(&fit(&columns[0], &DataType::Utf8)?, ids),
            Keys::Integer(integer) => {
                let column = fit(&columns[0], &integer.data_type)?;
                integer.intern(&fit(&column, &DataType::Int64)?, ids);
            }
            Keys::Rows(rows) => rows.intern(&columns, ids)?,
        }
        Ok(())
    }

    /// A key that was only ever null, without a type, gets its type when there is one. The groups
    /// keep their numbers.
    fn learn(&mut self, columns: &[ArrayRef]) -> Result<(), String> {
        let Keys::Rows(rows) = self else { return Ok(()) };
        let is_new = |(known, column): (&DataType, &ArrayRef)| {
            known.is_null() && !column.data_type().is_null()
        };
        if !rows.data_types.iter().zip(columns).any(is_new) {
            return Ok(());
        }
        let all: Vec<u32> = (0..self.len() as u32).collect();
        let mut known = self.columns(&all)?;
        for (known, column) in known.iter_mut().zip(columns) {
            if known.data_type().is_null() {
                *known = fit(known, column.data_type())?;
            }
        }
        let mut again = Keys::of(&known)?;
        again.intern(&known, &mut Vec::new())?;
        *self = again;
        Ok(())
    }

    /// The key columns of these groups.
    pub(super) fn columns(&self, which: &[u32]) -> Result<Vec<ArrayRef>, String> {
        match self {
            Keys::Unknown => Ok(Vec::new()),
            Keys::Text(text) => Ok(vec![text.column(which)?]),
            Keys::Integer(integer) => Ok(vec![integer.column(which)?]),
            Keys::Rows(rows) => rows.columns(which),
        }
    }

    fn of(columns: &[ArrayRef]) -> Result<Keys, String> {
        use DataType::*;
        let [column] = columns else { return Ok(Keys::Rows(Rows::of(columns)?)) };
        Ok(match column.data_type() {
            Utf8 => Keys::Text(Text::default()),
            Int8
            | Int16
            | Int32
            | Int64
            | UInt8
            | UInt16
            | UInt32
            | Date32
            | Date64
            | Timestamp(_, _) => Keys::Integer(Integer {
                data_type: column.data_type().clone(),
                table: HashTable::new(),
                values: Vec::new(),
                null: None,
            }),
            _ => Keys::Rows(Rows::of(columns)?),
        })
    }
}

/// Texts of all kinds as `Utf8`, dictionaries as their values: what groups do not tell apart.
fn normal(column: &ArrayRef) -> Result<ArrayRef, String> {
    let column = plain(column)?;
    match column.data_type() {
        DataType::LargeUtf8 | DataType::Utf8View => fit(&column, &DataType::Utf8),
        _ => Ok(column),
    }
}

/// As the type that the groups began with.
fn fit(column: &ArrayRef, to: &DataType) -> Result<ArrayRef, String> {
    if column.data_type() == to {
        return Ok(Arc::clone(column));
    }
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(column, to, &strict).map_err(|why| {
        let from = column.data_type();
        format!("a key was of type {to} and is now of type {from}: {why}; cast it before grouping")
    })
}

impl Text {
    fn intern(&mut self, column: &ArrayRef, ids: &mut Vec<u32>) {
        let column = column.as_string::<i32>();
        let values = column.value_data();
        let offsets = column.value_offsets();
        let interner = &mut self.interner;
        if column.null_count() == 0 {
            ids.extend(
                offsets
                    .windows(2)
                    .map(|it| interner.intern(values, it[0] as usize, it[1] as usize)),
            );
            return;
        }
        for (row, it) in offsets.windows(2).enumerate() {
            ids.push(match column.is_null(row) {
                true => *self.null.get_or_insert_with(|| interner.reserve()),
                false => interner.intern(values, it[0] as usize, it[1] as usize),
            });
        }
    }

    fn column(&self, which: &[u32]) -> Result<ArrayRef, String> {
        let mut bytes = Vec::new();
        let mut ends = Vec::with_capacity(which.len() + 1);
        ends.push(0);
        for id in which {
            bytes.extend_from_slice(self.interner.key(*id));
            let end = i32::try_from(bytes.len());
            ends.push(end.map_err(|_| "the keys of a partition exceed 2 GiB: raise partitions")?);
        }
        let nulls = nulls(which, self.null);
        let offsets = OffsetBuffer::new(ScalarBuffer::from(ends));
        let column = StringArray::try_new(offsets, bytes.into(), nulls);
        Ok(Arc::new(column.map_err(|why| why.to_string())?))
    }
}

impl Integer {
    fn intern(&mut self, column: &ArrayRef, ids: &mut Vec<u32>) {
        let column = column.as_primitive::<Int64Type>();
        let has_nulls = column.null_count() > 0;
        for (row, value) in column.values().iter().enumerate() {
            let id = match has_nulls && column.is_null(row) {
                true => self.null(),
                false => self.id(*value),
            };
            ids.push(id);
        }
    }

    fn id(&mut self, value: i64) -> u32 {
        let hash = |value: i64| xxh3_64(&value.to_le_bytes());
        let is_same = |it: &(i64, u32)| it.0 == value;
        match self.table.entry(hash(value), is_same, |it| hash(it.0)) {
            Entry::Occupied(found) => found.get().1,
            Entry::Vacant(place) => {
                let id = self.values.len() as u32;
                place.insert((value, id));
                self.values.push(value);
                id
            }
        }
    }

    fn null(&mut self) -> u32 {
        let values = &mut self.values;
        *self.null.get_or_insert_with(|| {
            values.push(0);
            values.len() as u32 - 1
        })
    }

    fn column(&self, which: &[u32]) -> Result<ArrayRef, String> {
        let values: Vec<i64> = which.iter().map(|id| self.values[*id as usize]).collect();
        let column = Int64Array::new(values.into(), nulls(which, self.null));
        let column: ArrayRef = Arc::new(column);
        fit(&column, &self.data_type)
    }
}

/// Which of these are not null.
fn nulls(which: &[u32], null: Option<u32>) -> Option<NullBuffer> {
    let null = null.filter(|null| which.contains(null))?;
    Some(which.iter().map(|id| *id != null).collect())
}

impl Rows {
    fn of(columns: &[ArrayRef]) -> Result<Rows, String> {
        let data_types: Vec<DataType> = columns.iter().map(|it| it.data_type().clone()).collect();
        if let Some(bad) = data_types.iter().find(|it| it.is_nested()) {
            return Err(refusal(bad));
        }
        let fields = data_types.iter().cloned().map(SortField::new).collect();
        let converter = RowConverter::new(fields).map_err(|why| why.to_string())?;
        Ok(Rows { data_types, converter, interner: Interner::default() })
    }

    fn intern(&mut self, columns: &[ArrayRef], ids: &mut Vec<u32>) -> Result<(), String> {
        let columns: Vec<ArrayRef> = columns
            .iter()
            .zip(&self.data_types)
            .map(|(column, data_type)| fit(column, data_type))
            .collect::<Result<_, _>>()?;
        let rows = self.converter.convert_columns(&columns).map_err(|why| why.to_string())?;
        for row in &rows {
            let bytes = row.as_ref();
            ids.push(self.interner.intern(bytes, 0, bytes.len()));
        }
        Ok(())
    }

    fn columns(&self, which: &[u32]) -> Result<Vec<ArrayRef>, String> {
        let parser = self.converter.parser();
        let rows = which.iter().map(|id| parser.parse(self.interner.key(*id)));
        self.converter.convert_rows(rows).map_err(|why| why.to_string())
    }
}
