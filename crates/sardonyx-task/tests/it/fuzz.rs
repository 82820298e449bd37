//! Strangers' files: whatever lies in one, it is rows or a complaint; whatever a job calls one, it is
//! a file beneath the root or a refusal; whatever parts are said to have committed, it is a file or
//! nothing is changed.

#[path = "../../../../fuzz/harness.rs"]
mod harness;

use std::{fs, io::Write as _, path::Path, sync::Arc};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use harness::Target;
use sardonyx_task::{Files, files::Refused};
use serde_json::json;

use super::{
    at,
    confined::{SECRET, World},
    input, names, output, read,
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

/// What the files of a part hold, by their numbers from 1.
const PARTS: [(&str, &[&str]); 3] = [("a", &["1\n22\n", "333\n"]), ("b", &["4\n"]), ("c", &[])];

/// The numbers of files that are tried: each up to the last is looked for.
const FILES_MAX: u64 = 1_000;

/// What a part committed, as it is written.
#[derive(serde::Deserialize)]
struct Mark {
    file: u64,
    bytes: u64,
    header: String,
}

impl Mark {
    /// What it says of a file of its part.
    fn bytes_of<'a>(&self, files: &[&'a str]) -> Option<&'a str> {
        let at = usize::try_from(self.file.checked_sub(1)?).ok()?;
        files.get(at)?.get(..usize::try_from(self.bytes).ok()?)
    }
}

/// The parts of an output as they lie there before it is finished.
fn lay_parts(directory: &Path) {
    let _ = fs::remove_dir_all(directory);
    let parts = directory.join("out.csv.parts/job.write");
    fs::create_dir_all(&parts).unwrap();
    for (part, files) in PARTS {
        for (number, text) in (1..).zip(files) {
            fs::write(parts.join(format!("part-{part}-{number:06}")), text).unwrap();
        }
    }
}

/// One file of all parts: what they committed, in order, and nothing else.
fn finish(directory: &Path, committed: &[(String, bytes::Bytes)], marks: &[Mark]) -> String {
    let (path, parts) = (directory.join("out.csv"), directory.join("out.csv.parts/job.write"));
    let output = output(&json!({"plugin": "file", "path": path.to_str().unwrap()})).unwrap();
    let before = names(&parts);
    if let Err(why) = output.finish(committed) {
        assert!(why.len() > 8, "says little: {why}");
        assert!(!path.exists() && names(&parts) == before, "it failed, and changed something");
        return why.replace(directory.to_str().unwrap(), "");
    }
    let mut wanted = marks.first().map(|it| it.header.clone()).unwrap_or_default();
    for (mark, (_, files)) in marks.iter().zip(PARTS) {
        wanted.push_str(mark.bytes_of(files).expect("what is not there cannot be finished"));
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), wanted);
    output.finish(committed).expect("it may happen again");
    assert_eq!(fs::read_to_string(&path).unwrap(), wanted, "twice is once");
    format!("{} finished", "#".repeat(marks.len()))
}

/// A file of its own for each of a part's: of the last as much as was committed, and none beyond it.
fn recover(directory: &Path, committed: &[(String, bytes::Bytes)], marks: &[Mark]) -> String {
    let path = directory.join("out.csv");
    let keys = json!({"plugin": "file", "path": path.to_str().unwrap(), "roll": "1MB"});
    let output = output(&keys).unwrap();
    if let Err(why) = output.recover(committed) {
        assert!(why.len() > 8, "says little: {why}");
        return why.replace(directory.to_str().unwrap(), "");
    }
    for (mark, (part, files)) in marks.iter().zip(PARTS) {
        for (number, text) in (1..).zip(files) {
            let shown = fs::read_to_string(directory.join(format!("out-{part}-{number:06}.csv")));
            let wanted = match number.cmp(&mark.file) {
                std::cmp::Ordering::Less => Some(*text),
                std::cmp::Ordering::Equal => mark.bytes_of(files).filter(|it| !it.is_empty()),
                std::cmp::Ordering::Greater => None,
            };
            assert_eq!(shown.ok(), wanted.map(|text| mark.header.clone() + text));
        }
    }
    let there = names(directory);
    output.recover(committed).expect("it may happen again");
    assert_eq!(names(directory), there, "twice is once");
    format!("{} shown", there.len())
}

/// The first byte says whether all parts become one file; behind it is a line for what each committed.
#[test]
fn what_parts_committed() {
    let seeds = [
        "\0{\"file\":1,\"bytes\":5,\"header\":\"n\\n\"}\n{\"file\":1,\"bytes\":2,\"header\":\"n\\n\"}",
        "\0{\"file\":2,\"bytes\":4,\"header\":\"\"}",
        "\0{\"file\":1,\"bytes\":2,\"header\":\"n\\n\"}\n{\"file\":1,\"bytes\":2,\"header\":\"m\\n\"}",
        "\0{\"file\":1,\"bytes\":18446744073709551615,\"header\":\"\"}",
        "\x01{\"file\":2,\"bytes\":4,\"header\":\"n\\n\"}\n{\"file\":1,\"bytes\":0,\"header\":\"\"}",
        "\x01{\"file\":1,\"bytes\":2,\"header\":\"n\\n\"}\n[1,2,\"n\"]\n{\"file\":0,\"bytes\":1,\"header\":\"\"}",
    ];
    let seeds = seeds.map(|it| it.as_bytes().to_vec()).into();
    let words =
        &["\"file\":", "\"bytes\":", "\"header\":", "\\u", "\n", "1e9", "-1", "null", "{", "}"];
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path().join("outputs");
    Target { name: "task-mark", seeds, words }.run(|bytes| {
        let Some((mode, bytes)) = bytes.split_first() else { return "nothing".into() };
        let lines = bytes.split(|it| *it == b'\n').zip(PARTS);
        let committed: Vec<(String, bytes::Bytes)> = lines
            .map(|(mark, (part, _))| (part.to_owned(), bytes::Bytes::copy_from_slice(mark)))
            .collect();
        let marks = committed.iter().map(|(_, mark)| serde_json::from_slice(mark));
        let marks: Result<Vec<Mark>, serde_json::Error> = marks.collect();
        lay_parts(&directory);
        let is_whole = mode % 2 == 0;
        match marks {
            Ok(marks) if is_whole => finish(&directory, &committed, &marks),
            Ok(marks) if marks.iter().any(|it| it.file > FILES_MAX) => "too many files".into(),
            Ok(marks) => recover(&directory, &committed, &marks),
            Err(_) => {
                let path = directory.join("out.csv");
                let output = output(&json!({"plugin": "file", "path": path.to_str().unwrap()}));
                let why = output.unwrap().finish(&committed).expect_err("what nobody can read");
                assert!(why.contains("cannot be read"), "{why}");
                why
            }
        }
    });
}
