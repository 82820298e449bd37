//! Who gets what, by the rules; and what a job file cannot say.

use arrow::array::{ArrayRef, Int64Array, StringArray};
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::json;

use super::*;
use crate::testing::rows;

const NEXT: &[&str] = &["a", "b", "c"];

fn registry() -> Registry {
    #[derive(Deserialize)]
    struct Event {
        user: String,
    }
    let mut registry = Registry::built_in();
    registry.predicate("is-ann", |event: &Event| event.user == "ann");
    registry
}

#[expect(clippy::needless_pass_by_value, reason = "tables are written in place")]
fn flow(conditions: Value) -> Result<Option<Flow>, String> {
    let next: Vec<String> = NEXT.iter().map(|it| (*it).to_owned()).collect();
    Flow::of(&json!({"flow": conditions}), "t", &next, &registry())
}

fn events() -> RecordBatch {
    let status: ArrayRef = Arc::new(Int64Array::from(vec![Some(200), Some(500), None, Some(404)]));
    let users: ArrayRef = Arc::new(StringArray::from(vec!["ann", "bob", "ann", "eve"]));
    RecordBatch::try_from_iter_with_nullable([("status", status, true), ("user", users, true)])
        .unwrap()
}

fn routed(conditions: Value) -> Vec<String> {
    let routed = flow(conditions).unwrap().unwrap().route(&events()).unwrap();
    let line = |(to, batch): &(String, RecordBatch)| format!("{to}: {}", rows(batch).join(", "));
    routed.iter().map(line).collect()
}

#[test]
fn a_task_without_conditions_has_no_flow() {
    assert!(flow(json!([])).unwrap().is_none());
    assert!(
        flow(json!([{"from": "other", "to": "all", "when": "true", "short-circuit": true}]))
            .unwrap()
            .is_none()
    );
}

#[test]
fn conditions_add_up() {
    let conditions = json!([
        {"from": "t", "to": ["a"], "when": "status >= 400"},
        {"from": "t", "to": ["a", "b"], "when": "status >= 500"},
        {"from": "t", "to": ["c"], "fn": "is-ann"},
    ]);
    assert_eq!(routed(conditions), ["a: 500 bob, 404 eve", "b: 500 bob", "c: 200 ann, null ann"]);
}

#[test]
fn a_short_circuit_is_the_last_word() {
    let conditions = json!([
        {"from": "t", "to": "all", "when": "status = 200", "short-circuit": true},
        {"from": "t", "to": "none", "when": "status is null", "short-circuit": true},
        {"from": "t", "to": ["a"], "when": "status >= 500", "short-circuit": true},
        {"from": "t", "to": ["b"], "when": "status >= 400"},
    ]);
    assert_eq!(routed(conditions), ["a: 200 ann, 500 bob", "b: 200 ann, 404 eve", "c: 200 ann"]);
}

#[test]
fn what_nobody_wants_goes_nowhere() {
    assert!(routed(json!([{"from": "t", "to": ["a"], "when": "status > 900"}])).is_empty());
}

#[test]
fn columns_are_left_out_for_who_is_meant() {
    let conditions = json!([
        {"from": "t", "to": ["a"], "when": "true", "exclude-keys": ["user"]},
        {"from": "t", "to": ["b"], "when": "status = 500", "exclude-keys": ["status"]},
        {"from": "t", "to": ["b"], "when": "status = 404"},
    ]);
    // A segment loses what any of its conditions leaves out, wherever it goes.
    assert_eq!(routed(conditions), ["a: ", "a: 200, null, 404", "b: ", "b: 404"]);
}

#[test]
fn a_condition_may_rely_on_those_before_it() {
    let conditions = json!([
        {"from": "t", "to": "none", "when": "status = 200", "short-circuit": true},
        {"from": "t", "to": ["a"], "when": "100 // (status - 200) = 0"},
    ]);
    assert_eq!(routed(conditions), ["a: 500 bob, 404 eve"]);
}

#[test]
fn what_comes_whole_is_not_copied() {
    let batch = events();
    let conditions = json!([{"from": "t", "to": ["a"], "when": "true"}]);
    let routed = flow(conditions).unwrap().unwrap().route(&batch).unwrap();
    assert!(Arc::ptr_eq(routed[0].1.column(0), batch.column(0)));
}

#[test]
fn failures_are_routed() {
    let conditions = json!([
        {"from": "t", "to": ["c"], "when": "error like '%zero%'", "exception": true},
    ]);
    let flow = flow(conditions).unwrap().unwrap();
    assert!(flow.has_exceptions());
    assert_eq!(flow.route(&events()).unwrap().len(), 3, "the rest goes to all");
    let failed =
        |row: usize, error: &str| Failed { record: events().slice(row, 1), error: error.into() };
    let routed = flow.route_failed(&[failed(0, "by zero"), failed(1, "no")]).unwrap();
    assert_eq!(routed.left, [failed(1, "no")]);
    assert_eq!(routed.batches[0].0, "c");
    let expected = ["by zero t {\"status\":200,\"user\":\"ann\"}"];
    assert_eq!(rows(&routed.batches[0].1), expected);
}

