//! Files that come, and files that grow at their end: what is new since it was asked last.
//!
//! A file is known by its number in the file system and by its first bytes, not by its name: one
//! that is renamed while it is followed is not read again, and one that takes an old name is new.
//! What has no line end yet is still being written, and waits.

use std::{
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::Bytes;

use super::{
    input::{FileInput, Split},
    source::{self, Style},
};
use crate::{
    Files, Format,
    format::{Packing, infer::Plan, parquet},
    input::Splits,
};

/// How often is looked if nobody says.
pub(super) const POLL: Duration = Duration::from_secs(1);

/// What is remembered of each is committed again and again, so they must be few.
const FOLLOWED_FILES_MAX: usize = 10_000;

/// So many first bytes tell a file from another.
const HEAD_BYTES: u64 = 256;

/// What is remembered from one look to the next.
#[derive(Debug, Default, serde::Serialize, serde::Deserialize)]
struct Memory {
    plan: Option<Plan>,
    files: Vec<Known>,
}

/// A file that was seen.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
struct Known {
    number: u64,
    /// How far it was handed out. A file that is handed out whole is finished.
    done: u64,
    is_finished: bool,
    head_bytes: u64,
    head: u64,
}

/// What is new.
pub(super) fn splits(
    input: &FileInput,
    memory: Option<&[u8]>,
    poll: Duration,
) -> Result<Splits, String> {
    let old: Memory = match memory {
        None | Some([]) => Memory::default(),
        Some(memory) => serde_json::from_slice(memory)
            .map_err(|why| format!("what was remembered of the files cannot be read: {why}"))?,
    };
    let files = input.files()?;
    if files.len() > FOLLOWED_FILES_MAX {
        let why = "move away what is done";
        return Err(format!("more than {FOLLOWED_FILES_MAX} files to follow: {why}"));
    }
    let style = input.style(&files)?;
    let plan = match old.plan {
        Some(plan) => Some(plan),
        None => input.plan(&style, &files)?,
    };
    let mut new = Memory { plan, files: Vec::new() };
    let mut splits = Vec::new();
    for file in &files {
        let looked = look(input, file, &style, new.plan.as_ref(), &old.files, &mut splits);
        match looked {
            Ok(known) => new.files.extend(known),
            // It was there when it was listed, or longer when it was measured.
            Err(Trouble::Disk(why)) if is_passing(why.kind()) => {}
            Err(Trouble::Disk(why)) => return Err(format!("{file} cannot be read: {why}")),
            Err(Trouble::Rows(why)) => return Err(why),
        }
    }
    let splits = splits.iter().map(Split::to_bytes).collect::<Result<_, _>>()?;
    let memory = serde_json::to_vec(&new).map_err(|why| why.to_string())?;
    Ok(Splits { splits, again: Some(poll), memory: Bytes::from(memory) })
}

fn is_passing(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof)
}

enum Trouble {
    Disk(io::Error),
    Rows(String),
}

impl From<io::Error> for Trouble {
    fn from(why: io::Error) -> Trouble {
        Trouble::Disk(why)
    }
}

/// Hands out what is new in one file; says what to remember of it.
fn look(
    input: &FileInput,
    path: &str,
    style: &Style,
    plan: Option<&Plan>,
    old: &[Known],
    splits: &mut Vec<Split>,
) -> Result<Option<Known>, Trouble> {
    let meta = input.disk.metadata(path)?;
    let (number, length) = (meta.ino(), meta.len());
    let known = old.iter().find(|known| known.number == number);
    let known = match known {
        Some(known) if known.is_same(&input.disk, path, length)? => Some(known),
        Some(_) | None => None,
    };
    if known.is_some_and(|known| known.is_finished || known.done == length) {
        return Ok(known.cloned());
    }
    let is_whole_at_once =
        style.format == Format::Parquet || Packing::of_path(path) != Packing::Plain;
    if is_whole_at_once {
        return whole(input, path, style, plan, number, splits);
    }
    let Some(begin) = source::begin(&input.disk, path, style).map_err(Trouble::Rows)? else {
        return Ok(None);
    };
    if plan.is_none() && matches!(style.format, Format::Ndjson | Format::Csv) {
        return Ok(None);
    }
    let from = known.map_or(begin.from, |known| known.done);
    let to = source::whole_until(&input.disk, path, style, from, length)?;
    for (from, to) in source::cut(&input.disk, path, style, from, to, input.split_bytes)? {
        let (path, plan, header) = (path.to_owned(), plan.cloned(), begin.header.clone());
        let (format, to, number) = (style.format, Some(to), Some(number));
        splits.push(Split { path, format, from, to, plan, header, number });
    }
    Known::new(&input.disk, path, number, to, false).map(Some).map_err(Trouble::Disk)
}

/// A packed file, or Parquet: it is there, or it is not.
fn whole(
    input: &FileInput,
    path: &str,
    style: &Style,
    plan: Option<&Plan>,
    number: u64,
    splits: &mut Vec<Split>,
) -> Result<Option<Known>, Trouble> {
    if style.format == Format::Parquet && !input.disk.open(path).is_ok_and(parquet::is_whole) {
        tracing::warn!(path, "not a whole Parquet file yet; looking again later");
        return Ok(None);
    }
    if plan.is_none() && matches!(style.format, Format::Ndjson | Format::Csv) {
        return Ok(None);
    }
    splits.extend(input.splits_of(path, style, plan).map_err(Trouble::Rows)?);
    let length = input.disk.metadata(path)?.len();
    Known::new(&input.disk, path, number, length, true).map(Some).map_err(Trouble::Disk)
}

/// Where the file of this number is now: under its name, or under another in the same directory, as
/// when logs are rotated.
pub(super) fn locate(disk: &Files, path: &str, number: u64) -> Result<String, String> {
    if disk.metadata(path).is_ok_and(|meta| meta.ino() == number) {
        return Ok(path.into());
    }
    let directory = Path::new(path).parent().filter(|parent| !parent.as_os_str().is_empty());
    let names = disk.list(directory.unwrap_or(Path::new("."))).unwrap_or_default();
    let beside = |name| directory.map_or_else(|| Path::new(&name).into(), |it| it.join(&name));
    let mut renamed = names.into_iter().map(beside);
    let found =
        renamed.find(|path: &PathBuf| disk.metadata(path).is_ok_and(|meta| meta.ino() == number));
    found.and_then(|path| path.to_str().map(str::to_owned)).ok_or_else(|| {
        format!("{path} was taken away or replaced before it was read: rename it in its directory instead")
    })
}

impl Known {
    fn new(
        disk: &Files,
        path: &str,
        number: u64,
        done: u64,
        is_finished: bool,
    ) -> io::Result<Known> {
        let head_bytes = done.min(HEAD_BYTES);
        Ok(Known { number, done, is_finished, head_bytes, head: head(disk, path, head_bytes)? })
    }

    /// Whether `path` is the file that was seen, and has not been begun anew.
    fn is_same(&self, disk: &Files, path: &str, length: u64) -> io::Result<bool> {
        Ok(length >= self.done && head(disk, path, self.head_bytes)? == self.head)
    }
}

fn head(disk: &Files, path: &str, n_bytes: u64) -> io::Result<u64> {
    let mut bytes = Vec::new();
    disk.open(path)?.take(n_bytes).read_to_end(&mut bytes)?;
    Ok(xxhash_rust::xxh3::xxh3_64(&bytes))
}
