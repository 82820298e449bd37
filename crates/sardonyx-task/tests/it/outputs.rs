//! Every output against the suite, and what it leaves on disk.

use std::{fs, sync::Arc};

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use sardonyx_task::{
    Output, plugin,
    suite::{self, Guarantee, Target},
};
use serde_json::{Value, json};

use super::{at, input, names, output, read};

fn numbers(from: i64, to: i64) -> RecordBatch {
    let column: ArrayRef = Arc::new(Int64Array::from((from..to).collect::<Vec<_>>()));
    RecordBatch::try_from_iter([("n", column)]).unwrap()
}

/// A file target in a directory of its own, with more keys.
fn target(root: &std::path::Path, number: usize, name: &str, more: &Value) -> Target {
    let directory = root.join(format!("{name}-{number}"));
    fs::create_dir(&directory).unwrap();
    let mut keys = json!({"plugin": "file", "path": at(&directory, name)});
    keys.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let is_rolled = more.get("roll").is_some();
    let make = {
        let keys = keys.clone();
        Box::new(move || output(&keys))
    };
    let name = name.to_owned();
    let rows = Box::new(move || {
        let left: Vec<String> = names(&directory);
        // Finished files, and nothing else; a fenced writer may still have made itself a directory.
        let files: Vec<String> =
            left.into_iter().filter(|file| !file.ends_with(".parts")).collect();
        if !is_rolled && files != [name.clone()] {
            return Err(format!("{files:?} are there instead of {name}"));
        }
        let path = match is_rolled {
            true => json!(files.iter().map(|file| at(&directory, file)).collect::<Vec<_>>()),
            false => json!(at(&directory, &name)),
        };
        if files.is_empty() {
            return Ok(Vec::new());
        }
        let mut keys = json!({"plugin": "file", "path": path});
        if !name.contains("parquet") {
            keys["schema"] = json!({"n": "int", "line": "text"});
            keys["columns"] = json!(["n", "line"]);
        }
        read(&*input(&keys)?)
    });
    Target { make, rows }
}

#[test]
fn files_of_every_format_pass_the_suite() {
    let root = tempfile::tempdir().unwrap();
    let mut number = 0;
    for name in ["a.ndjson", "a.csv", "a.parquet", "a.csv.gz", "a.ndjson.zst"] {
        let mut fresh = || {
            number += 1;
            Ok(target(root.path(), number, name, &json!({})))
        };
        let passed = suite::output(Guarantee::ExactlyOnce, &mut fresh);
        passed.map_err(|why| format!("{name}: {why}")).unwrap();
    }
}

#[test]
fn files_that_roll_pass_the_suite() {
    let root = tempfile::tempdir().unwrap();
    let mut number = 0;
    for name in ["a.ndjson", "a.parquet", "a.csv.gz"] {
        for roll in ["1B", "200B"] {
            let mut fresh = || {
                number += 1;
                Ok(target(root.path(), number, name, &json!({"roll": roll})))
            };
            let passed = suite::output(Guarantee::ExactlyOnce, &mut fresh);
            passed.map_err(|why| format!("{name} by {roll}: {why}")).unwrap();
        }
    }
}

#[test]
fn a_channel_passes_the_suite() {
    let mut number = 0;
    let mut fresh = || {
        number += 1;
        let name = format!("out-{number}");
        let keys = json!({"plugin": "memory", "channel": name});
        let taken = std::cell::RefCell::new(Vec::new());
        let rows = move || {
            while let Some(batch) = plugin::memory::channel(&name).take() {
                taken.borrow_mut().extend(suite::texts(&batch)?);
            }
            Ok(taken.borrow().clone())
        };
        Ok(Target { make: Box::new(move || output(&keys)), rows: Box::new(rows) })
    };
    suite::output(Guarantee::AtMostOnce, &mut fresh).unwrap();
}

#[test]
fn null_counts_what_is_committed() {
    let null = output(&json!({"plugin": "null"})).unwrap();
    let mut writer = null.open("p").unwrap();
    writer.write(&numbers(0, 5)).unwrap();
    assert_eq!(plugin::null::rows("job", "write"), 0);
    assert_eq!(writer.prepare(true), Ok(None));
    writer.write(&numbers(0, 2)).unwrap();
    writer.committed().unwrap();
    assert_eq!(plugin::null::rows("job", "write"), 5);
    plugin::null::forget("job", "write");
    assert_eq!(plugin::null::rows("job", "write"), 0);
}

fn write(output: &dyn Output, part: &str, batches: &[RecordBatch]) -> (String, bytes::Bytes) {
    let mut writer = output.open(part).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    let mark = writer.prepare(true).unwrap().unwrap();
    writer.committed().unwrap();
    (part.into(), mark)
}

#[test]
fn a_file_appears_whole_in_the_order_of_its_parts_and_leaves_nothing_beside_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = at(directory.path(), "n.csv");
    fs::write(&path, "old\n").unwrap();
    let output = output(&json!({"plugin": "file", "path": path})).unwrap();
    output.check().unwrap();
    let b = write(&*output, "b", &[numbers(2, 4)]);
    let a = write(&*output, "a", &[numbers(0, 2)]);
    assert_eq!(fs::read_to_string(&path).unwrap(), "old\n", "it stays until the end");
    output.finish(&[a, b]).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "n\n0\n1\n2\n3\n");
    assert_eq!(names(directory.path()), ["n.csv"]);
}

