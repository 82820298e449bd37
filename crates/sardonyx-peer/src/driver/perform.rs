//! Effects, carried out: one match. Nothing here waits; what takes time is put on the way.

use std::sync::Arc;

use sardonyx_store::Origin;
use tokio::time::Instant;

use super::{Heard, life::Life};
use crate::{node::Effect, trim};

impl Life {
    pub(super) fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Watch(peer) => self.watches.watch(peer),
            Effect::Unwatch(peer) => self.watches.unwatch(&peer),
            Effect::Probe(peer) => self.watches.probe(peer),
            Effect::BackOff(peer, attempts) => {
                let wait = self.config.back_off.wait(attempts, (self.config.random)());
                self.timers.set(peer, Instant::now() + wait);
            }
            Effect::StartTask(..) if self.is_leaving() => {}
            Effect::StartTask(peer, task) => {
                let job = self.node.jobs().get(&task.job).cloned();
                self.lanes.start(&peer, task, job);
            }
            Effect::StopTask(peer, _) => self.lanes.rest(&peer),
            Effect::SealTask(peer, task) => self.lanes.seal(&peer, &task),
            // Once all that was read is played: the origin, and which appends it has seen, must
            // belong to the same entry.
            Effect::TrimLog(_) => self.trim_is_wanted = true,
            Effect::Stop(peer) => {
                self.timers.cancel(&peer);
                self.boarding.forget(&peer);
                self.lanes.stop(&peer);
                if !self.is_leaving() {
                    self.boarding.lost_one(Instant::now(), (self.config.random)());
                }
                let session = Arc::clone(&self.session);
                // If it fails, the pulse ends with the session.
                self.errand(async move { drop(session.end_pulse(&peer).await) });
            }
        }
    }

    /// Stores the cluster as it is now, which is at or behind the `gc` that asked for it, and
    /// trims the log before it.
    pub(super) fn trim(&mut self) {
        let Some(position) = self.position else { return };
        let replica = self.node.replica().clone();
        let origin = Origin { position, replica, seen: self.subscription.seen().clone() };
        let (store, heard) = (self.store.clone(), self.heard.clone());
        let jobs = self.node.jobs().clone();
        self.errand(async move {
            let trimmed = trim::trim(&store, &origin, &jobs).await;
            let trimmed = trimmed.map(|is_ours| is_ours.then_some(position));
            // A life that has ended does not want to know.
            let _ = heard.send(Heard::Trimmed(trimmed)).await;
        });
    }
}
