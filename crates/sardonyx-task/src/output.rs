//! Outputs: where segments go in the end.

use arrow::array::RecordBatch;
use bytes::Bytes;

/// A destination of segments, made from the terms of one task. One for all peers of a node.
pub trait Output: Send + Sync {
    /// Whether it can be written, as far as can be known before a job runs. Leaves nothing behind.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// Opens it for one session of a peer. `part` is a name that no other session has, ever.
    fn open(&self, part: &str) -> Result<Box<dyn Writer>, String>;

    /// The task is over: what the parts have committed becomes visible as a whole. `parts` has every
    /// part that ever committed something and is not forgotten ([`Output::forgets`]), with what it
    /// committed last, in the order of their names. May happen twice, also after it succeeded, and must
    /// then change nothing.
    fn finish(&self, parts: &[(String, Bytes)]) -> Result<(), String>;

    /// The sessions of these parts are over while the task goes on: they can never commit again.
    /// For outputs that show things before the end. May happen twice, as [`Output::finish`].
    fn recover(&self, parts: &[(String, Bytes)]) -> Result<(), String> {
        let _ = parts;
        Ok(())
    }

    /// Whether parts are done with once they are recovered: then they are forgotten, and neither
    /// [`Output::finish`] nor [`Output::recover`] need be told of them. They may be all the same, by
    /// somebody who stood still, and that must change nothing. A stream whose peers come and go leaves
    /// one part after the other, for as long as it runs.
    fn forgets(&self) -> bool {
        false
    }
}

/// An output in the hands of one session. The order: any number of writes, [`Writer::prepare`], the
/// commit of the queues' transaction, [`Writer::committed`].
pub trait Writer: Send {
    /// Takes rows.
    fn write(&mut self, batch: &RecordBatch) -> Result<(), String>;

    /// Makes everything written so far durable if `is_durable`, and says what to commit: how far
    /// this part then is. `None` if there is nothing to remember.
    fn prepare(&mut self, is_durable: bool) -> Result<Option<Bytes>, String>;

    /// What was prepared is committed now. For outputs that show things only then.
    fn committed(&mut self) -> Result<(), String>;
}
