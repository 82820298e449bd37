//! What goes through the tasks of all nodes: our own figures, and what the others left in the store.
//!
//! The store is read when somebody asks, and not more often than once a second however many do.

use std::time::Duration;

use sardonyx_peer::{Figures, Others, Summed, heard};
use sardonyx_store::Store;
use serde::Serialize;
use tokio::{
    sync::Mutex,
    time::{Instant, timeout},
};
use utoipa::ToSchema;

/// What was read is good for so long.
const READ_EVERY: Duration = Duration::from_secs(1);

/// After the store did not answer, it is left alone for so long.
const PAUSE: Duration = Duration::from_secs(5);

/// How long the store may take: figures are not worth waiting for.
const PATIENCE: Duration = Duration::from_secs(1);

/// Figures of the whole cluster.
pub(crate) struct ClusterFigures {
    store: Store,
    own: Figures,
    begun: Instant,
    others: Mutex<Read>,
}

/// What was read last.
#[derive(Default)]
struct Read {
    others: Others,
    /// When the store is to be asked again; `None`: at once.
    next: Option<Instant>,
    is_whole: bool,
}

/// Whose figures these are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Sources {
    /// How many nodes' figures are in it.
    nodes: usize,
    /// How many tasks are missing because their node has more than it can tell of: 200.
    left_out: u64,
    /// False if the store did not answer: then these are the figures of the node that was asked, and
    /// what others said before.
    whole: bool,
}

impl ClusterFigures {
    pub(crate) fn new(store: &Store, own: &Figures) -> ClusterFigures {
        let (store, own, begun) = (store.clone(), own.clone(), Instant::now());
        ClusterFigures { store, own, begun, others: Mutex::default() }
    }

    /// What went through all tasks, and whose figures these are.
    pub(crate) async fn now(&self) -> (Summed, Sources) {
        // Whoever comes while one asks the store waits for its answer instead of asking as well.
        let mut read = self.others.lock().await;
        let now = Instant::now();
        if read.next.is_none_or(|next| now >= next) {
            let answer = timeout(PATIENCE, heard(&self.store)).await;
            read.is_whole = matches!(answer, Ok(Ok(_)));
            if let Ok(Ok(told)) = answer {
                read.others.note(told, Some(self.own.origin()), self.begun.elapsed());
            }
            read.next = Some(Instant::now() + if read.is_whole { READ_EVERY } else { PAUSE });
        }
        let summed = read.others.sum(self.own.own(), self.begun.elapsed());
        let sources =
            Sources { nodes: summed.n_nodes, left_out: summed.left_out, whole: read.is_whole };
        (summed, sources)
    }
}
