//! `memory:` is the ledger and nothing else. Bodies are kept as they came, so a batch that is sent is
//! the batch that is received.

use crate::{
    ledger::{Given, Wakes},
    local::{Fetched, Happened, Local, Medium, delivery},
    message::Body,
    transaction::Refused,
};

/// New queues, empty.
pub(crate) fn new() -> Local<Memory> {
    Local::new(Default::default(), Memory)
}

#[derive(Debug)]
pub(crate) struct Memory;

impl Medium for Memory {
    type Body = Body;
    const CARRIES_BYTES: bool = false;
    const IS_DURABLE: bool = false;

    fn keep(&self, body: Body) -> Result<(Body, u64), Refused> {
        let bytes = crate::limits::body_bytes(&body) as u64;
        Ok((body, bytes))
    }

    fn stamp(&self) -> u64 {
        0
    }

    fn note(&self, _: Happened<'_, Body>, wakes: Wakes) -> (u64, Wakes) {
        (0, wakes)
    }

    fn settled(&self, _: u64) -> Option<crate::backend::Answer<()>> {
        None
    }

    fn fetch(&self, given: Vec<Given<Body>>) -> Fetched {
        let unpack = |mut given: Given<Body>| {
            let nothing = Body::Note(bytes::Bytes::new());
            let body = std::mem::replace(&mut given.body, nothing);
            delivery(given, body)
        };
        Fetched::Now(given.into_iter().map(unpack).collect())
    }
}

#[cfg(test)]
mod tests {
    use crate::{Body, Outgoing, Owner, Place, QueueName, Queues, Roster, Segments, Transaction};

    /// The column that was sent is the column that is received, not a copy of it.
    #[tokio::test]
    async fn a_batch_moves_without_being_copied() {
        use arrow::array::{ArrayRef, Int64Array, RecordBatch};
        let column: ArrayRef = std::sync::Arc::new(Int64Array::from(vec![1, 2, 3]));
        let batch = RecordBatch::try_from_iter([("n", std::sync::Arc::clone(&column))]).unwrap();
        let place = Place { job: "j".into(), task: "t".into() };
        let owner = Owner { peer: "a".into(), epoch: 1 };
        let roster = Roster { at: 1, owners: vec![owner.clone()] };
        let session = Queues::memory().session(&place, &owner, &roster).await.unwrap();
        let queue = QueueName { job: "j".into(), task: "t".into(), from: "u".into() };
        let body = Body::Segments(Segments::Batch(batch));
        let sends = vec![Outgoing { queue, partition: None, body }];
        session.commit(Transaction { sends, ..Transaction::default() }).await.unwrap();
        let received = session.receive(1).await.unwrap().remove(0);
        let Body::Segments(Segments::Batch(batch)) = received.body else { panic!("a batch") };
        assert!(std::sync::Arc::ptr_eq(batch.column(0), &column));
    }
}
