//! Back-offs: who is to be woken when.

use std::collections::{BTreeMap, BTreeSet};

use sardonyx_core::PeerId;
use tokio::time::Instant;

/// At most one for each peer.
#[derive(Debug, Default)]
pub(super) struct Timers {
    due: BTreeSet<(Instant, PeerId)>,
    of: BTreeMap<PeerId, Instant>,
}

impl Timers {
    pub(super) fn set(&mut self, peer: PeerId, at: Instant) {
        self.cancel(&peer);
        self.of.insert(peer.clone(), at);
        self.due.insert((at, peer));
    }

    pub(super) fn cancel(&mut self, peer: &PeerId) {
        if let Some(at) = self.of.remove(peer) {
            self.due.remove(&(at, peer.clone()));
        }
    }

    /// Waits for the first. Nothing is lost when this is dropped.
    pub(super) async fn next(&mut self) -> PeerId {
        let Some((at, _)) = self.due.first() else { return std::future::pending().await };
        tokio::time::sleep_until(*at).await;
        match self.due.pop_first() {
            Some((_, peer)) => {
                self.of.remove(&peer);
                peer
            }
            None => std::future::pending().await,
        }
    }
}
