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

    /// Makes a timer fire by `at`, if there is one that would fire later.
    pub(super) fn hasten(&mut self, peer: &PeerId, at: Instant) {
        if self.of.get(peer).is_some_and(|then| *then > at) {
            self.set(peer.clone(), at);
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn the_first_comes_first_and_hastening_never_delays() {
        let peer = |name: &str| PeerId::new(name).unwrap();
        let (mut timers, now) = (Timers::default(), Instant::now());
        let after = |millis| now + Duration::from_millis(millis);
        timers.set(peer("a"), after(3_600_000));
        timers.set(peer("b"), after(20));
        timers.set(peer("c"), after(10));
        timers.hasten(&peer("a"), after(1));
        timers.hasten(&peer("b"), after(3_600_000));
        timers.hasten(&peer("nobody"), after(0));
        assert_eq!(timers.next().await, peer("a"));
        timers.cancel(&peer("c"));
        assert_eq!(timers.next().await, peer("b"));
        let none = tokio::time::timeout(Duration::from_millis(20), timers.next()).await;
        assert!(none.is_err());
    }
}
