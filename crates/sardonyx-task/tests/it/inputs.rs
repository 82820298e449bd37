//! Every input against the suite, and what files of each format give.

use std::{fs, io::Write, path::Path};

use sardonyx_task::suite;
use serde_json::{Value, json};

use super::{at, input, output, read};

/// Rows with everything that formats stumble over, as NDJSON.
fn sample(n_rows: usize) -> String {
    let mut text = String::new();
    let texts = ["plain", "", "a,b;\"c\"", "line\nend\r\n", "ünï → 😀", "\\ \t \u{1}"];
    for row in 0..n_rows {
        let value = json!({
            "n": row,
            "ratio": row as f64 / 4.0,
            "is_even": row % 2 == 0,
            "text": texts[row % 6],
            "maybe": if row % 3 == 0 { Value::Null } else { json!(row) },
        });
        text += &format!("{value}\n");
    }
    text
}

fn write(directory: &Path, name: &str, text: &str) -> String {
    let path = at(directory, name);
    fs::write(&path, text).unwrap();
    path
}

/// Rewrites a file in the format of another name, by our own output.
fn convert(from: &str, to: &str, columns: &[&str]) {
    let source = input(&json!({"plugin": "file", "path": from, "columns": columns})).unwrap();
    let target = output(&json!({"plugin": "file", "path": to})).unwrap();
    let mut writer = target.open("p").unwrap();
    for split in source.splits(None).unwrap().splits {
        let mut reader = source.open(&split, None).unwrap();
        while let sardonyx_task::input::Read::Batch(batch, _) = reader.read(5).unwrap() {
            writer.write(&batch).unwrap();
            writer.prepare(false).unwrap();
        }
    }
    let mark = writer.prepare(false).unwrap().unwrap();
    target.finish(&[("p".into(), mark)]).unwrap();
}

#[test]
fn every_format_packed_or_not_passes_the_suite_and_gives_the_same_rows() {
    let directory = tempfile::tempdir().unwrap();
    let path = write(directory.path(), "a.ndjson", &sample(53));
    let columns = ["n", "ratio", "is_even", "text", "maybe"];
    let expected =
        read(&*input(&json!({"plugin": "file", "path": path, "columns": columns})).unwrap());
    let expected = expected.unwrap();
    assert_eq!(expected.len(), 53);
    for name in
        ["b.ndjson", "b.csv", "b.parquet", "b.ndjson.gz", "b.ndjson.zst", "b.csv.gz", "b.csv.zst"]
    {
        let to = at(directory.path(), name);
        convert(&path, &to, &columns);
        for split_bytes in [1, 200, 1_000_000] {
            let keys = json!({"plugin": "file", "path": to, "columns": columns, "split-bytes": split_bytes});
            suite::input(&|| input(&keys)).map_err(|why| format!("{name}: {why}")).unwrap();
            let rows = read(&*input(&keys).unwrap()).unwrap();
            assert_eq!(rows, expected, "{name}");
        }
    }
}

#[test]
fn lines_pass_the_suite_packed_or_not() {
    let directory = tempfile::tempdir().unwrap();
    let text: String = (0..60).map(|n| format!("line {n} with ünï\n")).collect();
    let plain = write(directory.path(), "a.txt", &text);
    let packed = at(directory.path(), "a.txt.gz");
    let mut gz = flate2::write::GzEncoder::new(
        fs::File::create(&packed).unwrap(),
        flate2::Compression::default(),
    );
    gz.write_all(text.as_bytes()).unwrap();
    gz.finish().unwrap();
    for path in [plain, packed] {
        for split_bytes in [1, 100, 1_000_000] {
            let keys = json!({"plugin": "file", "path": path, "split-bytes": split_bytes});
            suite::input(&|| input(&keys)).unwrap();
            assert_eq!(read(&*input(&keys).unwrap()).unwrap().len(), 60);
        }
    }
}

