//! What the cluster is for in a run: jobs with rows that are told apart, and what must come out.
//!
//! What must come out is computed here, by plain loops over the rows, and shares no code with what
//! computes it in the cluster.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::rng::{Rng, stir};

/// A row of an input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// No other row of its input has it.
    pub id: u64,
    /// One of [`KEYS`].
    pub key: u64,
    /// Below a thousand.
    pub value: u64,
    /// Follows from the others and the input: a row that was made up or mixed up shows.
    pub check: u64,
}

/// How many keys there are.
pub const KEYS: u64 = 23;

impl Row {
    /// The row with this id in the input of this seed.
    pub fn of(seed: u64, id: u64) -> Row {
        let drawn = stir(stir(seed) ^ id);
        let (key, value) = (drawn % KEYS, (drawn >> 20) % 1_000);
        Row { id, key, value, check: stir(drawn ^ (key << 32) ^ value) >> 12 }
    }
}

/// The form of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// Rows of a file, some of them left out, the others changed.
    Copy,
    /// Rows of a file, counted and added up by key.
    Groups,
    /// Rows that nobody wrote, added up by key.
    Generated,
    /// Rows of a file, to one output all of them and to another what they come to.
    Fork,
    /// Rows that come by the clock, counted by key, with the counts so far every second.
    Stream,
}

/// Those that are submitted again and again.
pub const BATCH: [Shape; 4] = [Shape::Copy, Shape::Groups, Shape::Generated, Shape::Fork];

/// A job of the run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Job {
    /// Its id in the cluster.
    pub id: String,
    /// Its form.
    pub shape: Shape,
    /// How its peers are shared out among its tasks.
    pub scheduler: &'static str,
    /// Whether it runs whole or not at all.
    pub is_protected: bool,
    /// How many rows its input has.
    pub rows: u64,
    /// Where its rows come from.
    pub seed: u64,
    /// How many rows a second, where they come by the clock.
    pub rate: u64,
}

const SCHEDULERS: [&str; 3] = ["greedy", "round-robin", "percentage"];

impl Job {
    /// The batch job with this number. All forms with all schedulers come in turn.
    pub fn batch(seed: u64, index: u64, rows: u64) -> Job {
        let mut rng = Rng::of(seed, 1_000 + index);
        let shape = BATCH[(index % 4) as usize];
        let scheduler = SCHEDULERS[(index / 4 % 3) as usize];
        let is_protected = rng.chance(30);
        let id = format!("batch-{index}");
        Job { id, shape, scheduler, is_protected, rows, seed: rng.next(), rate: 0 }
    }

    /// The job whose rows come by the clock, for so long.
    pub fn stream(seed: u64, rate: u64, seconds: u64) -> Job {
        Job {
            id: "stream-counts".into(),
            shape: Shape::Stream,
            scheduler: "round-robin",
            is_protected: false,
            rows: rate * seconds,
            seed: Rng::of(seed, 999).next(),
            rate,
        }
    }

    /// The file with its rows, for those that read one.
    pub fn input(&self, dir: &Path) -> PathBuf {
        dir.join("in").join(format!("{}.csv", self.id))
    }

    /// What stands in it.
    pub fn input_text(&self) -> Option<String> {
        let reads = matches!(self.shape, Shape::Copy | Shape::Groups | Shape::Fork);
        reads.then(|| {
            let mut text = String::from("id,key,value,check\n");
            for Row { id, key, value, check } in self.all_rows() {
                // Writing to a string cannot fail.
                let _ = writeln!(text, "{id},{key},{value},{check}");
            }
            text
        })
    }

