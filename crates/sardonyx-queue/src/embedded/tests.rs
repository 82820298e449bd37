//! What only files can show: cuts, flipped bits, growth, restarts.

mod damage;
mod growth;
mod mutants;
mod power;
mod twin;

use std::path::Path;

use crate::{Queues, embedded::Options};

/// Small enough that tests go through many segments, with nothing in memory that can be read back.
const SMALL: Options = Options { segment_bytes: 32 << 10, cached_bytes_max: 8 << 10, power: None };

async fn open(dir: &Path, options: Options) -> Queues {
    Queues::embedded(dir, options).await.expect("the queues open")
}

/// The only segment's path.
fn only_segment(dir: &Path) -> std::path::PathBuf {
    let mut segments = super::segment::list(dir).expect("a directory");
    assert_eq!(segments.len(), 1, "{segments:?}");
    segments.remove(0).1
}
