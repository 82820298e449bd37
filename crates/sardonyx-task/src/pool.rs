//! Compute threads: as many as the machine has cores, however many tasks there are.

use std::sync::Arc;

use tokio::sync::{Semaphore, oneshot};

/// The threads. Cheap to clone.
#[derive(Clone)]
pub struct Pool {
    threads: Option<Arc<rayon_core::ThreadPool>>,
}

/// What one task computes at this moment: once it is free again, nothing of that task runs.
#[derive(Clone)]
pub(crate) struct Desk {
    pool: Pool,
    seats: Arc<Semaphore>,
}

/// A task reads ahead while it computes: two things at once.
const SEATS: u32 = 2;

/// The work panicked, and said this.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Panicked(pub String);

impl Pool {
    /// One thread for each core, or `threads` of them.
    pub fn new(threads: Option<usize>) -> Result<Pool, String> {
        let builder = rayon_core::ThreadPoolBuilder::new()
            .num_threads(threads.unwrap_or(0))
            .thread_name(|at| format!("compute-{at}"));
        let threads = builder.build().map_err(|why| format!("no compute threads: {why}"))?;
        Ok(Pool { threads: Some(Arc::new(threads)) })
    }

    /// No threads: whoever asks computes. For simulation, where one thread does everything.
    pub fn inline() -> Pool {
        Pool { threads: None }
    }

    pub(crate) fn desk(&self) -> Desk {
        Desk { pool: self.clone(), seats: Arc::new(Semaphore::new(SEATS as usize)) }
    }
}

impl Desk {
    /// Runs `work` on a compute thread. Dropped before it is done, the work goes on to its end, and
    /// [`Desk::empty`] waits for that.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Panicked> {
        let closed = || Panicked("the compute threads have ended".into());
        let seat = Arc::clone(&self.seats).acquire_owned().await.map_err(|_| closed())?;
        let (answer, answered) = oneshot::channel();
        let work = move || {
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            drop(seat);
            // Whoever asked may have gone.
            let _ = answer.send(done.map_err(|what| Panicked(text(what.as_ref()))));
        };
        match &self.pool.threads {
            Some(threads) => threads.spawn(work),
            None => work(),
        }
        answered.await.map_err(|_| closed())?
    }

    /// Waits until nothing is being computed.
    pub(crate) async fn empty(&self) {
        // An error means that the desk was closed, which nobody does.
        let _ = self.seats.acquire_many(SEATS).await;
    }
}

fn text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no words".into())
}
