//! An input of one's own, registered from Rust.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use bytes::Bytes;
use sardonyx::{
    Embedded, Input, JobOutcome, Options, Registry,
    input::{Read, Reader, Splits},
    job,
};

const JOB: &str = r#"{
    "name": "own", "workflow": [["in", "out"]],
    "catalog": {
        "in": {"type": "input", "plugin": "own"},
        "out": {"type": "output", "plugin": "null"}
    }
}"#;

const BATCHES: u64 = 50;

/// Positions that were read and positions that were committed, in the order in which it heard of them.
type Heard = Arc<Mutex<(u64, Vec<u64>)>>;

struct Own(Heard);

impl Input for Own {
    fn splits(&self, _: Option<&[u8]>) -> Result<Splits, String> {
        Ok(Splits { splits: vec![Bytes::from_static(b"all")], ..Splits::default() })
    }

    fn open(&self, _: &[u8], position: Option<&[u8]>) -> Result<Box<dyn Reader>, String> {
        let at = position.map_or(0, |at| String::from_utf8_lossy(at).parse().unwrap());
        Ok(Box::new(OwnReader { at, rested: false, heard: Arc::clone(&self.0) }))
    }
}

struct OwnReader {
    at: u64,
    rested: bool,
    heard: Heard,
}

impl Reader for OwnReader {
    fn read(&mut self, _: usize) -> Result<Read, String> {
        if self.at == BATCHES {
            return Ok(Read::End);
        }
        // Slowly, so that commits happen in between.
        if !std::mem::replace(&mut self.rested, true) {
            return Ok(Read::Wait(Duration::from_millis(3), None));
        }
        self.rested = false;
        self.at += 1;
        self.heard.lock().unwrap().0 = self.at;
        let column: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
        let batch = RecordBatch::try_from_iter([("n", column)]).unwrap();
        Ok(Read::Batch(batch, Bytes::from(self.at.to_string())))
    }

    fn committed(&mut self, position: &[u8]) -> Result<(), String> {
        let position = String::from_utf8_lossy(position).parse::<u64>().unwrap();
        let mut heard = self.heard.lock().unwrap();
        assert!(position <= heard.0, "{position} is committed, and {} was read", heard.0);
        heard.1.push(position);
        Ok(())
    }
}

#[test]
fn a_reader_hears_what_is_committed() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let heard = Heard::default();
    let kept = Arc::clone(&heard);
    runtime.block_on(async {
        let mut registry = Registry::built_in();
        registry.input("own", &[], move |_| Ok(Arc::new(Own(Arc::clone(&kept)))));
        let names = job::RegisteredNames::new(registry.clone());
        let job = job::Job::read(JOB, job::Language::Json, &names).unwrap();
        let options = Options { peers: 2, registry, ..Options::default() };
        let cluster = Embedded::start(options).await.unwrap();
        let ended = cluster.run(&job, "own").await.unwrap();
        assert_eq!(ended.outcome, JobOutcome::Completed, "{:?}", ended.reason);
        cluster.stop().await.unwrap();
    });
    let heard = heard.lock().unwrap();
    assert!(heard.1.len() > 5, "{:?}", heard.1);
    assert!(heard.1.is_sorted_by(|a, b| a < b), "{:?}", heard.1);
}
