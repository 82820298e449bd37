//! What happens when a function fails on a segment, and finding out on which.
//!
//! A function sees batches and fails on batches. Which segment is at fault is found by halving, so a
//! function must not mind seeing segments again; those with effects of their own (bulk functions) say
//! so, and fail as a whole.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, RecordBatch, StringArray},
    compute::concat_batches,
    datatypes::{DataType, Field, Schema},
};
use serde_json::Value;

use crate::{Function, Terms, record};

/// How often a segment can be tried again.
pub const RETRIES_MAX: u32 = 1000;

const EXAMPLE: &str = "write on-error = \"kill\", \"skip\" or { retry = 3 }";

/// What a task does about a segment on which its function failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// The job ends: nothing is lost, and somebody looks.
    #[default]
    Kill,
    /// The segment is left out, and goes to the dead letters if there are any.
    Skip,
    /// It is tried again so many times; then it goes to the dead letters, or the job ends if there
    /// are none.
    Retry(u32),
}

/// `on-error` and what belongs to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// What is done.
    pub on_error: OnError,
    /// The output task that gets what failed.
    pub dead_letters: Option<String>,
    /// Whether flow conditions route what failed: then all of it is reported, whatever `on_error`
    /// says, and [`Policy::settle`] says what is to be done about the rest.
    pub routes_exceptions: bool,
}

impl Policy {
    /// Reads `on-error` and `dead-letters`.
    pub fn of(terms: &Terms) -> Result<Policy, String> {
        let on_error = match terms.keys.get("on-error") {
            None | Some(Value::Null) => OnError::Kill,
            Some(Value::String(text)) if text == "kill" => OnError::Kill,
            Some(Value::String(text)) if text == "skip" => OnError::Skip,
            Some(Value::Object(table)) if table.len() == 1 && table.contains_key("retry") => {
                let number = table.get("retry").and_then(Value::as_u64);
                match number.and_then(|number| u32::try_from(number).ok()) {
                    Some(number @ 1..=RETRIES_MAX) => OnError::Retry(number),
                    _ => return Err(format!("retry is a number from 1 to {RETRIES_MAX}")),
                }
            }
            Some(other) => return Err(format!("on-error is not {other}: {EXAMPLE}")),
        };
        let dead_letters = terms.text("dead-letters")?.map(str::to_owned);
        if dead_letters.is_some() && on_error == OnError::Kill {
            return Err("dead-letters needs on-error = \"skip\" or { retry = 3 }".into());
        }
        Ok(Policy { on_error, dead_letters, routes_exceptions: false })
    }

    /// What to do about segments that failed and went nowhere: an error ends the job.
    pub fn settle(&self, failed: &[Failed]) -> Result<(), String> {
        let is_fatal = match self.on_error {
            OnError::Kill => true,
            OnError::Skip => false,
            OnError::Retry(_) => self.dead_letters.is_none(),
        };
        match failed.first() {
            Some(first) if is_fatal => Err(first.to_string()),
            _ => Ok(()),
        }
    }

    fn n_tries(&self) -> u32 {
        match self.on_error {
            OnError::Kill | OnError::Skip => 1,
            OnError::Retry(times) => times + 1,
        }
    }

    /// Whether the first failure is enough to know.
    fn stops_at_first(&self) -> bool {
        !self.routes_exceptions && self.on_error == OnError::Kill
    }
}

/// A segment on which a function failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Failed {
    /// The segment, as a batch of one row.
    pub record: RecordBatch,
    /// What the function said.
    pub error: String,
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let record = record::json_of_row(&self.record, 0);
        write!(f, "{}; the record is {record}", self.error)
    }
}

/// What a function made of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// The result of the segments on which it did not fail.
    pub batch: RecordBatch,
    /// The others.
    pub failed: Vec<Failed>,
}

/// Applies a function as the policy says. An error ends the job; it names the record.
///
/// What fails without any segment, such as a column that is not there, is nobody's fault among
/// them, and an error whatever the policy is.
pub fn apply_with(
    function: &mut dyn Function,
    batch: &RecordBatch,
    policy: &Policy,
) -> Result<Applied, String> {
    let why = match function.apply(batch) {
        Ok(batch) => return Ok(Applied { batch, failed: Vec::new() }),
        Err(why) => why,
    };
    let mut search = Search { policy, done: Vec::new(), failed: Vec::new() };
    let empty = batch.slice(0, 0);
    if function.is_bulk() {
        search.whole(function, batch, why);
    } else {
        search.done.push(function.apply(&empty)?);
        search.halves(function, batch, why);
    }
    let Search { done, failed, .. } = search;
    if !policy.routes_exceptions {
        policy.settle(&failed)?;
    }
    let schema = done.iter().find(|it| it.num_rows() > 0).or(done.first()).map(|it| it.schema());
    let schema = schema.unwrap_or_else(|| batch.schema());
    let done = done.iter().filter(|it| it.num_rows() > 0);
    let batch = concat_batches(&schema, done).map_err(|why| why.to_string())?;
    Ok(Applied { batch, failed })
}

