//! `split-words`: a column of texts to one row for each word in it.
//!
//! Words are what white space lies between, in all of Unicode. Eight bytes are looked at in one
//! step, and words are copied into the new column without an allocation for each.

#![expect(clippy::wildcard_enum_match_arm, reason = "Arrow has many more types")]

use std::sync::Arc;

use arrow::{
    array::{Array, AsArray, RecordBatch, StringArray},
    buffer::{OffsetBuffer, ScalarBuffer},
    compute::cast,
    datatypes::{DataType, Field, Schema, SchemaRef},
};

use crate::{Function, Terms, partition};

/// The function of that name.
pub(super) struct SplitWords {
    column: String,
    schema: SchemaRef,
}

impl SplitWords {
    pub(super) fn new(terms: &Terms) -> Result<SplitWords, String> {
        let column = terms.text("column")?.unwrap_or("line").to_owned();
        let name = terms.text("as")?.unwrap_or("word");
        let schema = Arc::new(Schema::new(vec![Field::new(name, DataType::Utf8, false)]));
        Ok(SplitWords { column, schema })
    }
}

impl Function for SplitWords {
    fn apply(&mut self, batch: &RecordBatch) -> Result<RecordBatch, String> {
        let column = partition::column(batch, &self.column)?;
        let column = match column.data_type() {
            DataType::Utf8 => column.clone(),
            DataType::LargeUtf8 | DataType::Utf8View | DataType::Dictionary(_, _) => {
                cast(column, &DataType::Utf8).map_err(|why| why.to_string())?
            }
            other => return Err(format!("{} is {other}, not a text", self.column)),
        };
        let words = words(column.as_string::<i32>())?;
        RecordBatch::try_new(self.schema.clone(), vec![Arc::new(words)])
            .map_err(|why| why.to_string())
    }
}

fn words(lines: &StringArray) -> Result<StringArray, String> {
    let values = lines.value_data();
    let offsets = lines.value_offsets();
    let (first, last) = match (offsets.first(), offsets.last()) {
        (Some(first), Some(last)) => (*first as usize, *last as usize),
        _ => (0, 0),
    };
    let mut splitter = Splitter {
        bytes: Vec::with_capacity(last - first + 16),
        ends: Vec::with_capacity((last - first) / 5 + 2),
    };
    splitter.ends.push(0);
    let has_nulls = lines.null_count() > 0;
    for (row, ends) in offsets.windows(2).enumerate() {
        if !has_nulls || lines.is_valid(row) {
            splitter.line(values, ends[0] as usize, ends[1] as usize);
        }
    }
    let offsets = OffsetBuffer::new(ScalarBuffer::from(splitter.ends));
    StringArray::try_new(offsets, splitter.bytes.into(), None).map_err(|why| why.to_string())
}

struct Splitter {
    bytes: Vec<u8>,
    ends: Vec<i32>,
}

impl Splitter {
    fn line(&mut self, values: &[u8], start: usize, end: usize) {
        let mut word = start;
        let mut at = start;
        while at < end {
            at = stop(values, at).min(end);
            let space = if at < end { space(&values[at..end]) } else { 0 };
            if at < end && space == 0 {
                // Not what it looked like: a letter that is not ASCII, or a control character.
                at += 1;
                continue;
            }
            if word < at {
                self.word(values, word, at);
            }
            at += space;
            word = at;
        }
        if word < end {
            self.word(values, word, end);
        }
    }

