//! Who waits for the ledger to change, and how they are told.

use std::{collections::BTreeMap, sync::Arc};

use tokio::sync::{Notify, watch};

use crate::{
    ledger::{SessionId, Wakes},
    message::QueueName,
    session::Place,
};

/// Rings once, when a session is over.
#[derive(Debug)]
pub(super) struct SessionBell {
    is_lost: watch::Sender<bool>,
}

impl SessionBell {
    pub(super) async fn lost(&self) {
        let mut is_lost = self.is_lost.subscribe();
        // Fails when the sender is gone, and the sender is ours.
        let _ = is_lost.wait_for(|is_lost| *is_lost).await;
    }
}

#[derive(Debug, Default)]
pub(super) struct Bells {
    places: BTreeMap<Place, Arc<Notify>>,
    sessions: BTreeMap<SessionId, (Place, Arc<SessionBell>)>,
    rooms: BTreeMap<QueueName, Arc<Notify>>,
}

impl Bells {
    /// The bells of a new session: its task's, and its own.
    pub(super) fn open(&mut self, id: SessionId, place: &Place) -> (Arc<Notify>, Arc<SessionBell>) {
        let place_bell = Arc::clone(self.places.entry(place.clone()).or_default());
        let bell = Arc::new(SessionBell { is_lost: watch::Sender::new(false) });
        self.sessions.insert(id, (place.clone(), Arc::clone(&bell)));
        (place_bell, bell)
    }

    /// The bell of a queue that is full. It rings when it no longer is, and is gone then.
    pub(super) fn room(&mut self, queue: &QueueName) -> Arc<Notify> {
        Arc::clone(self.rooms.entry(queue.clone()).or_default())
    }

    pub(super) fn ring(&mut self, wakes: Wakes) {
        for place in wakes.places {
            if let Some(bell) = self.places.get(&place) {
                bell.notify_waiters();
            }
        }
        for queue in wakes.rooms {
            if let Some(bell) = self.rooms.remove(&queue) {
                bell.notify_waiters();
            }
        }
        for id in wakes.lost {
            let Some((place, bell)) = self.sessions.remove(&id) else { continue };
            bell.is_lost.send_replace(true);
            // Those who receive look again, and see that they are lost.
            if let Some(bell) = self.places.get(&place) {
                bell.notify_waiters();
            }
            if !self.sessions.values().any(|(other, _)| *other == place) {
                self.places.remove(&place);
            }
        }
    }
}
