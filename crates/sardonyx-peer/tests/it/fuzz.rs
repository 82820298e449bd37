//! Job files: whatever they say, they are a job or a list of complaints; and those that are wrong for
//! a known reason are complained about in the right place.

#[path = "../../../../fuzz/harness.rs"]
mod harness;

use std::{
    path::Path,
    time::{Duration, Instant},
};

use harness::{Rng, Target};
use sardonyx_peer::job::{Job, Language, RegisteredNames};
use sardonyx_task::Registry;
use toml::{Table, Value};

/// The jobs that come with the project.
fn good() -> Vec<String> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../jobs");
    let files = std::fs::read_dir(dir).expect("the jobs").flatten().map(|it| it.path());
    let mut files: Vec<_> =
        files.filter(|it| it.extension().is_some_and(|it| it == "toml")).collect();
    files.sort();
    files.iter().map(|it| std::fs::read_to_string(it).expect("a job")).collect()
}

fn json(job: &Table) -> String {
    serde_json::to_string(job).expect("JSON")
}

const WORDS: &[&str] = &[
    "catalog",
    "workflow",
    "type",
    "plugin",
    "fn",
    "input",
    "output",
    "function",
    "sql",
    "file",
    "group-by",
    "max-peers",
    "min-peers",
    "percentage",
    "flow",
    "null",
    "[",
    "]",
    "{",
    "}",
    "\"",
    "=",
    "nan",
    "inf",
    "1e400",
    "9223372036854775808",
    "1979-05-27",
    "\\u0000",
    "[[",
    "]]",
    "\n",
    "on-error",
    "batch-size",
    "batch-timeout",
    "consumption",
    "aggregates",
    "when",
];

#[test]
fn a_job_file_in_toml() {
    let names = RegisteredNames::new(Registry::built_in());
    let seeds = good().into_iter().map(String::into_bytes).collect();
    Target { name: "job-toml", seeds, words: WORDS }
        .run(|input| judge(&String::from_utf8_lossy(input), Language::Toml, &names));
}

#[test]
fn a_job_file_in_json() {
    let names = RegisteredNames::new(Registry::built_in());
    let written = |it: String| json(&it.parse().expect("TOML")).into_bytes();
    let seeds = good().into_iter().map(written).collect();
    Target { name: "job-json", seeds, words: WORDS }
        .run(|input| judge(&String::from_utf8_lossy(input), Language::Json, &names));
}

fn judge(text: &str, language: Language, names: &RegisteredNames) -> String {
    match Job::read(text, language, names) {
        Err(complaints) => {
            assert!(!complaints.is_empty(), "refused without a word");
            complaints.iter().map(ToString::to_string).collect()
        }
        Ok(job) => {
            let again = Job::read(job.text().as_str(), Language::Json, names);
            assert_eq!(again.as_ref(), Ok(&job), "what was read can be read again");
            // What is submitted can be applied.
            let terms = sardonyx_core::wire::terms_from_json(job.text().as_str(), job.tasks());
            terms.and_then(|terms| terms.check()).expect("terms that the log takes");
            "a job".into()
        }
    }
}

/// A job with one thing wrong, and where the complaint must stand.
struct Bad {
    text: String,
    place: String,
}

fn catalog(job: &mut Table) -> &mut Table {
    job.get_mut("catalog").and_then(Value::as_table_mut).expect("a catalog")
}

fn workflow(job: &mut Table) -> &mut Vec<Value> {
    job.get_mut("workflow").and_then(Value::as_array_mut).expect("a workflow")
}

fn edge(from: &str, to: &str) -> Value {
    Value::Array(vec![from.into(), to.into()])
}

/// A value that is neither a number from 1 on nor what else is expected in most places.
fn strange(rng: &mut Rng) -> Value {
    let n = rng.below(1000) as i64;
    match rng.below(5) {
        0 => Value::Integer(-n),
        1 => Value::String(format!("x{n}")),
        2 => Value::Boolean(n % 2 == 0),
        3 => Value::Array(vec![n.into()]),
        _ => Value::Float(n as f64 + 0.001),
    }
}

