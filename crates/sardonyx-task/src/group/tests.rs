//! However segments come, in whatever batches, saved and loaded in between, the groups are the same.

use std::{
    collections::{BTreeMap, BTreeSet},
    hint::black_box,
};

use arrow::{
    array::{
        AsArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float64Array,
        Int32Array, Int64Array, LargeStringArray, ListArray, StringArray, UInt32Array, UInt64Array,
        new_null_array,
    },
    compute::{concat_batches, take_record_batch},
    datatypes::{DataType, Int32Type, Int64Type},
};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

use super::*;
use crate::testing::{computed, is_measured};

#[expect(clippy::needless_pass_by_value, reason = "tables are written in place")]
fn grouping(entry: serde_json::Value) -> Grouping {
    registry().grouped(&Terms::new("j", "t", &entry)).unwrap()
}

#[expect(clippy::needless_pass_by_value, reason = "tables are written in place")]
fn refused(entry: serde_json::Value) -> String {
    registry().grouped(&Terms::new("j", "t", &entry)).err().unwrap()
}

fn registry() -> Registry {
    let mut registry = Registry::built_in();
    registry.aggregate("spread", &[], |_| Ok(Spread));
    registry
}

/// The largest less the smallest.
struct Spread;

#[derive(Deserialize)]
struct Measured {
    bytes: Option<i64>,
}

#[derive(Serialize, Deserialize)]
struct Ends {
    low: i64,
    high: i64,
}

impl Aggregate for Spread {
    type Record = Measured;
    type State = Option<Ends>;
    type Result = Option<i64>;

    fn init(&self) -> Option<Ends> {
        None
    }

    fn add(&self, state: &mut Option<Ends>, record: Measured) -> Result<(), String> {
        match record.bytes {
            Some(bytes) => self.merge(state, Some(Ends { low: bytes, high: bytes })),
            None => Ok(()),
        }
    }

    fn merge(&self, state: &mut Option<Ends>, other: Option<Ends>) -> Result<(), String> {
        *state = match (state.take(), other) {
            (Some(a), Some(b)) => Some(Ends { low: a.low.min(b.low), high: a.high.max(b.high) }),
            (a, b) => a.or(b),
        };
        Ok(())
    }

    fn emit(&self, state: &Option<Ends>) -> Option<i64> {
        state.as_ref().map(|it| it.high - it.low)
    }
}

fn columns(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, column)| (name, column, true)),
    )
    .unwrap()
}

fn one(column: impl arrow::array::Array + 'static) -> RecordBatch {
    columns(vec![("k", Arc::new(column))])
}

#[expect(clippy::needless_pass_by_value, reason = "it is what was just emitted")]
fn shown(batch: Option<RecordBatch>) -> Vec<String> {
    batch.iter().flat_map(crate::testing::rows).collect()
}

#[test]
fn words_are_counted() {
    let grouping = grouping(json!({"fn": "count", "group-by": ["k"]}));
    let mut groups = grouping.groups();
    assert_eq!(groups.emit(false).unwrap(), None);
    groups.add(&one(StringArray::from(vec![Some("a"), None, Some("b"), Some("a")]))).unwrap();
    groups
        .add(&one(LargeStringArray::from(vec!["b", "", "a long word, longer than most"])))
        .unwrap();
    let dictionary: DictionaryArray<Int32Type> = ["a"].into_iter().collect();
    groups.add(&one(dictionary)).unwrap();
    let rows = shown(groups.emit(false).unwrap());
    assert_eq!(rows, ["a 3", "null 1", "b 2", " 1", "a long word, longer than most 1"]);
    assert_eq!(groups.len(), 5);
}

