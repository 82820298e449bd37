//! A process that draws ids for ever and writes down which; the clock is given to it.

use std::{
    fs::File,
    io::Write as _,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use clap::Args;
use sardonyx_ids::{Config, Ids, Layout, Millis, Source, System};
use sardonyx_store::Store;

/// How many ids are asked for at a time.
const AT_A_TIME: u64 = 10_000;
/// How long to rest between two times: two hundred thousand ids a second.
const REST: Duration = Duration::from_millis(50);

/// What the process is told.
#[derive(Clone, Debug, Args)]
pub struct Draw {
    /// Where worker numbers are.
    #[arg(long)]
    store: String,
    /// Where to write down what was drawn.
    #[arg(long)]
    file: PathBuf,
    /// A file that says by how many milliseconds the wall clock is wrong.
    #[arg(long)]
    clock: PathBuf,
    /// Few worker numbers, so that they are taken over again and again.
    #[arg(long)]
    narrow: bool,
}

/// The machine's clocks, but the wall clock can be moved.
#[derive(Debug, Default)]
struct Moved(AtomicI64);

impl Source for Moved {
    fn wall(&self) -> Millis {
        System.wall().saturating_add_signed(self.0.load(Ordering::Relaxed))
    }

    fn boot(&self) -> Millis {
        System.boot()
    }
}

/// The layout that is used where numbers are few: four of them.
pub fn layout(narrow: bool) -> Layout {
    match narrow {
        true => Layout { worker_bits: 2, sequence_bits: 20, ..Layout::default() },
        false => Layout::default(),
    }
}

/// How much the clock is to be wrong, as the file says at the moment.
fn offset(path: &std::path::Path) -> i64 {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.trim().parse().unwrap_or_default()
}

/// Draws until it is killed.
pub async fn run(draw: &Draw) -> Result<(), String> {
    let source = Arc::new(Moved::default());
    source.0.store(offset(&draw.clock), Ordering::Relaxed);
    let config = Config {
        layout: layout(draw.narrow),
        lease: Duration::from_millis(crate::fault::SESSION_MS),
        source: source.clone(),
        ..Config::default()
    };
    let store = Store::open(&draw.store, sardonyx_store::Options::default()).await;
    let store = store.map_err(|why| format!("{}: {why}", draw.store))?;
    let ids = Ids::start(&store, config).map_err(|why| why.to_string())?;
    let file = File::options().create(true).append(true).open(&draw.file);
    let mut file = file.map_err(|why| format!("{}: {why}", draw.file.display()))?;
    loop {
        source.0.store(offset(&draw.clock), Ordering::Relaxed);
        let mut records = Vec::new();
        // Without a number there is nothing to write down; it says so to whoever asks for its status.
        for (first, n) in ids.range(AT_A_TIME).iter().flat_map(|range| range.runs()) {
            records.extend(first.bits().to_le_bytes());
            records.extend(n.to_le_bytes());
        }
        file.write_all(&records).map_err(|why| format!("{}: {why}", draw.file.display()))?;
        tokio::time::sleep(REST).await;
    }
}
