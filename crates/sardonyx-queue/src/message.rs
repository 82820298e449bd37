//! What queues hold.

mod lengths;

use std::{fmt, io::Cursor};

use arrow::{
    array::RecordBatch,
    error::ArrowError,
    ipc::{CompressionType, reader::StreamReader, writer::IpcWriteOptions, writer::StreamWriter},
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::limits::DECODED_BYTES_MAX;

/// A queue: messages for one task of a job, from one of its producers.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct QueueName {
    /// The job.
    pub job: String,
    /// The task that receives.
    pub task: String,
    /// Who sends: the task upstream. Empty for the splits of an input, which nobody upstream sends.
    pub from: String,
}

impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}>{}", self.job, self.from, self.task)
    }
}

/// A message's place in its queue: grows in the order of sending, never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct MessageId(pub u64);

/// The right to a message that was received: given back to commit or release it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Receipt(pub u64);

/// A message in the hands of a session.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// By which it is acknowledged.
    pub receipt: Receipt,
    /// Where it came from.
    pub queue: QueueName,
    /// Which partition of the queue, if it has any.
    pub partition: Option<u16>,
    /// Its place in the queue.
    pub id: MessageId,
    /// How often it has been delivered, this time included. Survives a restart.
    pub attempt: u32,
    /// What it is.
    pub body: Body,
}

/// What a message is.
#[derive(Clone, Debug)]
pub enum Body {
    /// Segments.
    Segments(Segments),
    /// The end of a producer's output, under the name by which its leader is elected.
    Sentinel(String),
    /// Bytes that only the task understands: a split of its input.
    Note(Bytes),
}

/// A batch of segments, as it is in memory or as it is on its way.
#[derive(Clone, Debug)]
pub enum Segments {
    /// In memory; moved without being copied.
    Batch(RecordBatch),
    /// As an Arrow IPC stream of one batch.
    Encoded(Bytes),
}

/// How encoded segments are made smaller.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// Fast.
    Lz4,
    /// Small.
    Zstd,
}

impl Segments {
    /// The batch, decoded if it has to be.
    pub fn decode(self) -> Result<RecordBatch, ArrowError> {
        match self {
            Segments::Batch(batch) => Ok(batch),
            Segments::Encoded(bytes) => {
                lengths::check(&bytes, DECODED_BYTES_MAX)?;
                read(bytes)
            }
        }
    }

    /// The bytes, encoded if they have to be.
    pub fn encode(&self, compression: Compression) -> Result<Bytes, ArrowError> {
        match self {
            Segments::Encoded(bytes) => Ok(bytes.clone()),
            Segments::Batch(batch) => {
                let kind = match compression {
                    Compression::None => None,
                    Compression::Lz4 => Some(CompressionType::LZ4_FRAME),
                    Compression::Zstd => Some(CompressionType::ZSTD),
                };
                let options = IpcWriteOptions::default().try_with_compression(kind)?;
                let mut stream =
                    StreamWriter::try_new_with_options(Vec::new(), &batch.schema(), options)?;
                stream.write(batch)?;
                stream.finish()?;
                let bytes = Bytes::from(stream.into_inner()?);
                if kind.is_some() && lengths::check(&bytes, DECODED_BYTES_MAX).is_err() {
                    // It could be sent, and nobody would take the memory to read it.
                    return Err(ArrowError::InvalidArgumentError(format!(
                        "a batch that is compressed has at most {DECODED_BYTES_MAX} bytes; make \
                         batches smaller (batch-size)"
                    )));
                }
                Ok(bytes)
            }
        }
    }
}

/// Reads one batch. Arrow's reader panics at descriptions that make no sense, such as a number of
/// seven bits; to us that is a damaged message like any other, and must not end the task.
fn read(bytes: Bytes) -> Result<RecordBatch, ArrowError> {
    let read = std::panic::catch_unwind(|| {
        let mut stream = StreamReader::try_new(Cursor::new(bytes), None)?;
        stream.next().unwrap_or_else(|| {
            Err(ArrowError::IpcError("an encoded message holds no batch".into()))
        })
    });
    read.unwrap_or_else(|_| Err(lengths::wrong("its description makes no sense")))
}

/// How much is in a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Depth {
    /// Messages that nobody has.
    pub ready: u64,
    /// Messages that a session has received and not yet committed or released.
    pub in_flight: u64,
}

impl Depth {
    /// Both.
    pub fn total(self) -> u64 {
        self.ready + self.in_flight
    }
}