    fn word(&mut self, values: &[u8], start: usize, end: usize) {
        let length = end - start;
        match values[start..].first_chunk::<16>() {
            // Sixteen bytes are copied faster than the few that are meant.
            Some(chunk) if length <= 16 => {
                let before = self.bytes.len();
                self.bytes.extend_from_slice(chunk);
                self.bytes.truncate(before + length);
            }
            _ => self.bytes.extend_from_slice(&values[start..end]),
        }
        // Words are a part of their lines, whose offsets fit.
        self.ends.push(self.bytes.len() as i32);
    }
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Where the next byte is that could be white space: up to a blank, or not ASCII.
fn stop(values: &[u8], mut at: usize) -> usize {
    while let Some(chunk) = values[at..].first_chunk::<8>() {
        let eight = u64::from_le_bytes(*chunk);
        // The lowest mark is exact, those above it need not be; only the lowest is used.
        let marks = (eight.wrapping_sub(ONES * 0x21) | eight) & HIGH;
        if marks != 0 {
            return at + marks.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let is_stop = |byte: &u8| *byte <= b' ' || !byte.is_ascii();
    at + values[at..].iter().position(is_stop).unwrap_or(values.len() - at)
}

/// How many bytes of white space these begin with: 0, or those of one character.
fn space(bytes: &[u8]) -> usize {
    match bytes {
        [b'\t'..=b'\r' | b' ', ..] => 1,
        [0xc2, 0x85 | 0xa0, ..] => 2,
        [0xe1, 0x9a, 0x80, ..] => 3,
        [0xe2, 0x80, 0x80..=0x8a | 0xa8 | 0xa9 | 0xaf, ..] => 3,
        [0xe2, 0x81, 0x9f, ..] => 3,
        [0xe3, 0x80, 0x80, ..] => 3,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::ArrayRef;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::{
        Registry,
        testing::{computed, is_measured, rows},
    };

    fn split(lines: Vec<Option<&str>>) -> Vec<String> {
        let lines: ArrayRef = Arc::new(StringArray::from(lines));
        let batch = RecordBatch::try_from_iter_with_nullable([("line", lines, true)]).unwrap();
        let terms = Terms::new("j", "t", &json!({"fn": "split-words"}));
        let mut function = Registry::built_in().make_function(&terms).unwrap();
        rows(&function.apply(&batch).unwrap())
    }

    #[test]
    fn every_white_space_of_unicode_divides() {
        let spaces: String =
            (0..=0x10_ffff).filter_map(char::from_u32).filter(|it| it.is_whitespace()).collect();
        let line = format!("a{spaces}b{spaces}");
        assert_eq!(split(vec![Some(&line)]), ["a", "b"]);
    }

    #[test]
    fn names_can_be_given() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["x y"]));
        let batch = RecordBatch::try_from_iter([("text", texts)]).unwrap();
        let entry = json!({"fn": "split-words", "column": "text", "as": "w"});
        let registry = Registry::built_in();
        let mut function = registry.make_function(&Terms::new("j", "t", &entry)).unwrap();
        let words = function.apply(&batch).unwrap();
        assert_eq!(words.schema().field(0).name(), "w");
        let mut function =
            registry.make_function(&Terms::new("j", "t", &json!({"fn": "split-words"}))).unwrap();
        let why = function.apply(&batch).unwrap_err();
        assert_eq!(why, "there is no column \"line\"; the columns are text");
    }

    proptest! {
        #[test]
        fn words_are_those_of_the_standard_library(
            lines in proptest::collection::vec(
                proptest::option::of("[ \\t\\x00\\x1cab\u{85}\u{a0}\u{2003}\u{3000}é漢]{0,40}"), 0..8),
        ) {
            let expected: Vec<&str> =
                lines.iter().flatten().flat_map(|line| line.split_whitespace()).collect();
            prop_assert_eq!(split(lines.iter().map(Option::as_deref).collect()), expected);
        }
    }

    /// `SARDONYX_MEASURE=1 cargo test --release -p sardonyx-task --lib split_words -- --nocapture`
    /// prints how fast it is; otherwise a short run.
    #[test]
    fn speed() {
        let is_measured = is_measured();
        let line = "it was the best of times it was the worst of times it was the age";
        let lines = StringArray::from(vec![line; 8192]);
        let n_rounds = if is_measured { 500 } else { 1 };
        let start = computed();
        let n_words: usize = (0..n_rounds).map(|_| words(&lines).unwrap().len()).sum();
        let rate = n_words as f64 / (computed() - start).as_secs_f64() / 1e6;
        assert_eq!(n_words, n_rounds * 8192 * line.split(' ').count());
        if is_measured {
            println!("split-words: {rate:.1} million words a CPU second");
        }
    }
}