    fn all_rows(&self) -> impl Iterator<Item = Row> + '_ {
        (0..self.rows).map(|id| Row::of(self.seed, id))
    }

    /// Where its outputs are.
    pub fn output(&self, dir: &Path, name: &str) -> PathBuf {
        dir.join("out").join(format!("{}-{name}.csv", self.id))
    }

    /// The lines that must be in each of its outputs, sorted, without the header.
    pub fn wanted(&self) -> BTreeMap<&'static str, Vec<String>> {
        let mut wanted = match self.shape {
            Shape::Copy => BTreeMap::from([("out", self.copied())]),
            Shape::Groups => BTreeMap::from([("out", self.grouped())]),
            Shape::Generated => BTreeMap::from([("out", self.added_up())]),
            Shape::Fork => BTreeMap::from([("all", self.unchanged()), ("out", self.grouped())]),
            Shape::Stream => BTreeMap::from([("out", self.counted())]),
        };
        wanted.values_mut().for_each(|lines| lines.sort_unstable());
        wanted
    }

    fn copied(&self) -> Vec<String> {
        let kept = self.all_rows().filter(|row| row.value % 7 != 0);
        let line = |Row { id, key, value, check }| format!("{id},{key},{},{check}", value * 3 + 1);
        kept.map(line).collect()
    }

    fn unchanged(&self) -> Vec<String> {
        let line = |Row { id, key, value, check }| format!("{id},{key},{value},{check}");
        self.all_rows().map(line).collect()
    }

    fn grouped(&self) -> Vec<String> {
        let mut groups: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for row in self.all_rows() {
            let (n, total) = groups.entry(row.key).or_default();
            (*n, *total) = (*n + 1, *total + row.value);
        }
        groups.iter().map(|(key, (n, total))| format!("{key},{n},{total}")).collect()
    }

    fn added_up(&self) -> Vec<String> {
        let mut sums: BTreeMap<u64, u64> = BTreeMap::new();
        (0..self.rows).for_each(|n| *sums.entry(n % KEYS).or_default() += n);
        sums.iter().map(|(key, sum)| format!("{key},{sum}")).collect()
    }

    fn counted(&self) -> Vec<String> {
        let count = |key| (self.rows + KEYS - 1 - key) / KEYS;
        (0..KEYS).map(|key| format!("{key},{}", count(key))).collect()
    }

    /// As it is submitted.
    pub fn to_json(&self, dir: &Path) -> Value {
        let (input, out) = (self.input(dir), self.output(dir, "out"));
        let read = json!({"type": "input", "plugin": "file", "path": input, "batch-size": 200,
                          "split-bytes": 32_768});
        let write = json!({"type": "output", "plugin": "file", "path": out});
        let sum = json!({"type": "function", "fn": "aggregate", "group-by": ["key"],
                         "aggregates": {"n": "count", "total": "sum(value)"}});
        let (workflow, catalog) = match self.shape {
            Shape::Copy => (
                json!([["read", "change"], ["change", "write"]]),
                json!({"read": read, "write": write, "change": {"type": "function", "fn": "sql",
                    "query": "select id, key, value * 3 + 1 as value, check from segments \
                              where value % 7 <> 0"}}),
            ),
            Shape::Groups => (
                json!([["read", "sum"], ["sum", "write"]]),
                json!({"read": read, "sum": sum, "write": write}),
            ),
            Shape::Generated => (
                json!([["make", "key"], ["key", "sum"], ["sum", "write"]]),
                json!({
                    "make": {"type": "input", "plugin": "generate", "count": self.rows,
                             "splits": 12, "batch-size": 200},
                    "key": {"type": "function", "fn": "sql",
                            "query": format!("select n, n % {KEYS} as key from segments")},
                    "sum": {"type": "function", "fn": "sum", "of": "n", "group-by": ["key"]},
                    "write": write}),
            ),
            Shape::Fork => (
                json!([["read", "pass"], ["pass", "sum"], ["pass", "keep"], ["sum", "write"]]),
                json!({"read": read, "pass": {"type": "function", "fn": "pass"}, "sum": sum,
                    "write": write, "keep": {"type": "output", "plugin": "file",
                                             "path": self.output(dir, "all")}}),
            ),
            Shape::Stream => (
                json!([["make", "key"], ["key", "count"], ["count", "write"]]),
                json!({
                    "make": {"type": "input", "plugin": "generate", "count": self.rows,
                             "rate": self.rate, "splits": 4},
                    "key": {"type": "function", "fn": "sql",
                            "query": format!("select n % {KEYS} as key from segments")},
                    "count": {"type": "function", "fn": "count", "group-by": ["key"],
                              "trigger": "1s"},
                    "write": write}),
            ),
        };
        self.with_terms(&workflow, catalog)
    }

    /// With everything that schedulers read: bounds, so that no job takes all peers, and shares, of
    /// which as many as run at a time fit into a hundred.
    fn with_terms(&self, workflow: &Value, mut catalog: Value) -> Value {
        let n_tasks = catalog.as_object().map_or(1, serde_json::Map::len) as u64;
        for task in catalog.as_object_mut().into_iter().flat_map(|it| it.values_mut()) {
            task["max-peers"] = json!(3);
            if self.scheduler == "percentage" {
                task["percentage"] = json!(100 / n_tasks);
            }
        }
        json!({"name": self.id, "workflow": workflow, "catalog": catalog,
               "task-scheduler": self.scheduler, "percentage": 16,
               "partial-coverage-protection": self.is_protected})
    }
}

