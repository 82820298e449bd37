//! Runs `testdata/sql/*.txt`: columns, then an expression or a query, `----`, and what comes out.
//! `UPDATE=1 cargo test -p sardonyx-task sql` writes the results; read the difference.

use std::{fmt::Write as _, fs, path::Path};

use arrow::{
    array::{
        Array, ArrayRef, AsArray, DictionaryArray, Int32Array, Int64Array, StringArray,
        StructArray, TimestampSecondArray,
    },
    datatypes::Int32Type,
};
use proptest::prelude::*;

use super::*;
use crate::testing::rows;

/// `name type: 1 | 2 | null`.
fn column(line: &str) -> (String, ArrayRef) {
    let (head, values) = line.split_once(':').expect(line);
    let (name, data_type) = head.split_once(' ').expect(line);
    let texts = values.split(" | ").map(|it| match it.trim() {
        "null" => None,
        "''" => Some(""),
        text => Some(text),
    });
    let texts = Value::Array(Arc::new(texts.collect::<StringArray>()));
    let data_type = coerce::of_name(data_type.trim()).unwrap();
    let column = coerce::strict(&texts, &data_type).unwrap().array().clone();
    (name.to_owned(), column)
}

fn answer(batch: &RecordBatch, case: &str) -> String {
    let is_query = case.starts_with("select");
    let query = match is_query {
        true => case.to_owned(),
        false => format!("select ({case}) as r from segments"),
    };
    let result = match Sql::new(&query).and_then(|mut sql| sql.apply(batch)) {
        Ok(result) => result,
        Err(why) => return format!("error: {}\n", why.trim_start_matches("r: ")),
    };
    let schema = result.schema();
    let types = schema.fields().iter().map(|it| match is_query {
        true => format!("{} {}", it.name(), coerce::name(it.data_type())),
        false => coerce::name(it.data_type()),
    });
    let types = types.collect::<Vec<_>>().join(", ");
    match is_query {
        true => format!(
            "({types})\n{}",
            rows(&result).iter().fold(String::new(), |mut all, row| {
                writeln!(all, "{row}").unwrap();
                all
            })
        ),
        false => format!("{} : {types}\n", rows(&result).join(" | ")),
    }
}

fn run(path: &Path) {
    let text = fs::read_to_string(path).unwrap();
    let mut expected = String::new();
    let mut columns: Vec<(String, ArrayRef)> = Vec::new();
    for block in text.split("\n\n") {
        let block = block.trim_matches('\n');
        if block.starts_with('#') {
            writeln!(expected, "{block}\n").unwrap();
            continue;
        }
        let Some((case, _)) = block.split_once("\n----") else {
            columns = block.lines().map(column).collect();
            writeln!(expected, "{block}\n").unwrap();
            continue;
        };
        let named = columns.iter().map(|(name, column)| (name, column.clone(), true));
        let batch = RecordBatch::try_from_iter_with_nullable(named).unwrap();
        writeln!(expected, "{case}\n----\n{}", answer(&batch, case)).unwrap();
    }
    let expected = format!("{}\n", expected.trim_end());
    if std::env::var_os("UPDATE").is_some() {
        fs::write(path, expected).unwrap();
    } else {
        assert_eq!(text, expected, "{}", path.display());
    }
}

#[test]
fn the_examples_hold() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/sql");
    let mut paths: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 7, "where are the examples?");
    paths.iter().for_each(|path| run(path));
}

fn sql(query: &str) -> Sql {
    Sql::new(query).unwrap()
}

#[test]
fn columns_that_change_are_bound_again() {
    let mut sql = sql("select a * 2 as b from segments");
    let batch =
        |name: &str, column: ArrayRef| RecordBatch::try_from_iter([(name, column)]).unwrap();
    let result = sql.apply(&batch("a", Arc::new(Int32Array::from(vec![1])))).unwrap();
    assert_eq!(rows(&result), ["2"]);
    let result = sql.apply(&batch("a", Arc::new(arrow::array::Float64Array::from(vec![1.5]))));
    assert_eq!(rows(&result.unwrap()), ["3.0"]);
    let why = sql.apply(&batch("b", Arc::new(Int32Array::from(vec![1])))).unwrap_err();
    assert_eq!(why, "a * 2: there is no column \"a\"; the columns are b");
}

