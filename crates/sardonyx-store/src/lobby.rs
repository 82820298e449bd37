//! Those who have connected and not been let in yet: so many, and whoever has waited longest goes first.
//!
//! A door at which others wait outside once so many stand in it can be blocked by anybody who opens
//! connections and says nothing. Here the newest always gets in, and somebody who says at once what it
//! wants is through before its turn to go comes.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

/// How many may be connected without having been let in.
pub const STRANGERS_MAX: usize = 1_000;

/// Where they wait. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Lobby(Arc<Mutex<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    /// In the order in which they came.
    guests: BTreeMap<u64, oneshot::Sender<()>>,
}

impl Lobby {
    /// Takes somebody in, and shows out who has waited longest if that is one too many.
    pub fn enter(&self) -> Guest {
        let (leave, left) = oneshot::channel();
        let mut waiting = self.waiting();
        let number = waiting.next;
        waiting.next += 1;
        waiting.guests.insert(number, leave);
        if waiting.guests.len() > STRANGERS_MAX {
            // Its end of the channel closes.
            waiting.guests.pop_first();
        }
        Guest { lobby: self.clone(), number, left }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody who waits. Dropped, it has been let in, or has gone.
#[derive(Debug)]
pub struct Guest {
    lobby: Lobby,
    number: u64,
    left: oneshot::Receiver<()>,
}

impl Guest {
    /// Returns when it has to go.
    pub async fn shown_out(&mut self) {
        let _ = (&mut self.left).await;
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.lobby.waiting().guests.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whoever_has_waited_longest_goes_and_whoever_is_let_in_makes_room() {
        let lobby = Lobby::default();
        let mut guests: Vec<Guest> = (0..STRANGERS_MAX).map(|_| lobby.enter()).collect();
        assert_eq!(lobby.waiting().guests.len(), STRANGERS_MAX, "nobody has to go yet");
        let _newest = lobby.enter();
        guests[0].shown_out().await;
        drop(guests.split_off(STRANGERS_MAX / 2));
        let _another = lobby.enter();
        let is_there = lobby.waiting().guests.contains_key(&1);
        assert!(is_there, "there was room");
    }
}
