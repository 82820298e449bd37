//! Files that come, and files that grow.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    sync::Arc,
};

use bytes::Bytes;
use sardonyx_task::Input;
use serde_json::{Value, json};

use super::{at, input, read_split};

/// Asks again and again, as a pipeline does.
struct Follower {
    input: Arc<dyn Input>,
    memory: Option<Bytes>,
}

impl Follower {
    fn new(keys: &Value) -> Follower {
        Follower { input: input(keys).unwrap(), memory: None }
    }

    /// The splits that are new.
    fn splits(&mut self) -> Vec<Bytes> {
        let splits = self.input.splits(self.memory.as_deref()).unwrap();
        assert!(splits.again.is_some());
        self.memory = Some(splits.memory);
        splits.splits
    }

    /// The rows that are new.
    fn look(&mut self) -> Vec<String> {
        let splits = self.splits();
        splits.iter().flat_map(|split| read_split(&*self.input, split).unwrap()).collect()
    }
}

fn append(path: &str, text: &str) {
    let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

#[test]
fn rows_come_once_when_their_line_is_whole() {
    let directory = tempfile::tempdir().unwrap();
    let keys = json!({"plugin": "file", "path": at(directory.path(), "*.ndjson"), "follow": true});
    let mut follower = Follower::new(&keys);
    assert_eq!(follower.look(), Vec::<String>::new(), "nothing is there yet");
    let path = at(directory.path(), "a.ndjson");
    append(&path, "{\"a\":");
    assert_eq!(follower.look(), Vec::<String>::new());
    append(&path, "1}\n{\"a\":2}\n{\"a\"");
    assert_eq!(follower.look(), ["{\"a\":1}", "{\"a\":2}"]);
    assert_eq!(follower.look(), Vec::<String>::new());
    append(&path, ":3}\n");
    append(&at(directory.path(), "b.ndjson"), "{\"a\":4}\n");
    assert_eq!(follower.look(), ["{\"a\":3}", "{\"a\":4}"]);
    assert_eq!(follower.look(), Vec::<String>::new());
}

#[test]
fn csv_grows_by_whole_records() {
    let directory = tempfile::tempdir().unwrap();
    let path = at(directory.path(), "a.csv");
    let mut follower = Follower::new(&json!({"plugin": "file", "path": path, "follow": true}));
    append(&path, "a,");
    assert_eq!(follower.look(), Vec::<String>::new());
    append(&path, "b\n");
    assert_eq!(follower.look(), Vec::<String>::new());
    append(&path, "1,\"x\n");
    assert_eq!(follower.look(), Vec::<String>::new());
    append(&path, "y\"\n2");
    assert_eq!(follower.look(), ["{\"a\":1,\"b\":\"x\\ny\"}"]);
    append(&path, ",z\n");
    assert_eq!(follower.look(), ["{\"a\":2,\"b\":\"z\"}"]);
}

#[test]
fn a_file_that_is_rotated_is_read_on_and_its_successor_from_the_beginning() {
    let directory = tempfile::tempdir().unwrap();
    let (path, old) = (at(directory.path(), "a.log"), at(directory.path(), "a.log.1"));
    let keys = json!({"plugin": "file", "path": at(directory.path(), "a.log*"), "format": "lines", "follow": true});
    let mut follower = Follower::new(&keys);
    append(&path, "one\ntwo\n");
    let splits = follower.splits();
    // Renamed between the cut and the reading, and something else under its name.
    fs::rename(&path, &old).unwrap();
    append(&path, "new\n");
    let rows: Vec<_> =
        splits.iter().flat_map(|split| read_split(&*follower.input, split).unwrap()).collect();
    assert_eq!(rows, ["{\"line\":\"one\"}", "{\"line\":\"two\"}"]);
    append(&old, "three\n");
    let mut rows = follower.look();
    rows.sort();
    assert_eq!(rows, ["{\"line\":\"new\"}", "{\"line\":\"three\"}"]);
    // Begun anew in place.
    fs::write(&path, "x\n").unwrap();
    assert_eq!(follower.look(), ["{\"line\":\"x\"}"]);
}

#[test]
fn what_is_taken_away_before_it_is_read_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = at(directory.path(), "a.log");
    let mut follower = Follower::new(&json!({"plugin": "file", "path": path, "follow": true}));
    append(&path, "one\n");
    let splits = follower.splits();
    fs::remove_file(&path).unwrap();
    let why = read_split(&*follower.input, &splits[0]).unwrap_err();
    assert!(why.contains("before it was read"), "{why}");
}

#[test]
fn packed_files_and_parquet_are_read_when_they_are_there() {
    let directory = tempfile::tempdir().unwrap();
    let keys = json!({"plugin": "file", "path": at(directory.path(), "*.parquet"), "follow": true});
    let mut follower = Follower::new(&keys);
    let output =
        super::output(&json!({"plugin": "file", "path": at(directory.path(), "a.parquet")}))
            .unwrap();
    let mut writer = output.open("p").unwrap();
    let column: arrow::array::ArrayRef = Arc::new(arrow::array::Int64Array::from(vec![1, 2]));
    writer.write(&arrow::array::RecordBatch::try_from_iter([("n", column)]).unwrap()).unwrap();
    let mark = writer.prepare(false).unwrap().unwrap();
    fs::write(at(directory.path(), "b.parquet"), "PAR1").unwrap();
    assert_eq!(follower.look(), Vec::<String>::new());
    output.finish(&[("p".into(), mark)]).unwrap();
    assert_eq!(follower.look(), ["{\"n\":1}", "{\"n\":2}"]);
    assert_eq!(follower.look(), Vec::<String>::new());
}

#[test]
fn files_are_followed_as_many_as_the_limit_says_and_no_more() {
    let directory = tempfile::tempdir().unwrap();
    for number in 0..10_000 {
        fs::write(directory.path().join(format!("{number}.txt")), "").unwrap();
    }
    let keys = json!({"plugin": "file", "path": directory.path().to_str().unwrap(), "format": "lines", "follow": true});
    let mut follower = Follower::new(&keys);
    assert_eq!(follower.look(), Vec::<String>::new());
    append(&at(directory.path(), "10000.txt"), "x\n");
    let why = follower.input.splits(follower.memory.as_deref()).unwrap_err();
    assert!(why.contains("more than 10000 files to follow"), "{why}");
}