#[test]
fn fields_of_structs_are_columns() {
    let paths: ArrayRef = Arc::new(StringArray::from(vec!["/a", "/b"]));
    let codes: ArrayRef = Arc::new(Int32Array::from(vec![200, 500]));
    let field = |name: &str, column: &ArrayRef| {
        (Arc::new(Field::new(name, column.data_type().clone(), true)), column.clone())
    };
    let request = StructArray::from(vec![field("path", &paths), field("code", &codes)]);
    let nulls = Some(vec![true, false].into());
    let holey = StructArray::new(request.fields().clone(), request.columns().to_vec(), nulls);
    let batch = RecordBatch::try_from_iter([
        ("request", Arc::new(request) as ArrayRef),
        ("holey", Arc::new(holey) as ArrayRef),
    ])
    .unwrap();
    let query = "select request.path, segments.request.code + 1 as c, holey['path'] as h \
                 from segments where request.code >= 200";
    assert_eq!(rows(&sql(query).apply(&batch).unwrap()), ["/a 201 /a", "/b 501 null"]);
    let why = sql("select request.paht from segments").apply(&batch).unwrap_err();
    assert_eq!(why, "paht: there is no field \"paht\"; the fields are path, code");
}

#[test]
fn dictionaries_and_zones_are_seen_through() {
    let words: DictionaryArray<Int32Type> = ["a", "b", "a"].into_iter().collect();
    let times = TimestampSecondArray::from(vec![0, 3600, 7200]).with_timezone("UTC");
    let batch = RecordBatch::try_from_iter([
        ("w", Arc::new(words) as ArrayRef),
        ("t", Arc::new(times) as ArrayRef),
    ])
    .unwrap();
    let query = "select upper(w) as w, extract(hour from t) as h, t::text as s from segments \
                 where w = 'a' and t > '1970-01-01T00:30:00'";
    assert_eq!(rows(&sql(query).apply(&batch).unwrap()), ["A 2 1970-01-01T02:00:00"]);
}

#[test]
fn what_is_not_selected_is_not_filtered_and_what_comes_whole_is_not_copied() {
    let a: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    let batch = RecordBatch::try_from_iter([("a", a.clone()), ("b", a.clone())]).unwrap();
    let result = sql("select b from segments where a > 0").apply(&batch).unwrap();
    assert!(Arc::ptr_eq(result.column(0), &a));
    let result = sql("select 1 as one from segments where a > 1").apply(&batch).unwrap();
    assert_eq!(rows(&result), ["1", "1"]);
}

#[test]
fn a_query_is_checked_before_there_are_columns() {
    for (query, expected) in [
        ("selec x", "query cannot be read"),
        ("select lowre(x) from segments", "there is no function lowre; did you mean lower?"),
        ("select lower(x, y) from segments", "lower takes one argument, not 2"),
        ("select x::strng from segments", "there is no type strng"),
        ("select regexp_matches(x, '(') from segments", "cannot read the pattern"),
        ("select a from segments; select b from segments", "is one select"),
        ("insert into t values (1)", "is one select"),
    ] {
        let why = Sql::new(query).err().unwrap();
        assert!(why.contains(expected), "{query}: {why}");
    }
}

#[test]
fn queries_are_bounded() {
    let batch =
        RecordBatch::try_from_iter([("a", Arc::new(Int64Array::from(vec![1])) as ArrayRef)]);
    let batch = batch.unwrap();
    let sum = |n: usize| format!("select {} as r from segments", vec!["a"; n].join(" + "));
    // Each sum is one level, and so is what it stands in.
    assert_eq!(rows(&sql(&sum(bind::DEPTH_MAX)).apply(&batch).unwrap()), ["200"]);
    let why = Sql::new(&sum(bind::DEPTH_MAX + 1)).err().unwrap();
    assert!(why.ends_with("goes deeper than 200: divide it into tasks"), "{why}");
    let columns = |n: usize| {
        let columns: Vec<String> = (0..n).map(|n| format!("a b{n}")).collect();
        format!("select {} from segments", columns.join(", "))
    };
    let most = (parse::TOKENS_MAX - 3) / 2;
    assert_eq!(sql(&columns(most)).apply(&batch).unwrap().num_columns(), most);
    let why = Sql::new(&columns(most + 1)).err().unwrap();
    assert!(why.contains("more than 1000 words and signs"), "{why}");
    assert!(Condition::new(&vec!["true"; 600].join(" and ")).is_err());
    let values: Vec<String> = (2..5000).map(|n| n.to_string()).collect();
    let long =
        sql(&format!("select a in ({}, 1) as r from segments", values.join(","))).apply(&batch);
    assert_eq!(rows(&long.unwrap()), ["true"], "a list may be long");
    let why = Sql::new("select regexp_matches(a, '(x{1000}){1000}') from segments").err().unwrap();
    assert!(why.contains("cannot read the pattern"), "{why}");
}