#[test]
fn finishing_goes_on_after_a_crash_at_any_of_its_steps() {
    for crash in [
        "a temporary file is left",
        "the file is there, the parts too",
        "half of the parts are gone",
    ] {
        let directory = tempfile::tempdir().unwrap();
        let path = at(directory.path(), "n.csv");
        let output = output(&json!({"plugin": "file", "path": path})).unwrap();
        let parts =
            [write(&*output, "a", &[numbers(0, 2)]), write(&*output, "b", &[numbers(2, 4)])];
        let of_job = directory.path().join("n.csv.parts/job.write");
        match crash {
            "a temporary file is left" => fs::write(of_job.join("whole-0123"), "n\n0").unwrap(),
            "the file is there, the parts too" => fs::write(&path, "n\n0\n1\n2\n3\n").unwrap(),
            _ => {
                fs::write(&path, "n\n0\n1\n2\n3\n").unwrap();
                fs::rename(&of_job, directory.path().join("n.csv.parts/job.finished")).unwrap();
                fs::remove_file(directory.path().join("n.csv.parts/job.finished/part-a-000001"))
                    .unwrap();
            }
        }
        output.finish(&parts).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "n\n0\n1\n2\n3\n", "{crash}");
        assert_eq!(names(directory.path()), ["n.csv"], "{crash}");
    }
}

#[test]
fn parts_that_are_gone_or_too_short_are_an_error_and_nothing_is_shown() {
    let directory = tempfile::tempdir().unwrap();
    let path = at(directory.path(), "n.csv");
    let output = output(&json!({"plugin": "file", "path": path})).unwrap();
    let parts = [write(&*output, "a", &[numbers(0, 2)])];
    let part = directory.path().join("n.csv.parts/job.write/part-a-000001");
    fs::write(&part, "0").unwrap();
    let why = output.finish(&parts).unwrap_err();
    assert!(why.contains("shorter than what was committed"), "{why}");
    fs::remove_dir_all(directory.path().join("n.csv.parts")).unwrap();
    let why = output.finish(&parts).unwrap_err();
    assert!(why.contains("run the job again"), "{why}");
    assert_eq!(names(directory.path()), Vec::<String>::new());
}

#[test]
fn two_jobs_that_write_to_one_path_do_not_mix() {
    let directory = tempfile::tempdir().unwrap();
    let keys = json!({"plugin": "file", "path": at(directory.path(), "n.csv")});
    let of = |job| {
        plugin::output("file", &sardonyx_task::Terms::new(job, "write", &keys)).unwrap().unwrap()
    };
    let (one, two) = (of("one"), of("two"));
    let part_of_one = write(&*one, "p", &[numbers(0, 1)]);
    let part_of_two = write(&*two, "p", &[numbers(5, 6)]);
    one.finish(&[part_of_one]).unwrap();
    assert_eq!(fs::read_to_string(at(directory.path(), "n.csv")).unwrap(), "n\n0\n");
    two.finish(&[part_of_two]).unwrap();
    assert_eq!(fs::read_to_string(at(directory.path(), "n.csv")).unwrap(), "n\n5\n");
    assert_eq!(names(directory.path()), ["n.csv"]);
}

#[test]
fn rolled_files_appear_when_they_are_committed_and_not_before() {
    let directory = tempfile::tempdir().unwrap();
    let keys = json!({"plugin": "file", "path": at(directory.path(), "n.csv.gz"), "roll": "1B"});
    let output = output(&keys).unwrap();
    let mut writer = output.open("p/1").unwrap();
    let finished = || -> Vec<String> {
        names(directory.path()).into_iter().filter(|name| !name.ends_with(".parts")).collect()
    };
    for number in 1..=3 {
        writer.write(&numbers(0, 3)).unwrap();
        writer.prepare(false).unwrap().unwrap();
        assert_eq!(finished().len(), number - 1);
        writer.committed().unwrap();
        assert_eq!(finished().len(), number);
    }
    assert_eq!(finished()[2], "n-p%2f1-000003.csv.gz");
    let rows = read(
        &*input(&json!({"plugin": "file", "path": at(directory.path(), "n-*.csv.gz")})).unwrap(),
    );
    assert_eq!(rows.unwrap().len(), 9);
}

#[test]
fn rows_with_other_columns_are_refused_where_they_cannot_be_written() {
    let directory = tempfile::tempdir().unwrap();
    let other: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let other = RecordBatch::try_from_iter([("m", other)]).unwrap();
    for (name, is_refused) in [("a.csv", true), ("a.parquet", true), ("a.ndjson", false)] {
        let output =
            output(&json!({"plugin": "file", "path": at(directory.path(), name)})).unwrap();
        let mut writer = output.open("p").unwrap();
        writer.write(&numbers(0, 1)).unwrap();
        assert_eq!(writer.write(&other).is_err(), is_refused, "{name}");
    }
}

#[test]
fn a_batch_that_cannot_be_written_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let path = at(directory.path(), "a.txt");
    let output = output(&json!({"plugin": "file", "path": path})).unwrap();
    let lines = |lines: Vec<&str>| {
        let column: ArrayRef = Arc::new(arrow::array::StringArray::from(lines));
        RecordBatch::try_from_iter([("line", column)]).unwrap()
    };
    let mut writer = output.open("p").unwrap();
    writer.write(&lines(vec!["good", "bad\n"])).unwrap_err();
    writer.write(&lines(vec!["good"])).unwrap();
    let mark = writer.prepare(false).unwrap().unwrap();
    output.finish(&[("p".into(), mark)]).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "good\n");
}