/// Makes one thing wrong in a job that was right.
fn spoil(rng: &mut Rng, kind: usize, mut job: Table) -> Bad {
    let tasks: Vec<String> = catalog(&mut job).keys().cloned().collect();
    let task = tasks[rng.below(tasks.len())].clone();
    let of = |job: &mut Table, kind: &str| {
        let is = |it: &Value| it.get("type").and_then(Value::as_str) == Some(kind);
        let found = catalog(job).iter().find(|(_, entry)| is(entry));
        found.map(|(name, _)| name.clone()).expect("such a task")
    };
    let n = rng.below(10_000);
    let set = |job: &mut Table, key: &str, value: Value| {
        let entry = catalog(job).get_mut(&task).and_then(Value::as_table_mut).expect("an entry");
        entry.insert(key.to_owned(), value);
        format!("catalog.{task}.{key}")
    };
    let place = match kind {
        0 => {
            job.insert(format!("unknown-{n}"), strange(rng));
            format!("unknown-{n}")
        }
        1 => set(&mut job, &format!("unknown-{n}"), strange(rng)),
        2 => {
            catalog(&mut job).remove(&task);
            String::new()
        }
        3 => {
            workflow(&mut job).push(edge(&task, &format!("nobody-{n}")));
            String::new()
        }
        4 => {
            workflow(&mut job).push(edge(&task, &task));
            "workflow".into()
        }
        5 => set(&mut job, "type", Value::String(format!("kind-{n}"))),
        6 => {
            let task = of(&mut job, "input");
            catalog(&mut job)[&task]["plugin"] = Value::String(format!("nothing-{n}"));
            format!("catalog.{task}")
        }
        7 => set(&mut job, "max-peers", Value::Integer(-(n as i64))),
        8 => {
            set(&mut job, "max-peers", Value::Integer(2));
            set(&mut job, "min-peers", Value::Integer(3 + n as i64))
        }
        9 => {
            job.insert("percentage".into(), Value::Float(100.01 + n as f64));
            "percentage".into()
        }
        10 => {
            job.insert("task-scheduler".into(), Value::String(format!("fair-{n}")));
            "task-scheduler".into()
        }
        11 => {
            let short = Value::Array(vec![task.into()]);
            workflow(&mut job).push(if n.is_multiple_of(2) {
                short
            } else {
                Value::Integer(n as i64)
            });
            "workflow".into()
        }
        12 => {
            let input = of(&mut job, "input");
            let other = tasks.iter().find(|it| **it != input).expect("another").clone();
            workflow(&mut job).push(edge(&other, &input));
            String::new()
        }
        13 => {
            let output = of(&mut job, "output");
            let other = tasks.iter().find(|it| **it != output).expect("another").clone();
            workflow(&mut job).push(edge(&output, &other));
            String::new()
        }
        14 => {
            job.insert("name".into(), Value::Integer(n as i64));
            "name".into()
        }
        15 => {
            job.insert("partial-coverage-protection".into(), Value::String(format!("yes-{n}")));
            "partial-coverage-protection".into()
        }
        16 => set(&mut job, "consumption", Value::String(format!("sometimes-{n}"))),
        17 => set(&mut job, "batch-size", Value::Integer(-(n as i64))),
        18 => {
            job.insert("flow".into(), Value::Integer(n as i64));
            "flow".into()
        }
        _ => {
            job.insert("catalog".into(), Value::Array(vec![(n as i64).into()]));
            "catalog".into()
        }
    };
    Bad { text: json(&job), place }
}

/// 2,000 job files: each is refused, soon, and the complaint stands where the mistake is.
#[test]
fn bad_job_files_are_refused_where_they_are_wrong() {
    let names = RegisteredNames::new(Registry::built_in());
    let good: Vec<Table> = good().iter().map(|it| it.parse().expect("TOML")).collect();
    let mut rng = Rng(5);
    let mut slowest = Duration::ZERO;
    for n in 0..2_000 {
        let job = good[rng.below(good.len())].clone();
        let bad = match n % 22 {
            20 => {
                // Not even JSON: something stands behind the end, or the end is missing.
                Bad { text: format!("{} {n}", json(&job)), place: String::new() }
            }
            21 => {
                let mut text = json(&job);
                text.truncate(text.len() - 1 - rng.below(20));
                Bad { text, place: String::new() }
            }
            kind => spoil(&mut rng, kind, job),
        };
        let begun = Instant::now();
        let read = Job::read(&bad.text, Language::Json, &names);
        slowest = slowest.max(begun.elapsed());
        let complaints = match read {
            Err(complaints) => complaints,
            Ok(_) => panic!("number {n} is taken:\n{}", bad.text),
        };
        let is_there = |it: &sardonyx_peer::job::Complaint| it.place.starts_with(&bad.place);
        assert!(complaints.iter().any(is_there), "{n}: not at {}: {complaints:?}", bad.place);
        assert!(complaints.iter().all(|it| it.what.len() > 8), "says little: {complaints:?}");
    }
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
}