#[test]
fn what_cannot_be_is_said() {
    let sc = |to: Value, when: &str, short: bool| json!({"from": "t", "to": to, "when": when, "short-circuit": short});
    for (conditions, expected) in [
        (json!([sc(json!("all"), "true", false)]), "flow[0]: to all or none needs short-circuit"),
        (
            json!([sc(json!(["a"]), "true", true), sc(json!("all"), "true", true)]),
            "flow[1]: to = \"all\" comes before the others: move it up",
        ),
        (
            json!([sc(json!(["a"]), "true", true), sc(json!("none"), "true", true)]),
            "flow[1]: to = \"none\" comes right after",
        ),
        (
            json!([sc(json!(["a"]), "true", false), sc(json!(["b"]), "true", true)]),
            "flow[1]: short-circuiting conditions come before the others",
        ),
        (json!([sc(json!(["d"]), "true", false)]), "d does not follow t"),
        (
            json!([sc(json!(["a"]), "status >=", false)]),
            "flow[0]: when: \"status >=\" cannot be read",
        ),
        (json!([sc(json!(["a"]), "lowre(user)", false)]), "did you mean lower?"),
        (json!([{"from": "t", "to": ["a"]}]), "needs a condition"),
        (json!([{"from": "t", "to": ["a"], "fn": "is-an"}]), "did you mean is-ann?"),
        (json!([{"from": "t", "to": ["a"], "when": "true", "fn": "is-ann"}]), "not both"),
        (json!([{"from": "t", "when": "true"}]), "needs to"),
        (json!([{"from": "t", "to": 3, "when": "true"}]), "to is a list of texts, not 3"),
        (json!([{"from": "t", "to": ["a"], "wehn": "true"}]), "did you mean when?"),
        (json!([{"from": "t", "to": ["a"], "when": 1}]), "when is a text, not 1"),
        (json!({}), "write [[flow]]"),
    ] {
        let why = flow(conditions.clone()).unwrap_err();
        assert!(why.contains(expected), "{conditions}: {why}");
        let edges = [("t", "a"), ("t", "b"), ("t", "c")];
        let complaints = complaints(&json!({"flow": conditions}), &edges, &registry());
        assert_eq!(complaints.len(), 1, "{complaints:?}");
    }
    let edges = [("tt", "a")];
    let job = json!({"flow": [sc(json!(["a"]), "true", false)]});
    let found = complaints(&job, &edges, &registry());
    assert_eq!(found, [("flow[0].from".into(), "nothing follows t; did you mean tt?".into())]);
    let wrong =
        flow(json!([sc(json!(["a"]), "statsu > 1", false)])).unwrap().unwrap().route(&events());
    assert!(wrong.unwrap_err().contains("there is no column \"statsu\"; the columns are status"));
}

#[test]
fn the_number_of_conditions_is_bounded() {
    let condition = json!({"from": "t", "to": ["a"], "when": "true"});
    assert!(flow(Value::Array(vec![condition.clone(); CONDITIONS_MAX])).is_ok());
    let why = flow(Value::Array(vec![condition; CONDITIONS_MAX + 1])).unwrap_err();
    assert_eq!(why, "flow[64]: a task has at most 64 conditions");
}

proptest! {
    /// Each segment goes where reading the rules aloud for it alone says.
    #[test]
    fn every_segment_is_routed_by_itself(
        short in proptest::collection::vec((0..3usize, 0..6i64), 0..3),
        long in proptest::collection::vec((0..3usize, 0..6i64), 0..4),
        values in proptest::collection::vec(0..6i64, 1..12),
    ) {
        let conditions: Vec<(usize, i64, bool)> = short.iter().map(|it| (it.0, it.1, true))
            .chain(long.iter().map(|it| (it.0, it.1, false))).collect();
        prop_assume!(!conditions.is_empty());
        let written = conditions.iter().map(|(to, value, is_short)| json!({"from": "t",
            "to": [NEXT[*to]], "when": format!("v <= {value}"), "short-circuit": is_short}));
        let flow = flow(Value::Array(written.collect())).unwrap().unwrap();
        let column: ArrayRef = Arc::new(Int64Array::from(values.clone()));
        let batch = RecordBatch::try_from_iter([("v", column)]).unwrap();
        let routed = flow.route(&batch).unwrap();
        for (at, name) in NEXT.iter().enumerate() {
            let wants = |value: &i64| {
                let mut goes = false;
                for (to, limit, is_short) in &conditions {
                    if value <= limit {
                        goes |= *to == at;
                        if *is_short {
                            break;
                        }
                    }
                }
                goes
            };
            let expected: Vec<String> =
                values.iter().filter(|it| wants(it)).map(i64::to_string).collect();
            let got: Vec<String> = routed.iter().filter(|(to, _)| to == name)
                .flat_map(|(_, batch)| rows(batch)).collect();
            prop_assert_eq!(got, expected);
        }
    }
}
