//! A function, an input and an output of one's own, run in a cluster that lives in this process.

#![allow(clippy::print_stdout, missing_docs)]

use std::{error::Error, sync::Arc};

use arrow::array::{AsArray as _, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use bytes::Bytes;
use sardonyx::{
    Embedded, Input, Options, Output, Registry, Terms,
    input::{Read, Reader, Splits},
    job::{Job, Language, RegisteredNames},
    output::Writer,
};
use serde::{Deserialize, Serialize};

/// What comes in, and what goes out: any type that serde knows.
#[derive(Serialize, Deserialize)]
struct Number {
    n: i64,
}

#[derive(Serialize, Deserialize)]
struct Squared {
    n: i64,
    square: i64,
}

/// The input: whole numbers from 1 to `last`, in pieces that peers share.
struct Numbers {
    last: i64,
}

const PIECE: i64 = 100;

fn numbers(terms: &Terms) -> Result<Arc<dyn Input>, String> {
    let last = terms.number("last")?.ok_or("needs last: write the last number, such as 1000")?;
    Ok(Arc::new(Numbers { last: last as i64 }))
}

fn number(bytes: &[u8]) -> Result<i64, String> {
    let text = std::str::from_utf8(bytes).map_err(|why| why.to_string())?;
    text.parse().map_err(|_| format!("{text:?} is no number"))
}

impl Input for Numbers {
    /// Called once for a job. A split is bytes that mean something to `open`, on any node.
    fn splits(&self, _: Option<&[u8]>) -> Result<Splits, String> {
        let firsts = (1..=self.last).step_by(PIECE as usize);
        let splits = firsts.map(|first| Bytes::from(first.to_string())).collect();
        Ok(Splits { splits, ..Splits::default() })
    }

    /// `position` is what was committed last: whoever goes on begins behind it.
    fn open(&self, split: &[u8], position: Option<&[u8]>) -> Result<Box<dyn Reader>, String> {
        let first = number(split)?;
        let next = position.map_or(Ok(first), number)?;
        Ok(Box::new(Piece { next, end: (first + PIECE).min(self.last + 1) }))
    }
}

struct Piece {
    next: i64,
    end: i64,
}

impl Reader for Piece {
    fn read(&mut self, rows_max: usize) -> Result<Read, String> {
        if self.next >= self.end {
            return Ok(Read::End);
        }
        let to = (self.next + rows_max as i64).min(self.end);
        let column = Int64Array::from_iter_values(self.next..to);
        let batch = RecordBatch::try_from_iter([("n", Arc::new(column) as _)]);
        self.next = to;
        Ok(Read::Batch(batch.map_err(|why| why.to_string())?, Bytes::from(to.to_string())))
    }
}

/// The output: the sum of a column. What each session has added up so far is committed together with
/// the rows that it is from, so no row counts twice and none is left out.
struct Total;

impl Output for Total {
    fn open(&self, _part: &str) -> Result<Box<dyn Writer>, String> {
        Ok(Box::new(Adding { sum: 0 }))
    }

    /// The task is over: every part with what it committed last. May be called again.
    fn finish(&self, parts: &[(String, Bytes)]) -> Result<(), String> {
        let sums = parts.iter().map(|(_, sum)| number(sum));
        println!("the sum is {}", sums.sum::<Result<i64, String>>()?);
        Ok(())
    }
}

struct Adding {
    sum: i64,
}

impl Writer for Adding {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), String> {
        let column = batch.column_by_name("square").ok_or("there is no column square")?;
        self.sum += column.as_primitive::<Int64Type>().iter().flatten().sum::<i64>();
        Ok(())
    }

    fn prepare(&mut self, _is_durable: bool) -> Result<Option<Bytes>, String> {
        Ok(Some(Bytes::from(self.sum.to_string())))
    }

    fn committed(&mut self) -> Result<(), String> {
        Ok(())
    }
}

const JOB: &str = r#"
name = "squares"
workflow = [["count", "square"], ["square", "total"]]

[catalog.count]
type = "input"
plugin = "numbers"
last = 1000

[catalog.square]
type = "function"
fn = "square"

[catalog.total]
type = "output"
plugin = "total"
"#;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut registry = Registry::built_in();
    registry.record("square", |it: Number| [Squared { n: it.n, square: it.n * it.n }]);
    // The keys are those of the task that the plugin reads; others are refused as slips.
    registry.input("numbers", &["last"], numbers);
    registry.output("total", &[], |_| Ok(Arc::new(Total)));

    let names = RegisteredNames::new(registry.clone());
    let job = Job::read(JOB, Language::Toml, &names).map_err(|faults| format!("{faults:?}"))?;
    let cluster = Embedded::start(Options { registry, ..Options::default() }).await?;
    let ended = cluster.run(&job, "squares-1").await?;
    cluster.stop().await?;
    println!("{:?}", ended.outcome);
    Ok(())
}
