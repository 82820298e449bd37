//! Effects, carried out: one match. Nothing here waits; what takes time is put on the way.

use std::{sync::Arc, time::Duration};

use sardonyx_core::command::Gc;
use sardonyx_store::Origin;
use tokio::time::Instant;

use super::{Event, Heard, life::Life, vigil::boot_clock};
use crate::{node::Effect, trim};

/// How often a node looks whether there are chores: it goes through all jobs.
const LOOK_EVERY: Duration = Duration::from_millis(500);

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
        let (jobs, office) = (self.node.jobs().clone(), self.config.office.clone());
        self.chores.trims(true);
        self.errand(async move {
            let trimmed = trim::trim(&store, &origin, &jobs, office.as_ref()).await;
            // A life that has ended does not want to know.
            let _ = heard.send(Heard::Trimmed(position, trimmed)).await;
        });
    }

    /// Says `gc` when it is due and this node is the one to say it.
    pub(super) fn do_chores(&mut self) {
        let Some(office) = self.config.office.clone() else { return };
        let now = boot_clock();
        if self.is_leaving() || self.looked.is_some_and(|at| now.saturating_sub(at) < LOOK_EVERY) {
            return;
        }
        self.looked = Some(now);
        if (office.term)().is_some_and(|term| self.chores.takes_office(term.version)) {
            self.look_for_what_was_left();
        }
        let Some(due) = self.chores.due(&self.size, self.node.replica(), now) else { return };
        // The others of ours may be behind in joining; whoever is in can say it.
        let ours = self.node.replica().peers().find(|peer| self.node.has(peer)).cloned();
        let Some(caller) = ours else { return };
        let Some(term) = (office.term)() else { return };
        self.chores.said(now);
        self.tell(&Event::Collecting(due.to_string(), term.version));
        let (store, heard) = (self.store.clone(), self.heard.clone());
        self.errand(async move {
            let said = office.act(store.append(&Gc { caller }.into())).await;
            // Once it is said, playing it says the rest.
            if !matches!(said, Some(Ok(_))) {
                let why = said.and_then(Result::err).map(|why| why.to_string());
                let _ = heard.send(Heard::NotCollected(why)).await;
            }
        });
    }

    /// Looks whether whoever said the last `gc` died before it had trimmed the log.
    fn look_for_what_was_left(&mut self) {
        let Some(gc) = self.last_gc else { return };
        let (store, heard) = (self.store.clone(), self.heard.clone());
        self.errand(async move {
            // If the store does not answer, the next gc trims all the same.
            if let Ok(origin) = store.origin().await
                && origin.map(|origin| origin.position) < Some(gc)
            {
                let _ = heard.send(Heard::Unfinished).await;
            }
        });
    }
}