#[test]
fn generated_rows_pass_the_suite_and_a_seed_gives_the_same_rows_for_any_number_of_splits() {
    let shape = json!({
        "n": "sequence", "user": {"text": "u{00000..99999}-{n}"}, "status": {"choice": [200, 404]},
        "bytes": {"random": [-5, 5]}, "ratio": "random-float", "kind": {"choice": ["a", "b"]},
        "line": {"words": 3, "vocabulary": 100}, "ts": {"timestamp": "2026-01-01T00:00:00Z", "step": "2ms"},
    });
    let keys = |splits: u64| json!({"plugin": "generate", "count": 101, "splits": splits, "shape": shape, "seed": 7});
    suite::input(&|| input(&keys(3))).unwrap();
    let sorted = |splits| {
        let mut rows = read(&*input(&keys(splits)).unwrap()).unwrap();
        rows.sort();
        rows
    };
    let rows = sorted(1);
    assert_eq!(rows.len(), 101);
    for splits in [2, 8, 101, 500] {
        assert_eq!(sorted(splits), rows, "{splits} splits");
    }
    assert!(rows.iter().any(|row| row.contains("2026-01-01T00:00:00.200")), "{rows:?}");
    let other = json!({"plugin": "generate", "count": 101, "shape": shape, "seed": 8});
    assert_ne!(read(&*input(&other).unwrap()).unwrap(), rows);
    let numbers = read(&*input(&json!({"plugin": "generate", "count": 3})).unwrap()).unwrap();
    assert_eq!(numbers, [r#"{"n":0}"#, r#"{"n":1}"#, r#"{"n":2}"#]);
}

#[test]
fn an_endless_generator_is_shared_by_its_splits() {
    let endless = input(&json!({"plugin": "generate", "splits": 4})).unwrap();
    let splits = endless.splits(None).unwrap().splits;
    let mut seen = Vec::new();
    for split in &splits {
        let mut reader = endless.open(split, None).unwrap();
        for _ in 0..2 {
            let sardonyx_task::input::Read::Batch(batch, _) = reader.read(3).unwrap() else {
                panic!("it ended")
            };
            seen.extend(suite::texts(&batch).unwrap());
        }
    }
    let mut expected: Vec<String> = (0..24).map(|n| format!("{{\"n\":{n}}}")).collect();
    expected.sort();
    seen.sort();
    assert_eq!(seen, expected);
}

#[test]
fn a_channel_passes_the_suite() {
    let numbers = std::cell::Cell::new(0);
    let make = || {
        let name = format!("suite-{}", numbers.get());
        numbers.set(numbers.get() + 1);
        let channel = sardonyx_task::plugin::memory::channel(&name);
        for n in 0..5_i64 {
            let column: arrow::array::ArrayRef =
                std::sync::Arc::new(arrow::array::Int64Array::from(vec![n * 2, n * 2 + 1]));
            channel
                .push(arrow::array::RecordBatch::try_from_iter([("n", column)]).unwrap())
                .unwrap();
        }
        channel.close();
        input(&json!({"plugin": "memory", "channel": name}))
    };
    suite::input(&make).unwrap();
}

#[test]
fn columns_are_found_in_the_first_records_or_named_by_the_job() {
    let directory = tempfile::tempdir().unwrap();
    let text = "{\"b\":1,\"a\":\"x\"}\n{\"a\":\"y\",\"b\":2.5,\"c\":[1, {\"d\":2}]}\n\n{}\n";
    let path = write(directory.path(), "a.ndjson", text);
    let rows = |keys: Value| {
        let mut all = json!({"plugin": "file", "path": path});
        all.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
        read(&*input(&all)?)
    };
    assert_eq!(
        rows(json!({})).unwrap(),
        [
            r#"{"b":1.0,"a":"x","c":null}"#,
            r#"{"b":2.5,"a":"y","c":"[1, {\"d\":2}]"}"#,
            r#"{"b":null,"a":null,"c":null}"#
        ]
    );
    assert_eq!(rows(json!({"columns": ["a"]})).unwrap()[1], r#"{"a":"y"}"#);
    let typed = rows(json!({"columns": ["z", "b"], "schema": {"z": "int", "b": "text"}})).unwrap();
    assert_eq!(
        typed,
        [r#"{"z":null,"b":"1"}"#, r#"{"z":null,"b":"2.5"}"#, r#"{"z":null,"b":null}"#]
    );
    let why = rows(json!({"columns": ["nope"]})).unwrap_err();
    assert!(why.contains("nope") && why.contains("b, a, c"), "{why}");
}

#[test]
fn csv_has_a_header_names_or_numbers_and_any_delimiter() {
    let directory = tempfile::tempdir().unwrap();
    let path =
        write(directory.path(), "a.csv", "\u{feff}id;name\r\n007;\"x;\"\"y\"\"\"\r\n008;\r\n");
    let with = |more: Value| {
        let mut all = json!({"plugin": "file", "path": path, "delimiter": ";"});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        read(&*input(&all).unwrap()).unwrap()
    };
    assert_eq!(
        with(json!({})),
        [r#"{"id":"007","name":"x;\"y\""}"#, r#"{"id":"008","name":null}"#]
    );
    assert_eq!(with(json!({"schema": {"id": "int"}}))[0], r#"{"id":7,"name":"x;\"y\""}"#);
    assert_eq!(with(json!({"header": false}))[0], r#"{"column-1":"id","column-2":"name"}"#);
    assert_eq!(with(json!({"header": ["a", "b"], "columns": ["b"]}))[2], r#"{"b":null}"#);
}

#[test]
fn times_are_read_and_written() {
    let directory = tempfile::tempdir().unwrap();
    let text = "{\"t\":\"2026-01-31T12:00:00.000001Z\"}\n{\"t\":\"2026-01-31T13:00:00+01:00\"}\n{\"t\":null}\n";
    let path = write(directory.path(), "a.ndjson", text);
    let keys = json!({"plugin": "file", "path": path, "schema": {"t": "timestamp"}});
    let rows = read(&*input(&keys).unwrap()).unwrap();
    assert_eq!(
        rows,
        [
            r#"{"t":"2026-01-31T12:00:00.000001"}"#,
            r#"{"t":"2026-01-31T12:00:00"}"#,
            r#"{"t":null}"#
        ]
    );
}

#[test]
fn a_directory_a_pattern_and_a_list_name_files_in_order_and_each_once() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["c.txt", "a.txt", "b.txt"] {
        write(directory.path(), name, &format!("{name}\n"));
    }
    write(directory.path(), ".hidden.txt", "no\n");
    fs::create_dir(directory.path().join("c.txt.parts")).unwrap();
    let whole = directory.path().to_str().unwrap();
    let rows =
        |path: Value| read(&*input(&json!({"plugin": "file", "path": path})).unwrap()).unwrap();
    let all = [r#"{"line":"a.txt"}"#, r#"{"line":"b.txt"}"#, r#"{"line":"c.txt"}"#];
    assert_eq!(rows(json!(whole)), all);
    assert_eq!(rows(json!(format!("{whole}/*.txt"))), all);
    let list = json!([format!("{whole}/b.txt"), format!("{whole}/*.txt")]);
    assert_eq!(rows(list), [all[1], all[0], all[2]]);
}

#[test]
fn empty_files_give_no_rows() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["a.txt", "a.ndjson", "a.csv", "header.csv", "blank.ndjson"] {
        let text = match name {
            "header.csv" => "a,b\n",
            "blank.ndjson" => "\n\r\n  \n",
            _ => "",
        };
        let path = write(directory.path(), name, text);
        let keys = json!({"plugin": "file", "path": path});
        assert_eq!(read(&*input(&keys).unwrap()).unwrap(), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn every_line_comes_once_wherever_a_file_is_cut() {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("a.txt", "one\n\n\r\nünï\r\nfive"),
        ("b.txt", "\n\n"),
        ("a.ndjson", "{\"a\":1}\r\n\n{\"a\":22}\n{\"a\":333}"),
        ("a.csv", "a,b\r\n1,\"x\ny\"\r\n\r\n2,\"\"\"\n\"\n3,z"),
        ("b.csv", "\"a\nb\"\n\"1\n\"\n2"),
    ] {
        let path = write(directory.path(), name, text);
        let keys =
            |split_bytes| json!({"plugin": "file", "path": path, "split-bytes": split_bytes});
        let whole = read(&*input(&keys(1_000)).unwrap()).unwrap();
        assert!(!whole.is_empty());
        let mut most = 0;
        for split_bytes in 1..=text.len() + 1 {
            let input = input(&keys(split_bytes)).unwrap();
            most = most.max(input.splits(None).unwrap().splits.len());
            assert_eq!(read(&*input).unwrap(), whole, "{name} by {split_bytes}");
        }
        assert!(most > 1, "{name} was never cut");
    }
}