#[test]
fn keys_of_every_kind_come_back_as_they_were() {
    let grouping = grouping(json!({"fn": "count", "group-by": ["k"]}));
    let keys: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(vec![Some(1), None, Some(-7)])),
        Arc::new(UInt64Array::from(vec![Some(u64::MAX), None, Some(0)])),
        Arc::new(Float64Array::from(vec![Some(0.5), None, Some(f64::NAN)])),
        Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])),
        Arc::new(Date32Array::from(vec![Some(19_000), None, Some(-1)])),
        Arc::new(StringArray::from(vec![Some("x"), None, Some("")])),
    ];
    for key in keys {
        let mut groups = grouping.groups();
        let batch = columns(vec![("k", key.clone())]);
        groups.add(&batch).unwrap();
        groups.add(&batch).unwrap();
        let rows = groups.emit(false).unwrap().unwrap();
        assert_eq!(rows.column(0), &key);
        assert_eq!(rows.column(1).as_primitive::<Int64Type>().values(), &[2, 2, 2]);
        let mut again = grouping.groups();
        again.load(&groups.snapshot().unwrap().unwrap()).unwrap();
        assert_eq!(again.emit(false).unwrap().unwrap(), rows);
    }
}

#[test]
fn an_integer_may_come_narrower_or_wider() {
    let grouping = grouping(json!({"fn": "count", "group-by": ["k"]}));
    let mut groups = grouping.groups();
    groups.add(&one(Int32Array::from(vec![1, 2]))).unwrap();
    groups.add(&one(Int64Array::from(vec![2, 3]))).unwrap();
    assert_eq!(shown(groups.emit(false).unwrap()), ["1 1", "2 2", "3 1"]);
    let why = groups.add(&one(Int64Array::from(vec![i64::MAX]))).unwrap_err();
    assert!(why.contains("was of type Int32 and is now of type Int64"), "{why}");
}

#[test]
fn several_aggregates_in_one_task() {
    let grouping = grouping(json!({"fn": "aggregate", "group-by": ["k", "l"], "aggregates": {
        "n": "count", "there": "count(v)", "total": "sum(v)", "low": "min( v )", "high": "max(v)",
        "mean": "avg(v)", "all": "collect(v)"}}));
    let mut groups = grouping.groups();
    groups
        .add(&columns(vec![
            ("k", Arc::new(StringArray::from(vec!["a", "a", "b", "a"]))),
            ("l", Arc::new(Int32Array::from(vec![1, 1, 1, 2]))),
            ("v", Arc::new(Int32Array::from(vec![Some(5), Some(-2), None, Some(9)]))),
        ]))
        .unwrap();
    let batch = groups.emit(false).unwrap().unwrap();
    let schema = batch.schema();
    let names: Vec<_> = schema.fields().iter().map(|it| it.name().as_str()).collect();
    assert_eq!(names, ["k", "l", "all", "high", "low", "mean", "n", "there", "total"]);
    let rows = shown(Some(batch));
    assert_eq!(rows[0], "a 1 [5, -2] 5 -2 1.5 2 2 3");
    assert_eq!(rows[1], "b 1 [null] null null null 1 0 null");
    assert_eq!(rows[2], "a 2 [9] 9 9 9.0 1 1 9");
}

fn total(of: &str, value: impl arrow::array::Array + 'static) -> Result<Vec<String>, String> {
    let entry = json!({"fn": of, "group-by": ["k"], "of": "v", "as": "r"});
    let mut groups = grouping(entry).groups();
    let value: ArrayRef = Arc::new(value);
    let keys = Int32Array::from(vec![1; value.len()]);
    groups.add(&columns(vec![("k", Arc::new(keys)), ("v", value)]))?;
    Ok(shown(groups.emit(false)?))
}

