//! A log that is whole is found to be, and one that somebody touched is not, wherever it was touched.

use std::fs;

use super::*;

fn asked(n: u64) -> Event {
    Event::Asked {
        who: format!("admin 0123456{n}"),
        from: "127.0.0.1:1".into(),
        what: format!("POST /v1/jobs/j{n}/kill"),
    }
}

/// A log of a few lines, and where it is.
fn written(directory: &Path) -> PathBuf {
    let path = directory.join("audit.jsonl");
    let audit = Audit::open(&path, "node 1").unwrap();
    for n in 0..5 {
        let number = audit.write(asked(n), Duration::from_secs(1_000 + n)).unwrap();
        let about = Some(format!("j{n}"));
        let answered = Event::Answered { asked: number, status: 200, about };
        audit.write(answered, Duration::from_secs(2_000 + n)).unwrap();
    }
    path
}

fn look(text: &[u8]) -> Result<Verified, Broken> {
    verify(text)
}

#[test]
fn what_was_written_is_whole_and_goes_on_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let path = written(directory.path());
    let before = look(&fs::read(&path).unwrap()).unwrap();
    assert_eq!((before.lines, before.cut_off.len()), (11, 0));
    let again = Audit::open(&path, "node 1").unwrap();
    again.write(asked(9), now()).unwrap();
    let after = look(&fs::read(&path).unwrap()).unwrap();
    assert_eq!(after.lines, 13);
    assert_ne!(after.head, before.head);
    assert_eq!(look(b"").unwrap().lines, 0);
}

#[test]
fn every_byte_that_is_changed_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let text = fs::read(written(directory.path())).unwrap();
    let whole = look(&text).unwrap();
    for at in 0..text.len() {
        let mut changed = text.clone();
        changed[at] ^= 1;
        let seen = look(&changed);
        let is_noticed = seen.as_ref().map_or(true, |seen| seen.head != whole.head);
        assert!(is_noticed, "byte {at} ({:?}) passes", char::from(text[at]));
        // All but what makes the last line look unfinished says where it is.
        if at + 3 < text.len() {
            let line = 1 + text[..at].iter().filter(|byte| **byte == b'\n').count() as u64;
            let broken = seen.expect_err("it is noticed at once").line;
            assert!(broken == line || broken == line + 1, "byte {at} of line {line}: {broken}");
        }
    }
}

#[test]
fn lines_that_are_taken_out_put_in_or_swapped_are_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(written(directory.path())).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let joined = |lines: &[&str]| format!("{}\n", lines.join("\n")).into_bytes();
    for n in 0..lines.len() - 1 {
        let mut less = lines.clone();
        less.remove(n);
        assert!(look(&joined(&less)).is_err(), "line {n} taken out");
        let mut twice = lines.clone();
        twice.insert(n, lines[n]);
        assert!(look(&joined(&twice)).is_err(), "line {n} twice");
        let mut swapped = lines.clone();
        swapped.swap(n, n + 1);
        assert!(look(&joined(&swapped)).is_err(), "line {n} swapped");
    }
    // The end can be cut off without a trace in the file: the last hash tells.
    let cut = look(&joined(&lines[..4])).unwrap();
    assert_ne!(cut.head, look(text.as_bytes()).unwrap().head);
}

#[test]
fn a_server_does_not_go_on_with_a_log_that_was_touched() {
    let directory = tempfile::tempdir().unwrap();
    let path = written(directory.path());
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("j3", "j4")).unwrap();
    let why = Audit::open(&path, "node 1").unwrap_err();
    assert!(why.contains("line") && why.contains("move it away"), "{why}");
}

#[test]
fn a_line_that_a_killed_process_began_is_passed_over() {
    let directory = tempfile::tempdir().unwrap();
    let path = written(directory.path());
    let mut text = fs::read(&path).unwrap();
    text.extend_from_slice(b"{\"number\":11,\"at\":\"20");
    fs::write(&path, &text).unwrap();
    let audit = Audit::open(&path, "node 1").unwrap();
    audit.write(asked(6), now()).unwrap();
    let seen = look(&fs::read(&path).unwrap()).unwrap();
    assert_eq!((seen.lines, seen.cut_off), (13, vec![12]));
}

#[test]
fn times_are_those_of_the_calendar() {
    for (seconds, text) in [
        (0, "1970-01-01T00:00:00.000Z"),
        (951_782_400, "2000-02-29T00:00:00.000Z"),
        (951_868_800, "2000-03-01T00:00:00.000Z"),
        (1_709_251_199, "2024-02-29T23:59:59.000Z"),
        (1_767_225_599, "2025-12-31T23:59:59.000Z"),
        (4_107_542_400, "2100-03-01T00:00:00.000Z"),
    ] {
        assert_eq!(utc(Duration::from_secs(seconds)), text);
    }
}

#[test]
fn texts_are_cut_so_that_a_line_stays_short() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.jsonl");
    let audit = Audit::open(&path, &"n".repeat(100_000)).unwrap();
    let long = "\u{1}".repeat(100_000);
    audit.write(Event::Asked { who: long.clone(), from: long.clone(), what: long }, now()).unwrap();
    let longest = fs::read_to_string(&path).unwrap().lines().map(str::len).max().unwrap();
    assert!(longest < LINE_BYTES_MAX, "{longest}");
    assert!(look(&fs::read(&path).unwrap()).is_ok());
}
