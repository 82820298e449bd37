//! The text that the demo counts: the lines of a chapter of 1865, drawn over and over in an order
//! that only looks random, and how often every word is in it.
//!
//! The order matters: if all parts of the text were alike, a part that was lost and another that was
//! counted twice would make up for each other.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

/// The beginning of "Alice's Adventures in Wonderland" by Lewis Carroll, in the public domain.
const CHAPTER: &str = include_str!("demo_text.txt");

/// What was written, and what is in it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Written {
    pub(super) bytes: u64,
    pub(super) lines: u64,
    /// How often each word is there, found without the engine.
    pub(super) words: BTreeMap<String, u64>,
}

impl Written {
    pub(super) fn n_words(&self) -> u64 {
        self.words.values().sum()
    }
}

/// Writes lines until there are `bytes_min` bytes, the same ones every time. Counts how often each
/// line was drawn, and from that the words.
pub(super) fn write(out: &mut impl Write, bytes_min: u64) -> io::Result<Written> {
    let lines: Vec<&str> = CHAPTER.lines().collect();
    let mut drawn = vec![0u64; lines.len()];
    let (mut bytes, mut n_lines, mut state) = (0, 0, 0x5a4d_0001);
    while bytes < bytes_min {
        let at = (next(&mut state) % lines.len() as u64) as usize;
        writeln!(out, "{}", lines[at])?;
        drawn[at] += 1;
        n_lines += 1;
        bytes += lines[at].len() as u64 + 1;
    }
    out.flush()?;
    let mut words = BTreeMap::new();
    for (line, times) in lines.iter().zip(&drawn).filter(|(_, times)| **times > 0) {
        for word in line.split_whitespace().map(plain).filter(|word| !word.is_empty()) {
            *words.entry(word).or_default() += times;
        }
    }
    Ok(Written { bytes, lines: n_lines, words })
}

/// A word without punctuation, in small letters: the same that [`QUERY`] makes of it.
fn plain(word: &str) -> String {
    let letters = word.chars().filter(|c| c.is_ascii_alphabetic() || *c == '-');
    letters.map(|c| c.to_ascii_lowercase()).collect()
}

/// The job's way to say so.
pub(super) const QUERY: &str = "select lower(regexp_replace(word, '[^A-Za-z-]', '', 'g')) as word \
                                from segments where regexp_matches(word, '[A-Za-z-]')";

/// SplitMix64: evenly spread, and the same everywhere.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Words whose counts differ: the word, how often it is there, how often it was counted.
pub(super) fn differences(
    is: &BTreeMap<String, u64>,
    counted: &BTreeMap<String, u64>,
) -> Vec<(String, u64, u64)> {
    let of = |map: &BTreeMap<String, u64>, word: &str| map.get(word).copied().unwrap_or(0);
    let missing = is.keys().filter(|word| of(is, word) != of(counted, word));
    let invented = counted.keys().filter(|word| !is.contains_key(*word));
    let pairs = missing.chain(invented);
    pairs.map(|word| (word.clone(), of(is, word), of(counted, word))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_has_the_words_that_it_is_said_to_have() {
        let mut text = Vec::new();
        let written = write(&mut text, 200_000).unwrap();
        let text = String::from_utf8(text).unwrap();
        let mut words = BTreeMap::<String, u64>::new();
        for word in text.to_lowercase().split_whitespace() {
            let word = word.replace(|c: char| !c.is_ascii_lowercase() && c != '-', "");
            *words.entry(word).or_default() += 1;
        }
        assert_eq!(written.words, words);
        assert_eq!(
            (written.bytes, written.lines),
            (text.len() as u64, text.lines().count() as u64)
        );
        assert!((200_000..200_200).contains(&written.bytes), "{}", written.bytes);
    }

    #[test]
    fn it_is_the_same_every_time_and_no_two_parts_are_alike() {
        let mut texts = [Vec::new(), Vec::new()];
        for text in &mut texts {
            write(text, 100_000).unwrap();
        }
        assert_eq!(texts[0], texts[1]);
        let (one, other) = texts[0].split_at(50_000);
        assert_ne!(one, other);
    }

    #[test]
    fn every_difference_is_found() {
        let map = |pairs: &[(&str, u64)]| {
            pairs.iter().map(|(word, n)| ((*word).to_owned(), *n)).collect::<BTreeMap<_, _>>()
        };
        let is = map(&[("a", 1), ("b", 2), ("c", 3)]);
        assert_eq!(differences(&is, &is), []);
        let counted = map(&[("a", 1), ("b", 1), ("d", 4)]);
        let expected = [("b".into(), 2, 1), ("c".into(), 3, 0), ("d".into(), 0, 4)];
        assert_eq!(differences(&is, &counted), expected);
    }
}