struct Search<'a> {
    policy: &'a Policy,
    done: Vec<RecordBatch>,
    failed: Vec<Failed>,
}

impl Search<'_> {
    /// `batch` failed with `why`: which of its rows was it?
    fn halves(&mut self, function: &mut dyn Function, batch: &RecordBatch, why: String) {
        let n_rows = batch.num_rows();
        if n_rows <= 1 {
            return self.one(function, batch, why);
        }
        let half = n_rows / 2;
        for part in [batch.slice(0, half), batch.slice(half, n_rows - half)] {
            if self.policy.stops_at_first() && !self.failed.is_empty() {
                return;
            }
            match function.apply(&part) {
                Ok(done) => self.done.push(done),
                Err(why) => self.halves(function, &part, why),
            }
        }
    }

    fn one(&mut self, function: &mut dyn Function, record: &RecordBatch, mut why: String) {
        for _ in 1..self.policy.n_tries() {
            match function.apply(record) {
                Ok(done) => return self.done.push(done),
                Err(again) => why = again,
            }
        }
        self.failed.push(Failed { record: record.clone(), error: why });
    }

    /// Effects cannot be halved: all or none.
    fn whole(&mut self, function: &mut dyn Function, batch: &RecordBatch, mut why: String) {
        for _ in 1..self.policy.n_tries() {
            match function.apply(batch) {
                Ok(done) => return self.done.push(done),
                Err(again) => why = again,
            }
        }
        for row in 0..batch.num_rows() {
            self.failed.push(Failed { record: batch.slice(row, 1), error: why.clone() });
        }
    }
}

