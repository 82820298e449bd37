//! The files of a journal: which there are, what is in them, and reading entries back.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Mutex,
};

use bytes::Bytes;
use sardonyx_core::Position;

use super::format::{self, End, Header, Record};
use crate::{
    backend::Raw,
    engine::{Op, State},
    error::{Error, Result},
    token::lock,
};

/// How much is read at once.
const READ_BYTES: usize = 512 << 10;

/// Every how many bytes the place of an entry is remembered.
const INDEX_BYTES: u64 = 64 << 10;

/// One file of the journal.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) number: u64,
    pub(crate) path: PathBuf,
    pub(crate) file: File,
    /// The position of its first entry, or of the next one while it has none.
    pub(crate) first: u64,
    /// Positions and the offsets of the frames that begin with them, in order.
    index: Mutex<Vec<(u64, u64)>>,
}

impl Segment {
    pub(crate) fn new(number: u64, path: PathBuf, file: File, first: u64) -> Segment {
        Segment { number, path, file, first, index: Mutex::default() }
    }

    /// Notes that the frame at `offset` begins with the entry at `position`.
    pub(crate) fn note(&self, position: u64, offset: u64) {
        let mut index = lock(&self.index);
        if index.last().is_none_or(|(_, last)| offset - last >= INDEX_BYTES) {
            index.push((position, offset));
        }
    }

    /// Some entries from `from` on, which must be in this segment; stops before `next`.
    pub(crate) fn read(&self, from: u64, next: u64) -> Result<Vec<Raw>> {
        let (mut position, mut offset) = {
            let index = lock(&self.index);
            let after = index.partition_point(|(position, _)| *position <= from);
            index[after.saturating_sub(1)..].first().copied().unwrap_or_default()
        };
        let mut len = READ_BYTES;
        let mut entries = Vec::new();
        loop {
            let bytes = self.bytes_at(offset, len)?;
            let mut at = 0;
            while let Some(header) = format::frame_header(&bytes[at..]) {
                let end = at + format::FRAME_BYTES + header.len;
                if position >= next || end > bytes.len() {
                    break;
                }
                for record in format::records(&bytes, at, header) {
                    let record = record.map_err(|bad| self.corrupt(offset as usize + bad))?;
                    let Record::Entry(range) = record else { continue };
                    if (from..next).contains(&position) {
                        let bytes = bytes.slice(range);
                        entries.push(Raw { position: Position(position), bytes });
                    }
                    position += 1;
                }
                at = end;
            }
            if !entries.is_empty() {
                return Ok(entries);
            }
            // Nothing yet: go on behind what was read, or read more of a frame that is larger.
            match format::frame_header(&bytes[at..]) {
                Some(header) => len = len.max(format::FRAME_BYTES + header.len),
                None if at == 0 => return Err(self.corrupt(offset as usize)),
                None => {}
            }
            offset += at as u64;
        }
    }

    fn bytes_at(&self, offset: u64, len: usize) -> Result<Bytes> {
        let mut bytes = vec![0; len];
        let mut filled = 0;
        while filled < len {
            match self.file.read_at(&mut bytes[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(why) => return Err(Error::Unavailable(format!("{}: {why}", self.show()))),
            }
        }
        bytes.truncate(filled);
        Ok(bytes.into())
    }

    fn corrupt(&self, byte: usize) -> Error {
        corrupt(&self.path, byte)
    }

    fn show(&self) -> std::path::Display<'_> {
        self.path.display()
    }
}

fn corrupt(path: &Path, byte: usize) -> Error {
    let path = path.display();
    let help = "restore the directory from a copy, or start a new cluster";
    Error::Corrupt(format!("{path}: the first bad byte is in the record at byte {byte}; {help}"))
}

/// The name of a segment.
pub(crate) fn segment_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("journal-{number:020}"))
}

/// The segments in `dir`, by number.
pub(crate) fn list(dir: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let unreadable = |why: io::Error| Error::NotConfigured(format!("{}: {why}", dir.display()));
    let mut segments = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let number = path.file_name().and_then(|name| name.to_str()?.strip_prefix("journal-"));
        if let Some(number) = number.and_then(|number| number.parse().ok()) {
            segments.push((number, path));
        }
    }
    segments.sort();
    Ok(segments)
}

/// Where writing goes on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resume {
    /// The offset of the next frame, and its sequence.
    pub(crate) end: u64,
    pub(crate) sequence: u64,
    /// The bytes behind `end` that belong to a frame that was never finished.
    pub(crate) torn_bytes: u64,
}

/// What playing one segment found.
#[derive(Debug)]
pub(crate) struct Played {
    pub(crate) segment: Segment,
    pub(crate) resume: Resume,
    pub(crate) n_frames: u64,
    pub(crate) n_entries: u64,
}

