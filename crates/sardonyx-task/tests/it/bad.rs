//! What is wrong is said once, with its place and with what to write instead.

use std::fs;

use serde_json::{Value, json};

use super::{at, input, names, output, read};

fn complaint(keys: &Value) -> String {
    input(keys).and_then(|input| read(&*input)).unwrap_err()
}

#[test]
fn bad_records_are_named_by_file_and_line() {
    let directory = tempfile::tempdir().unwrap();
    for (name, text, line, what) in [
        ("a.ndjson", "{\"a\":1}\n\n{\"a\":}\n", 3, "no JSON value"),
        ("b.ndjson", "{\"a\":1}\n[1]\n", 2, "not a JSON object"),
        ("c.ndjson", "{\"a\":1}\n{\"a\":1} x\n", 2, "something behind the object"),
        ("d.ndjson", "{\"a\":1}\n{\"a\":1\n", 2, "not followed by"),
        ("e.ndjson", "{\"a\":\"x\ty\"}\n", 1, "control character"),
        ("f.csv", "a;b\n1,5;2\n", 2, "of the header: write delimiter = \";\"?"),
        ("f.csv", "a;b,c\n1,5;2,3\n", 2, "more than the 2 fields of the header"),
        ("f.csv", "a,b\n1,2\n\"x\ny\",3\n4\n", 5, "1 fields where the header has 2"),
        ("g.csv", "a,b\n1,2\n1,2,3\n", 3, "more than the 2 fields"),
        ("h.csv", "a,b\n1,2\n3,\"x\n\n", 3, "never closed"),
        ("i.csv", "a,b\n1,\"x\"y\n", 2, "closing quote"),
    ] {
        let path = at(directory.path(), name);
        fs::write(&path, text).unwrap();
        let why = complaint(&json!({"plugin": "file", "path": path}));
        assert!(
            why.contains(&format!("{name} line {line}: ")) && why.contains(what),
            "{name}: {why}"
        );
    }
}

#[test]
fn what_does_not_fit_its_column_says_which_type_to_write() {
    let directory = tempfile::tempdir().unwrap();
    // More records than are looked at, and then another type, or another key.
    let many = "{\"a\":1}\n".repeat(10_000);
    for (name, last, what) in [
        ("a.ndjson", "{\"a\":1.5}\n", "a is 1.5, which is no int"),
        ("b.ndjson", "{\"a\":\"x\"}\n", "schema = { a = \"text\" }"),
        ("c.ndjson", "{\"a\":9223372036854775808}\n", "which is no int"),
        ("d.ndjson", "{\"a\":1,\"late\":2}\n", "the key \"late\" is not in the first records"),
    ] {
        let path = at(directory.path(), name);
        fs::write(&path, format!("{many}{last}")).unwrap();
        let why = complaint(&json!({"plugin": "file", "path": path}));
        assert!(why.contains("line 10001: ") && why.contains(what), "{name}: {why}");
        let keys =
            json!({"plugin": "file", "path": path, "columns": ["a"], "schema": {"a": "text"}});
        assert_eq!(read(&*input(&keys).unwrap()).unwrap().len(), 10_001);
    }
}

#[test]
fn a_text_that_is_not_utf8_is_named_by_its_line() {
    let directory = tempfile::tempdir().unwrap();
    for (name, bytes) in [
        ("a.txt", &b"one\ntwo\nbad \xff\nfour\n"[..]),
        ("a.ndjson", b"{\"a\":\"one\"}\n\n{\"a\":\"\xff\"}\n"),
        ("a.csv", b"a,b\n1,x\n2,\xff\n"),
    ] {
        let path = at(directory.path(), name);
        fs::write(&path, bytes).unwrap();
        let why = complaint(&json!({"plugin": "file", "path": path, "split-bytes": 1_000}));
        assert!(why.contains("line 3: ") && why.contains("UTF-8"), "{why}");
    }
}

#[test]
fn a_character_cut_in_two_by_the_end_of_a_row_is_not_utf8() {
    let directory = tempfile::tempdir().unwrap();
    let path = at(directory.path(), "a.txt");
    fs::write(&path, b"a\xc3\n\xa4b\n").unwrap();
    let why = complaint(&json!({"plugin": "file", "path": path}));
    assert!(why.contains("line 1: ") && why.contains("UTF-8"), "{why}");
}

