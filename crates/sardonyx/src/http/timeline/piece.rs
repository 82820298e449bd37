//! A stretch of the log as bytes.

use sardonyx_core::{Entry, Position, wire};

/// How many entries a piece has.
const PIECE_ENTRIES: usize = 512;

/// From how many bytes on a piece is full.
const PIECE_BYTES: usize = 256 << 10;

/// Entries that follow each other, as the log stores them.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    /// The number of its first entry.
    first: u64,
    positions: Vec<u64>,
    /// Where each entry ends in `bytes`. One without bytes could not be read.
    ends: Vec<u32>,
    bytes: Vec<u8>,
}

/// What an entry costs.
pub(super) fn cost(bytes: &[u8]) -> usize {
    bytes.len() + size_of::<u64>() + size_of::<u32>()
}

impl Piece {
    pub(super) fn new(first: u64) -> Piece {
        Piece { first, positions: Vec::new(), ends: Vec::new(), bytes: Vec::new() }
    }

    pub(super) fn push(&mut self, position: Position, bytes: &[u8]) {
        self.positions.push(position.0);
        self.bytes.extend_from_slice(bytes);
        // A piece is full long before four gigabytes: an entry has at most a mebibyte.
        self.ends.push(u32::try_from(self.bytes.len()).unwrap_or(u32::MAX));
    }

    pub(super) fn seal(&mut self) {
        self.positions.shrink_to_fit();
        self.ends.shrink_to_fit();
        self.bytes.shrink_to_fit();
    }

    pub(super) fn is_full(&self) -> bool {
        self.positions.len() >= PIECE_ENTRIES || self.bytes.len() >= PIECE_BYTES
    }

    pub(super) fn cost(&self) -> usize {
        self.bytes.len() + self.positions.len() * (size_of::<u64>() + size_of::<u32>())
    }

    /// The number of its first entry.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// The number behind that of its last entry.
    pub(super) fn end(&self) -> u64 {
        self.first + self.positions.len() as u64
    }

    /// The position of its last entry.
    pub(super) fn last(&self) -> Option<Position> {
        self.positions.last().copied().map(Position)
    }

    /// The number behind that of its last entry at or before `position`.
    pub(super) fn seq_after(&self, position: Position) -> u64 {
        self.first + self.positions.partition_point(|at| *at <= position.0) as u64
    }

    /// The entry of that number: where it stands, and what it is if it can be read.
    pub(super) fn entry(&self, seq: u64) -> Option<(Position, Option<Entry>)> {
        let at = usize::try_from(seq.checked_sub(self.first)?).ok()?;
        let position = Position(*self.positions.get(at)?);
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        let bytes = self.bytes.get(start..self.ends[at] as usize)?;
        let command = wire::command_from_bytes(bytes).ok();
        Some((position, command.map(|command| Entry { position, command })))
    }
}
