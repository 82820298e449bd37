//! What a store is measured beside: its server's bare client, or its disk.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use sardonyx_core::{Command, wire};
use sardonyx_store::{
    Location,
    raw::{self, RawAppend, RawFile, RawJournal},
};

use super::Failure;

/// Something that appends without us.
pub(super) enum Limit {
    /// The bare client: each append is a request of its own.
    Client(Arc<dyn RawAppend>),
    /// The bare client with everything that is in flight in one request, as our store sends it.
    Gathered(Arc<dyn RawAppend>),
    /// A file and fdatasync, everything that is in flight in one write.
    Disk(Arc<Mutex<RawJournal>>, RawFile),
}

impl Limit {
    /// What there is beside the store that `url` names.
    pub(super) async fn all_of(url: &str) -> Result<Vec<Limit>, Failure> {
        if let Some(client) = raw::connect(url).await? {
            let client: Arc<dyn RawAppend> = client.into();
            let mut limits = vec![Limit::Client(Arc::clone(&client))];
            if client.append_all(&entry_bytes(0)?, 1).await.is_some() {
                limits.push(Limit::Gathered(client));
            }
            return Ok(limits);
        }
        let disk = |dir: &std::path::Path, kind| {
            let journal = RawJournal::create(dir, kind)?;
            Ok::<_, Failure>(Limit::Disk(Arc::new(Mutex::new(journal)), kind))
        };
        Ok(match Location::parse(url)? {
            Location::Embedded(dir) => {
                vec![disk(&dir, RawFile::Growing)?, disk(&dir, RawFile::OverZeros)?]
            }
            Location::Memory | Location::Remote(_) | Location::Etcd(_) | Location::ZooKeeper(_) => {
                vec![]
            }
        })
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Limit::Client(_) => "bare client",
            Limit::Gathered(_) => "bare client, all in one request",
            Limit::Disk(_, RawFile::Growing) => "write + fdatasync, file grows",
            Limit::Disk(_, RawFile::OverZeros) => "write + fdatasync, over zeros",
        }
    }

    /// Whether it says anything about this many in flight that another does not.
    pub(super) fn is_for(&self, in_flight: usize) -> bool {
        match self {
            Limit::Gathered(_) => in_flight > 1,
            Limit::Client(_) | Limit::Disk(..) => true,
        }
    }

    /// Appends until `until`; says how many entries that made.
    pub(super) async fn append(&self, in_flight: usize, until: Instant) -> Result<u64, Failure> {
        let record = entry_bytes(0)?;
        match self {
            Limit::Disk(journal, _) => {
                let journal = Arc::clone(journal);
                let append = move || {
                    let journal = journal.lock();
                    let mut journal = journal.unwrap_or_else(std::sync::PoisonError::into_inner);
                    journal.append(&record, in_flight, until)
                };
                Ok(tokio::task::spawn_blocking(append).await.map_err(Failure::world)??)
            }
            Limit::Client(client) => {
                let client = Arc::clone(client);
                let append = move || {
                    let (client, record) = (Arc::clone(&client), record.clone());
                    async move { client.append(&record).await }
                };
                in_parallel(in_flight, until, append).await
            }
            Limit::Gathered(client) => {
                let mut n = 0;
                while Instant::now() < until {
                    if let Some(appended) = client.append_all(&record, in_flight).await {
                        appended?;
                    }
                    n += in_flight as u64;
                }
                Ok(n)
            }
        }
    }
}

/// A command of ordinary size.
pub(super) fn command(n: u64) -> Result<Command, Failure> {
    let args = format!(
        r#"{{"joiner":"p-{n:016x}","observer":"p-{:016x}","subject":"p-{:016x}"}}"#,
        n + 1,
        n + 2
    );
    wire::command_from_json("notify-join-cluster", &args).map_err(Failure::world)
}

/// What is stored of it: its bytes and sixteen for the token.
fn entry_bytes(n: u64) -> Result<Vec<u8>, Failure> {
    let mut bytes = vec![0; sardonyx_store::Token::BYTES];
    bytes.extend(wire::command_to_bytes(&command(n)?).map_err(Failure::world)?);
    Ok(bytes)
}

/// Does something again and again, `in_flight` at a time; says how often.
pub(super) async fn in_parallel<F>(
    in_flight: usize,
    until: Instant,
    act: impl Fn() -> F + Clone + Send + 'static,
) -> Result<u64, Failure>
where
    F: Future<Output = sardonyx_store::Result<()>> + Send + 'static,
{
    let count = Arc::new(AtomicU64::new(0));
    let mut lanes = tokio::task::JoinSet::new();
    for _ in 0..in_flight {
        let (act, count) = (act.clone(), Arc::clone(&count));
        lanes.spawn(async move {
            let mut n = 0;
            while Instant::now() < until {
                act().await?;
                n += 1;
            }
            count.fetch_add(n, Ordering::Relaxed);
            Ok::<_, sardonyx_store::Error>(())
        });
    }
    for lane in lanes.join_all().await {
        lane?;
    }
    Ok(count.load(Ordering::Relaxed))
}
