//! Which partition of a grouped task a segment belongs to, and cutting a batch accordingly.
//!
//! Law: equal keys go to one partition, in every process and version: the hash is part of what lies
//! in durable queues, and a golden test pins it. Integers of any width are equal if their values are,
//! texts whatever array holds them, floats by their bits, and null is a key like any other.

#![expect(clippy::wildcard_enum_match_arm, reason = "Arrow has many more types")]

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array, downcast_dictionary_array},
    compute::{cast, take, take_record_batch},
    datatypes::{DataType, Decimal128Type, Decimal256Type, Float64Type, Int64Type, UInt64Type},
};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::{group, nearest};

/// What stands for null. No text is that, since it is not UTF-8; no other key has five bytes.
const NULL: &[u8] = b"\xffnull";

/// Cuts `batch` by the values of its columns `keys` into at most `n_partitions` batches, in the
/// order of the partitions; rows keep their order within each. Empty ones are left out.
///
/// Rows are moved once, whatever the number of partitions; not at all if all belong to one.
pub fn split(
    batch: &RecordBatch,
    keys: &[String],
    n_partitions: u16,
) -> Result<Vec<(u16, RecordBatch)>, String> {
    let n_rows = batch.num_rows();
    if n_rows == 0 {
        return Ok(Vec::new());
    }
    if n_partitions <= 1 {
        return Ok(vec![(0, batch.clone())]);
    }
    let hashes = hashes(&columns(batch, keys)?, n_rows)?;
    let partitions: Vec<u16> = hashes.iter().map(|hash| partition(*hash, n_partitions)).collect();
    let mut counts = vec![0u32; usize::from(n_partitions)];
    for partition in &partitions {
        counts[usize::from(*partition)] += 1;
    }
    let first = partitions[0];
    if counts[usize::from(first)] as usize == n_rows {
        return Ok(vec![(first, batch.clone())]);
    }
    let sorted = take_record_batch(batch, &order(&partitions, &counts)).map_err(|why| {
        let columns = batch.schema();
        format!("the batch cannot be cut into partitions: {why}; its columns are {columns}")
    })?;
    let mut start = 0;
    let mut parts = Vec::new();
    for (partition, count) in (0..n_partitions).zip(counts) {
        if count > 0 {
            parts.push((partition, sorted.slice(start, count as usize)));
        }
        start += count as usize;
    }
    Ok(parts)
}

/// The partition of one hash. Takes bits from the middle: hash tables, which use both ends, then
/// still find different bits within a partition.
pub fn partition(hash: u64, n_partitions: u16) -> u16 {
    let middle = (hash >> 16) & 0xffff_ffff;
    ((middle * u64::from(n_partitions)) >> 32) as u16
}

/// The columns of that name, or an error that shows which there are.
pub(crate) fn columns(batch: &RecordBatch, keys: &[String]) -> Result<Vec<ArrayRef>, String> {
    if group::is_gathered(batch) {
        return (0..keys.len()).map(|at| column(batch, &group::key_name(at)).cloned()).collect();
    }
    keys.iter().map(|key| column(batch, key).cloned()).collect()
}

/// The column of that name, or an error that shows which there are, nearest first.
pub(crate) fn column<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a ArrayRef, String> {
    batch.column_by_name(name).ok_or_else(|| {
        let schema = batch.schema_ref();
        let known =
            nearest::nearest_first(name, schema.fields().iter().map(|it| it.name().as_str()));
        match known.is_empty() {
            true => format!("there is no column {name:?}: the segments have no columns"),
            false => {
                let known = nearest::list(known.into_iter());
                format!("there is no column {name:?}; the columns are {known}")
            }
        }
    })
}

/// The rows' places, those of partition 0 first (a counting sort).
fn order(partitions: &[u16], counts: &[u32]) -> UInt32Array {
    let mut next = Vec::with_capacity(counts.len());
    let mut start = 0;
    for count in counts {
        next.push(start);
        start += count;
    }
    let mut rows = vec![0u32; partitions.len()];
    for (row, partition) in (0u32..).zip(partitions) {
        let place = &mut next[usize::from(*partition)];
        rows[*place as usize] = row;
        *place += 1;
    }
    UInt32Array::from(rows)
}

