//! What every input and every output must do, for whoever writes one: hand yours to these functions
//! in a test. They say what went wrong in words.
//!
//! ```
//! use sardonyx_task::{Terms, plugin, suite};
//! use serde_json::json;
//!
//! let terms = Terms::new("job", "read", &json!({ "count": 20, "splits": 3 }));
//! suite::input(&|| plugin::input("generate", &terms).unwrap()).unwrap();
//! ```

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use arrow::array::{Int64Array, RecordBatch, StringArray};
use bytes::Bytes;

use crate::{
    Format, Input, Output,
    format::encode,
    input::{Read, Reader},
    output::Writer,
};

/// Batches of these sizes are asked for: single rows, odd numbers, and more than there are.
const ROWS: [usize; 5] = [1, 2, 3, 7, 1 << 20];

/// How often an input may say that nothing is there yet.
const WAITS_MAX: usize = 1_000;

/// Rows as texts, which can be compared and shown.
pub fn texts(batch: &RecordBatch) -> Result<Vec<String>, String> {
    let mut bytes = Vec::new();
    encode::encode(Format::Ndjson, batch, &mut bytes)?;
    let text = String::from_utf8(bytes).map_err(|why| why.to_string())?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// A reading that is stopped at every batch and goes on from the position that was committed gives
/// the same rows as one that is never stopped, for every split. `make` gives an input of the same rows
/// each time, as on another node.
pub fn input(make: &dyn Fn() -> Result<Arc<dyn Input>, String>) -> Result<(), String> {
    let splits = make()?.splits(None)?.splits;
    for (number, split) in splits.iter().enumerate() {
        let said = |why: String| format!("split {number} of {}: {why}", splits.len());
        input_split(make, split).map_err(said)?;
    }
    Ok(())
}

fn input_split(
    make: &dyn Fn() -> Result<Arc<dyn Input>, String>,
    split: &[u8],
) -> Result<(), String> {
    let whole = {
        let input = make()?;
        let mut reader = input.open(split, None)?;
        let mut rows = Vec::new();
        while let Some((batch, _)) = next(&mut *reader, 1 << 20)? {
            rows.extend(texts(&batch)?);
        }
        if next(&mut *reader, 1)?.is_some() {
            return Err("it ended, and then there were more rows".into());
        }
        rows
    };
    for rows_max in ROWS {
        let said = |why: String| format!("with batches of {rows_max}: {why}");
        let stopped = stopped_at_every_batch(make, split, rows_max).map_err(said)?;
        if stopped != whole {
            let place = stopped.iter().zip(&whole).position(|(one, other)| one != other);
            let place = place.unwrap_or(stopped.len().min(whole.len()));
            return Err(said(format!(
                "read at once it has {} rows, stopped at every batch {}; they differ at row {place}: \
                 {:?} and {:?}",
                whole.len(),
                stopped.len(),
                whole.get(place),
                stopped.get(place)
            )));
        }
    }
    Ok(())
}

fn stopped_at_every_batch(
    make: &dyn Fn() -> Result<Arc<dyn Input>, String>,
    split: &[u8],
    rows_max: usize,
) -> Result<Vec<String>, String> {
    let input = make()?;
    let mut rows = Vec::new();
    let mut position: Option<Bytes> = None;
    loop {
        let mut reader = input.open(split, position.as_deref())?;
        let Some((batch, behind)) = next(&mut *reader, rows_max)? else { return Ok(rows) };
        // This session reads on and dies before it commits: what it saw must come again.
        next(&mut *reader, rows_max)?;
        let mut reader = input.open(split, position.as_deref())?;
        let Some((again, behind_again)) = next(&mut *reader, rows_max)? else {
            return Err("rows that were not committed did not come again".into());
        };
        if texts(&again)? != texts(&batch)? || behind != behind_again {
            return Err("rows that were not committed came again as others".into());
        }
        reader.committed(&behind)?;
        rows.extend(texts(&batch)?);
        if position.as_ref() == Some(&behind) {
            return Err("a batch came, and the position behind it is that before it".into());
        }
        position = Some(behind);
    }
}

fn next(reader: &mut dyn Reader, rows_max: usize) -> Result<Option<(RecordBatch, Bytes)>, String> {
    for _ in 0..WAITS_MAX {
        match reader.read(rows_max)? {
            Read::Batch(batch, position) => return Ok(Some((batch, position))),
            Read::End => return Ok(None),
            Read::Wait(pause, _) => std::thread::sleep(pause.min(Duration::from_millis(5))),
        }
    }
    Err(format!("{WAITS_MAX} times it said that nothing is there yet"))
}

/// What an output promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guarantee {
    /// What is committed appears once.
    ExactlyOnce,
    /// The same, but what was committed just before a process was killed may never appear.
    AtMostOnce,
}

/// An output that is tried, and a look at what arrived.
pub struct Target {
    /// The output, made anew each time, as on another node.
    pub make: Box<dyn Fn() -> Result<Arc<dyn Output>, String>>,
    /// The rows that arrived, as [`texts`] shows them, in any order.
    pub rows: Box<dyn Fn() -> Result<Vec<String>, String>>,
}

/// How many batches a scenario writes.
const BATCHES: usize = 3;

/// What a session does with a batch, in this order.
const STEPS: usize = 4;

