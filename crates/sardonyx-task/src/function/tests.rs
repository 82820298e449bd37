//! The smaller functions.

use arrow::{
    array::{ArrayRef, Int32Array, ListArray, StringArray},
    datatypes::Int32Type,
};
use serde_json::{Value, json};

use super::*;
use crate::{Terms, testing::rows};

#[expect(clippy::needless_pass_by_value, reason = "tables are written in place")]
fn apply(entry: Value, columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch, String> {
    let batch = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, column)| (name, column, true)),
    );
    let terms = Terms::new("j", "t", &entry);
    Registry::built_in().make_function(&terms)?.apply(&batch.unwrap())
}

fn texts(texts: &[Option<&str>]) -> ArrayRef {
    Arc::new(StringArray::from(texts.to_vec()))
}

#[test]
fn small_letters() {
    let lines = texts(&[Some("ÄB"), None, Some("Cd")]);
    let result = apply(json!({"fn": "lower"}), vec![("line", lines.clone())]).unwrap();
    assert_eq!(rows(&result), ["äb", "null", "cd"]);
    let entry = json!({"fn": "lower", "as": "small"});
    let result = apply(entry, vec![("line", lines)]).unwrap();
    assert_eq!(rows(&result), ["ÄB äb", "null null", "Cd cd"]);
    let number: ArrayRef = Arc::new(Int32Array::from(vec![1]));
    let why = apply(json!({"fn": "lower"}), vec![("line", number)]).unwrap_err();
    assert_eq!(why, "line is Int32, not a text");
}

#[test]
fn json_becomes_columns() {
    let entry = json!({"fn": "parse-json", "columns":
        {"user": "text", "bytes": "bigint", "ok": "boolean", "request.path": "text", "tags": "text"}});
    let lines = texts(&[
        Some(r#"{"user": "ann \"x\"", "bytes": 12, "ok": true, "request": {"path": "/"}}"#),
        Some(r#"{"user": 7, "tags": [1, 2], "more": 1}"#),
        None,
    ]);
    let source: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3]));
    let result = apply(entry.clone(), vec![("n", source), ("line", lines)]).unwrap();
    let schema = result.schema();
    let names: Vec<_> = schema.fields().iter().map(|it| it.name().as_str()).collect();
    assert_eq!(names, ["n", "bytes", "ok", "request.path", "tags", "user"]);
    assert_eq!(
        rows(&result),
        ["1 12 true / null ann \"x\"", "2 null null null [1,2] 7", "3 null null null null null",]
    );
    let why = apply(entry.clone(), vec![("line", texts(&[Some("{"), None]))]).unwrap_err();
    assert!(why.starts_with("this is no JSON"), "{why}");
    let why = apply(entry.clone(), vec![("line", texts(&[Some("[1]")]))]).unwrap_err();
    assert_eq!(why, "this is no JSON object: [1]");
    let bad = texts(&[Some(r#"{"bytes": "many"}"#)]);
    let why = apply(entry, vec![("line", bad)]).unwrap_err();
    assert!(why.starts_with("bytes: text to bigint"), "{why}");
    let why = apply(json!({"fn": "parse-json"}), vec![("line", texts(&[]))]).unwrap_err();
    assert!(why.contains("write columns = { user"), "{why}");
}

#[test]
fn lists_become_rows() {
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([
        Some(vec![Some(1), None]),
        None,
        Some(vec![]),
        Some(vec![Some(3)]),
    ]);
    let lists: ArrayRef = Arc::new(lists);
    let users = texts(&[Some("a"), Some("b"), Some("c"), Some("d")]);
    let entry = json!({"fn": "explode", "column": "tags", "as": "tag"});
    let result = apply(entry.clone(), vec![("user", users), ("tags", lists.clone())]).unwrap();
    assert_eq!(rows(&result), ["a 1", "a null", "d 3"]);
    let alone = apply(entry.clone(), vec![("tags", lists.slice(2, 2))]).unwrap();
    assert_eq!(rows(&alone), ["3"]);
    let why = apply(entry, vec![("tags", texts(&[]))]).unwrap_err();
    assert_eq!(why, "tags is Utf8, not a list");
}

#[test]
fn bulk_functions_see_every_batch_once_and_change_nothing() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let seen = Arc::new(AtomicUsize::new(0));
    let mut registry = Registry::default();
    let counter = seen.clone();
    registry.bulk("store", move |batch| {
        counter.fetch_add(batch.num_rows(), Ordering::Relaxed);
        Ok(())
    });
    let terms = Terms::new("j", "t", &json!({"fn": "store"}));
    let mut function = registry.make_function(&terms).unwrap();
    let batch = RecordBatch::try_from_iter([("a", texts(&[Some("x"), Some("y")]))]).unwrap();
    assert!(function.is_bulk());
    assert_eq!(function.apply(&batch.slice(0, 0)).unwrap().num_rows(), 0);
    assert_eq!(function.apply(&batch).unwrap(), batch);
    assert_eq!(seen.load(Ordering::Relaxed), 2);
}
