//! Tasks that end together.

use std::sync::{Mutex, PoisonError};

use tokio::task::{AbortHandle, JoinSet};

pub(super) struct Tasks(Mutex<Option<JoinSet<()>>>);

impl Default for Tasks {
    fn default() -> Tasks {
        Tasks(Mutex::new(Some(JoinSet::new())))
    }
}

impl Tasks {
    /// Starts a task, unless all were stopped.
    pub(super) fn spawn(
        &self,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> Option<AbortHandle> {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let tasks = tasks.as_mut()?;
        // What has ended by itself is not kept.
        while tasks.try_join_next().is_some() {}
        Some(tasks.spawn(task))
    }

    /// Ends all of them, and those that would still come.
    pub(super) fn stop(&self) {
        drop(self.take());
    }

    /// The same, and waits until they have let go of what they held.
    pub(super) async fn close(&self) {
        if let Some(mut tasks) = self.take() {
            tasks.shutdown().await;
        }
    }

    fn take(&self) -> Option<JoinSet<()>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
