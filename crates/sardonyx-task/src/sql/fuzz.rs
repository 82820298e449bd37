//! Whatever a query says: it is answered on any batch, or refused with a reason.

#![allow(clippy::print_stdout)]

#[path = "../../../../fuzz/harness.rs"]
pub(crate) mod harness;

use arrow::array::{BooleanArray, Float64Array, Int64Array, StringArray, TimestampSecondArray};
use harness::Target;

use super::*;

/// Some rows of every type, with gaps and numbers at the edges.
fn batch() -> RecordBatch {
    let a: ArrayRef =
        Arc::new(Int64Array::from(vec![Some(i64::MAX), None, Some(i64::MIN), Some(0)]));
    let f: ArrayRef =
        Arc::new(Float64Array::from(vec![Some(f64::NAN), Some(-0.0), None, Some(1e300)]));
    let t: ArrayRef =
        Arc::new(StringArray::from(vec![Some(""), Some("ünï 😀"), None, Some("2024-02-30")]));
    let b: ArrayRef = Arc::new(BooleanArray::from(vec![Some(true), Some(false), None, None]));
    let times = vec![Some(i64::MAX), Some(0), None, Some(-1)];
    let at: ArrayRef = Arc::new(TimestampSecondArray::from(times));
    RecordBatch::try_from_iter(vec![("a", a), ("f", f), ("t", t), ("b", b), ("at", at)])
        .expect("a batch")
}

/// The expressions of the examples.
fn seeds() -> Vec<Vec<u8>> {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/sql");
    let mut seeds: Vec<Vec<u8>> = [
        "select a, f * 2 as g, upper(t) from segments where a >= 500 and t like 'x%_'",
        "select case when b then a // 7 else a % 3 end as c from segments",
        "select cast(t as int), cast(a as text), coalesce(t, 'n') from segments",
        "select substr(t, 2, 3), length(t), replace(t, 'a', 'b'), a between 1 and 2 from segments",
        "select date_trunc('month', at), extract(year from at), at + interval '1 day' from segments",
        "select * from segments where t in ('a', 'b') or not b is null",
        "select round(f, 2), abs(a), -a, a + 1, sqrt(f), t || t from segments",
    ]
    .map(|it| it.as_bytes().to_vec())
    .into();
    let mut files: Vec<_> =
        std::fs::read_dir(dir).expect("examples").flatten().map(|it| it.path()).collect();
    files.sort();
    for file in files {
        let text = std::fs::read_to_string(file).expect("an example");
        let cases = text.lines().filter(|line| line.starts_with("select"));
        seeds.extend(cases.take(10).map(|it| it.as_bytes().to_vec()));
    }
    seeds
}

#[test]
fn a_query() {
    let words = &[
        "select ",
        " from segments",
        " where ",
        " and ",
        " or ",
        " not ",
        "(",
        ")",
        ",",
        "'",
        " as ",
        "case when ",
        " then ",
        " else ",
        " end",
        "cast(",
        " between ",
        " in (",
        " like ",
        " is null",
        "9223372036854775807",
        "-9223372036854775808",
        "1e308",
        "null",
        "interval '1 month'",
        "date_trunc(",
        "substr(",
        "regexp_",
        "lpad(",
        "repeat(",
        " || ",
        "a",
        "f",
        "t",
        "b",
        "at",
        "%",
        "//",
        "--",
        "/*",
        "timestamp '2024-02-29'",
    ];
    let batch = batch();
    Target { name: "task-sql", seeds: seeds(), words }.run(|input| {
        let text = String::from_utf8_lossy(input);
        let condition = Condition::new(&text).err().unwrap_or_default();
        match Sql::new(&text) {
            Err(why) => format!("{why} {condition}"),
            Ok(mut sql) => match sql.apply(&batch) {
                Err(why) => why,
                Ok(rows) => {
                    assert!(rows.num_rows() <= batch.num_rows(), "rows out of nothing");
                    format!("{:?}", rows.schema().fields().len())
                }
            },
        }
    });
}
