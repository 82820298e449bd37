//! Parts make up the whole, equal keys stay together, and the hash is what it always was.

use std::collections::BTreeMap;

use arrow::{
    array::{
        BooleanArray, DictionaryArray, Float64Array, Int32Array, Int64Array, LargeStringArray,
        ListArray, StringArray, StringViewArray, TimestampMillisecondArray, UInt64Array,
    },
    compute::concat_batches,
    datatypes::Int32Type,
};
use proptest::prelude::*;

use super::*;
use crate::testing::{computed, is_measured};

fn hash_of(column: impl Array + 'static) -> Vec<u64> {
    let n_rows = column.len();
    hashes(&[Arc::new(column)], n_rows).unwrap()
}

/// Durable queues hold what was cut by this hash: other numbers here are another format.
#[test]
fn the_hash_is_pinned() {
    let texts = hash_of(StringArray::from(vec![Some(""), Some("sardonyx"), None]));
    let ints = hash_of(Int64Array::from(vec![0, -1, 42]));
    let truths = hash_of(BooleanArray::from(vec![false, true]));
    let float = hash_of(Float64Array::from(vec![1.5]));
    let time = hash_of(TimestampMillisecondArray::from(vec![1_700_000_000_000]));
    let two: [ArrayRef; 2] =
        [Arc::new(StringArray::from(vec!["a"])), Arc::new(Int64Array::from(vec![1]))];
    let two = hashes(&two, 1).unwrap();
    let all = [texts, ints, truths, float, time, two].concat();
    let lines: Vec<String> =
        all.iter().map(|hash| format!("{hash:016x} {}", partition(*hash, 8))).collect();
    assert_eq!(lines.join("\n"), PINNED.trim());
}

const PINNED: &str = "
2d06800538d394c2 4
86d82d51f7e9bc9e 1
543f8ddbe4fb6767 4
c77b3abb6f87acd9 1
5111c7e47d784413 6
d5a6f8c838df27c8 7
c44bdff4074eecdb 6
e12ef9d2eb86ceeb 7
2561a4889ff63458 5
96e384056bf78cf0 4
5a7d172adc5ebdab 0
";

#[test]
fn equal_values_are_equal_in_every_array() {
    let text = hash_of(StringArray::from(vec!["a", "bc"]));
    assert_eq!(hash_of(LargeStringArray::from(vec!["a", "bc"])), text);
    assert_eq!(hash_of(StringViewArray::from(vec!["a", "bc"])), text);
    let dictionary: DictionaryArray<Int32Type> = ["a", "bc"].into_iter().collect();
    assert_eq!(hash_of(dictionary), text);
    let number = hash_of(Int64Array::from(vec![7, 300]));
    assert_eq!(hash_of(Int32Array::from(vec![7, 300])), number);
    assert_eq!(hash_of(UInt64Array::from(vec![7, 300])), number);
}

#[test]
fn a_batch_of_one_partition_is_not_copied() {
    let words: ArrayRef = Arc::new(StringArray::from(vec!["a", "a", "a"]));
    let batch = RecordBatch::try_from_iter([("word", words.clone())]).unwrap();
    for n_partitions in [1, 16] {
        let parts = split(&batch, &["word".into()], n_partitions).unwrap();
        assert_eq!(parts.len(), 1);
        assert!(Arc::ptr_eq(parts[0].1.column(0), &words));
    }
    assert!(split(&batch.slice(0, 0), &["word".into()], 4).unwrap().is_empty());
}

#[test]
fn what_cannot_be_a_key_is_said() {
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1)])]);
    let batch = RecordBatch::try_from_iter([("tags", Arc::new(lists) as ArrayRef)]).unwrap();
    let why = split(&batch, &["tags".into()], 4).unwrap_err();
    assert!(why.contains("cannot be a key"), "{why}");
    let why = split(&batch, &["tag".into()], 4).unwrap_err();
    assert_eq!(why, "there is no column \"tag\"; the columns are tags");
}

fn key() -> impl Strategy<Value = (Option<String>, Option<i32>)> {
    (proptest::option::of("[a-c]{0,2}"), proptest::option::of(-2..3i32))
}

proptest! {
    #[test]
    fn parts_are_the_whole_and_equal_keys_stay_together(
        keys in proptest::collection::vec(key(), 0..60),
        n_partitions in 1..20u16,
    ) {
        let words = StringArray::from(keys.iter().map(|it| it.0.as_deref()).collect::<Vec<_>>());
        let numbers = Int32Array::from(keys.iter().map(|it| it.1).collect::<Vec<_>>());
        let rows = Int64Array::from_iter_values(0..keys.len() as i64);
        let batch = RecordBatch::try_from_iter([
            ("word", Arc::new(words) as ArrayRef),
            ("number", Arc::new(numbers) as ArrayRef),
            ("row", Arc::new(rows) as ArrayRef),
        ]).unwrap();
        let parts = split(&batch, &["word".into(), "number".into()], n_partitions).unwrap();
        let mut seen = BTreeMap::new();
        let mut rows_seen = Vec::new();
        for (partition, part) in &parts {
            prop_assert!(*partition < n_partitions && part.num_rows() > 0);
            let rows = part.column(2).as_primitive::<Int64Type>().values().to_vec();
            prop_assert!(rows.is_sorted(), "rows keep their order");
            for row in &rows {
                let key = &keys[*row as usize];
                prop_assert_eq!(*seen.entry(key.clone()).or_insert(*partition), *partition);
            }
            rows_seen.extend(rows);
        }
        let mut sorted = rows_seen.clone();
        sorted.sort_unstable();
        prop_assert_eq!(sorted, (0..keys.len() as i64).collect::<Vec<_>>());
        let batches: Vec<_> = parts.iter().map(|(_, part)| part.clone()).collect();
        let whole = concat_batches(&batch.schema(), &batches).unwrap();
        let places = UInt32Array::from_iter_values(rows_seen.iter().map(|row| *row as u32));
        prop_assert_eq!(take_record_batch(&batch, &places).unwrap(), whole);
    }
}

/// `SARDONYX_MEASURE=1 cargo test --release -p sardonyx-task --lib partition::tests::speed --
/// --nocapture` prints how fast words are cut; otherwise a short run.
#[test]
fn speed() {
    let n_rounds = if is_measured() { 1000 } else { 1 };
    let words: StringArray = (0..8192u64).map(|n| Some(format!("{:x}", n * n * 7919))).collect();
    let batch = RecordBatch::try_from_iter([("word", Arc::new(words) as ArrayRef)]).unwrap();
    let start = computed();
    let mut n_rows = 0;
    for _ in 0..n_rounds {
        let parts = split(&batch, &["word".into()], 8).unwrap();
        n_rows += parts.iter().map(|(_, part)| part.num_rows()).sum::<usize>();
    }
    assert_eq!(n_rows, n_rounds * 8192);
    if is_measured() {
        let rate = n_rows as f64 / (computed() - start).as_secs_f64() / 1e6;
        println!("split into 8 partitions: {rate:.1} million words a CPU second");
    }
}
