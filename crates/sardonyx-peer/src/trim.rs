//! Trimming: the origin is stored, with the jobs that it does not hold itself, and then the log
//! before it is forgotten.
//!
//! A replica keeps of a job only what sharing out peers needs; what the tasks are stands in the
//! `submit-job` entry. So before entries go, the texts of unfinished jobs are put aside as items.
//! Whoever begins at the origin finds there every unfinished job that it does not read in the log.

use std::collections::BTreeMap;

use bytes::Bytes;
use sardonyx_core::{
    JobId, Replica,
    command::JobText,
    mutant::{self, Mutant},
};
use sardonyx_store::{Committed, Origin, Result, Store, Txn, Write};

use crate::chores::{self, Office};

/// The largest piece in which a job is put aside. Smaller than any store's limit for a value.
pub const JOB_PIECE_BYTES_MAX: usize = 200 << 10;

/// One step of trimming. Whoever trims may die between any two of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum TrimStep {
    /// The texts of unfinished jobs are put aside.
    PutJobsAside,
    /// The origin is stored, unless a later one is there; then somebody else goes on.
    StoreOrigin,
    /// The texts of jobs that are over are deleted.
    DropEndedJobs,
    /// The entries before the origin are forgotten.
    ForgetEntries,
}

/// How many steps trimming has.
pub const TRIM_STEPS: usize = 4;

/// The steps of trimming, in the order in which they must be made: after each of them whoever begins
/// to read finds an origin, every entry behind it, and every unfinished job.
pub fn trim_steps() -> [TrimStep; TRIM_STEPS] {
    let (jobs, origin) = match mutant::is_on(Mutant::OriginBeforeJobs) {
        true => (TrimStep::StoreOrigin, TrimStep::PutJobsAside),
        false => (TrimStep::PutJobsAside, TrimStep::StoreOrigin),
    };
    [jobs, origin, TrimStep::DropEndedJobs, TrimStep::ForgetEntries]
}

const PREFIX: &str = "job/";

/// The length keeps the keys of `a` apart from those of `a/b`.
fn prefix_of(job: &JobId) -> String {
    format!("{PREFIX}{}/{job}/", job.as_str().len())
}

/// What became of trimming.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Trimmed {
    /// The log begins at our origin.
    Here,
    /// Somebody else has stored a later one.
    Elsewhere,
    /// We lost the right to do so on the way.
    OutOfOffice,
}

/// Stores `origin` and trims the log, in office if there is one. `jobs` are the texts of the
/// unfinished jobs that were submitted since the last origin.
///
/// Safe to repeat, and safe to be cut short anywhere: what was put aside too early is found by the
/// next one, and entries are forgotten last.
pub(crate) async fn trim(
    store: &Store,
    origin: &Origin,
    jobs: &BTreeMap<JobId, JobText>,
    office: Option<&Office>,
) -> Result<Trimmed> {
    for step in trim_steps() {
        match chores::act_in(office, make(step, store, origin, jobs)).await.transpose()? {
            Some(true) => {}
            Some(false) => return Ok(Trimmed::Elsewhere),
            None => return Ok(Trimmed::OutOfOffice),
        }
    }
    Ok(Trimmed::Here)
}

/// Makes one step. False: it is not for us to go on.
async fn make(
    step: TrimStep,
    store: &Store,
    origin: &Origin,
    jobs: &BTreeMap<JobId, JobText>,
) -> Result<bool> {
    let is_live = |job: &JobId| origin.replica.job(job).is_some_and(|job| job.is_live());
    match step {
        TrimStep::PutJobsAside => {
            for (job, text) in jobs.iter().filter(|(job, _)| is_live(job)) {
                put_aside(store, job, text).await?;
            }
        }
        TrimStep::StoreOrigin => return store.set_origin(origin).await,
        TrimStep::DropEndedJobs => drop_ended(store, origin).await?,
        TrimStep::ForgetEntries => store.trim().await?,
    }
    Ok(true)
}

async fn drop_ended(store: &Store, origin: &Origin) -> Result<()> {
    for item in store.items(PREFIX).await? {
        if job_of(&item.key).is_some_and(|job| is_over(&origin.replica, &job)) {
            write(store, Write::Delete(item.key)).await?;
        }
    }
    Ok(())
}

/// Whether the text of a job may be deleted by whoever trims at `replica`. Not if the job is merely
/// unknown there: somebody who trims further on may have put it aside just now.
pub fn is_over(replica: &Replica, job: &JobId) -> bool {
    match replica.job(job) {
        Some(job) => !job.is_live(),
        None => replica.outcome(job).is_some(),
    }
}

/// The job of which a key holds a piece.
fn job_of(key: &str) -> Option<JobId> {
    let (length, rest) = key.strip_prefix(PREFIX)?.split_once('/')?;
    JobId::new(rest.get(..length.parse().ok()?)?).ok()
}

/// A job that was put aside; `None` when it is over, or the store does not answer.
pub async fn job_text(store: &Store, job: &JobId) -> Option<JobText> {
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

#[cfg(test)]
mod tests {
    use sardonyx_core::{
        Command, Entry, Position, TaskId,
        command::{Gc, KillJob, SubmitJob},
    };
    use sardonyx_store::Options;

    use super::*;

    fn job(name: &str) -> JobId {
        JobId::new(name).unwrap()
    }

    /// The cluster after these commands.
    fn played(commands: impl IntoIterator<Item = Command>) -> Replica {
        let mut replica = Replica::new();
        for (at, command) in (0..).zip(commands) {
            replica.play(&Entry { position: Position(at), command }).unwrap();
        }
        replica
    }

    fn submit(name: &str) -> Command {
        let tasks = vec![TaskId::new("t").unwrap()];
        SubmitJob { id: job(name), job: JobText::new("{\"catalog\":{\"t\":{}}}"), tasks }.into()
    }

    /// Somebody who trims at an earlier place, and is slow, meets the jobs of one who has trimmed at
    /// a later place meanwhile.
    #[tokio::test]
    async fn jobs_that_were_put_aside_by_a_later_one_are_left_alone() {
        let store = Store::open("memory:", Options::default()).await.unwrap();
        let text = JobText::new("{}");
        put_aside(&store, &job("later"), &text).await.unwrap();
        put_aside(&store, &job("over"), &text).await.unwrap();
        let kill = || KillJob { job: job("over"), reason: String::new() }.into();
        let gc = Gc { caller: sardonyx_core::PeerId::new("x").unwrap() };
        let collected = played([submit("over"), kill(), gc.into()]);
        for replica in [played([submit("over"), kill()]), collected] {
            put_aside(&store, &job("over"), &text).await.unwrap();
            let origin = Origin { position: Position(9), replica, seen: Default::default() };
            drop_ended(&store, &origin).await.unwrap();
            assert_eq!(job_text(&store, &job("later")).await, Some(text.clone()));
            assert_eq!(job_text(&store, &job("over")).await, None);
        }
    }

    #[test]
    fn a_key_says_whose_it_is() {
        for name in ["a", "a/b", "0001/2"] {
            assert_eq!(job_of(&format!("{}0000", prefix_of(&job(name)))), Some(job(name)));
        }
        assert_eq!(job_of("node/x"), None);
        assert_eq!(job_of("job/99/a/0000"), None);
    }
}