/// A hash for each row; each column's hash is the seed of the next.
pub(crate) fn hashes(columns: &[ArrayRef], n_rows: usize) -> Result<Vec<u64>, String> {
    let mut hashes = vec![0; n_rows];
    for column in columns {
        add(column, &mut hashes)?;
    }
    Ok(hashes)
}

fn add(column: &ArrayRef, hashes: &mut [u64]) -> Result<(), String> {
    use DataType::*;
    match column.data_type() {
        Utf8 => each(column.as_string::<i32>(), hashes, |it, row| it.value(row)),
        LargeUtf8 => each(column.as_string::<i64>(), hashes, |it, row| it.value(row)),
        Utf8View => each(column.as_string_view(), hashes, |it, row| it.value(row)),
        Binary => each(column.as_binary::<i32>(), hashes, |it, row| it.value(row)),
        LargeBinary => each(column.as_binary::<i64>(), hashes, |it, row| it.value(row)),
        BinaryView => each(column.as_binary_view(), hashes, |it, row| it.value(row)),
        FixedSizeBinary(_) => {
            each(column.as_fixed_size_binary(), hashes, |it, row| it.value(row));
        }
        Boolean => each(column.as_boolean(), hashes, |it, row| [u8::from(it.value(row))]),
        Int64 => {
            let values = column.as_primitive::<Int64Type>();
            each(values, hashes, |it, row| it.value(row).to_le_bytes());
        }
        UInt64 => {
            let values = column.as_primitive::<UInt64Type>();
            each(values, hashes, |it, row| it.value(row).to_le_bytes());
        }
        Float64 => {
            let values = column.as_primitive::<Float64Type>();
            each(values, hashes, |it, row| it.value(row).to_bits().to_le_bytes());
        }
        Decimal128(_, _) => {
            let values = column.as_primitive::<Decimal128Type>();
            each(values, hashes, |it, row| it.value(row).to_le_bytes());
        }
        Decimal256(_, _) => {
            let values = column.as_primitive::<Decimal256Type>();
            each(values, hashes, |it, row| it.value(row).to_le_bytes());
        }
        Int8
        | Int16
        | Int32
        | UInt8
        | UInt16
        | UInt32
        | Date32
        | Date64
        | Time32(_)
        | Time64(_)
        | Timestamp(_, _)
        | Duration(_) => return add(&as_type(column, &Int64)?, hashes),
        Float16 | Float32 => return add(&as_type(column, &Float64)?, hashes),
        Dictionary(_, _) => return add(&plain(column)?, hashes),
        Null => hashes.iter_mut().for_each(|hash| *hash = xxh3_64_with_seed(NULL, *hash)),
        other => return Err(refusal(other)),
    }
    Ok(())
}

/// What to say of a column by whose values nothing can be grouped.
pub(crate) fn refusal(data_type: &DataType) -> String {
    format!(
        "a column of type {data_type} cannot be a key: group by texts, numbers, truths or times, \
         such as one of its fields"
    )
}

fn as_type(column: &ArrayRef, to: &DataType) -> Result<ArrayRef, String> {
    cast(column, to).map_err(|why| format!("a key of type {}: {why}", column.data_type()))
}

/// A dictionary as the values themselves.
pub(crate) fn plain(column: &ArrayRef) -> Result<ArrayRef, String> {
    let array: &dyn Array = column;
    downcast_dictionary_array!(
        array => take(array.values(), array.keys(), None).map_err(|why| why.to_string()),
        _ => Ok(Arc::clone(column))
    )
}

fn each<'a, A: Array, B: AsRef<[u8]>>(
    array: &'a A,
    hashes: &mut [u64],
    bytes: impl Fn(&'a A, usize) -> B,
) {
    let has_nulls = array.null_count() > 0;
    for (row, hash) in hashes.iter_mut().enumerate() {
        *hash = if has_nulls && array.is_null(row) {
            xxh3_64_with_seed(NULL, *hash)
        } else {
            xxh3_64_with_seed(bytes(array, row).as_ref(), *hash)
        };
    }
}

#[cfg(test)]
mod tests;
