//! Watching pulses for the node's peers: one watch for each pulse, however many of ours want it.

use std::{collections::BTreeMap, sync::Arc};

use sardonyx_core::PeerId;
use sardonyx_store::Store;
use tokio::{
    sync::{Semaphore, mpsc},
    task::{AbortHandle, JoinSet},
};

use super::Heard;

/// How many pulses are looked at at once when everybody's is checked.
const PROBES_MAX: usize = 64;

pub(super) struct Watches {
    store: Store,
    heard: mpsc::Sender<Heard>,
    watched: BTreeMap<PeerId, AbortHandle>,
    tasks: JoinSet<()>,
    probes: Arc<Semaphore>,
}

impl Watches {
    pub(super) fn new(store: Store, heard: mpsc::Sender<Heard>) -> Watches {
        let probes = Arc::new(Semaphore::new(PROBES_MAX));
        Watches { store, heard, watched: BTreeMap::new(), tasks: JoinSet::new(), probes }
    }

    /// Watches a pulse. One that has ended already is heard of again: whoever asks again has not
    /// made use of the first time.
    pub(super) fn watch(&mut self, peer: PeerId) {
        while self.tasks.try_join_next().is_some() {}
        if self.watched.get(&peer).is_some_and(|watch| !watch.is_finished()) {
            return;
        }
        let (store, heard, whom) = (self.store.clone(), self.heard.clone(), peer.clone());
        let watch = self.tasks.spawn(async move {
            let ended = store.watch_pulse(&whom).await;
            let news = ended.map_or_else(Heard::Failed, |()| Heard::PulseGone(whom));
            // A life that has ended does not want to know.
            let _ = heard.send(news).await;
        });
        self.watched.insert(peer, watch);
    }

    pub(super) fn unwatch(&mut self, peer: &PeerId) {
        if let Some(watch) = self.watched.remove(peer) {
            watch.abort();
        }
    }

    /// Looks once.
    pub(super) fn probe(&mut self, peer: PeerId) {
        while self.tasks.try_join_next().is_some() {}
        let (store, heard) = (self.store.clone(), self.heard.clone());
        let probes = Arc::clone(&self.probes);
        self.tasks.spawn(async move {
            let Ok(_place) = probes.acquire().await else { return };
            // A store that does not answer is no news; whoever makes no progress asks again.
            if let Ok(false) = store.alive(&peer).await {
                let _ = heard.send(Heard::PulseGone(peer)).await;
            }
        });
    }
}