/// The lines of an output without its header, sorted; none of a file that is not there.
pub fn lines_of(text: &str) -> Vec<String> {
    let mut lines: Vec<_> = text.lines().skip(1).map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

/// Of a stream's output, which has each key's count again and again: the last of each key. Counts only
/// grow, so that is the largest.
pub fn last_counts(lines: &[String]) -> Result<Vec<String>, String> {
    let mut last: BTreeMap<u64, u64> = BTreeMap::new();
    for line in lines {
        let parts =
            line.split_once(',').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        let (key, count): (u64, u64) = parts.ok_or_else(|| format!("`{line}` is no count"))?;
        let so_far = last.entry(key).or_default();
        *so_far = (*so_far).max(count);
    }
    let mut lines: Vec<_> = last.iter().map(|(key, count)| format!("{key},{count}")).collect();
    lines.sort_unstable();
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_follow_from_seed_and_id() {
        assert_eq!(Row::of(1, 5), Row::of(1, 5));
        assert_ne!(Row::of(1, 5).check, Row::of(2, 5).check);
        assert_ne!(Row::of(1, 5).check, Row::of(1, 6).check);
    }

    #[test]
    fn all_forms_come_with_all_schedulers() {
        let jobs: Vec<_> = (0..12).map(|index| Job::batch(7, index, 10)).collect();
        let mut pairs: Vec<_> =
            jobs.iter().map(|job| format!("{:?} {}", job.shape, job.scheduler)).collect();
        pairs.sort_unstable();
        pairs.dedup();
        assert_eq!(pairs.len(), 12);
    }

    #[test]
    fn what_is_wanted_adds_up() {
        let job = Job { shape: Shape::Groups, ..Job::batch(1, 1, 1_000) };
        let wanted = job.wanted();
        let n = |line: &String| line.split(',').nth(1).and_then(|it| it.parse::<u64>().ok());
        let counts: Option<Vec<u64>> = wanted["out"].iter().map(n).collect();
        assert_eq!(counts.map(|it| it.iter().sum::<u64>()), Some(1_000));
        let stream = Job::stream(1, 10, 100).wanted();
        let counts: Option<Vec<u64>> = stream["out"].iter().map(n).collect();
        assert_eq!(counts.map(|it| it.iter().sum::<u64>()), Some(1_000));
    }

    #[test]
    fn jobs_that_run_at_a_time_fit_into_a_hundred() {
        let job = Job::batch(1, 0, 10).to_json(Path::new("/run"));
        // Four of a batch and two streams.
        assert!(job["percentage"].as_u64().is_some_and(|it| it * 6 <= 100));
    }

    #[test]
    fn the_last_counts_are_the_largest() {
        let lines = ["1,5", "2,7", "1,9"].map(str::to_owned);
        assert_eq!(last_counts(&lines), Ok(vec!["1,9".into(), "2,7".into()]));
        assert!(last_counts(&["x".to_owned()]).is_err());
    }
}
