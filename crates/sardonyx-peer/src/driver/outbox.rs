//! What the node has to say, in order, one append under way at a time.
//!
//! An append whose answer is lost is sent again by the store under the same token, so readers see
//! it once. One that fails for longer than the store's patience ends the life, and with it all that
//! waits here: it was said under ids that are then over.

use std::{collections::VecDeque, pin::Pin};

use sardonyx_core::{Command, Position};
use sardonyx_store::{Result, Store};

/// From how many waiting commands on the loop listens to nothing that could add to them. One
/// input adds at most a few for each of the node's peers, so this is overstepped by as much.
pub const OUTBOX_MAX: usize = 10_000;

/// Comparing with more than this would cost more than saying it twice.
const COMPARE_MAX: usize = 256;

type Append = Pin<Box<dyn Future<Output = Result<Position>> + Send>>;

pub(super) struct Outbox {
    store: Store,
    waiting: VecDeque<Command>,
    under_way: Option<Append>,
}

impl Outbox {
    pub(super) fn new(store: Store) -> Outbox {
        Outbox { store, waiting: VecDeque::new(), under_way: None }
    }

    pub(super) fn push(&mut self, command: Command) {
        if self.waiting.len() < COMPARE_MAX && self.waiting.contains(&command) {
            return;
        }
        self.waiting.push_back(command);
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len() + usize::from(self.under_way.is_some())
    }

    pub(super) fn has_room(&self) -> bool {
        self.waiting.len() < OUTBOX_MAX
    }

    /// Begins the next append, if none is under way. Apart from waiting for it, because the caller
    /// makes sure before that we may still speak.
    pub(super) fn begin(&mut self) {
        if self.under_way.is_none()
            && let Some(command) = self.waiting.pop_front()
        {
            let store = self.store.clone();
            self.under_way = Some(Box::pin(async move { store.append(&command).await }));
        }
    }

    /// Waits for the append under way. Nothing is lost when this is dropped.
    pub(super) async fn landed(&mut self) -> Result<Position> {
        let Some(append) = &mut self.under_way else { return std::future::pending().await };
        let landed = append.await;
        self.under_way = None;
        landed
    }
}

#[cfg(test)]
mod tests {
    use sardonyx_core::{PeerId, command::PeerGc};
    use sardonyx_store::Options;

    use super::*;

    fn command(number: usize) -> Command {
        PeerGc { peer: PeerId::new(&format!("p{number}")).unwrap() }.into()
    }

    #[tokio::test]
    async fn it_has_room_up_to_its_limit_and_says_the_same_once() {
        let store = Store::open("memory:", Options::default()).await.unwrap();
        let mut outbox = Outbox::new(store.clone());
        outbox.push(command(0));
        outbox.push(command(0));
        assert_eq!(outbox.len(), 1);
        (1..OUTBOX_MAX - 1).for_each(|number| outbox.push(command(number)));
        assert!(outbox.has_room());
        outbox.push(command(OUTBOX_MAX));
        assert!(!outbox.has_room());
        outbox.begin();
        assert!(outbox.has_room(), "one is under way");
        assert_eq!(outbox.len(), OUTBOX_MAX, "and still counts");
        assert_eq!(outbox.landed().await, Ok(Position(0)));
        outbox.begin();
        assert_eq!(outbox.landed().await, Ok(Position(1)));
        assert_eq!(outbox.len(), OUTBOX_MAX - 2);
    }
}