/// What failed, as segments for the dead letters: `error`, `task`, and the `record` as JSON.
pub fn letters(task: &str, failed: &[Failed]) -> Result<RecordBatch, String> {
    let text = |name: &str| Field::new(name, DataType::Utf8, false);
    let schema = Schema::new(vec![text("error"), text("task"), text("record")]);
    let errors: StringArray = failed.iter().map(|it| Some(it.error.as_str())).collect();
    let tasks: StringArray = failed.iter().map(|_| Some(task)).collect();
    let records = failed.iter().map(|it| Some(record::json_of_row(&it.record, 0)));
    let records: StringArray = records.collect();
    let columns: Vec<ArrayRef> = vec![Arc::new(errors), Arc::new(tasks), Arc::new(records)];
    RecordBatch::try_new(Arc::new(schema), columns).map_err(|why| why.to_string())
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::{AsArray, Int64Array},
        datatypes::Int64Type,
    };
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::testing::rows;

    #[expect(clippy::needless_pass_by_value, reason = "tables are written in place")]
    fn policy(entry: Value) -> Result<Policy, String> {
        Policy::of(&Terms::new("j", "t", &entry))
    }

    fn numbers(numbers: &[i64]) -> RecordBatch {
        let column: ArrayRef = Arc::new(Int64Array::from(numbers.to_vec()));
        RecordBatch::try_from_iter([("n", column)]).unwrap()
    }

    /// Fails on negative numbers, so many times.
    struct Picky {
        patience: u32,
        n_calls: u32,
        is_bulk: bool,
    }

    fn picky(patience: u32) -> Picky {
        Picky { patience, n_calls: 0, is_bulk: false }
    }

    impl Function for Picky {
        fn apply(&mut self, batch: &RecordBatch) -> Result<RecordBatch, String> {
            self.n_calls += 1;
            let numbers = batch.column(0).as_primitive::<Int64Type>();
            match numbers.values().iter().find(|it| **it < 0) {
                Some(bad) if self.patience > 0 => {
                    if batch.num_rows() == 1 || self.is_bulk {
                        self.patience -= 1;
                    }
                    Err(format!("{bad} is negative"))
                }
                _ => Ok(batch.clone()),
            }
        }

        fn is_bulk(&self) -> bool {
            self.is_bulk
        }
    }

    #[test]
    fn policies_are_read() {
        assert_eq!(policy(json!({})).unwrap().on_error, OnError::Kill);
        assert_eq!(policy(json!({"on-error": "skip"})).unwrap().on_error, OnError::Skip);
        let read = policy(json!({"on-error": {"retry": 3}, "dead-letters": "bad"})).unwrap();
        assert_eq!(read.on_error, OnError::Retry(3));
        assert_eq!(read.dead_letters.as_deref(), Some("bad"));
        assert!(policy(json!({"on-error": {"retry": 1000}})).is_ok());
        for (entry, expected) in [
            (json!({"on-error": "ignore"}), "on-error is not \"ignore\": write"),
            (json!({"on-error": {"retry": 0}}), "retry is a number from 1 to 1000"),
            (json!({"on-error": {"retry": 1001}}), "retry is a number from 1 to 1000"),
            (json!({"on-error": {"retyr": 1}}), "write on-error"),
            (json!({"dead-letters": "bad"}), "dead-letters needs on-error"),
        ] {
            let why = policy(entry).unwrap_err();
            assert!(why.contains(expected), "{why}");
        }
    }

    #[test]
    fn killing_names_the_record_and_asks_no_further() {
        let mut function = picky(u32::MAX);
        let all: Vec<i64> = (0..1024).map(|n| if n >= 300 { -n } else { n }).collect();
        let policy = policy(json!({})).unwrap();
        let why = apply_with(&mut function, &numbers(&all), &policy).unwrap_err();
        assert_eq!(why, "-300 is negative; the record is {\"n\":-300}");
        assert!(function.n_calls < 30, "{}", function.n_calls);
    }

    #[test]
    fn trying_again_helps_or_ends() {
        let policy = policy(json!({"on-error": {"retry": 2}})).unwrap();
        let applied = apply_with(&mut picky(2), &numbers(&[1, -2, 3]), &policy).unwrap();
        assert_eq!((rows(&applied.batch).len(), applied.failed.len()), (3, 0));
        let why = apply_with(&mut picky(9), &numbers(&[1, -2, 3]), &policy).unwrap_err();
        assert!(why.starts_with("-2 is negative"), "{why}");
        let kept = Policy { dead_letters: Some("bad".into()), ..policy };
        let applied = apply_with(&mut picky(9), &numbers(&[1, -2, 3]), &kept).unwrap();
        assert_eq!(rows(&applied.batch), ["1", "3"]);
        let letters = letters("t", &applied.failed).unwrap();
        assert_eq!(rows(&letters), ["-2 is negative t {\"n\":-2}"]);
    }

    #[test]
    fn effects_fail_as_a_whole() {
        let mut function = Picky { patience: 9, n_calls: 0, is_bulk: true };
        let policy = policy(json!({"on-error": "skip"})).unwrap();
        let applied = apply_with(&mut function, &numbers(&[1, -2, 3]), &policy).unwrap();
        assert_eq!((applied.batch.num_rows(), applied.failed.len()), (0, 3));
        assert_eq!(function.n_calls, 1, "no effect twice");
    }

    #[test]
    fn what_fails_without_segments_is_no_segments_fault() {
        let terms = Terms::new("j", "t", &json!({"fn": "sql", "query": "select x from segments"}));
        let mut function = crate::Registry::built_in().make_function(&terms).unwrap();
        let policy = policy(json!({"on-error": "skip"})).unwrap();
        let why = apply_with(function.as_mut(), &numbers(&[1, 2]), &policy).unwrap_err();
        assert!(why.contains("there is no column \"x\""), "{why}");
    }

    proptest! {
        #[test]
        fn skipping_leaves_out_exactly_the_bad_ones(
            all in proptest::collection::vec(-3..8i64, 0..50),
        ) {
            let policy = policy(json!({"on-error": "skip"})).unwrap();
            let applied = apply_with(&mut picky(u32::MAX), &numbers(&all), &policy).unwrap();
            let good: Vec<i64> = all.iter().copied().filter(|it| *it >= 0).collect();
            let bad: Vec<String> =
                all.iter().filter(|it| **it < 0).map(|it| format!("{it} is negative")).collect();
            let column = applied.batch.column(0).as_primitive::<Int64Type>();
            prop_assert_eq!(column.values().to_vec(), good);
            let errors: Vec<String> = applied.failed.iter().map(|it| it.error.clone()).collect();
            prop_assert_eq!(errors, bad);
        }
    }
}