#[test]
fn files_that_are_not_there_or_not_what_they_say_are_found_when_work_is_cut() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(at(directory.path(), "no.parquet"), "PAR1 no").unwrap();
    fs::write(at(directory.path(), "no.csv.gz"), "not packed").unwrap();
    fs::write(at(directory.path(), "a.txt"), "x\n").unwrap();
    fs::write(at(directory.path(), "b.csv"), "x\n").unwrap();
    fs::write(at(directory.path(), "c.what"), "x\n").unwrap();
    for (path, what) in [
        ("nothing.csv", "there is no file"),
        ("nothing*.csv", "there is no file"),
        ("no.parquet", "no whole Parquet file"),
        ("no.csv.gz", "cannot be read"),
        ("[ab].*", "one task reads one format"),
        ("c.what", "write format ="),
    ] {
        let keys = json!({"plugin": "file", "path": at(directory.path(), path)});
        let why = input(&keys).and_then(|input| input.check()).unwrap_err();
        assert!(why.contains(what), "{path}: {why}");
        assert!(input(&keys).and_then(|input| input.splits(None)).is_err());
    }
}

#[test]
fn a_file_that_becomes_shorter_is_an_error_and_not_an_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = at(directory.path(), "a.txt");
    fs::write(&path, "one\ntwo\n").unwrap();
    let input = input(&json!({"plugin": "file", "path": path})).unwrap();
    let split = input.splits(None).unwrap().splits.remove(0);
    fs::write(&path, "one\n").unwrap();
    let why = super::read_split(&*input, &split).unwrap_err();
    assert!(why.contains("became shorter"), "{why}");
}

#[test]
fn slips_in_the_keys_say_what_to_write() {
    for (keys, what) in [
        (json!({"plugin": "file"}), "write path ="),
        (json!({"plugin": "file", "path": ""}), "path is empty"),
        (json!({"plugin": "file", "path": "a.csv", "format": "xml"}), "there is no format \"xml\""),
        (json!({"plugin": "file", "path": "a.csv", "schema": {"a": "number"}}), "int, float, bool"),
        (json!({"plugin": "file", "path": "a.csv", "schema": "a"}), "write schema ="),
        (json!({"plugin": "file", "path": "a.csv", "columns": ["a", "a"]}), "twice"),
        (json!({"plugin": "file", "path": "a.csv", "delimiter": "ab"}), "one character"),
        (json!({"plugin": "file", "path": "a.csv", "header": 3}), "write header ="),
        (json!({"plugin": "file", "path": "a.csv", "split-bytes": "64"}), "write 500KB"),
        (json!({"plugin": "file", "path": "a.csv", "poll": "0ms"}), "poll"),
        (json!({"plugin": "generate", "rate": 0}), "write rate ="),
        (json!({"plugin": "generate", "splits": 0}), "write splits ="),
        (json!({"plugin": "generate", "splits": 65537}), "write splits ="),
        (json!({"plugin": "generate", "shape": {"a": "what"}}), "write shape ="),
        (json!({"plugin": "generate", "shape": {"a": {"text": "{x}"}}}), "no gap"),
        (json!({"plugin": "generate", "shape": {"a": {"random": [5, 1]}}}), "write shape ="),
        (json!({"plugin": "generate", "shape": {"a": {"words": 0}}}), "between 1 and"),
        (json!({"plugin": "memory"}), "write channel ="),
        (json!({"plugin": "memory", "channel": "c", "capacity": 0}), "write capacity ="),
        (json!({"plugin": "stdin", "format": "csv"}), "lines or ndjson"),
    ] {
        let why = input(&keys).err().unwrap_or_else(|| panic!("{keys} was taken"));
        assert!(why.contains(what), "{keys}: {why}");
    }
    for (keys, what) in [
        (json!({"plugin": "file"}), "write path ="),
        (json!({"plugin": "file", "path": "out/"}), "names a file"),
        (json!({"plugin": "file", "path": "out"}), "write format ="),
        (json!({"plugin": "file", "path": "out.parquet.gz"}), "packed inside"),
        (json!({"plugin": "file", "path": "out.csv", "roll": "0B"}), "write roll ="),
        (json!({"plugin": "stdout", "format": "parquet"}), "needs a file"),
    ] {
        let why = output(&keys).err().unwrap_or_else(|| panic!("{keys} was taken"));
        assert!(why.contains(what), "{keys}: {why}");
    }
}