/// Plays a segment into `state`, checking every byte that was ever acknowledged. Only the newest
/// segment may end in an unfinished frame.
pub(crate) fn play(
    (number, path): (u64, PathBuf),
    state: &mut State,
    is_newest: bool,
) -> Result<Played> {
    let unreadable =
        |why: io::Error| Error::NotConfigured(format!("cannot read {}: {why}", path.display()));
    let bytes = std::fs::read(&path).map_err(unreadable)?;
    match format::read_header(&bytes) {
        Header::Number(found) if found == number => {}
        Header::Number(_) | Header::Bad => return Err(corrupt(&path, 0)),
        Header::Newer(version) => {
            let (path, reads) = (path.display(), format::VERSION);
            return Err(Error::NotConfigured(format!(
                "{path} has format {version}, but this build reads up to {reads}: upgrade it"
            )));
        }
    }
    let mut at = format::HEADER_BYTES;
    let first = first_frame(&bytes, at).ok_or_else(|| corrupt(&path, at))?;
    let file = File::options().read(true).write(is_newest).open(&path).map_err(unreadable)?;
    let mut segment = Segment::new(number, path.clone(), file, 0);
    let (mut sequence, mut n_frames, mut n_entries) = (first.sequence, 0, 0);
    loop {
        let header = format::frame_header(&bytes[at.min(bytes.len())..]).filter(|header| {
            header.sequence == sequence && bytes.len() - at - format::FRAME_BYTES >= header.len
        });
        let Some(header) = header else { break };
        let before = state.next;
        match apply_frame(&bytes, at, header, state) {
            Ok(()) => {}
            Err(Bad::Torn(_)) if is_newest && n_frames > 0 && is_last(&bytes, at, header) => {
                // The records of the last frame never made it to the disk.
                break;
            }
            Err(Bad::Torn(bad) | Bad::Unreadable(bad)) => return Err(corrupt(&path, bad)),
        }
        if n_frames == 0 {
            segment.first = state.next;
        } else if state.next > before {
            segment.note(before, at as u64);
            n_entries += state.next - before;
        }
        sequence = sequence.checked_add(1).ok_or_else(|| corrupt(&path, at))?;
        (at, n_frames) = (at + format::FRAME_BYTES + header.len, n_frames + 1);
    }
    let torn_bytes = match format::judge_end(&bytes, at, sequence) {
        Ok(End::Clean) => 0,
        Ok(End::Torn(end)) if is_newest => (end - at) as u64,
        Ok(End::Torn(_)) | Err(()) => return Err(corrupt(&path, first_bad(&bytes, at, sequence))),
    };
    let resume = Resume { end: at as u64, sequence, torn_bytes };
    Ok(Played { segment, resume, n_frames, n_entries })
}

/// Every segment begins with a snapshot.
fn first_frame(bytes: &[u8], at: usize) -> Option<format::FrameHeader> {
    let header = format::frame_header(bytes.get(at..)?)?;
    (bytes.len() - at - format::FRAME_BYTES >= header.len && header.n_records == 1)
        .then_some(header)
}

fn is_last(bytes: &[u8], at: usize, header: format::FrameHeader) -> bool {
    let end = at + format::FRAME_BYTES + header.len;
    format::judge_end(bytes, end, header.sequence).is_ok()
}

/// The offset to blame when the frame at `at` is not good: its first bad record if its header is
/// good, the header otherwise.
fn first_bad(bytes: &[u8], at: usize, sequence: u64) -> usize {
    let header = format::frame_header(&bytes[at..]).filter(|header| header.sequence == sequence);
    let fits = header.filter(|it| bytes.len() - at - format::FRAME_BYTES >= it.len);
    let bad = fits.and_then(|it| format::records(bytes, at, it).find_map(Result::err));
    bad.unwrap_or(at)
}

/// Where a frame is bad.
enum Bad {
    /// A record whose checksum is wrong: it may never have reached the disk.
    Torn(usize),
    /// A record that was written as it is, and makes no sense to this build. It was acknowledged, so
    /// it must not be taken for unfinished.
    Unreadable(usize),
}

/// Applies a frame whole, or nothing of it.
fn apply_frame(
    bytes: &[u8],
    at: usize,
    header: format::FrameHeader,
    state: &mut State,
) -> std::result::Result<(), Bad> {
    let mut ops = Vec::new();
    for record in format::records(bytes, at, header) {
        ops.push(match record.map_err(Bad::Torn)? {
            // The entry itself stays in the file; the state only counts it.
            Record::Entry(_) => Op::Append(Bytes::new()),
            Record::Op(op) => postcard::from_bytes(op).map_err(|_| Bad::Unreadable(at))?,
        });
    }
    let is_sound = |op: &Op| match op {
        Op::Snapshot(state) => state.is_sound(),
        Op::Append(_)
        | Op::SetOrigin(..)
        | Op::Trim(_)
        | Op::OpenSession { .. }
        | Op::EndSession { .. }
        | Op::Commit { .. } => true,
    };
    if !ops.iter().all(is_sound) {
        return Err(Bad::Unreadable(at));
    }
    ops.into_iter().for_each(|op| drop(state.apply(op)));
    Ok(())
}
