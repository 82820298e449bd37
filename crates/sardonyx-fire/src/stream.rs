//! A stream without end: rows are written behind a file while the cluster follows it, and what comes
//! out is read from files as they are finished.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};

use crate::load::Row;

/// The job's id.
pub(crate) const ID: &str = "stream-follow";

const TURN: Duration = Duration::from_millis(100);

/// Writes rows for as long as it is asked to.
#[derive(Clone)]
pub(crate) struct Stream {
    seed: u64,
    dir: PathBuf,
    n_written: Arc<AtomicU64>,
    is_slow: Arc<AtomicBool>,
}

impl Stream {
    pub(crate) fn new(seed: u64, dir: &Path) -> io::Result<Stream> {
        let stream = Stream {
            seed,
            dir: dir.to_owned(),
            n_written: Arc::default(),
            is_slow: Arc::default(),
        };
        File::create(stream.input())?;
        Ok(stream)
    }

    fn input(&self) -> PathBuf {
        self.dir.join("in").join("follow.ndjson")
    }

    pub(crate) fn to_json(&self) -> Value {
        let out = self.dir.join("out").join("follow.csv");
        json!({
            "name": ID, "workflow": [["read", "change"], ["change", "write"]], "percentage": 16,
            "catalog": {
                "read": {"type": "input", "plugin": "file", "path": self.input(), "follow": true,
                         "poll": "200ms", "columns": ["id", "key", "value", "check"],
                         "schema": {"id": "int", "key": "int", "value": "int", "check": "int"},
                         "max-peers": 1},
                "change": {"type": "function", "fn": "sql", "max-peers": 2,
                           "query": "select id, key, value + 1 as value, check from segments"},
                "write": {"type": "output", "plugin": "file", "path": out, "roll-every": "1s",
                          "max-peers": 2},
            }
        })
    }

    /// How many rows there are by now.
    pub(crate) fn n_written(&self) -> u64 {
        self.n_written.load(Ordering::Relaxed)
    }

    /// From now on only so many rows that files which are waiting for news get some.
    pub(crate) fn slow_down(&self) {
        self.is_slow.store(true, Ordering::Relaxed);
    }

    /// Writes for ever.
    pub(crate) async fn write(self, rate: u64) -> io::Result<()> {
        let mut file = File::options().append(true).open(self.input())?;
        let mut turns = tokio::time::interval(TURN);
        loop {
            turns.tick().await;
            let is_slow = self.is_slow.load(Ordering::Relaxed);
            let n = if is_slow { 1 } else { (rate / 10).max(1) };
            let from = self.n_written();
            let mut text = String::new();
            for row in (from..from + n).map(|id| Row::of(self.seed, id)) {
                let Row { id, key, value, check } = row;
                // Writing to a string cannot fail.
                let _ =
                    writeln!(text, r#"{{"id":{id},"key":{key},"value":{value},"check":{check}}}"#);
            }
            file.write_all(text.as_bytes())?;
            self.n_written.store(from + n, Ordering::Relaxed);
        }
    }

    /// All lines of all files that are finished, sorted.
    pub(crate) fn found(&self) -> io::Result<Vec<String>> {
        let mut lines = Vec::new();
        for entry in fs::read_dir(self.dir.join("out"))? {
            let path = entry?.path();
            let name = path.file_name().and_then(|it| it.to_str()).unwrap_or_default();
            if name.starts_with("follow-") && name.ends_with(".csv") {
                let text = fs::read_to_string(&path)?;
                lines.extend(text.lines().skip(1).map(str::to_owned));
            }
        }
        lines.sort_unstable();
        Ok(lines)
    }

    /// What must be there: the first `n_due` rows, and of the later ones those that are.
    pub(crate) fn wanted(&self, n_due: u64, found: &[String]) -> Vec<String> {
        let id_of = |line: &String| line.split(',').next().and_then(|it| it.parse::<u64>().ok());
        let later =
            found.iter().filter_map(id_of).filter(|id| (n_due..self.n_written()).contains(id));
        let ids: BTreeSet<u64> = (0..n_due).chain(later).collect();
        let mut wanted: Vec<_> = ids.iter().map(|id| line(Row::of(self.seed, *id))).collect();
        wanted.sort_unstable();
        wanted
    }
}

fn line(Row { id, key, value, check }: Row) -> String {
    format!("{id},{key},{},{check}", value + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::outputs::compare;

    #[test]
    fn rows_that_are_due_must_be_there_and_later_ones_may() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::create_dir(dir.path().join("in")).expect("a directory");
        let stream = Stream::new(7, dir.path()).expect("a stream");
        stream.n_written.store(10, Ordering::Relaxed);
        let rows = |ids: &[u64]| {
            let mut lines: Vec<_> = ids.iter().map(|id| line(Row::of(7, *id))).collect();
            lines.sort_unstable();
            lines
        };
        let judge = |found: &[String]| compare("s", &stream.wanted(3, found), found).len();
        assert_eq!(judge(&rows(&[0, 1, 2])), 0);
        assert_eq!(judge(&rows(&[0, 1, 2, 9])), 0);
        assert_eq!(judge(&rows(&[0, 2])), 1, "one is lost");
        assert_eq!(judge(&rows(&[0, 1, 2, 2])), 1, "one is there twice");
        assert_eq!(judge(&rows(&[0, 1, 2, 9, 9])), 1, "a later one is there twice");
        assert_eq!(judge(&rows(&[0, 1, 2, 10])), 1, "one was never written");
    }
}