#[test]
fn an_output_that_cannot_be_written_is_found_before_anything_is() {
    let directory = tempfile::tempdir().unwrap();
    let check = |path: &str, overwrite: bool| {
        output(&json!({"plugin": "file", "path": path, "format": "csv", "overwrite": overwrite}))
            .and_then(|output| output.check())
    };
    fs::write(at(directory.path(), "there.csv"), "x").unwrap();
    fs::create_dir(at(directory.path(), "sub")).unwrap();
    let wrong = [
        (at(directory.path(), "sub"), true, "is a directory"),
        (at(directory.path(), "none/a.csv"), true, "make it first"),
        (at(directory.path(), "there.csv/a.csv"), true, "no directory"),
        (at(directory.path(), "there.csv"), false, "overwrite is false"),
        // Nobody can make a file there, not even root.
        ("/proc/a.csv".into(), true, "nothing can in /proc"),
    ];
    for (path, overwrite, what) in wrong {
        let why = check(&path, overwrite).unwrap_err();
        assert!(why.contains(what), "{path}: {why}");
    }
    check(&at(directory.path(), "there.csv"), true).unwrap();
    check(&at(directory.path(), "new.csv"), false).unwrap();
    assert_eq!(names(directory.path()), ["sub", "there.csv"], "looking leaves nothing");
}

#[test]
fn lines_take_one_column_and_no_line_ends() {
    let directory = tempfile::tempdir().unwrap();
    let output = output(&json!({"plugin": "file", "path": at(directory.path(), "a.txt")})).unwrap();
    let column = |values: Vec<&str>| -> arrow::array::ArrayRef {
        std::sync::Arc::new(arrow::array::StringArray::from(values))
    };
    let batch = |columns: Vec<(&str, arrow::array::ArrayRef)>| {
        arrow::array::RecordBatch::try_from_iter(columns).unwrap()
    };
    let mut writer = output.open("p").unwrap();
    let two = batch(vec![("a", column(vec!["x"])), ("b", column(vec!["y"]))]);
    assert!(writer.write(&two).unwrap_err().contains("there are a, b"));
    let why = writer.write(&batch(vec![("a", column(vec!["x\ny"]))])).unwrap_err();
    assert!(why.contains("write format = \"ndjson\""), "{why}");
}

#[test]
fn a_packed_file_that_was_cut_off_is_an_error_and_not_an_end() {
    let directory = tempfile::tempdir().unwrap();
    let text: String = (0..5_000).map(|n| format!("line {n}\n")).collect();
    for name in ["a.txt.gz", "a.txt.zst"] {
        let path = at(directory.path(), name);
        let output = output(&json!({"plugin": "file", "path": path})).unwrap();
        let mut writer = output.open("p").unwrap();
        let lines = arrow::array::StringArray::from(text.lines().collect::<Vec<_>>());
        let lines: arrow::array::ArrayRef = std::sync::Arc::new(lines);
        writer
            .write(&arrow::array::RecordBatch::try_from_iter([("line", lines)]).unwrap())
            .unwrap();
        let mark = writer.prepare(false).unwrap().unwrap();
        output.finish(&[("p".into(), mark)]).unwrap();
        let keys = json!({"plugin": "file", "path": path});
        assert_eq!(read(&*input(&keys).unwrap()).unwrap().len(), 5_000);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        let why = complaint(&keys);
        assert!(why.contains("cannot be read"), "{name}: {why}");
    }
}

#[test]
fn a_column_that_no_header_has_is_found_when_work_is_cut() {
    let directory = tempfile::tempdir().unwrap();
    let path = at(directory.path(), "a.csv");
    fs::write(&path, "a,b\n1,2\n").unwrap();
    let keys = json!({"plugin": "file", "path": path, "columns": ["c"], "schema": {"c": "int"}});
    let why = input(&keys).unwrap().check().unwrap_err();
    assert!(why.contains("there is no column c; there are a, b"), "{why}");
}

#[test]
fn files_are_as_many_as_the_limit_says_and_no_more() {
    let directory = tempfile::tempdir().unwrap();
    let path = at(directory.path(), "a.txt");
    fs::write(&path, "x\n").unwrap();
    let named =
        |n: usize| input(&json!({"plugin": "file", "path": vec![path.clone(); n]})).unwrap();
    assert_eq!(read(&*named(100_000)).unwrap().len(), 1, "the same file counts once");
    assert!(named(100_001).check().unwrap_err().contains("more than 100000 files"));
}
