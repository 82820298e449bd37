//! Trimming: the origin is stored, with the jobs that it does not hold itself, and then the log
//! before it is forgotten.
//!
//! A replica keeps of a job only what sharing out peers needs; what the tasks are stands in the
//! `submit-job` entry. So before entries go, the texts of unfinished jobs are put aside as items.
//! Whoever begins at the origin finds there every unfinished job that it does not read in the log.

use std::collections::BTreeMap;

use bytes::Bytes;
use sardonyx_core::{JobId, command::JobText};
use sardonyx_store::{Committed, Origin, Result, Store, Txn, Write};

/// The largest piece in which a job is put aside. Smaller than any store's limit for a value.
pub const JOB_PIECE_BYTES_MAX: usize = 200 << 10;

const PREFIX: &str = "job/";

/// The length keeps the keys of `a` apart from those of `a/b`.
fn prefix_of(job: &JobId) -> String {
    format!("{PREFIX}{}/{job}/", job.as_str().len())
}

/// Stores `origin` and trims the log. `jobs` are the texts of the unfinished jobs that were
/// submitted since the last origin. False: somebody else has stored a later one.
///
/// Safe to repeat, and safe to be cut short anywhere: what was put aside too early is found by the
/// next one, and entries are forgotten last.
pub(crate) async fn trim(
    store: &Store,
    origin: &Origin,
    jobs: &BTreeMap<JobId, JobText>,
) -> Result<bool> {
    let is_live = |job: &JobId| origin.replica.job(job).is_some_and(|job| job.is_live());
    for (job, text) in jobs.iter().filter(|(job, _)| is_live(job)) {
        put_aside(store, job, text).await?;
    }
    if !store.set_origin(origin).await? {
        return Ok(false);
    }
    let live: Vec<_> = origin.replica.jobs().filter(|job| job.is_live()).collect();
    let kept: Vec<_> = live.iter().map(|job| prefix_of(job.id())).collect();
    for item in store.items(PREFIX).await? {
        if !kept.iter().any(|prefix| item.key.starts_with(prefix.as_str())) {
            write(store, Write::Delete(item.key)).await?;
        }
    }
    store.trim().await?;
    Ok(true)
}

/// A job that was put aside; `None` when it is over, or the store does not answer.
pub(crate) async fn job_text(store: &Store, job: &JobId) -> Option<JobText> {
    let pieces = store.items(&prefix_of(job)).await.ok()?;
    let bytes: Vec<u8> = pieces.iter().flat_map(|piece| piece.value.iter().copied()).collect();
    let text = String::from_utf8(bytes).ok().filter(|text| !text.is_empty())?;
    Some(JobText::new(&text))
}

async fn put_aside(store: &Store, job: &JobId, text: &JobText) -> Result<()> {
    let bytes = Bytes::copy_from_slice(text.as_str().as_bytes());
    let prefix = prefix_of(job);
    for (number, start) in (0..bytes.len()).step_by(JOB_PIECE_BYTES_MAX).enumerate() {
        let end = bytes.len().min(start + JOB_PIECE_BYTES_MAX);
        let write_piece = Write::Put(format!("{prefix}{number:04}"), bytes.slice(start..end));
        write(store, write_piece).await?;
    }
    Ok(())
}

/// Writes until the store has answered: doing it twice is doing it once.
async fn write(store: &Store, write: Write) -> Result<()> {
    const ATTEMPTS_MAX: u32 = 5;
    let txn = Txn { when: Vec::new(), then: vec![write] };
    let mut attempts = 1;
    loop {
        match store.commit(&txn).await {
            Err(why) if why.is_transient() && attempts < ATTEMPTS_MAX => attempts += 1,
            // Without conditions nothing is refused.
            committed => return committed.map(|_: Committed| ()),
        }
    }
}
