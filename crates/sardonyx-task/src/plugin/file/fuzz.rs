//! Whatever parts are said to have committed: it is a file, or nothing is changed.

use std::{cmp::Ordering, fs, path::Path, sync::Arc};

use bytes::Bytes;
use serde_json::json;

use super::parts::Mark;
use crate::{Output, Terms, sql::fuzz::harness::Target};

/// What the files of a part hold, by their numbers from 1.
const PARTS: [(&str, &[&str]); 3] = [("a", &["1\n22\n", "333\n"]), ("b", &["4\n"]), ("c", &[])];

/// The numbers of files that are tried: each up to the last is looked for.
const FILES_MAX: u64 = 1_000;

/// What a mark says of the files of its part.
fn bytes_of<'a>(mark: &Mark, files: &[&'a str]) -> Option<&'a str> {
    let at = usize::try_from(mark.file.checked_sub(1)?).ok()?;
    files.get(at)?.get(..usize::try_from(mark.bytes).ok()?)
}

/// An output to a file, or with `roll` to many.
fn output(path: &Path, roll: Option<&str>) -> Arc<dyn Output> {
    let mut keys = json!({"path": path.to_str().unwrap()});
    if let Some(roll) = roll {
        keys["roll"] = roll.into();
    }
    super::output(&Terms::new("job", "write", &keys)).unwrap()
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
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
fn finish(directory: &Path, committed: &[(String, Bytes)], marks: &[Mark]) -> String {
    let (path, parts) = (directory.join("out.csv"), directory.join("out.csv.parts/job.write"));
    let output = output(&path, None);
    let before = names(&parts);
    if let Err(why) = output.finish(committed) {
        assert!(why.len() > 8, "says little: {why}");
        assert!(!path.exists() && names(&parts) == before, "it failed, and changed something");
        return why.replace(directory.to_str().unwrap(), "");
    }
    let mut wanted = marks.first().map(|it| it.header.clone()).unwrap_or_default();
    for (mark, (_, files)) in marks.iter().zip(PARTS) {
        wanted.push_str(bytes_of(mark, files).expect("what is not there cannot be finished"));
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), wanted);
    output.finish(committed).expect("it may happen again");
    assert_eq!(fs::read_to_string(&path).unwrap(), wanted, "twice is once");
    format!("{} finished", "#".repeat(marks.len()))
}

/// A file of its own for each of a part's: of the last as much as was committed, and none beyond it.
fn recover(directory: &Path, committed: &[(String, Bytes)], marks: &[Mark]) -> String {
    let path = directory.join("out.csv");
    let output = output(&path, Some("1MB"));
    if let Err(why) = output.recover(committed) {
        assert!(why.len() > 8, "says little: {why}");
        return why.replace(directory.to_str().unwrap(), "");
    }
    for (mark, (part, files)) in marks.iter().zip(PARTS) {
        for (number, text) in (1..).zip(files) {
            let shown = fs::read_to_string(directory.join(format!("out-{part}-{number:06}.csv")));
            let wanted = match number.cmp(&mark.file) {
                Ordering::Less => Some(*text),
                Ordering::Equal => bytes_of(mark, files).filter(|it| !it.is_empty()),
                Ordering::Greater => None,
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
        let committed: Vec<(String, Bytes)> = lines
            .map(|(mark, (part, _))| (part.to_owned(), Bytes::copy_from_slice(mark)))
            .collect();
        let marks: Result<Vec<Mark>, String> =
            committed.iter().map(|(_, mark)| Mark::from_bytes(mark)).collect();
        lay_parts(&directory);
        let marks = match marks {
            Ok(marks) => marks,
            Err(why) => {
                let finished = output(&directory.join("out.csv"), None).finish(&committed);
                assert_eq!(finished.as_ref(), Err(&why), "what nobody can read is finished");
                return why;
            }
        };
        for mark in &marks {
            let again = mark.to_bytes().and_then(|bytes| Mark::from_bytes(&bytes));
            assert_eq!(again.as_ref(), Ok(mark), "what was read can be written");
        }
        match mode % 2 {
            0 => finish(&directory, &committed, &marks),
            _ if marks.iter().any(|it| it.file > FILES_MAX) => "too many files".into(),
            _ => recover(&directory, &committed, &marks),
        }
    });
}
