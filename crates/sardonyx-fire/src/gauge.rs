//! How large everybody is who stays, again and again, and how long the log is.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Write as _},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use sardonyx_store::Store;
use serde_json::json;
use tokio::time::Instant;

use crate::{
    judge::growth::Size, place::Place, plan::STEADY_NODES, process::Process, watch::Record,
    world::World,
};

const EVERY: Duration = Duration::from_secs(10);

/// All that was seen.
#[derive(Clone, Default)]
pub(crate) struct Gauge(Arc<Mutex<Seen>>);

/// Sizes by process, and lengths of the log.
#[derive(Clone, Default)]
pub(crate) struct Seen {
    pub(crate) sizes: BTreeMap<String, Vec<Size>>,
    pub(crate) log: Vec<u64>,
}

impl Gauge {
    /// Looks for ever, and writes every look down as one line: a day that is broken off has shown
    /// something too.
    pub(crate) async fn look(
        self,
        world: Arc<World>,
        record: Record,
        store: Store,
        path: &Path,
    ) -> io::Result<()> {
        let mut file = File::create(path)?;
        let begun = Instant::now();
        let mut turns = tokio::time::interval(EVERY);
        loop {
            turns.tick().await;
            // Away for a moment: the next look will do.
            let Ok(origin) = store.origin().await else { continue };
            let length = record.n_after(origin.map(|origin| origin.position));
            let at = begun.elapsed().as_secs_f64();
            let sizes: BTreeMap<_, _> = steady(&world)
                .filter_map(|it| Some((it.place().to_string(), size(it.pid()?, at).ok()?)))
                .collect();
            writeln!(file, "{}", json!({"log": length, "sizes": sizes}))?;
            self.keep(length, sizes);
        }
    }

    fn keep(&self, length: u64, sizes: BTreeMap<String, Size>) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.log.push(length);
        for (who, size) in sizes {
            seen.sizes.entry(who).or_default().push(size);
        }
    }

    pub(crate) fn seen(&self) -> Seen {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Those who live from the beginning to the end.
fn steady(world: &World) -> impl Iterator<Item = &Process> {
    let stays = |process: &&Process| match process.place() {
        Place::Node(index) => index < STEADY_NODES,
        Place::Host | Place::Drawer(_) => true,
        Place::Nats | Place::Store(_) => false,
    };
    world.processes().filter(stays)
}

fn size(pid: u32, at: f64) -> io::Result<Size> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let number = |name: &str| -> io::Result<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        number.ok_or_else(|| io::Error::other(format!("/proc/{pid}/status has no {name}")))
    };
    let files = fs::read_dir(format!("/proc/{pid}/fd"))?.count() as u64;
    Ok(Size { at, memory: number("RssAnon:")? * 1024, files, threads: number("Threads:")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_a_size() {
        let Size { at, memory, files, threads } = size(std::process::id(), 7.0).expect("we run");
        assert_eq!(at, 7.0);
        assert!(memory > 1 << 16 && files > 2 && threads > 0, "{memory} {files} {threads}");
        assert!(size(u32::MAX, 7.0).is_err(), "nobody has this number");
    }
}