#[test]
fn sums_do_not_wrap() {
    assert_eq!(
        total("sum", Int64Array::from(vec![i64::MAX - 1, 1])).unwrap(),
        ["1 9223372036854775807"]
    );
    let why = total("sum", Int64Array::from(vec![i64::MAX, 1])).unwrap_err();
    assert_eq!(why, "sum(v): the sum does not fit Int64: cast to a wider type");
    assert!(total("sum", UInt64Array::from(vec![u64::MAX, 1])).is_err());
    assert_eq!(
        total("sum", UInt64Array::from(vec![u64::MAX, 0])).unwrap(),
        ["1 18446744073709551615"]
    );
    let decimals = |value| {
        Decimal128Array::from(vec![value, value]).with_data_type(DataType::Decimal128(38, 2))
    };
    assert_eq!(total("sum", decimals(150)).unwrap(), ["1 3.00"]);
    let why = total("sum", decimals(9 * 10i128.pow(37))).unwrap_err();
    assert!(why.contains("more than 38 digits") || why.contains("does not fit"), "{why}");
    let why = total("sum", StringArray::from(vec!["1"])).unwrap_err();
    assert!(why.contains("Utf8 cannot be summed: cast it"), "{why}");
}

#[test]
fn least_and_largest_of_every_kind() {
    assert_eq!(total("max", StringArray::from(vec!["b", "c", "a"])).unwrap(), ["1 c"]);
    assert_eq!(total("min", BooleanArray::from(vec![true, false])).unwrap(), ["1 false"]);
    assert_eq!(total("max", Date32Array::from(vec![0, 1])).unwrap(), ["1 1970-01-02"]);
    assert_eq!(total("min", Float64Array::from(vec![f64::NAN, 2.0])).unwrap(), ["1 2.0"]);
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1)])]);
    assert!(total("min", lists).unwrap_err().contains("has no order"));
}

#[test]
fn collecting_has_a_limit() {
    let full = total("collect", Int32Array::from(vec![1; COLLECT_MAX]));
    assert!(full.is_ok());
    let why = total("collect", Int32Array::from(vec![1; COLLECT_MAX + 1])).unwrap_err();
    assert_eq!(why, "collect(v): a group has at most 1048576 values");
}

#[test]
fn what_cannot_be_grouped_is_said() {
    assert_eq!(
        refused(json!({"fn": "count"})),
        "count: needs group-by: write group-by = [\"word\"]"
    );
    let group_by = json!(["k"]);
    let why = refused(json!({"fn": "sum", "group-by": group_by}));
    assert_eq!(why, "sum: needs of: write of = \"bytes\"");
    let why = refused(json!({"fn": "cuont", "group-by": group_by}));
    assert_eq!(why, "there is no function \"cuont\"; did you mean count?");
    let why = refused(json!({"fn": "aggregate", "group-by": group_by,
        "aggregates": {"n": "summ(bytes)"}}));
    assert!(why.contains("aggregates.n") && why.contains("did you mean sum?"), "{why}");
    let why = refused(json!({"fn": "count", "group-by": group_by, "as": "k"}));
    assert!(why.contains("two columns would be called k"), "{why}");
    for (number, is_right) in [(0, false), (1, true), (1024, true), (1025, false), (70_000, false)]
    {
        let entry = json!({"fn": "count", "group-by": group_by, "partitions": number});
        let made = registry().grouped(&Terms::new("j", "t", &entry));
        assert_eq!(made.is_ok(), is_right, "{number}");
    }
    let mut groups = grouping(json!({"fn": "count", "group-by": ["word"]})).groups();
    let why = groups.add(&one(Int32Array::from(vec![1]))).unwrap_err();
    assert_eq!(why, "there is no column \"word\"; the columns are k");
}

#[test]
fn emitting_what_changed_says_each_change_once() {
    let grouping = grouping(json!({"fn": "count", "group-by": ["k"]}));
    let mut groups = grouping.groups();
    groups.add(&one(StringArray::from(vec!["a", "b"]))).unwrap();
    assert_eq!(shown(groups.emit(true).unwrap()), ["a 1", "b 1"]);
    assert_eq!(groups.emit(true).unwrap(), None);
    groups.add(&one(StringArray::from(vec!["b", "b"]))).unwrap();
    assert_eq!(groups.changed().unwrap().unwrap().num_rows(), 2, "saving is another matter");
    assert_eq!(shown(groups.emit(true).unwrap()), ["b 3"]);
    assert_eq!(groups.changed().unwrap(), None);
}

