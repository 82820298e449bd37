//! Bytes in blocks: memory stays bounded, whatever the size of a file, and every place has a
//! position.

use std::io::{self, Read};

use arrow::array::RecordBatch;

use super::{Fault, Records, Unfit};

/// How much is read at once: enough that calls do not count, little enough that what was read is
/// still in the cache when rows are made of it.
pub(crate) const BLOCK_BYTES: usize = 512 << 10;

/// A record must fit in memory many times.
pub(crate) const RECORD_BYTES_MAX: usize = 64 << 20;

/// A source of bytes, and those of it that are being looked at.
pub(crate) struct Blocks {
    source: Box<dyn Read + Send>,
    /// How much of the source is still to be read; `None` is all there is.
    left: Option<u64>,
    buffer: Vec<u8>,
    from: usize,
    to: usize,
    /// Of the byte at `from`.
    position: u64,
    is_over: bool,
}

impl Blocks {
    /// `source` begins at `position`. It has `left` bytes, or as many as come.
    pub(crate) fn new(source: Box<dyn Read + Send>, position: u64, left: Option<u64>) -> Blocks {
        let is_over = left == Some(0);
        Blocks { source, left, buffer: Vec::new(), from: 0, to: 0, position, is_over }
    }

    /// What is there.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.from..self.to]
    }

    /// Whether nothing comes behind what is there.
    pub(crate) fn is_last(&self) -> bool {
        self.is_over
    }

    /// Where what is there begins.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Passes over `n` bytes of what is there.
    pub(crate) fn advance(&mut self, n: usize) {
        self.from += n;
        self.position += n as u64;
    }

    /// Reads once behind what is there.
    pub(crate) fn fill(&mut self) -> io::Result<()> {
        if self.is_over {
            return Ok(());
        }
        if self.from > 0 {
            self.buffer.copy_within(self.from..self.to, 0);
            self.to -= self.from;
            self.from = 0;
        }
        if self.to == self.buffer.len() {
            if self.to >= RECORD_BYTES_MAX {
                let why = format!("a record of more than {} MB", RECORD_BYTES_MAX >> 20);
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
            let room = (self.buffer.len() * 2).clamp(BLOCK_BYTES, RECORD_BYTES_MAX);
            self.buffer.resize(room, 0);
        }
        let room = self.buffer.len() - self.to;
        let room = match self.left {
            Some(left) => usize::try_from(left).map_or(room, |left| room.min(left)),
            None => room,
        };
        let n = loop {
            match self.source.read(&mut self.buffer[self.to..self.to + room]) {
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        self.to += n;
        if let Some(left) = &mut self.left {
            if n == 0 {
                let why = "it became shorter while it was read";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
            }
            *left -= n as u64;
        }
        self.is_over = n == 0 || self.left == Some(0);
        Ok(())
    }

    /// Passes over `n` bytes, and reads them for it.
    pub(crate) fn skip(&mut self, mut n: u64) -> io::Result<()> {
        while n > 0 {
            let step = self.bytes().len().min(usize::try_from(n).unwrap_or(usize::MAX));
            self.advance(step);
            n -= step as u64;
            if n > 0 {
                if self.is_over {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                self.fill()?;
            }
        }
        Ok(())
    }
}

/// Why rows cannot be read.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The record at this position is wrong.
    Record(u64, String),
    /// A text in a batch that begins here is not UTF-8.
    NotUtf8(u64),
    /// The source cannot be read at this position.
    Source(u64, io::Error),
    /// Arrow says no.
    Other(String),
}

/// Rows out of blocks.
pub(crate) struct Rows {
    pub(crate) blocks: Blocks,
    pub(crate) records: Box<dyn Records>,
}

impl Rows {
    /// At most `rows_max` rows and the position behind them; `None` when there are no more. With
    /// `is_eager` it gives what it has rather than read again: for sources that come slowly.
    pub(crate) fn read(
        &mut self,
        rows_max: usize,
        is_eager: bool,
    ) -> Result<Option<(RecordBatch, u64)>, Broken> {
        let rows_max = rows_max.max(1);
        let begin = self.blocks.position();
        loop {
            let position = self.blocks.position();
            let taken = self.records.take(self.blocks.bytes(), self.blocks.is_last(), rows_max);
            let taken =
                taken.map_err(|Fault { at, why }| Broken::Record(position + at as u64, why))?;
            self.blocks.advance(taken);
            let n_rows = self.records.n_rows();
            let is_enough = n_rows >= rows_max || self.records.is_full();
            if is_enough || self.blocks.is_last() || (is_eager && n_rows > 0) {
                break;
            }
            let position = self.blocks.position();
            self.blocks.fill().map_err(|why| Broken::Source(position, why))?;
        }
        if self.records.n_rows() == 0 {
            return Ok(None);
        }
        match self.records.finish() {
            Ok(batch) => Ok(Some((batch, self.blocks.position()))),
            Err(Unfit::NotUtf8) => Err(Broken::NotUtf8(begin)),
            Err(Unfit::Other(why)) => Err(Broken::Other(why)),
        }
    }
}

/// The number, from 1, of the line in which the byte at `position` stands; the position where that
/// line begins.
pub(crate) fn line_of(mut source: impl Read, position: u64) -> io::Result<(u64, u64)> {
    let (mut line, mut begin, mut at) = (1, 0, 0_u64);
    let mut block = vec![0; BLOCK_BYTES];
    while at < position {
        let n = source.read(&mut block)?;
        if n == 0 {
            break;
        }
        let seen = usize::try_from(position - at).unwrap_or(n).min(n);
        for end in memchr::memchr_iter(b'\n', &block[..seen]) {
            line += 1;
            begin = at + end as u64 + 1;
        }
        at += n as u64;
    }
    Ok((line, begin))
}
