//! Strangers' files: whatever lies in one, it is rows or a complaint; whatever a job calls one, it is
//! a file beneath the root or a refusal.

#[path = "../../../../fuzz/harness.rs"]
mod harness;

use std::{fs, io::Write as _, sync::Arc};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use harness::Target;
use sardonyx_task::{Files, files::Refused};
use serde_json::json;

use super::{
    at,
    confined::{SECRET, World},
    input, output, read,
};

/// What the first byte of an input stands for.
const NAMES: [&str; 5] = ["a.txt", "a.ndjson", "a.csv", "a.csv.gz", "a.ndjson.zst"];

fn rows_seeds() -> Vec<Vec<u8>> {
    let gz = |text: &str| {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(text.as_bytes()).unwrap();
        packed.finish().unwrap()
    };
    let csv = "a,b,c\n1,\"x\ny\",2.5\n2,\"say \"\"so\"\"\",-0\n,,\n";
    let ndjson = "{\"a\":1,\"b\":\"x\\u00e9\\ud83d\\ude00\",\"c\":[1,{\"d\":null}]}\r\n{\"a\":2.5e3,\"b\":null}\n";
    let with = |number: u8, bytes: &[u8]| [&[number], bytes].concat();
    vec![
        with(0, b"one\r\ntwo\n\nlast"),
        with(1, ndjson.as_bytes()),
        with(2, csv.as_bytes()),
        with(2, b"t,n\n2024-02-29T12:00:00Z,9223372036854775807\n2024-13-01,1e400\n"),
        with(3, &gz(csv)),
        with(4, &zstd::encode_all(ndjson.as_bytes(), 1).unwrap()),
    ]
}

/// Rows of text, plain or packed. What can be read whole is the same in pieces, wherever those are cut.
#[test]
fn rows_in_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let words = &["\"", "\"\"", ",", "\n", "\r\n", "{", "}", "\\u", "null", "true", "1e999", "[]"];
    Target { name: "task-rows", seeds: rows_seeds(), words }.run(|bytes| {
        let Some((number, bytes)) = bytes.split_first() else { return "nothing".into() };
        let name = NAMES[usize::from(*number) % NAMES.len()];
        let path = at(directory.path(), name);
        fs::write(&path, bytes).unwrap();
        let all = |split_bytes: usize| {
            let keys = json!({"plugin": "file", "path": path, "split-bytes": split_bytes});
            input(&keys).and_then(|input| read(&*input))
        };
        match all(1 << 20) {
            Err(why) => {
                assert!(why.len() > 8 && why.len() < 4_000, "says little or too much: {why}");
                format!("{name} {}", why.replace(&path, ""))
            }
            Ok(rows) => {
                let in_pieces = all(7).unwrap_or_else(|why| panic!("whole it is fine, but {why}"));
                assert_eq!(in_pieces, rows, "in pieces it is the same");
                format!("{name} {}", if rows.is_empty() { "no rows" } else { "rows" })
            }
        }
    });
}

/// A small file of Parquet.
fn parquet() -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let path = at(directory.path(), "a.parquet");
    let out = output(&json!({"plugin": "file", "path": path})).unwrap();
    let a: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(i64::MIN)]));
    let b: ArrayRef = Arc::new(StringArray::from(vec![Some("x"), Some(""), None]));
    let mut writer = out.open("p").unwrap();
    writer.write(&RecordBatch::try_from_iter([("a", a), ("b", b)]).unwrap()).unwrap();
    let mark = writer.prepare(true).unwrap().unwrap();
    writer.committed().unwrap();
    out.finish(&[("p".into(), mark)]).unwrap();
    fs::read(path).unwrap()
}

#[test]
fn a_parquet_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = at(directory.path(), "a.parquet");
    Target { name: "task-parquet", seeds: vec![parquet()], words: &["PAR1"] }.run(|bytes| {
        fs::write(&path, bytes).unwrap();
        let keys = json!({"plugin": "file", "path": path});
        match input(&keys).and_then(|input| read(&*input)) {
            Ok(rows) => if rows.is_empty() { "no rows" } else { "rows" }.into(),
            Err(why) => why.replace(&path, ""),
        }
    });
}

/// A path beneath roots: what it opens lies beneath them, what it stands for as a pattern as well, and
/// nothing outside is touched.
#[test]
fn a_path() {
    let world = World::new();
    let mut seeds: Vec<Vec<u8>> = world.bad_paths().into_iter().map(String::into_bytes).collect();
    seeds.retain(|it| it.len() < 200);
    // Those with the name of a directory of this run are not the same the next time.
    let here = world.root.to_str().unwrap().to_owned();
    seeds.retain(|it| !String::from_utf8_lossy(it).contains(&here));
    seeds = seeds.into_iter().step_by(9).collect();
    let good = ["good.csv", "sub/deep/good.csv", "inside/good.csv", "sub/*/g?od.[a-z]sv", "**/*"];
    seeds.extend(good.map(|it| it.as_bytes().to_vec()));
    let words = &["../", "/", "**", "*", "[!a]", "%2e", "\0", "sub", "up", "out.csv", "/proc/self"];
    let files = Files::beneath(std::slice::from_ref(&world.root)).unwrap();
    let before = world.outside();
    Target { name: "task-path", seeds, words }.run(|bytes| {
        let path = String::from_utf8_lossy(bytes);
        let opened = match files.open(path.as_ref()) {
            Ok(mut file) => {
                let mut text = String::new();
                std::io::Read::read_to_string(&mut file, &mut text).unwrap();
                assert!(text.starts_with("n\n") && text != SECRET, "{path:?}: {text}");
                "opened".to_owned()
            }
            Err(why) => match why.get_ref().and_then(|it| it.downcast_ref::<Refused>()) {
                Some(refused) => {
                    let text = format!("{refused:?}");
                    text.split([' ', '{']).next().unwrap_or_default().to_owned()
                }
                None => format!("{:?}", why.kind()),
            },
        };
        let expanded = match files.expand(&path, &|_| true) {
            Err(_) => "no pattern",
            Ok(found) => {
                for it in &found {
                    let text = files.open(it).map(|file| std::io::read_to_string(file).unwrap());
                    assert!(!text.is_ok_and(|it| it == SECRET), "{path:?} stands for {it}");
                }
                if found.is_empty() { "nothing" } else { "files" }
            }
        };
        format!("{opened} {expanded}")
    });
    assert_eq!(world.outside(), before, "nothing outside was touched");
}
