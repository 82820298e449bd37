//! The suite finds what it is there to find: plugins with one fault each do not pass.

use std::{cell::Cell, fs, sync::Arc};

use arrow::array::RecordBatch;
use bytes::Bytes;
use sardonyx_task::{
    Input, Output,
    input::{Read, Reader, Splits},
    output::Writer,
    suite::{self, Guarantee, Target},
};
use serde_json::json;

use super::{at, input, output, read};

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// The position is that before the batch.
    Behind,
    /// Going on leaves a row out.
    Ahead,
    /// A dead session's rows are not given again.
    Forgets,
}

struct Faulty {
    inner: Arc<dyn Input>,
    fault: Fault,
    opened: std::sync::atomic::AtomicUsize,
}

struct FaultyReader {
    inner: Box<dyn Reader>,
    fault: Fault,
    last: Bytes,
}

impl Input for Faulty {
    fn splits(&self, memory: Option<&[u8]>) -> Result<Splits, String> {
        self.inner.splits(memory)
    }

    fn open(&self, split: &[u8], position: Option<&[u8]>) -> Result<Box<dyn Reader>, String> {
        let before = self.opened.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mut inner = self.inner.open(split, position)?;
        let is_again = self.fault == Fault::Forgets && before % 2 == 1;
        if is_again || (self.fault == Fault::Ahead && position.is_some()) {
            inner.read(1)?;
        }
        let last = Bytes::copy_from_slice(position.unwrap_or(b"0"));
        Ok(Box::new(FaultyReader { inner, fault: self.fault, last }))
    }
}

impl Reader for FaultyReader {
    fn read(&mut self, rows_max: usize) -> Result<Read, String> {
        Ok(match self.inner.read(rows_max)? {
            Read::Batch(batch, position) if self.fault == Fault::Behind => {
                Read::Batch(batch, std::mem::replace(&mut self.last, position))
            }
            other @ (Read::Batch(..) | Read::Wait(..) | Read::End) => other,
        })
    }
}

#[test]
fn inputs_with_a_fault_do_not_pass() {
    for fault in [Fault::None, Fault::Behind, Fault::Ahead, Fault::Forgets] {
        // Behind by a batch would go round for ever; the suite must say so.
        let make = || -> Result<Arc<dyn Input>, String> {
            let inner = input(&json!({"plugin": "generate", "count": 20, "splits": 2}))?;
            Ok(Arc::new(Faulty { inner, fault, opened: 0.into() }))
        };
        assert_eq!(suite::input(&make).is_ok(), fault == Fault::None);
    }
}

/// An output that shows a part's rows when they are prepared, or that takes everything it finds.
struct Eager {
    inner: Arc<dyn Output>,
}

struct EagerWriter {
    inner: Box<dyn Writer>,
}

impl Output for Eager {
    fn open(&self, part: &str) -> Result<Box<dyn Writer>, String> {
        Ok(Box::new(EagerWriter { inner: self.inner.open(part)? }))
    }

    fn finish(&self, parts: &[(String, Bytes)]) -> Result<(), String> {
        self.inner.finish(parts)
    }
}

impl Writer for EagerWriter {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), String> {
        self.inner.write(batch)
    }

    fn prepare(&mut self, is_durable: bool) -> Result<Option<Bytes>, String> {
        let mark = self.inner.prepare(is_durable)?;
        self.inner.committed()?;
        Ok(mark)
    }

    fn committed(&mut self) -> Result<(), String> {
        Ok(())
    }
}

#[test]
fn outputs_that_show_what_is_not_committed_do_not_pass() {
    let root = tempfile::tempdir().unwrap();
    let number = Cell::new(0);
    let fresh = |is_eager: bool| {
        number.set(number.get() + 1);
        let directory = root.path().join(number.get().to_string());
        fs::create_dir(&directory).unwrap();
        let keys = json!({"plugin": "file", "path": at(&directory, "a.ndjson"), "roll": "1B"});
        let rows = move || {
            if super::names(&directory).iter().all(|name| name.ends_with(".parts")) {
                return Ok(Vec::new());
            }
            let keys =
                json!({"plugin": "file", "path": at(&directory, "a-*"), "columns": ["n", "line"]});
            read(&*input(&keys)?)
        };
        let make = move || -> Result<Arc<dyn Output>, String> {
            let inner = output(&keys)?;
            Ok(if is_eager { Arc::new(Eager { inner }) } else { inner })
        };
        Ok(Target { make: Box::new(make), rows: Box::new(rows) })
    };
    suite::output(Guarantee::ExactlyOnce, &mut || fresh(false)).unwrap();
    let why = suite::output(Guarantee::ExactlyOnce, &mut || fresh(true)).unwrap_err();
    assert!(why.contains("rows are there instead of"), "{why}");
}

#[test]
fn outputs_that_lose_what_a_killed_session_committed_are_not_exactly_once() {
    let number = Cell::new(0);
    let mut fresh = || {
        number.set(number.get() + 1);
        let name = format!("lossy-{}", number.get());
        let keys = json!({"plugin": "memory", "channel": name});
        let taken = std::cell::RefCell::new(Vec::new());
        let rows = move || {
            while let Some(batch) = sardonyx_task::plugin::memory::channel(&name).take() {
                taken.borrow_mut().extend(suite::texts(&batch)?);
            }
            Ok(taken.borrow().clone())
        };
        Ok(Target { make: Box::new(move || output(&keys)), rows: Box::new(rows) })
    };
    assert!(suite::output(Guarantee::ExactlyOnce, &mut fresh).is_err());
}
