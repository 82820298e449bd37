//! How much of everything there may be. Reaching a limit loses nothing: senders wait at a full queue,
//! and a transaction that is too large is refused whole.

use arrow::array::{Array as _, RecordBatch};

use crate::{
    message::{Body, QueueName, Segments},
    session::{Owner, Place},
    transaction::{Refused, Transaction},
};

/// A queue with this many bytes is full. Soft: whoever found room may overshoot it with one
/// transaction.
pub const QUEUE_BYTES_MAX: u64 = 16 << 20;

/// A queue with this many messages is full, in flight ones included. Soft, as above.
pub const QUEUE_MESSAGES_MAX: u64 = 4096;

/// The largest message.
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// How much memory a compressed message may ask for when it is read. Reached when it is written: the
/// batch is refused there.
pub const DECODED_BYTES_MAX: u64 = 4 * MESSAGE_BYTES_MAX as u64;

/// The largest value of a key.
pub const VALUE_BYTES_MAX: usize = 64 << 20;

/// The longest key.
pub const KEY_BYTES_MAX: usize = 1024;

/// The longest name of a job, a task or a peer.
pub const NAME_BYTES_MAX: usize = 256;

/// How much one transaction may carry: messages, keys and values together.
pub const TRANSACTION_BYTES_MAX: usize = 128 << 20;

/// How many holds, acks, sends, puts and expects one transaction may have together.
pub const TRANSACTION_PARTS_MAX: usize = 65_536;

/// Once this much is received at once, the rest waits for the next receive.
pub const RECEIVE_BYTES_MAX: u64 = 16 << 20;

/// How much of a queue a body takes.
pub(crate) fn body_bytes(body: &Body) -> usize {
    match body {
        Body::Segments(Segments::Batch(batch)) => batch_bytes(batch),
        Body::Segments(Segments::Encoded(bytes)) | Body::Note(bytes) => bytes.len(),
        Body::Sentinel(name) => name.len(),
    }
}

/// What a batch takes in memory. Slices count for their own part, not for the whole they share.
fn batch_bytes(batch: &RecordBatch) -> usize {
    let column = |column: &arrow::array::ArrayRef| {
        let size = column.to_data().get_slice_memory_size();
        size.unwrap_or_else(|_| column.get_array_memory_size())
    };
    batch.columns().iter().map(column).sum()
}

fn limit(what: impl FnOnce() -> String, is: usize, max: usize) -> Result<(), Refused> {
    if is <= max {
        return Ok(());
    }
    Err(Refused::TooLarge(format!("{} has {is}, and {max} is the most", what())))
}

fn check_names(names: [&str; 3]) -> Result<(), Refused> {
    let check = |name: &&str| limit(|| "a name, in bytes,".into(), name.len(), NAME_BYTES_MAX);
    names.iter().try_for_each(check)
}

/// Checks the names in a queue's name.
pub(crate) fn check_queue(queue: &QueueName) -> Result<(), Refused> {
    check_names([&queue.job, &queue.task, &queue.from])
}

/// Checks the names of a place and of who comes to it.
pub(crate) fn check_place(place: &Place, owners: &[Owner]) -> Result<(), Refused> {
    check_names([&place.job, &place.task, ""])?;
    owners.iter().try_for_each(|owner| check_names([&owner.peer, "", ""]))
}

/// Checks messages and values against the limits of some server.
pub(crate) fn check_sizes(
    transaction: &Transaction,
    message_bytes_max: usize,
    value_bytes_max: usize,
) -> Result<(), Refused> {
    for (key, value) in &transaction.puts {
        let bytes = value.as_ref().map_or(0, bytes::Bytes::len);
        limit(|| format!("the value of {key}, in bytes,"), bytes, value_bytes_max)?;
    }
    for outgoing in &transaction.sends {
        let what = || format!("a message for {}, in bytes,", outgoing.queue);
        limit(what, body_bytes(&outgoing.body), message_bytes_max)?;
    }
    Ok(())
}

/// Checks a transaction.
pub(crate) fn check_transaction(transaction: &Transaction) -> Result<(), Refused> {
    check_sizes(transaction, MESSAGE_BYTES_MAX, VALUE_BYTES_MAX)?;
    let Transaction { holds, acks, sends, puts, expects } = transaction;
    let n_parts = holds.len() + acks.len() + sends.len() + puts.len() + expects.len();
    limit(|| "a transaction, in parts,".into(), n_parts, TRANSACTION_PARTS_MAX)?;
    let mut total = 0;
    for (key, value) in puts.iter().chain(expects) {
        let bytes = value.as_ref().map_or(0, bytes::Bytes::len);
        limit(|| "a key, in bytes,".into(), key.len(), KEY_BYTES_MAX)?;
        total += key.len() + bytes;
    }
    for outgoing in sends {
        check_queue(&outgoing.queue)?;
        total += body_bytes(&outgoing.body);
    }
    limit(|| "a transaction, in bytes,".into(), total, TRANSACTION_BYTES_MAX)
}