#[test]
fn nulls_without_a_type_wait_for_one() {
    let nothing = |n: usize| -> ArrayRef { new_null_array(&DataType::Null, n) };
    for by in [&["k"][..], &["k", "l"]] {
        let aggregates = json!({"a": "sum(v)", "b": "max(v)", "c": "collect(v)", "d": "count(v)",
            "e": "avg(v)"});
        let entry = json!({"fn": "aggregate", "group-by": by, "aggregates": aggregates});
        let mut groups = grouping(entry.clone()).groups();
        let l = || -> ArrayRef { Arc::new(Int32Array::from(vec![1, 1])) };
        groups.add(&columns(vec![("k", nothing(2)), ("l", l()), ("v", nothing(2))])).unwrap();
        let mut again = grouping(entry).groups();
        again.load(&groups.changed().unwrap().unwrap()).unwrap();
        assert_eq!(again.emit(false).unwrap(), groups.emit(false).unwrap());
        for mut groups in [groups, again] {
            let keys = Arc::new(StringArray::from(vec![None, Some("x")]));
            let values = Arc::new(Int64Array::from(vec![5, 6]));
            groups.add(&columns(vec![("k", keys), ("l", l()), ("v", values)])).unwrap();
            let key = if by.len() == 1 { "" } else { " 1" };
            assert_eq!(
                shown(groups.emit(false).unwrap()),
                [format!("null{key} 5 5 [null, null, 5] 1 5.0"), format!("x{key} 6 6 [6] 1 6.0"),]
            );
        }
    }
}

#[test]
fn gathering_stops_where_it_does_not_pay() {
    let count = grouping(json!({"fn": "count", "group-by": ["k"]}));
    let mut gatherer = Gatherer::new(&count);
    let different = one(Int64Array::from_iter_values(0..1000));
    let same = one(Int64Array::from(vec![7; 1000]));
    assert!(!is_gathered(&gatherer.gather(&different)));
    let n_waiting = (0..100).take_while(|_| !is_gathered(&gatherer.gather(&same))).count();
    assert_eq!(n_waiting, 32);
    let gathered = gatherer.gather(&same).into_owned();
    assert_eq!(gathered.num_rows(), 1);
    assert_eq!(gatherer.gather(&gathered).as_ref(), &gathered, "once is enough");
    let mut groups = count.groups();
    groups.add(&gathered).unwrap();
    groups.add(&same).unwrap();
    assert_eq!(shown(groups.emit(false).unwrap()), ["7 2000"]);
    for entry in [
        json!({"fn": "collect", "of": "k", "as": "all", "group-by": ["k"]}),
        json!({"fn": "spread", "group-by": ["k"]}),
        json!({"fn": "pass", "group-by": ["k"]}),
        json!({"fn": "count", "group-by": ["no such column"]}),
    ] {
        let mut gatherer = Gatherer::new(&grouping(entry));
        assert!(!is_gathered(&gatherer.gather(&same)));
    }
}

#[derive(Clone, Debug)]
struct Row {
    key: Option<String>,
    number: Option<i32>,
    bytes: Option<i64>,
}

fn row() -> impl Strategy<Value = Row> {
    let key = proptest::option::of("[a-c]{0,2}");
    let number = proptest::option::of(0..3i32);
    (key, number, proptest::option::of(-50..50i64)).prop_map(|(key, number, bytes)| Row {
        key,
        number,
        bytes,
    })
}

fn batch_of(rows: &[Row]) -> RecordBatch {
    let keys: StringArray = rows.iter().map(|it| it.key.as_deref()).collect();
    let numbers: Int32Array = rows.iter().map(|it| it.number).collect();
    let bytes: Int64Array = rows.iter().map(|it| it.bytes).collect();
    columns(vec![("k", Arc::new(keys)), ("n", Arc::new(numbers)), ("bytes", Arc::new(bytes))])
}

const AGGREGATES: &[&str] = &[
    "count",
    "count(bytes)",
    "sum(bytes)",
    "min(bytes)",
    "max(bytes)",
    "avg(bytes)",
    "collect(bytes)",
    "spread",
];