/// A session that dies after any of its steps and is replaced by another leaves exactly the rows that
/// were committed, also if it is only fenced and goes on writing. `fresh` gives an empty target.
pub fn output(
    guarantee: Guarantee,
    fresh: &mut dyn FnMut() -> Result<Target, String>,
) -> Result<(), String> {
    for is_fenced in [false, true] {
        for died_at in 0..=BATCHES * STEPS {
            // Both kinds of commits, at every step.
            let is_durable = is_fenced == (died_at % 2 == 0);
            let scenario = Scenario { guarantee, is_durable, is_fenced, died_at };
            let target = fresh()?;
            scenario.run(&target).map_err(|why| format!("{scenario:?}: {why}"))?;
        }
    }
    nothing_written(&fresh()?)
}

fn nothing_written(target: &Target) -> Result<(), String> {
    let output = (target.make)()?;
    output.check()?;
    let mut writer = output.open("idle")?;
    if writer.prepare(false)?.is_some() {
        return Err("a session that wrote nothing has something to commit".into());
    }
    writer.committed()?;
    drop(writer);
    output.finish(&[])?;
    output.finish(&[])?;
    match (target.rows)()?.as_slice() {
        [] => Ok(()),
        rows => Err(format!("nothing was written, and {} rows are there", rows.len())),
    }
}

#[derive(Debug)]
struct Scenario {
    guarantee: Guarantee,
    is_durable: bool,
    is_fenced: bool,
    died_at: usize,
}

/// What the queues know: which batches are committed, and how far each part is.
#[derive(Default)]
struct Queues {
    n_committed: usize,
    marks: BTreeMap<String, Bytes>,
}

impl Queues {
    fn commit(&mut self, part: &str, mark: Option<Bytes>) {
        self.n_committed += 1;
        if let Some(mark) = mark {
            self.marks.insert(part.into(), mark);
        }
    }

    fn parts(&self) -> Vec<(String, Bytes)> {
        self.marks.iter().map(|(part, mark)| (part.clone(), mark.clone())).collect()
    }
}

impl Scenario {
    fn run(&self, target: &Target) -> Result<(), String> {
        let mut queues = Queues::default();
        let mut shown = vec![false; BATCHES];
        let first = (target.make)()?;
        first.check()?;
        let mut writer = self.first_session(&*first, &mut queues, &mut shown)?;
        let mut fenced = None;
        if self.is_fenced {
            // It does not know, and goes on.
            writer.write(&batch(77)?)?;
            writer.prepare(self.is_durable)?;
            fenced = Some(writer);
        } else {
            drop(writer);
        }
        let second = (target.make)()?;
        second.recover(&queues.parts())?;
        let mut forgotten = Vec::new();
        if second.forgets() {
            forgotten = queues.parts();
            queues.marks.clear();
        }
        self.second_session(&*second, &mut queues, &mut shown)?;
        // Somebody who stood still has not heard that they are.
        if !forgotten.is_empty() {
            (target.make)()?.recover(&forgotten)?;
        }
        second.finish(&queues.parts())?;
        self.compare(target, &shown).map_err(|why| format!("after finish, {why}"))?;
        if let Some(mut writer) = fenced {
            writer.write(&batch(78)?)?;
            // Its place may be gone; that is its own trouble.
            let _ = writer.prepare(self.is_durable);
        }
        second.finish(&queues.parts())?;
        (target.make)()?.finish(&queues.parts())?;
        self.compare(target, &shown).map_err(|why| format!("after another finish, {why}"))
    }

    fn first_session(
        &self,
        output: &dyn Output,
        queues: &mut Queues,
        shown: &mut [bool],
    ) -> Result<Box<dyn Writer>, String> {
        let mut writer = output.open("part 1/a")?;
        let mut mark = None;
        for step in 0..self.died_at {
            let number = step / STEPS;
            match step % STEPS {
                0 => writer.write(&batch(number)?)?,
                1 => mark = writer.prepare(self.is_durable)?,
                2 => queues.commit("part 1/a", mark.take()),
                _ => {
                    writer.committed()?;
                    shown[number] = true;
                }
            }
        }
        Ok(writer)
    }

    /// Takes over what is not committed.
    fn second_session(
        &self,
        output: &dyn Output,
        queues: &mut Queues,
        shown: &mut [bool],
    ) -> Result<(), String> {
        let mut writer = output.open("part 2/b")?;
        for (number, is_shown) in shown.iter_mut().enumerate().skip(queues.n_committed) {
            writer.write(&batch(number)?)?;
            let mark = writer.prepare(self.is_durable)?;
            queues.commit("part 2/b", mark);
            writer.committed()?;
            *is_shown = true;
        }
        Ok(())
    }

    fn compare(&self, target: &Target, shown: &[bool]) -> Result<(), String> {
        let mut expected = Vec::new();
        for (number, is_shown) in shown.iter().enumerate() {
            if *is_shown || self.guarantee == Guarantee::ExactlyOnce {
                expected.extend(texts(&batch(number)?)?);
            }
        }
        let mut found = (target.rows)()?;
        found.sort();
        expected.sort();
        if found == expected {
            return Ok(());
        }
        Err(format!("{} rows are there instead of {}: {found:?}", found.len(), expected.len()))
    }
}

/// Some rows that no other number has, with what formats stumble over.
fn batch(number: usize) -> Result<RecordBatch, String> {
    let n: Vec<i64> = (0..3).map(|row| (number * 10 + row) as i64).collect();
    let line = [
        Some(format!("plain {number}")),
        Some(format!("\"quoted\", {number} ünï → 😀\\")),
        Some(format!("{{ {number} }}")),
    ];
    let columns: [(&str, arrow::array::ArrayRef); 2] = [
        ("n", Arc::new(Int64Array::from(n))),
        ("line", Arc::new(StringArray::from(line.to_vec()))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))
        .map_err(|why| why.to_string())
}