/// True, false, or unknown, as a person would reason: unknown could be either.
#[derive(Clone, Debug)]
enum Logical {
    Column(usize),
    Not(Box<Logical>),
    And(Box<Logical>, Box<Logical>),
    Or(Box<Logical>, Box<Logical>),
    IsNull(Box<Logical>),
    IsTrue(Box<Logical>),
}

impl Logical {
    fn text(&self) -> String {
        match self {
            Logical::Column(at) => format!("c{at}"),
            Logical::Not(a) => format!("(not {})", a.text()),
            Logical::And(a, b) => format!("({} and {})", a.text(), b.text()),
            Logical::Or(a, b) => format!("({} or {})", a.text(), b.text()),
            Logical::IsNull(a) => format!("({} is null)", a.text()),
            Logical::IsTrue(a) => format!("({} is true)", a.text()),
        }
    }

    fn worth(&self, row: &[Option<bool>]) -> Option<bool> {
        match self {
            Logical::Column(at) => row[*at],
            Logical::Not(a) => Some(!a.worth(row)?),
            Logical::And(a, b) => match (a.worth(row), b.worth(row)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            },
            Logical::Or(a, b) => match (a.worth(row), b.worth(row)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            },
            Logical::IsNull(a) => Some(a.worth(row).is_none()),
            Logical::IsTrue(a) => Some(a.worth(row) == Some(true)),
        }
    }
}

fn logical() -> impl Strategy<Value = Logical> {
    (0..3usize).prop_map(Logical::Column).prop_recursive(5, 24, 2, |inner| {
        let two = (inner.clone(), inner.clone());
        prop_oneof![
            inner.clone().prop_map(|a| Logical::Not(Box::new(a))),
            two.clone().prop_map(|(a, b)| Logical::And(Box::new(a), Box::new(b))),
            two.prop_map(|(a, b)| Logical::Or(Box::new(a), Box::new(b))),
            inner.clone().prop_map(|a| Logical::IsNull(Box::new(a))),
            inner.prop_map(|a| Logical::IsTrue(Box::new(a))),
        ]
    })
}

proptest! {
    #[test]
    fn logic_has_three_truths(expression in logical()) {
        let truths = [None, Some(false), Some(true)];
        let all: Vec<[Option<bool>; 3]> = (0..27usize)
            .map(|n| [truths[n % 3], truths[n / 3 % 3], truths[n / 9]])
            .collect();
        let column = |at: usize| -> ArrayRef {
            Arc::new(all.iter().map(|row| row[at]).collect::<BooleanArray>())
        };
        let batch = RecordBatch::try_from_iter_with_nullable(
            (0..3).map(|at| (format!("c{at}"), column(at), true)),
        ).unwrap();
        let query = format!("select {} as r from segments", expression.text());
        let result = sql(&query).apply(&batch).unwrap();
        let expected: BooleanArray = all.iter().map(|row| expression.worth(row)).collect();
        prop_assert_eq!(result.column(0).as_boolean(), &expected);
        // In a condition, only true passes.
        let kept = Condition::new(&expression.text()).unwrap().holds(&batch).unwrap();
        let passes: BooleanArray =
            all.iter().map(|row| Some(expression.worth(row) == Some(true))).collect();
        prop_assert_eq!(kept, passes);
    }

    /// Whatever a query is, one row at a time it gives what it gives at once.
    #[test]
    fn rows_stand_alone(
        numbers in proptest::collection::vec(proptest::option::of(-3..4i64), 1..12),
    ) {
        let column: ArrayRef = Arc::new(numbers.iter().copied().collect::<Int64Array>());
        let batch = RecordBatch::try_from_iter_with_nullable([("n", column, true)]).unwrap();
        for expression in [
            "case when n = 0 then null else 6 // n end",
            "n <> 0 and 6 // n > 1",
            "coalesce(n, 9) + 1",
            "case when n > 1 then 'many' when n = 1 then 'one' end",
            "greatest(n, 0) || '!'",
            "n in (1, null, 2)",
            "nullif(n, 1)",
        ] {
            let query = format!("select {expression} as r from segments");
            let whole = rows(&sql(&query).apply(&batch).unwrap());
            let mut single = sql(&query);
            let each: Vec<String> = (0..batch.num_rows())
                .flat_map(|row| rows(&single.apply(&batch.slice(row, 1)).unwrap()))
                .collect();
            prop_assert_eq!(whole, each, "{}", expression);
        }
    }
}
