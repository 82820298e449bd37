//! A queue that is bounded in items and in bytes.

use std::sync::Arc;

use tokio::sync::{Semaphore, mpsc};

/// The sending end; may be cloned.
#[derive(Debug)]
pub(crate) struct Sender<T> {
    items: mpsc::Sender<(T, u32)>,
    room: Arc<Semaphore>,
    bytes_max: u32,
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        let (items, room) = (self.items.clone(), Arc::clone(&self.room));
        Sender { items, room, bytes_max: self.bytes_max }
    }
}

/// The receiving end.
#[derive(Debug)]
pub(crate) struct Receiver<T> {
    items: mpsc::Receiver<(T, u32)>,
    room: Arc<Semaphore>,
}

/// Why an item was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    Full,
    Closed,
}

/// A queue of at most so many items and bytes; one item that is larger may be in it alone.
pub(crate) fn queue<T>(items_max: usize, bytes_max: usize) -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = mpsc::channel(items_max.max(1));
    let bytes_max = u32::try_from(bytes_max).unwrap_or(u32::MAX).max(1);
    let room = Arc::new(Semaphore::new(bytes_max as usize));
    let sender = Sender { items: sender, room: Arc::clone(&room), bytes_max };
    (sender, Receiver { items: receiver, room })
}

impl<T> Sender<T> {
    /// Adds an item at once, or not.
    pub(crate) fn try_send(&self, item: T, bytes: usize) -> Result<(), Refused> {
        let n = self.cost(bytes);
        let permit = self.room.try_acquire_many(n).map_err(|_| self.refused())?;
        match self.items.try_send((item, n)) {
            Ok(()) => {
                // Given back by who takes the item out.
                permit.forget();
                Ok(())
            }
            Err(_) => Err(self.refused()),
        }
    }

    /// Adds an item as soon as there is room. False if nobody takes items any more.
    pub(crate) async fn send(&self, item: T, bytes: usize) -> bool {
        let n = self.cost(bytes);
        let permit = tokio::select! {
            permit = self.room.acquire_many(n) => permit,
            () = self.items.closed() => return false,
        };
        let Ok(permit) = permit else { return false };
        match self.items.send((item, n)).await {
            Ok(()) => {
                permit.forget();
                true
            }
            Err(_) => false,
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.items.is_closed()
    }

    fn refused(&self) -> Refused {
        if self.items.is_closed() { Refused::Closed } else { Refused::Full }
    }

    fn cost(&self, bytes: usize) -> u32 {
        u32::try_from(bytes).unwrap_or(u32::MAX).clamp(1, self.bytes_max)
    }
}

impl<T> Receiver<T> {
    /// The next item; `None` once all senders are gone.
    pub(crate) async fn recv(&mut self) -> Option<T> {
        let (item, n) = self.items.recv().await?;
        self.room.add_permits(n as usize);
        Some(item)
    }

    /// The same, for a thread that may wait.
    pub(crate) fn blocking_recv(&mut self) -> Option<T> {
        let (item, n) = self.items.blocking_recv()?;
        self.room.add_permits(n as usize);
        Some(item)
    }

    /// An item that is there already.
    pub(crate) fn try_recv(&mut self) -> Option<T> {
        let (item, n) = self.items.try_recv().ok()?;
        self.room.add_permits(n as usize);
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_refuses_at_once_and_has_room_again_afterwards() {
        let (sender, mut receiver) = queue::<u32>(2, 100);
        assert_eq!(sender.try_send(1, 60), Ok(()));
        assert_eq!(sender.try_send(2, 41), Err(Refused::Full), "bytes");
        assert_eq!(sender.try_send(2, 40), Ok(()));
        assert_eq!(sender.try_send(3, 0), Err(Refused::Full), "items");
        assert_eq!(receiver.try_recv(), Some(1));
        assert_eq!(sender.try_send(3, 1_000), Err(Refused::Full), "larger than all, and not alone");
        assert_eq!(receiver.try_recv(), Some(2));
        assert_eq!(sender.try_send(3, 1_000), Ok(()), "alone");
        assert_eq!((receiver.try_recv(), receiver.try_recv()), (Some(3), None));
        drop(receiver);
        assert_eq!(sender.try_send(4, 1), Err(Refused::Closed));
    }
}