fn everything(group_by: &[&str]) -> Grouping {
    let aggregates: serde_json::Map<String, Value> =
        AGGREGATES.iter().map(|call| (format!("r {call}"), json!(call))).collect();
    grouping(json!({"fn": "aggregate", "group-by": group_by, "aggregates": aggregates}))
}

fn sorted(batch: Option<RecordBatch>) -> BTreeSet<String> {
    shown(batch).into_iter().collect()
}

/// The slow and obvious way.
fn twin(rows: &[Row], by: impl Fn(&Row) -> String) -> BTreeMap<String, (i64, Option<i64>)> {
    let mut groups: BTreeMap<String, (i64, Option<i64>)> = BTreeMap::new();
    for row in rows {
        let group = groups.entry(by(row)).or_default();
        group.0 += 1;
        group.1 = match (group.1, row.bytes) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        };
    }
    groups
}

proptest! {
    /// Cut anywhere, saved by changes and loaded into fresh groups anywhere: the result is that of
    /// the whole in one batch; and merging parts that others gathered gives it as well.
    #[test]
    fn the_way_does_not_matter(
        rows in proptest::collection::vec(row(), 1..60),
        cuts in proptest::collection::vec((0..60usize, any::<bool>()), 0..6),
        by in 0..3usize,
    ) {
        let by: &[&str] = [&["k"][..], &["n"], &["n", "k"]][by];
        let grouping = everything(by);
        let mut whole = grouping.groups();
        whole.add(&batch_of(&rows)).unwrap();
        let expected = whole.emit(false).unwrap();

        let mut cuts: Vec<_> = cuts.into_iter().map(|(at, moves)| (at.min(rows.len()), moves)).collect();
        cuts.sort();
        cuts.push((rows.len(), true));
        let mut groups = grouping.groups();
        let mut merged = grouping.groups();
        let mut saved = Vec::new();
        let mut start = 0;
        for (end, moves) in cuts {
            let part = batch_of(&rows[start..end]);
            groups.add(&part).unwrap();
            saved.extend(groups.changed().unwrap());
            if moves {
                groups = grouping.groups();
                saved.iter().for_each(|saved| groups.load(saved).unwrap());
            }
            let mut alone = grouping.groups();
            alone.add(&part).unwrap();
            if let Some(gathered) = alone.snapshot().unwrap() {
                merged.merge(&gathered).unwrap();
            }
            start = end;
        }
        prop_assert_eq!(groups.emit(false).unwrap(), expected.clone());
        prop_assert_eq!(sorted(merged.emit(false).unwrap()), sorted(expected));
    }

    /// Gathered before it was cut into partitions, or not: the groups are the same.
    #[test]
    fn gathering_changes_nothing(
        few in proptest::collection::vec(row(), 1..12),
        n_rows in 200..600usize,
        by in 0..3usize,
    ) {
        let by: &[&str] = [&["k"][..], &["n"], &["n", "k"]][by];
        let calls = AGGREGATES.iter().filter(|it| !it.starts_with("collect") && **it != "spread");
        let aggregates: serde_json::Map<String, Value> =
            calls.map(|call| (format!("r {call}"), json!(call))).collect();
        let grouping = grouping(
            json!({"fn": "aggregate", "group-by": by, "aggregates": aggregates, "partitions": 3}));
        let rows: Vec<Row> = few.iter().cycle().take(n_rows).cloned().collect();
        let batch = batch_of(&rows);
        let mut gatherer = Gatherer::new(&grouping);
        let gathered = gatherer.gather(&batch);
        prop_assert_eq!(is_gathered(&gathered), n_rows >= 256);
        let emit = |batch: &RecordBatch| {
            let mut all = BTreeSet::new();
            for (at, part) in partition::split(batch, grouping.keys(), 3).unwrap() {
                let mut groups = grouping.groups();
                groups.add(&part).unwrap();
                let rows = sorted(groups.emit(false).unwrap());
                all.extend(rows.into_iter().map(|row| format!("{at}: {row}")));
            }
            all
        };
        prop_assert_eq!(emit(&gathered), emit(&batch));
    }

    #[test]
    fn counts_and_sums_are_those_of_the_twin(rows in proptest::collection::vec(row(), 1..60)) {
        let entry = json!({"fn": "aggregate", "group-by": ["k"],
            "aggregates": {"a": "count", "b": "sum(bytes)"}});
        let mut groups = grouping(entry).groups();
        groups.add(&batch_of(&rows)).unwrap();
        let result = groups.emit(false).unwrap().unwrap();
        let key = |key: Option<&str>| format!("{key:?}");
        let twin = twin(&rows, |row| key(row.key.as_deref()));
        prop_assert_eq!(result.num_rows(), twin.len());
        let keys = result.column(0).as_string::<i32>();
        let counts = result.column(1).as_primitive::<Int64Type>();
        let sums = result.column(2).as_primitive::<Int64Type>();
        for (at, found) in keys.iter().enumerate() {
            let (count, sum) = twin[&key(found)];
            prop_assert_eq!((counts.value(at), sums.iter().nth(at).unwrap()), (count, sum));
        }
    }
}

