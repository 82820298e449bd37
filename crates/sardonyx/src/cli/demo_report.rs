//! What the demo tells: lines for people as it goes, one JSON object for programs at the end.

use std::{collections::BTreeMap, time::Duration};

use indicatif::HumanCount;
use sardonyx_core::wire;
use serde_json::{Value, json};

use super::{demo_ring, demo_story::Loss, demo_text::Written};

/// How many words the summary shows.
const TOP_MAX: usize = 5;

/// How many differences are named; the rest is counted.
const DIFFERENCES_MAX: usize = 5;

/// What came of it.
pub(super) struct Result {
    pub(super) written: Written,
    pub(super) counted: BTreeMap<String, u64>,
    pub(super) differences: Vec<(String, u64, u64)>,
    pub(super) loss: Loss,
    pub(super) took: Duration,
    pub(super) n_entries: u64,
    pub(super) link: Option<String>,
}

pub(super) fn opening(written: &Written, peers: usize, ring: &[String]) -> Vec<String> {
    let (megabytes, lines) = (written.bytes / 1_000_000, HumanCount(written.lines));
    let mut told =
        vec![format!("{peers} peers, each a node of its own; no master, no server. The ring:")];
    told.extend(indented(&demo_ring::draw(ring)));
    told.push(format!("They count the words of {megabytes} MB of text, {lines} lines."));
    told
}

pub(super) fn lost(loss: &Loss) -> Vec<String> {
    let ran = loss.ran.as_ref().map(|(task, _)| format!(", in the middle of task {task}"));
    let who = &loss.victim;
    vec![format!("{who} is killed{}: no goodbye, its work undone.", ran.unwrap_or_default())]
}

pub(super) fn without(loss: &Loss) -> Vec<String> {
    let mut told =
        vec!["Who watched it says so in the log, and the ring closes over the gap:".into()];
    told.extend(indented(&demo_ring::draw(loss.without.as_deref().unwrap_or_default())));
    told
}

pub(super) fn after(loss: &Loss) -> Vec<String> {
    let mut told = vec!["A new node comes and is taken in:".into()];
    told.extend(indented(&demo_ring::draw(loss.after.as_deref().unwrap_or_default())));
    told.push("Those entries of the log, from which everybody computed the same ring:".into());
    told.extend(loss.entries.iter().map(|entry| format!("  {entry}")));
    told
}

fn indented(lines: &[String]) -> Vec<String> {
    lines.iter().map(|line| format!("  {line}")).collect()
}

/// The most frequent words, the most frequent first.
fn top(words: &BTreeMap<String, u64>) -> Vec<(&str, u64)> {
    let mut all: Vec<_> = words.iter().map(|(word, n)| (word.as_str(), *n)).collect();
    all.sort_by_key(|(word, n)| (std::cmp::Reverse(*n), *word));
    all.truncate(TOP_MAX);
    all
}

impl Result {
    pub(super) fn summary(&self) -> Vec<String> {
        let n_counted: u64 = self.counted.values().sum();
        let (n, distinct) = (HumanCount(n_counted), HumanCount(self.counted.len() as u64));
        let seconds = self.took.as_secs_f64().max(1e-6);
        let millions = n_counted as f64 / seconds / 1e6;
        let top: Vec<_> = top(&self.counted)
            .iter()
            .map(|(word, n)| format!("{word} {}", HumanCount(*n)))
            .collect();
        let mut told = vec![
            format!("{n} words, {distinct} different, in {seconds:.1} s: {millions:.1} M words/s"),
            format!("most frequent: {}", top.join(", ")),
            format!("log: {} entries", HumanCount(self.n_entries)),
        ];
        if self.differences.is_empty() {
            told.push(
                "Right: every count is the same as one made without the cluster. Nothing is lost, \
                 nothing counted twice."
                    .into(),
            );
            return told;
        }
        told.push(format!("WRONG: {} counts differ", self.differences.len()));
        for (word, is, counted) in self.differences.iter().take(DIFFERENCES_MAX) {
            told.push(format!("  {word}: {is} in the text, {counted} counted"));
        }
        let more = self.differences.len().saturating_sub(DIFFERENCES_MAX);
        if more > 0 {
            told.push(format!("  and {more} more"));
        }
        told
    }

    pub(super) fn json(&self) -> Value {
        let top: Vec<_> =
            top(&self.counted).iter().map(|(word, n)| json!({"word": word, "count": n})).collect();
        let Loss { victim, ran, before, without, after, entries } = &self.loss;
        let entry = |text: String| serde_json::from_str::<Value>(&text).unwrap_or_default();
        let entries: Vec<_> = entries.iter().map(|it| entry(wire::entry_to_json(it))).collect();
        let differences = self.differences.iter().take(DIFFERENCES_MAX);
        let differences: Vec<_> = differences
            .map(|(word, is, counted)| json!({"word": word, "is": is, "counted": counted}))
            .collect();
        json!({
            "right": self.differences.is_empty(),
            "words": self.counted.values().sum::<u64>(),
            "expected-words": self.written.n_words(),
            "distinct": self.counted.len(),
            "n-differences": self.differences.len(), "differences": differences,
            "lines": self.written.lines, "bytes": self.written.bytes, "top": top,
            "killed": victim, "ran": ran.as_ref().map(|(task, _)| task),
            "ring": {"before": before, "without": without, "after": after},
            "entries": entries, "n-entries": self.n_entries,
            "seconds": self.took.as_secs_f64(), "dashboard": self.link,
        })
    }
}

#[cfg(test)]
mod tests {
    use sardonyx_core::PeerId;

    use super::*;

    fn result(counted: u64) -> Result {
        let words = |n| BTreeMap::from([("the".to_owned(), n), ("a".to_owned(), 1)]);
        let (is, counted) = (words(3), words(counted));
        let victim = PeerId::new("n2-1").unwrap();
        let ran = Some(("count".into(), "j".into()));
        let ring = vec!["n1-1".to_owned(), "n2-1".to_owned()];
        let (without, after, entries) = (Some(ring[..1].to_vec()), Some(ring.clone()), Vec::new());
        Result {
            differences: super::super::demo_text::differences(&is, &counted),
            written: Written { bytes: 10, lines: 2, words: is },
            counted,
            loss: Loss { victim, ran, before: ring, without, after, entries },
            took: Duration::from_secs(2),
            n_entries: 40,
            link: None,
        }
    }

    #[test]
    fn a_right_result_says_so() {
        let told = result(3).summary();
        assert_eq!(told[0], "4 words, 2 different, in 2.0 s: 0.0 M words/s");
        assert_eq!(told[1], "most frequent: the 3, a 1");
        assert!(told[3].starts_with("Right: "), "{told:?}");
        assert_eq!(result(3).json()["right"], true);
    }

    #[test]
    fn a_wrong_result_names_the_words() {
        let told = result(4).summary();
        assert_eq!(told[3..], ["WRONG: 1 counts differ", "  the: 3 in the text, 4 counted"]);
        let json = result(4).json();
        assert_eq!((&json["right"], &json["words"]), (&json!(false), &json!(5)));
    }
}
