//! What a backend has to do. Users see [`crate::Queues`] and [`crate::Session`], which hold one.

use std::pin::Pin;

use async_trait::async_trait;
use bytes::Bytes;

use crate::{
    limits::{MESSAGE_BYTES_MAX, VALUE_BYTES_MAX},
    message::{Delivery, Depth, QueueName, Receipt},
    session::{Owner, Place, Roster},
    transaction::{Key, Refused, Transaction},
};

/// An answer that is on its way, whoever waits for it.
pub(crate) type Answer<T> = Pin<Box<dyn Future<Output = Result<T, Refused>> + Send>>;

/// Queues of some kind.
#[async_trait]
pub(crate) trait Backend: Send + Sync {
    fn carries_bytes(&self) -> bool;

    fn is_durable(&self) -> bool;

    fn message_bytes_max(&self) -> usize {
        MESSAGE_BYTES_MAX
    }

    fn value_bytes_max(&self) -> usize {
        VALUE_BYTES_MAX
    }

    async fn session(
        &self,
        place: &Place,
        owner: &Owner,
        roster: &Roster,
    ) -> Result<Box<dyn Hand>, Refused>;

    async fn announce(&self, place: &Place, roster: &Roster) -> Result<(), Refused>;

    async fn depth(&self, queue: &QueueName) -> Result<Depth, Refused>;

    async fn peek(&self, place: &Place, prefix: &str) -> Result<Vec<(Key, Bytes)>, Refused>;

    async fn forget(&self, job: &str) -> Result<(), Refused>;

    async fn jobs(&self) -> Result<Vec<String>, Refused>;
}

/// A session of some kind. Dropped, it is closed.
#[async_trait]
pub(crate) trait Hand: Send + Sync {
    async fn receive(&self, max: usize) -> Result<Vec<Delivery>, Refused>;

    /// Takes its place in the order of commits now, and answers later.
    fn commit(&self, transaction: Transaction) -> Answer<()>;

    async fn release(&self, receipts: Vec<Receipt>) -> Result<(), Refused>;

    async fn get(&self, key: &str) -> Result<Option<Bytes>, Refused>;

    async fn scan(&self, prefix: &str) -> Result<Vec<(Key, Bytes)>, Refused>;

    async fn room(&self, queues: &[QueueName]) -> Result<(), Refused>;

    async fn close(&self);

    async fn lost(&self);

    /// The same, without keeping the session open.
    fn watch(&self) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}