/// How fast words are counted: `SARDONYX_MEASURE=1 cargo test --release -p sardonyx-task --lib
/// group::tests::speed -- --nocapture` prints it. Otherwise a short run that only must be right.
#[test]
fn speed() {
    let is_measured = is_measured();
    let n_batches = if is_measured { 2_000 } else { 4 };
    let words: Vec<String> = (0..50_000u64)
        .map(|n| format!("{:x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (20 + n % 30)))
        .collect();
    let mut seed = 1u64;
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as usize % words.len()
    };
    let batches: Vec<RecordBatch> = (0..8)
        .map(|_| one(StringArray::from_iter_values((0..8192).map(|_| &words[next()]))))
        .collect();
    let numbers: Vec<RecordBatch> = (0..8)
        .map(|_| one(Int64Array::from_iter_values((0..8192).map(|_| next() as i64))))
        .collect();
    for (what, batches) in [("words", batches), ("integers", numbers)] {
        let grouping = grouping(json!({"fn": "count", "group-by": ["k"]}));
        let mut groups = grouping.groups();
        let start = computed();
        for at in 0..n_batches {
            groups.add(&batches[at % batches.len()]).unwrap();
        }
        let n_rows = n_batches * 8192;
        let rate = n_rows as f64 / (computed() - start).as_secs_f64() / 1e6;
        let result = black_box(groups.emit(false).unwrap().unwrap());
        let total: i64 = result.column(1).as_primitive::<Int64Type>().values().iter().sum();
        assert_eq!(total, n_rows as i64);
        if is_measured {
            println!("{what}: {rate:.1} million rows a CPU second, {} groups", groups.len());
        }
    }
}

#[test]
fn a_snapshot_is_one_row_for_each_group() {
    let grouping = everything(&["n"]);
    let mut groups = grouping.groups();
    let rows: Vec<Row> =
        (0..6).map(|at| Row { key: None, number: Some(at % 3), bytes: Some(1) }).collect();
    groups.add(&batch_of(&rows)).unwrap();
    let saved = groups.snapshot().unwrap().unwrap();
    assert_eq!(saved.num_rows(), 3);
    let twice = concat_batches(&saved.schema(), [&saved, &saved]).unwrap();
    let mut again = grouping.groups();
    again.load(&twice).unwrap();
    assert_eq!(again.emit(false).unwrap(), groups.emit(false).unwrap(), "later rows win");
    let some = take_record_batch(&saved, &UInt32Array::from(vec![1])).unwrap();
    let mut again = grouping.groups();
    again.load(&some).unwrap();
    assert_eq!(again.len(), 1);
    let other = grouping_of_count().groups().load(&saved).unwrap_err();
    assert!(other.contains("of another task"), "{other}");
}

fn grouping_of_count() -> Grouping {
    grouping(json!({"fn": "count", "group-by": ["n"]}))
}
